"""What runs here: events in hand, answers kept, events given up before they came. No I/O."""

import asyncio
from collections import OrderedDict
from typing import Final, Literal

from unknot._strands import Execution
from unknot_schemas import bodies
from unknot_schemas.limits import SEND_TIMEOUT_DEFAULT_S

ANSWERS_MAX: Final = 100_000
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
ABANDONED_MAX: Final = 100_000
OUT_OF_ORDER_MAX: Final = 10_000
KEPT_S: Final = 30.0
"""How long what was done is remembered beyond its deadline: the asker's own clock runs longer, it may have sent the
request again in its last moment, and a gateway that stood still hands it on later still. A copy never runs."""

Arrival = Literal["new", "running", "answered", "abandoned"]


class Abandoned(asyncio.Event):
    """Set when nobody waits for the answer any more."""

    reason: str = ""


class Work:
    """One event in hand."""

    __slots__ = (
        "_abandoned",
        "answer",
        "deadline_at",
        "deferred_by",
        "event",
        "execution",
        "is_deferred",
        "returned",
        "since",
    )

    def __init__(self, event: bodies.Delivered, execution: Execution, now: float) -> None:
        self.event = event
        self.execution = execution
        self.since = now
        self.deadline_at = now + (event.deadline_in_s or SEND_TIMEOUT_DEFAULT_S)
        self.answer: bytes | None = None
        """What was sent as its answer."""
        self.is_deferred = False
        self.deferred_by: str | None = None
        self.returned = False
        """Its handler is over; it is still held when its answer was deferred."""
        self._abandoned: Abandoned | None = None

    def abandon(self, reason: str) -> None:
        """Nobody waits for the answer any more; the handler may look, nothing is done to it."""
        self.abandoned.reason = self.abandoned.reason or reason
        self.abandoned.set()

    @property
    def abandoned(self) -> "Abandoned":
        """Set when nobody waits for the answer any more."""
        if self._abandoned is None:
            self._abandoned = Abandoned()
        return self._abandoned

    @property
    def state(self) -> Literal["running", "deferred"]:
        """As heartbeats and facts say it."""
        return "deferred" if self.returned else "running"


class Running:
    """The events that a session holds or has answered."""

    def __init__(self) -> None:
        self.held: dict[str, Work] = {}
        self._answers: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._answer_bytes = 0
        self._abandoned: OrderedDict[str, float] = OrderedDict()
        self._emptied: asyncio.Event | None = None
        self.seen = 0
        """All deliveries up to this number have arrived."""
        self._out_of_order: set[int] = set()

    def arrive(self, event: bodies.Delivered) -> Arrival:
        """Where *event* stands when it arrives; only a new one is to be handled."""
        if event.id in self.held:
            return "running"
        if event.id in self._answers:
            return "answered"
        if event.id in self._abandoned:
            return "abandoned"
        return "new"

    def number(self, seq: int | None) -> bool:
        """A delivery with this number has arrived; False when it had arrived before."""
        if seq is None:
            return True
        if seq <= self.seen or seq in self._out_of_order:
            return False
        if seq > self.seen + 1:
            if len(self._out_of_order) < OUT_OF_ORDER_MAX:
                self._out_of_order.add(seq)
            return True
        self.seen = seq
        while self._out_of_order and self.seen + 1 in self._out_of_order:
            self.seen += 1
            self._out_of_order.discard(self.seen)
        return True

    def hold(self, work: Work) -> None:
        """*work* begins."""
        assert work.event.id not in self.held
        self.held[work.event.id] = work

    def finish(self, work: Work) -> None:
        """*work* is over: its handler has returned and its answer, if it owes one, has been sent."""
        if not self._let_go(work):
            return
        self._answers[work.event.id] = (work.deadline_at + KEPT_S, work.answer)
        self._answer_bytes += len(work.answer or b"")
        while len(self._answers) > ANSWERS_MAX or self._answer_bytes > ANSWER_BYTES_MAX:
            self._forget_answer()

    async def emptied(self) -> None:
        """Until nothing is held."""
        while self.held:
            self._emptied = asyncio.Event()
            await self._emptied.wait()

    def answer_kept(self, id: str) -> bytes | None:
        """The answer given to *id*; None when it needed none."""
        return self._answers[id][1]

    def abandon(self, id: str, reason: str, until: float) -> Work | None:
        """Nobody waits for the answer to *id* any more; None when it is not in hand (it may still come)."""
        work = self.held.get(id)
        if work is not None:
            if work.event.requires_response:  # after its restart the gateway knows no more than the id
                work.abandon(reason)
        elif id not in self._answers:
            self._give_up(id, until)
        return work

    def disown(self, id: str) -> None:
        """The gateway does not count *id* as held here: a promise is forgotten, a handler may look."""
        work = self.held.get(id)
        if work is not None:
            work.abandon("the gateway does not know it as held here")
            if work.returned:
                self._forget_promise(work)

    def state(self, id: str) -> Literal["running", "deferred", "done"] | None:
        """As facts say it; None when it never arrived."""
        work = self.held.get(id)
        if work is not None:
            return work.state
        return "done" if id in self._answers else None

    def named(self, since_before: float, at_most: int) -> list[bodies.Held]:
        """What is held since before that instant, oldest first."""
        named: list[bodies.Held] = []
        for work in self.held.values():
            if work.since >= since_before or len(named) == at_most:
                break
            named.append(bodies.Held(work.event.id, work.state, work.event.type))
        return named

    def answered(self, at_most: int) -> list[str]:
        """Ids of the answers kept, newest first."""
        return [id for id, _ in zip(reversed(self._answers), range(at_most), strict=False)]

    def sweep(self, now: float) -> None:
        """Drop what nobody can ask for any more: answers, tombstones, promises past their deadline."""
        for id in [id for id, (until, _) in self._answers.items() if until < now]:
            self._answer_bytes -= len(self._answers.pop(id)[1] or b"")
        for id in [id for id, until in self._abandoned.items() if until < now]:
            del self._abandoned[id]
        for work in [work for work in self.held.values() if work.returned and work.deadline_at < now]:
            self._forget_promise(work)

    def _let_go(self, work: Work) -> bool:
        if self.held.pop(work.event.id, None) is None:
            return False
        if self._emptied is not None and not self.held:
            self._emptied.set()
        return True

    def _forget_promise(self, work: Work) -> None:
        """Its answer is not awaited any more; should the event come again, it has run."""
        self._let_go(work)
        self._give_up(work.event.id, work.deadline_at + KEPT_S)

    def _give_up(self, id: str, until: float) -> None:
        self._abandoned[id] = until
        if len(self._abandoned) > ABANDONED_MAX:
            self._abandoned.popitem(last=False)

    def _forget_answer(self) -> None:
        _, (_, answer) = self._answers.popitem(last=False)
        self._answer_bytes -= len(answer or b"")
