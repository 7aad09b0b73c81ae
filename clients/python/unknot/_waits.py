"""Waits that are no requests: for an event, for the answer to an ask, for something outside."""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from unknot._asking import bad_id, timeout_s
from unknot._blocking_on import BlockingOn, at_once, item_of
from unknot._event import Event
from unknot._opening import Opening
from unknot._outbound import Outbound
from unknot._pending import Claim, Expectation, Settle, Wait, into
from unknot._posts import Fits, Post
from unknot._sends import Asked
from unknot._session import Session
from unknot._strands import Strand
from unknot.errors import from_outcome
from unknot_schemas import bodies
from unknot_schemas.bodies import CancelMode
from unknot_schemas.ids import agent_id, is_pattern, matches
from unknot_schemas.limits import CONDITION_ID_CHARS_MAX, TIMEOUT_MAX_S

T = TypeVar("T")


class Waits:
    """Waits of the executions of one session."""

    def __init__(self, session: Session, outbound: Outbound, opening: Opening) -> None:
        self._session = session
        self._outbound = outbound
        self._opening = opening
        self._loop = asyncio.get_running_loop()
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
        wait = self._opening.wait(strand, [condition], timeout_s(timeout), into(future), kind=Expectation)
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
        wait = self._opening.wait(strand, [condition], timeout_s(timeout), into(future))

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
        self,
        strand: Strand,
        condition: bodies.WaitCondition,
        timeout: float | None,
        reason: str | None,
        cancel_mode: CancelMode = "interruptible",
    ) -> BlockingOn:
        """A wait that code of the agent's own makes: for whatever *condition* says."""
        if len(condition.id) > CONDITION_ID_CHARS_MAX:
            raise bad_id(f"the id of what is waited for has more than {CONDITION_ID_CHARS_MAX} characters")
        seconds = TIMEOUT_MAX_S if timeout is None else timeout_s(timeout)

        def begin(settle: Settle) -> Wait:
            self._outbound.may_block(strand)
            wait = self._opening.wait(
                strand, [condition], seconds, settle, kind=Claim, reason=reason, cancel_mode=cancel_mode
            )
            self._opening.send(wait)
            return wait

        return BlockingOn(begin, self._session.give_up, expires=timeout is not None)

    async def receive(
        self,
        strand: Strand,
        source: Any,
        condition: bodies.WaitCondition,
        timeout: float | None,
        reason: str | None,
    ) -> Any:
        """The next item of *source*; while there is none, a wait as *condition* says."""
        try:
            ready = at_once(source)
            if ready:
                return ready[0]
            waiting = self.outside(strand, condition, timeout, reason)
            return await waiting.until(partial(item_of, source))
        finally:
            if inspect.iscoroutine(source):
                source.close()  # never begun, it would be reported as never awaited

    async def _outcome(self, wait: Wait, future: "asyncio.Future[bodies.Outcome]") -> bodies.Outcome:
        wait.future = future
        self._opening.send(wait)
        try:
            return await future
        finally:
            self._session.give_up(wait)
