"""The owner: one task and one timer around one kernel."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import structlog
from msgspec import Struct
from nats.aio.msg import Msg

from unknot_gateway.core.effects import AnyEffect
from unknot_gateway.core.facts import AnyFact, Stopped, TimePassed
from unknot_gateway.shell.bus import Bus, Message
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.limits import AFTER_FAILURE_S, BATCH_MAX, INBOX_MAX

log = structlog.get_logger()

_Answer = TypeVar("_Answer")

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


class Owner:
    """Owns one kernel: nobody else calls it. ``take`` is what a subscription calls; ``run`` is the task."""

    def __init__(
        self,
        kernel: Core,
        ingress: Ingress,
        egress: Egress,
        bus: Bus,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kernel = kernel
        self.counters: Counter[str] = Counter()
        self.ingress = ingress
        self._egress = egress
        self._bus = bus
        self._clock = clock
        self._inbox: deque[Msg | _Question] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._stopping = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def all_counters(self) -> Counter[str]:
        """What the shell around this kernel counted."""
        return self.counters + self.ingress.counters + self._egress.counters

    async def read(self, ask: Callable[[float], _Answer]) -> _Answer:
        """What *ask* (given the instant) reads of the kernel when all that came before has been handled."""
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._inbox.append(_Question(ask, answer))
        self._wake.set()
        return await answer

    async def take(self, message: Msg) -> None:
        """Hand a message over; waits while the inbox is full, which holds up its subscription only."""
        while len(self._inbox) >= INBOX_MAX:
            self._room.clear()
            await self._room.wait()
        self._inbox.append(message)
        self._wake.set()

    async def run(self) -> None:
        """Handle what comes until ``stop``. What fails is counted and logged with its traceback; the next goes on."""
        while not self._stopped:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._turn()
            except Exception:  # the one supervisor: one bad message must not end the gateway
                self.counters["failed"] += 1
                log.exception("a message or a timer could not be handled", network=self.kernel.network)
                self._arm(self._clock() + AFTER_FAILURE_S)  # what always fails must not spin
            self._room.set()
            if self._inbox or self._stopping:
                self._wake.set()
            if self._wake.is_set():
                await asyncio.sleep(0)  # sockets and other networks get their turn
        self._disarm()

    def stop(self) -> None:
        """Have ``run`` handle all that has come, end every open wait, and return. Nothing may come after it."""
        self._stopping = True
        self._wake.set()

    async def _turn(self) -> None:
        """A batch of messages, then the timer if it is due; all is sent in one go, also what precedes a failure."""
        outbox: list[Message] = []
        try:
            self._take_in(outbox)
            if self._stopping and not self._inbox:
                self._stopped = True  # before, so that a failure ends it, too
                self._put_out(self.kernel.handle(_STOPPED, self._clock()), outbox)
            else:
                self._look_at_the_time(outbox)
        finally:
            await self._bus.publish(outbox)

    def _take_in(self, outbox: list[Message]) -> None:
        inbox = self._inbox
        read, handle, clock = self.ingress.fact, self.kernel.handle, self._clock
        for _ in range(min(len(inbox), BATCH_MAX)):
            message = inbox.popleft()
            if isinstance(message, _Question):
                message.put(clock())
                continue
            fact = read(message.subject, message.reply, message.data, message.headers)
            self._put_out(handle(fact, clock()), outbox)

    def _look_at_the_time(self, outbox: list[Message]) -> None:
        now = self._clock()
        due_at = self.kernel.next_wakeup_at()
        if due_at is not None and due_at <= now:
            self._put_out(self.kernel.handle(_TIME_PASSED, now), outbox)
            due_at = self.kernel.next_wakeup_at()
        if due_at is None:
            return
        if due_at <= now:
            self._wake.set()
        else:
            self._arm(due_at)

    def _put_out(self, effects: list[AnyEffect], outbox: list[Message]) -> None:
        for effect in effects:
            message = self._egress.message(effect)
            if message is not None:
                outbox.append(message)

    def _arm(self, due_at: float) -> None:
        """Ring at *due_at* or before: one that rings early is armed again, cheaper than moving it each time."""
        if self._timer is not None:
            if self._timer_at <= due_at:
                return
            self._timer.cancel()
        self._timer_at = due_at
        self._timer = asyncio.get_running_loop().call_later(due_at - self._clock(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake.set()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
