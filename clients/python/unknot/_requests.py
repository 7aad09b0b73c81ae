"""Blocking requests, one or a group: the waiter is there before anything is sent, the failure raises."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from unknot._asking import Answer, Request, bad_id, patience, payload, timeout_s
from unknot._outbound import Outbound
from unknot._pending import Entry, Group, Settle, into
from unknot._posts import reply_type
from unknot._session import Session
from unknot._strands import Strand
from unknot.errors import Refused, WaitFailed, from_outcome
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import is_pattern
from unknot_schemas.limits import GROUP_MEMBERS_MAX

T = TypeVar("T")


class Requests:
    """Blocking requests of the executions of one session."""

    def __init__(self, session: Session, outbound: Outbound) -> None:
        self._session = session
        self._outbound = outbound
        self._loop = asyncio.get_running_loop()

    async def send_and_wait(
        self,
        strand: Strand,
        request: Request[T],
        timeout: float | None,
        wait_for_target: float | None,
        marks: dict[str, Any] | None,
        accepts: bool | str = False,
    ) -> T:
        """Send *request* and wait for its answer. The waiter is there before anything is sent.

        *accepts*: types of events that are its answer without naming it; True: ``<its type>.reply``.
        """
        self._outbound.may_block(strand)
        future: asyncio.Future[bodies.Outcome] = self._loop.create_future()
        pattern = _accepted(request.type, accepts) if accepts else None
        settle = into(future)
        entry = self._request(strand, request, timeout, wait_for_target, settle, marks=marks, accepts=pattern)
        entry.future = future
        self._outbound.open(entry)
        self._outbound.send(entry)
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
        self._outbound.may_block(strand)
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
            self._request(strand, request, timeout, None, group.branch(index), group=body)
            for index, request in enumerate(requests)
        ]
        self._outbound.check_open(n)
        group.entries = made
        for entry in made:
            entry.future = group.future
            self._session.open_entry(entry)
        for entry in made:
            self._outbound.send(entry)
        return group

    def _request(
        self,
        strand: Strand,
        request: Request[Any],
        timeout: float | None,
        wait_for_target: float | None,
        settle: Settle,
        *,
        group: bodies.Group | None = None,
        marks: dict[str, Any] | None = None,
        accepts: str | None = None,
    ) -> Entry:
        session = self._session
        seconds = timeout_s(timeout)
        subject, target = self._outbound.subject("request", request.target, request.type)
        id = session.new_id()
        patience_s = patience(wait_for_target, seconds)
        data = payload(request.data)
        body = self._outbound.envelope(strand, id, data, seconds, patience_s, marks, group, accepts=accepts)
        return Entry(
            id,
            subject,
            body,
            settle,
            deadline_at=session.deadline_at(seconds),
            strand=strand,
            target=target,
        )


def _accepted(event_type: str, accepts: bool | str) -> str:
    """The pattern of the events that may answer a request of this type."""
    pattern = accepts if isinstance(accepts, str) else reply_type(event_type)
    if not is_pattern(pattern):
        raise bad_id(f"{pattern!r} is no event type or pattern: lower-case dotted words, * and >")
    return pattern


def _answers(group: Group, requests: Sequence[Request[T]]) -> list[Answer[T]]:
    outcomes = [(index, outcome) for index, outcome in enumerate(group.outcomes) if outcome is not None]
    if group.replies >= group.need:
        replied = [(index, outcome) for index, outcome in outcomes if outcome.outcome == "reply"]
        return [Answer(index, requests[index].read(outcome)) for index, outcome in replied[: group.need]]
    failures = tuple(from_outcome(outcome) for _, outcome in outcomes if outcome.outcome != "reply")
    assert failures, "a group without answers ends by failures"
    raise worst(failures)


def worst(failures: tuple[WaitFailed, ...]) -> WaitFailed:
    """The failure that explains the group's: a deadlock first, a withdrawal last."""
    order = {codes.DEADLOCK: 0, codes.CANCELLED: 2}
    worst = min(failures, key=lambda failure: order.get(failure.code, 1))
    worst.failures = failures
    return worst
