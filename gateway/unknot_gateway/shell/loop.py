"""The owner: one task and one timer around one kernel."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

import structlog
from msgspec import Struct

from unknot_gateway.core.effects import Answer, AnyEffect, SendNotice
from unknot_gateway.core.facts import AnyFact, Stopped, TimePassed
from unknot_gateway.shell.bus import Bus, Message
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.fairness import Excess, Inbox
from unknot_gateway.shell.hearing import PAUSE_S, Hearing, Proof
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.limits import AFTER_FAILURE_S, BATCH_MAX, TURN_S
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas import bodies
from unknot_schemas.subjects import NOTICE_OVER_LIMIT

log = structlog.get_logger()

_Answer = TypeVar("_Answer")

ASKED_HERE: Final = "<here>"
"""Where the Receipt of an operator's fact goes: to whoever handed it over, not to NATS."""
_TIME_PASSED = TimePassed()
_STOPPED = Stopped()


class Core(Protocol):
    """What an owner owns: ``unknot_gateway.core.kernel.Kernel``."""

    network: str

    def handle(self, fact: AnyFact, now: float) -> list[AnyEffect]:
        """Take *fact* in; what is to be done, in order."""
        ...

    def next_wakeup_at(self) -> float | None:
        """When TimePassed is due; an instant in the past: there is work left."""
        ...


class Unanswered(Exception):
    """A question to the owner failed; the gateway's log says why."""


class _Question(Struct, gc=False):
    """Waits in the inbox with the messages, so that its answer knows all that came before it."""

    ask: Callable[[float], Any]
    answer: asyncio.Future[Any]

    def put(self, now: float) -> None:
        try:
            if not self.answer.done():
                self.answer.set_result(self.ask(now))
        finally:
            if not self.answer.done():
                self.answer.set_exception(Unanswered("failed; the gateway's log says why"))


class _Told(Struct, gc=False):
    """A fact that the shell has found out by itself. *answer*: where the Receipt for ASKED_HERE is awaited."""

    fact: AnyFact
    answer: asyncio.Future[bodies.Receipt] | None = None

    def keep_answer(self, effects: list[AnyEffect]) -> list[AnyEffect]:
        """The rest of *effects*."""
        mine = [effect for effect in effects if isinstance(effect, Answer) and effect.reply_to == ASKED_HERE]
        if self.answer is not None and not self.answer.done():
            body = mine[0].body if mine else None
            if isinstance(body, bodies.Receipt):
                self.answer.set_result(body)
            else:
                self.answer.set_exception(Unanswered("nobody gave a Receipt"))
        return [effect for effect in effects if effect not in mine]


