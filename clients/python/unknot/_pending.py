"""Own requests and waits: what is open, how each ends, when the own clock ends it. No I/O.

One dict entry and one future for each; deadlines in one heap. An id that is not in the table has ended, or was
never ours: whatever comes for it changes nothing.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from unknot._posts import Fits
from unknot._strands import Strand
from unknot_schemas import bodies

OPEN_MAX: Final = 100_000
"""Requests and waits that one session has open at a time."""

COME_TRUE: Final = frozenset({"reply", "granted", "produced", "approved"})
"""Outcomes of a wait that is over because what it waited for is there."""

LEFT_MIN_S: Final = 0.001
"""What is left of the time of a wait that is told again, at least: none at all would mean the default."""

Settle = Callable[[bodies.Outcome], None]


class Entry:
    """One open request or wait. *payload* is kept for sending it again under the same id."""

    __slots__ = (
        "deadline_at",
        "future",
        "id",
        "opened_at",
        "payload",
        "settle",
        "strand",
        "subject",
        "target",
    )

    def __init__(
        self,
        id: str,
        subject: str,
        payload: bytes,
        settle: Settle,
        *,
        deadline_at: float,
        strand: Strand | None,
        target: str,
    ) -> None:
        self.id = id
        self.subject = subject
        self.payload = payload
        self.settle = settle
        self.deadline_at = deadline_at
        self.opened_at = 0.0
        self.strand = strand
        """Who stands still until it ends; None for an ask."""
        self.target = target
        self.future: asyncio.Future[Any] | None = None
        """What the waiter stands at; None when nobody does."""

    def farewell(self, session: str) -> tuple[str, bodies.Body]:
        """What says that nobody waits for it any more: verb and body."""
        return "request.cancel", bodies.RequestCancel(self.id, session)

    def again(self, now: float) -> bytes:  # noqa: ARG002  a request says by itself what is to be said
        """What is sent to a gateway that does not know it, at *now* of the loop's clock."""
        return self.payload


class Wait(Entry):
    """An open wait that is no request."""

    __slots__ = ()

    def again(self, now: float) -> bytes:
        """The gateway counts from when it is told: it is told since when it is open, and what is left of its time."""
        body, since_s = self.now_open(), max(now - self.opened_at, 0.0)
        timeout_s = max(body.timeout_s - since_s, LEFT_MIN_S) if body.timeout_s is not None else None
        return msgspec.json.encode(msgspec.structs.replace(body, since_s=since_s, timeout_s=timeout_s))

    def now_open(self) -> bodies.WaitOpen:
        """What is still waited for."""
        return msgspec.json.decode(self.payload, type=bodies.WaitOpen)

    def farewell(self, session: str) -> tuple[str, bodies.Body]:
        """What says that nobody waits for it any more: verb and body."""
        return "wait.close", bodies.WaitClose(self.id, session)


class Several(Wait):
    """An open wait for several things. *left*: what is waited for without what has come already."""

    __slots__ = ("left",)

    left: Callable[[], bodies.WaitOpen]

    def now_open(self) -> bodies.WaitOpen:
        """A gateway that does not know it knows nothing of what came before its time."""
        return self.left()


class Claim(Wait):
    """An open wait of the agent's own code, at whatever that awaits."""

    __slots__ = ()


class Expectation(Wait):
    """An open wait for an event. *fits*: whether one is what it waits for."""

    __slots__ = ("fits",)

    fits: Fits


class Group:
    """Requests that are one wait: done when *need* have been answered, or no longer can be."""

    __slots__ = ("entries", "future", "left", "need", "outcomes", "replies")

    def __init__(self, n: int, need: int, future: asyncio.Future[None]) -> None:
        self.need = need
        self.left = n
        self.replies = 0
        self.future = future
        self.entries: list[Entry] = []
        self.outcomes: list[bodies.Outcome | None] = [None] * n

    def branch(self, index: int) -> Settle:
        """What ends the request with this *index*."""

        def settle(outcome: bodies.Outcome) -> None:
            self.outcomes[index] = outcome
            self.left -= 1
            self.replies += outcome.outcome == "reply"
            if not self.future.done() and self.is_over:
                self.future.set_result(None)

        return settle

    @property
    def is_over(self) -> bool:
        """Whether *need* answers are there, or no longer possible."""
        return self.replies >= self.need or self.replies + self.left < self.need


