"""Waits that are no requests: for an event, for the answer to an ask, for somebody outside."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from unknot._asking import bad_id, timeout_s
from unknot._event import Event
from unknot._outbound import Outbound
from unknot._pending import Expectation, Settle, Wait, into
from unknot._posts import Fits, Post
from unknot._sends import Asked
from unknot._session import Session, encode
from unknot._strands import Strand
from unknot.errors import WaitFailed, from_outcome
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import agent_id, is_pattern, matches
from unknot_schemas.limits import CONDITION_ID_CHARS_MAX, TIMEOUT_MAX_S

T = TypeVar("T")

_receipt: Final = msgspec.json.Decoder(bodies.Receipt).decode


class Waits:
    """Waits of the executions of one session."""

    def __init__(self, session: Session, outbound: Outbound) -> None:
        self._session = session
        self._outbound = outbound
        self._loop = asyncio.get_running_loop()
        self._subject = session.subjects.verb(session.agent, "wait.open")
        self.take_unread: Callable[[str, str | None], bodies.Delivered | None] = lambda *_like: None
        """Takes an event of this type and source out of those in hand that nobody has read yet."""

    async def event(self, strand: Strand, pattern: str, source: str | None, timeout: float | None) -> Event:
        """Wait for an event of this type (or pattern), from *source* alone if given."""
        if not is_pattern(pattern):
            raise bad_id(f"{pattern!r} is no event type or pattern: lower-case dotted words, * and >")
        sender = agent_id(source) if source is not None else None
        if source is not None and sender is None:
            raise bad_id(f"{source!r} cannot name an agent")
        self._outbound.may_block(strand)
        strand.expects = True
        unread = self.take_unread(pattern, sender)
        if unread is not None:
            return Event(unread)

        def fits(event: bodies.Delivered) -> bool:
            return matches(pattern, event.type) and sender in (None, event.source)

        condition = bodies.WaitCondition("event", pattern, source=sender)
        strand.expecting += 1
        try:
            return await self._expect(strand, condition, fits, timeout)
        finally:
            strand.expecting -= 1

    async def post(
        self,
        strand: Strand,
        condition: bodies.WaitCondition,
        fits: Fits,
        timeout: float | None,
        own: Post | None,
    ) -> Event:
        """Wait for an event of a channel; of what has answered the *own* post before, the first that *fits*."""
        self._outbound.may_block(strand)
        early = own._take(fits) if own is not None else None
        if early is not None:
            return Event(early)
        return await self._expect(strand, condition, fits, timeout)

    async def _expect(
        self, strand: Strand, condition: bodies.WaitCondition, fits: Fits, timeout: float | None
    ) -> Event:
        future: asyncio.Future[bodies.Outcome] = self._loop.create_future()
        wait = self._wait(Expectation, strand, condition, timeout_s(timeout), into(future))
        assert isinstance(wait, Expectation)
        wait.fits = fits
        outcome = await self._outcome(wait, future)
        if outcome.outcome != "reply":
            raise from_outcome(outcome)
        assert outcome.event is not None, "it was settled by an event"
        return Event(outcome.event)

    async def answer(self, strand: Strand, asked: Asked[T], timeout: float | None) -> T:
        """Wait for the answer to an ask; what ends the wait alone leaves the ask open."""
        if asked.outcome is not None:
            return asked.request.read(asked.outcome)
        self._outbound.may_block(strand)
        future: asyncio.Future[bodies.Outcome] = self._loop.create_future()
        condition = bodies.WaitCondition("reply", asked.id)
        wait = self._wait(Wait, strand, condition, timeout_s(timeout), into(future))

        def ended(outcome: bodies.Outcome) -> None:
            self._session.give_up(wait)
            into(future)(outcome)

        asked.waiters.append(ended)
        try:
            return asked.request.read(await self._outcome(wait, future))
        finally:
            if ended in asked.waiters:
                asked.waiters.remove(ended)

    def outside(
        self, strand: Strand, kind: str, id: str, timeout: float | None, reason: str | None
    ) -> "BlockingOn":
        """A wait that code of the agent's own makes: for an agent, a human, a tool."""
        if len(id) > CONDITION_ID_CHARS_MAX:
            raise bad_id(f"the id of what is waited for has more than {CONDITION_ID_CHARS_MAX} characters")
        condition = bodies.WaitCondition(kind, id)

        def begin(settle: Settle) -> Wait:
            self._outbound.may_block(strand)
            seconds = TIMEOUT_MAX_S if timeout is None else timeout_s(timeout)
            wait = self._wait(Wait, strand, condition, seconds, settle, reason)
            self._send(wait)
            return wait

        return BlockingOn(begin, self._session.give_up, expires=timeout is not None)

    def _wait(
        self,
        kind: type[Wait],
        strand: Strand,
        condition: bodies.WaitCondition,
        seconds: float,
        settle: Settle,
        reason: str | None = None,
    ) -> Wait:
        session = self._session
        id = session.new_id()
        body = bodies.WaitOpen(
            id,
            session.token,
            [condition],
            execution=strand.execution.id,
            strand=strand.id or None,
            detached=strand.detached,
            run=strand.execution.run,
            timeout_s=seconds,
            reason=reason,
        )
        target = f"{condition.kind} {condition.id}"
        return kind(
            id,
            self._subject,
            encode(body),
            settle,
            deadline_at=session.deadline_at(seconds),
            strand=strand,
            target=target,
        )

    def _send(self, wait: Wait) -> None:
        """Register, then send; a refusal ends the wait."""
        self._outbound.open(wait)

        def receipt(answer: bytes | None) -> None:
            read = _receipt(answer) if answer is not None else None
            if read is not None and not read.ok:
                error = read.error or bodies.Error(codes.BAD_REQUEST, "refused without a reason")
                self._session.pending.settle(
                    bodies.Outcome(wait.id, "refused", "no", self._session.epoch, error=error)
                )

        self._session.transport.ask(wait.subject, wait.payload, receipt)

    async def _outcome(self, wait: Wait, future: "asyncio.Future[bodies.Outcome]") -> bodies.Outcome:
        wait.future = future
        self._send(wait)
        try:
            return await future
        finally:
            self._session.give_up(wait)


class BlockingOn:
    """``async with ctx.blocking_on(…)``: inside, the execution counts as waiting.

    When the wait ends by itself (a deadlock, its timeout) the body is cancelled and the failure raises.
    """

    def __init__(
        self, begin: Callable[[Settle], Wait], give_up: Callable[[Wait], None], *, expires: bool
    ) -> None:
        self._begin = begin
        self._give_up = give_up
        self._expires = expires
        self._wait: Wait | None = None
        self._task: asyncio.Task[Any] | None = None
        self._failure: WaitFailed | None = None
        self._cancelling = 0

    async def __aenter__(self) -> "BlockingOn":
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._wait = self._begin(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._wait is not None
        assert self._task is not None
        self._give_up(self._wait)
        if self._failure is None:
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise self._failure from error

    def _ended(self, outcome: bodies.Outcome) -> None:
        if outcome.outcome == "reply" or (outcome.outcome == "expired" and not self._expires):
            return
        assert self._task is not None
        self._failure = from_outcome(outcome)
        self._task.cancel()