class Owner:
    """Owns one kernel: nobody else calls it. ``put`` is what a subscription calls; ``run`` is the task.

    *rate*: new work a second that each agent may send; None: as much as is handled. *proof*: that the bus brings what
    is sent; while it does not, time stands still here.
    """

    def __init__(
        self,
        kernel: Core,
        ingress: Ingress,
        egress: Egress,
        bus: Bus,
        clock: Callable[[], float] = time.monotonic,
        *,
        rate: float | None = None,
        proof: Proof | None = None,
    ) -> None:
        self.kernel = kernel
        self.counters: Counter[str] = Counter()
        self.ingress = ingress
        self._egress = egress
        self._bus = bus
        self.hearing = Hearing(clock, proof)
        self._clock = self.hearing.now
        self._raw_clock = clock
        self.inbox = Inbox(ingress.root, rate, clock)
        self._wake = asyncio.Event()
        self._is_awake = False
        """As `_wake` says, without a call for each message."""
        self._halted = False
        self._stopping = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def all_counters(self) -> Counter[str]:
        """What the shell around this kernel counted."""
        shed = Counter(self.inbox.counted())
        return self.counters + self.ingress.counters + self._egress.counters + shed

    async def read(self, ask: Callable[[float], _Answer]) -> _Answer:
        """What *ask* (given the instant) reads of the kernel when all that came before has been handled.

        But for what waits behind: nobody can hide by flooding.
        """
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self.inbox.waiting.append(_Question(ask, answer))
        self._rouse()
        return await answer

    def tell(self, fact: AnyFact) -> None:
        """Hand a fact over that no message of an agent says."""
        self.inbox.waiting.append(_Told(fact))
        self._rouse()

    async def order(self, fact: AnyFact) -> bodies.Receipt:
        """Hand over an operator's fact, whose *reply_to* is ASKED_HERE; the Receipt."""
        answer: asyncio.Future[bodies.Receipt] = asyncio.get_running_loop().create_future()
        self.inbox.waiting.append(_Told(fact, answer))
        self._rouse()
        return await answer

    def put(self, message: Incoming) -> None:
        """Hand a message over."""
        self.inbox.put(message)
        if not self._is_awake:
            self._rouse()

    def shed(self, message: Incoming) -> None:
        """Take *message* as one too many of its agent: unread."""
        self.inbox.shed_unread(message)
        if not self._is_awake:
            self._rouse()

    async def take(self, message: Incoming) -> None:
        """The same, for a subscription that awaits it."""
        self.put(message)

    def _rouse(self) -> None:
        self._is_awake = True
        self._wake.set()

    async def run(self) -> None:
        """Handle what comes until ``stop``. What fails is counted and logged with its traceback; the next goes on."""
        while not self._stopped:
            await self._wake.wait()
            self._wake.clear()
            self._is_awake = False
            if self._halted:
                break
            try:
                await self._turn()
            except Exception:  # the one supervisor: one bad message must not end the gateway
                self.counters["failed"] += 1
                log.exception("a message or a timer could not be handled", network=self.kernel.network)
                self._arm(self._clock() + AFTER_FAILURE_S)  # what always fails must not spin
            if self.inbox or self._stopping:
                self._rouse()
            if self._is_awake:
                await asyncio.sleep(0)  # sockets and other networks get their turn
        self._disarm()

    def stop(self) -> None:
        """Have ``run`` handle all that has come, end every open wait, and return. Nothing may come after it."""
        self._stopping = True
        self._rouse()

    def halt(self) -> None:
        """Handle nothing more and send nothing more, at once: somebody else owns this network."""
        self._halted = self._stopped = True
        self._rouse()

    async def _turn(self) -> None:
        """A batch of messages, then the timer if it is due; all is sent in one go, also what precedes a failure."""
        outbox: list[Message] = []
        try:
            self.hearing.turned(heard=bool(self.inbox))
            self._egress.tick()
            self._take_in(outbox)
            self._answer_the_shed(outbox)
            if self._stopping and not self.inbox:
                self._stopped = True  # before, so that a failure ends it, too
                self._put_out(self.kernel.handle(_STOPPED, self._clock()), outbox)
            elif await self._lets_time_pass():
                self._look_at_the_time(outbox)
        finally:
            await self._bus.publish(outbox)

    def _take_in(self, outbox: list[Message]) -> None:
        """What is handled in one turn happens at one instant; that the turn is not too long is looked at each time."""
        inbox, waiting = self.inbox, self.inbox.waiting
        read, handle, write = self.ingress.fact, self.kernel.handle, self._egress.message
        now, clock = self._clock(), self._raw_clock
        until = clock() + TURN_S
        for _ in range(BATCH_MAX):
            if not (waiting or inbox.next_round()):
                return
            message = waiting.popleft()
            kind = message.__class__
            if kind is _Question:
                message.put(now)
            elif kind is _Told:
                outbox += filter(None, map(write, message.keep_answer(handle(message.fact, now))))
            else:
                fact = read(message.subject, message.reply, message.data, message.headers)
                outbox += filter(None, map(write, handle(fact, now)))
            if clock() >= until:
                return

    def _answer_the_shed(self, outbox: list[Message]) -> None:
        inbox = self.inbox
        while inbox.refused:
            fact = self.ingress.shed(inbox.refused.popleft())
            if fact is not None:
                self._put_out(self.kernel.handle(fact, self._clock()), outbox)
        while inbox.notices:
            self._put_out([_notice(self.kernel.network, inbox.notices.popleft())], outbox)

    async def _lets_time_pass(self) -> bool:
        due_at = self.kernel.next_wakeup_at()
        if (
            due_at is None
            or due_at > self._clock()
            or await self.hearing.lets_time_pass(more=bool(self.inbox))
        ):
            return True
        self._disarm()
        self._arm(self._clock() + PAUSE_S)
        return False

    def _look_at_the_time(self, outbox: list[Message]) -> None:
        now = self._clock()
        due_at = self.kernel.next_wakeup_at()
        if due_at is not None and due_at <= now:
            self._put_out(self.kernel.handle(_TIME_PASSED, now), outbox)
            due_at = self.kernel.next_wakeup_at()
        if due_at is None:
            return
        if due_at <= now:
            self._rouse()
        else:
            self._arm(due_at)

    def _put_out(self, effects: Iterable[AnyEffect], outbox: list[Message]) -> None:
        outbox += filter(None, map(self._egress.message, effects))

    def _arm(self, due_at: float) -> None:
        """Ring at *due_at* or before: one that rings early is armed again, cheaper than moving it each time."""
        if self._timer is not None:
            if self._timer_at <= due_at:
                return
            self._timer.cancel()
        self._timer_at = due_at
        wait_s = max(due_at - self._clock(), self.hearing.least_s)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.hearing.rang(self._clock() - self._timer_at)
        self._rouse()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _notice(network: str, excess: Excess) -> SendNotice:
    """Names an agent that is shed; *excess* has been told from here on."""
    new, excess.told = excess.shed - excess.told, excess.shed
    text = f"agent {excess.agent!r} sends more than it may: {new} of its messages were not taken"
    return SendNotice(NOTICE_OVER_LIMIT, bodies.OverLimit(network, excess.agent, new, excess.shed, text))