def into(future: "asyncio.Future[bodies.Outcome]") -> Settle:
    """Ends a request by giving its Outcome to *future*; nobody may be waiting any more."""

    def settle(outcome: bodies.Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    return settle


class Pending:
    """The open requests and waits of one session."""

    def __init__(self) -> None:
        self._open: dict[str, Entry] = {}  # in order of opening
        self._expected: dict[str, Expectation] = {}
        self._deadlines: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, id: str) -> bool:
        return id in self._open

    def get(self, id: str) -> Entry | None:
        """What is open under *id*."""
        return self._open.get(id)

    def is_waited_for(self, id: str) -> bool:
        """Whether *id* is open and its waiter still stands: one that was cancelled this very moment does not."""
        entry = self._open.get(id)
        if entry is None or (entry.future is not None and entry.future.done()):
            return False
        strand = entry.strand  # a detached one is named nowhere else in the facts
        return not (strand is not None and strand.detached and isinstance(entry, Claim) and strand.is_ready)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._open.values())

    @property
    def deadlines(self) -> int:
        """Entries in the heap of deadlines; those of what has ended are dropped in time."""
        return len(self._deadlines)

    def is_full(self, more: int = 1) -> bool:
        """Whether *more* do not fit."""
        return len(self._open) + more > OPEN_MAX

    def open(self, entry: Entry, now: float) -> None:
        """Register *entry*, before anything of it is sent."""
        assert entry.id not in self._open, "ids of a session are numbered"
        entry.opened_at = now
        self._open[entry.id] = entry
        if isinstance(entry, Expectation):
            self._expected[entry.id] = entry
        if entry.strand is not None:
            entry.strand.open += 1
            entry.strand.claims += isinstance(entry, Claim)
        heapq.heappush(self._deadlines, (entry.deadline_at, entry.id))
        if len(self._deadlines) > 1_000 + 2 * len(self._open):
            self._deadlines = [(each.deadline_at, each.id) for each in self._open.values()]
            heapq.heapify(self._deadlines)

    def settle(self, outcome: bodies.Outcome) -> Entry | None:
        """End what *outcome* names, whatever its epoch; None if it has ended, or never was."""
        entry = self.withdraw(outcome.request_id)
        if entry is not None:
            entry.settle(outcome)
        return entry

    def withdraw(self, id: str) -> Entry | None:
        """Forget *id*: nobody waits for it any more; None if it has ended."""
        entry = self._open.pop(id, None)
        if entry is None:
            return None
        if entry.strand is not None:
            entry.strand.open -= 1
            entry.strand.claims -= isinstance(entry, Claim)
        self._expected.pop(id, None)
        return entry

    def expecting(self, event: bodies.Delivered) -> list[Entry]:
        """All open waits for an event that *event* satisfies: one event may end several."""
        return [wait for wait in self._expected.values() if wait.id == event.for_ or wait.fits(event)]

    def overdue(self, now: float) -> list[Entry]:
        """Open entries whose own deadline has come; they stay open until they are settled."""
        due: list[Entry] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, id = heapq.heappop(self._deadlines)
            entry = self._open.get(id)
            if entry is not None:
                due.append(entry)
        return due

    def next_deadline_at(self) -> float | None:
        """When ``overdue`` is due again; None when nothing is open."""
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def named(self, opened_before: float, at_most: int) -> list[str]:
        """Ids opened before that instant, oldest first."""
        ids: list[str] = []
        for entry in self._open.values():
            if entry.opened_at >= opened_before or len(ids) == at_most:
                break
            ids.append(entry.id)
        return ids
