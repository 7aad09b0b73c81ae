"""What an execution sends and waits for: envelopes made, waiters registered first, failures raised."""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import Raw, Struct

from unknot import _payloads
from unknot._pending import Entry, Group, into
from unknot._session import Session, encode
from unknot._strands import Strand
from unknot.errors import Cancelled, OverLimit, Refused, WaitFailed, from_outcome
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import agent_id, is_type
from unknot_schemas.limits import (
    DATA_BYTES_MAX,
    GROUP_MEMBERS_MAX,
    METADATA_BYTES_MAX,
    TIMEOUT_DEFAULT_S,
    TIMEOUT_MAX_S,
    WAIT_FOR_TARGET_DEFAULT_S,
)

logger = logging.getLogger("unknot")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SUBJECTS_KEPT_MAX: Final = 4_096
RETRY_AFTER_S: Final = 1.0


class Request(Generic[T_co]):
    """A request described, not yet sent: a branch of ``wait_all``, ``wait_any`` or ``wait_quorum``."""

    __slots__ = ("data", "into", "target", "type")

    def __init__(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> None:
        self.target = target
        self.type = type
        self.data = data
        self.into = into

    def read(self, outcome: bodies.Outcome) -> T_co:
        """The answer; raises what the outcome tells of when it is none."""
        return cast("T_co", answer(outcome, self.into))


class Answer(Struct, Generic[T], frozen=True):
    """One branch that was answered. *index*: of its request among those waited for."""

    index: int
    data: T


def answer(outcome: bodies.Outcome, kind: Any) -> Any:
    """The answer that *outcome* brings, read into *kind*; raises the failure when it brings none."""
    if outcome.outcome != "reply":
        raise from_outcome(outcome)
    event = outcome.event
    data = event.data if event is not None else bodies.NULL
    return (_payloads.ANY if kind is Any else _payloads.decoder(kind))(data)


def timeout_s(timeout: float | None) -> float:
    """The timeout that holds: what is missing or no positive number is the default, and the cap is the cap."""
    if timeout is None or not timeout > 0 or not math.isfinite(timeout):
        return TIMEOUT_DEFAULT_S
    return float(min(timeout, TIMEOUT_MAX_S))


def metadata(marks: dict[str, Any] | None) -> Raw | None:
    """*marks* as JSON; Refused when they are too many."""
    if marks is None:
        return None
    raw = _payloads.encode(marks)
    if len(bytes(raw)) > METADATA_BYTES_MAX:
        raise Refused(
            f"metadata is over {METADATA_BYTES_MAX} bytes: put it into data",
            code=codes.TOO_LARGE,
            handled="no",
        )
    return raw


def payload(data: Any) -> Raw:
    """*data* as JSON; Refused when it is too large to send."""
    raw = _payloads.encode(data)
    if len(memoryview(raw)) > DATA_BYTES_MAX:
        raise Refused(
            f"data has more than {DATA_BYTES_MAX} bytes: send a reference to it instead",
            code=codes.TOO_LARGE,
            handled="no",
        )
    return raw


class Requests:
    """Sends for the executions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._subjects: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._warned: set[str] = set()
        self._loop = asyncio.get_running_loop()

    # ------------------------------------------------------------------ blocking requests

    async def send_and_wait(
        self,
        strand: Strand,
        request: Request[T],
        timeout: float | None,
        wait_for_target: float | None,
        marks: dict[str, Any] | None,
    ) -> T:
        """Send *request* and wait for its answer. The waiter is there before anything is sent."""
        self.may_block(strand)
        future: asyncio.Future[bodies.Outcome] = self._loop.create_future()
        entry = self._request(strand, request, timeout, wait_for_target, into(future), marks=marks)
        self._send(entry)
        try:
            outcome = await future
        finally:
            if not future.done() or future.cancelled():
                self._session.give_up(entry)
        return request.read(outcome)

    async def send_group(
        self, strand: Strand, requests: Sequence[Request[T]], need: int, timeout: float | None
    ) -> list[Answer[T]]:
        """Send all *requests* as one wait that needs *need* answers; raises when they cannot come."""
        self.may_block(strand)
        group = self._group(strand, requests, need, timeout)
        try:
            await group.future
        finally:
            for entry in group.entries:
                if group.replies >= group.need:
                    self._session.pending.withdraw(entry.id)  # the gateway closes the rest
                else:
                    self._session.give_up(entry)
        return _answers(group, requests)

    def _group(
        self, strand: Strand, requests: Sequence[Request[T]], need: int, timeout: float | None
    ) -> Group:
        n = len(requests)
        if not 1 <= need <= n <= GROUP_MEMBERS_MAX:
            raise Refused(
                f"a wait needs 1 to n of its n requests, at most {GROUP_MEMBERS_MAX}; asked: {need} of {n}",
                code=codes.GROUP_CONFLICT,
                handled="no",
            )
        group = Group(n, need, self._loop.create_future())
        body = bodies.Group(self._session.new_id(), n, need) if n > 1 else None
        made = [
            self._request(strand, request, timeout, None, group.branch(index), group=body, is_open=False)
            for index, request in enumerate(requests)
        ]
        if self._session.pending.is_full(n):
            raise _full()
        group.entries = made
        for entry in made:
            self._session.open_entry(entry)
        for entry in made:
            self._send(entry)
        return group

    def _request(
        self,
        strand: Strand,
        request: Request[Any],
        timeout: float | None,
        wait_for_target: float | None,
        settle: Any,
        *,
        group: bodies.Group | None = None,
        marks: dict[str, Any] | None = None,
        is_open: bool = True,
    ) -> Entry:
        session = self._session
        seconds = timeout_s(timeout)
        subject, target = self.subject("request", request.target, request.type)
        id = session.new_id()
        body = self.envelope(
            strand, id, payload(request.data), seconds, patience(wait_for_target, seconds), marks, group
        )
        entry = Entry(
            id,
            subject,
            body,
            settle,
            deadline_at=session.deadline_at(seconds),
            strand=strand,
            target=target,
        )
        if is_open:
            self.open(entry)
        return entry

    def open(self, entry: Entry) -> None:
        """Register *entry*, before it is sent; Cancelled on a closed session, OverLimit when too much is open."""
        session = self._session
        if session.ended is not None:
            raise over(session)
        if session.pending.is_full():
            raise _full()
        session.open_entry(entry)

    def _send(self, entry: Entry) -> None:
        if not self._session.transport.post(entry.subject, entry.payload, request_id=entry.id):
            error = bodies.Error(
                codes.OVER_LIMIT, "too much waits to be sent", {"retry_after_s": RETRY_AFTER_S}
            )
            self._session.settle_locally(entry, "over_limit", error)

    def envelope(
        self,
        strand: Strand,
        id: str,
        data: Raw,
        seconds: float | None,
        patience_s: float | None,
        marks: dict[str, Any] | None,
        group: bodies.Group | None = None,
    ) -> bytes:
        """The body of what *strand* sends."""
        execution = strand.execution
        return encode(
            bodies.Envelope(
                unknot=1,
                id=id,
                session=self._session.token,
                data=data,
                execution=execution.id,
                strand=strand.id or None,
                detached=strand.detached,
                group=group,
                run=execution.run,
                timeout_s=seconds,
                wait_for_target_s=patience_s,
                metadata=metadata(marks),
                traceparent=execution.traceparent,
                tracestate=execution.tracestate,
            )
        )

    # ------------------------------------------------------------------ checks before anything is sent

    def subject(self, verb: Any, target: str, type: str) -> tuple[str, str]:
        """Where *verb* for *target* is sent, and the target without ``agent:``; Refused when either cannot be."""
        key = (verb, target, type)
        known = self._subjects.get(key)
        if known is None:
            channel = target.startswith("@")
            bare = agent_id(target[1:] if channel else target)
            if bare is None or (channel and ":" in target):
                raise bad_id(
                    f"{target!r} cannot name an agent or @channel: letters, digits, - and _, at most 64"
                )
            if not is_type(type):
                raise bad_id(f"{type!r} is no event type: lower-case dotted words, at most 128 characters")
            if len(self._subjects) >= SUBJECTS_KEPT_MAX:
                self._subjects.clear()
            named = f"@{bare}" if channel else bare
            known = self._session.subjects.event(self._session.agent, verb, named, type), named
            self._subjects[key] = known
        return known

    def may_block(self, strand: Strand) -> None:
        """Refused where handlers may not stand still; a warning, once, where that can deadlock."""
        mode = self._session.profile.blocking_waits
        if mode == "allow" or not strand.in_handler:
            return
        if mode == "forbid":
            raise Refused(
                f"agent {self._session.agent}: a handler may not block on others here (blocking_waits='forbid'):"
                " ctx.ask and ctx.defer, or a task of its own",
                code="blocking_waits_forbidden",
                handled="no",
            )
        name = strand.execution.handler
        if strand.execution.serial and name not in self._warned:
            self._warned.add(name)
            logger.warning(
                "agent %s: %s blocks on another agent while it holds the only slot; two such agents that need each"
                " other are a deadlock: concurrency=2, ctx.defer(), or blocking_waits='allow'",
                self._session.agent,
                name,
            )


def patience(wait_for_target: float | None, seconds: float) -> float:
    """How long a target may be absent: by default 5 s, and never longer than the timeout."""
    if wait_for_target is None or not wait_for_target >= 0:
        return min(seconds, WAIT_FOR_TARGET_DEFAULT_S)
    return min(float(wait_for_target), seconds)


def _answers(group: Group, requests: Sequence[Request[T]]) -> list[Answer[T]]:
    outcomes = [(index, outcome) for index, outcome in enumerate(group.outcomes) if outcome is not None]
    if group.replies >= group.need:
        replied = [(index, outcome) for index, outcome in outcomes if outcome.outcome == "reply"]
        return [Answer(index, requests[index].read(outcome)) for index, outcome in replied[: group.need]]
    failures = tuple(from_outcome(outcome) for _, outcome in outcomes if outcome.outcome != "reply")
    assert failures, "a group without answers ends by failures"
    raise _worst(failures)


def _worst(failures: tuple[WaitFailed, ...]) -> WaitFailed:
    """The failure that explains the group's: a deadlock first, a withdrawal last."""
    order = {codes.DEADLOCK: 0, codes.CANCELLED: 2}
    worst = min(failures, key=lambda failure: order.get(failure.code, 1))
    worst.failures = failures
    return worst


def bad_id(message: str) -> Refused:
    """The refusal of a name that cannot be."""
    return Refused(message, code=codes.BAD_ID, handled="no")


def _full() -> OverLimit:
    return OverLimit(
        "too many requests and waits are open in this session",
        code=codes.OVER_LIMIT,
        handled="no",
        detail={"retry_after_s": RETRY_AFTER_S},
    )


def over(session: Session) -> WaitFailed:
    """The failure of everything that is asked of a session that has ended."""
    return Cancelled(f"agent {session.agent}: {session.ended}", code=codes.CANCELLED, handled="no")
