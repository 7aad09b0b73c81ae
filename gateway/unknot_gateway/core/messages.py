"""Open messages, tombstones, and the Outcomes kept for repetition. An id is one thing once."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Literal

from msgspec import Struct

from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Message, OpenWait
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId

_OUTCOME_BYTES: Final = 200
"""An Outcome without its event."""


_FORGET_EVERY: Final = 64
"""Old tombstones are looked for at every so many new ones."""


class Tombstone(Struct, gc=False):
    """A closed id. *outcome* is None when there was none (one-way), or it had to make room."""

    digest: int
    ended_at: float
    kind: str
    targets: tuple[AgentId, ...]
    blocks: bool
    asked: bool = False
    """Of an ask: its Receipt and its Outcome go different ways."""
    waiter: AgentId | None = None
    """Of a wait that an agent opened itself: a newer generation of it may open."""
    outcome: bodies.Outcome | None = None
    weight: int = 0


class Known(Struct, gc=False):
    """What an id already stands for."""

    state: Literal["open", "closed", "conflict"]
    message: Message | None = None
    tombstone: Tombstone | None = None


class MessageTable:
    """Owner of all open messages and waits by id, and of what is remembered of the closed ones."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.open: dict[EventId, Message] = {}
        self.waits: dict[EventId, OpenWait] = {}
        self._closed: OrderedDict[EventId, Tombstone] = OrderedDict()
        self._kept: deque[Tombstone] = deque()
        self.kept_bytes = 0
        self.open_bytes = 0
        self.remembered_s = limits.remembered_s

    @property
    def remembered(self) -> int:
        """Number of closed ids remembered."""
        return len(self._closed)

    def is_full(self) -> bool:
        """Whether no further message may be opened."""
        return (
            len(self.open) >= self._limits.messages_max
            or self.open_bytes > self._limits.held_events_bytes_max
        )

    def is_new(self, event_id: EventId) -> bool:
        """Whether *event_id* stands for nothing yet."""
        return event_id not in self.open and event_id not in self.waits and event_id not in self._closed

    def known(self, event_id: EventId, digest: int) -> Known | None:
        """What *event_id* stands for already; None if nothing; a conflict if its content was another."""
        message = self.open.get(event_id)
        if message is not None:
            return Known("open" if message.digest == digest else "conflict", message)
        if event_id in self.waits:
            return Known("conflict")
        tombstone = self._closed.get(event_id)
        if tombstone is None:
            return None
        return Known("closed" if tombstone.digest == digest else "conflict", tombstone=tombstone)

    def closed(self, event_id: EventId) -> Tombstone | None:
        """The tombstone of *event_id*, if it is still remembered."""
        return self._closed.get(event_id)

    def add(self, message: Message) -> None:
        """Take *message* in as open."""
        self.open[message.id] = message
        self.open_bytes += message.weight
        if message.verb != "send":
            message.source.open[message.id] = message

    def remove(self, message: Message) -> None:
        """*message* is open no more."""
        if self.open.pop(message.id, None) is not None:
            self.open_bytes -= message.weight
            message.source.open.pop(message.id, None)

    def bury(
        self,
        event_id: EventId,
        digest: int,
        now: float,
        kind: str = "",
        targets: tuple[AgentId, ...] = (),
        blocks: bool = False,
        asked: bool = False,
        waiter: AgentId | None = None,
    ) -> Tombstone:
        """Remember *event_id* as closed."""
        tombstone = Tombstone(digest, now, kind, targets, blocks, asked, waiter)
        closed = self._closed
        if event_id in closed:
            self._let_go(closed.pop(event_id))
        closed[event_id] = tombstone
        if not len(closed) % _FORGET_EVERY or len(closed) > self._limits.remembered_max:
            self.forget_old(now)
        return tombstone

    def keep(self, tombstone: Tombstone, outcome: bodies.Outcome) -> None:
        """Keep the Outcome of a closed id, so that it can be repeated for as long as the id is remembered."""
        tombstone.outcome = outcome
        tombstone.weight = _OUTCOME_BYTES
        if outcome.event is not None:
            tombstone.weight += len(outcome.event.data)
        if outcome.fulfilled is not None:
            tombstone.weight += sum(memoryview(data).nbytes for data in outcome.fulfilled.artifacts.values())
        self.kept_bytes += tombstone.weight
        self._kept.append(tombstone)
        while self.kept_bytes > self._limits.kept_bytes_max:
            self._let_go(self._kept.popleft())

    def remember_for(self, heartbeat_s: float) -> None:
        """Remember closed ids long enough for a session that is heard every *heartbeat_s* to ask for them."""
        self.remembered_s = max(self.remembered_s, 3 * heartbeat_s)

    def forget_old(self, now: float) -> None:
        """Forget closed ids beyond their time and number, oldest first."""
        closed, most, oldest_at = self._closed, self._limits.remembered_max, now - self.remembered_s
        while closed:
            event_id = next(iter(closed))
            tombstone = closed[event_id]
            if tombstone.ended_at > oldest_at and len(closed) <= most:
                return
            del closed[event_id]
            self._let_go(tombstone)

    def _let_go(self, tombstone: Tombstone) -> None:
        if tombstone.outcome is not None:
            tombstone.outcome = None
            self.kept_bytes -= tombstone.weight
        while self._kept and self._kept[0].outcome is None:
            self._kept.popleft()


def forgotten(event_id: str, epoch: int) -> bodies.Outcome:
    """The Outcome of a request whose answer is no longer kept: it ended, and how cannot be said any more."""
    text = f"request {event_id!r} has ended, and its answer is no longer kept"
    return bodies.Outcome(
        event_id, "failed", "yes", epoch, error=bodies.Error(errors.OUTCOME_FORGOTTEN, text)
    )


def digest_of(source: Hashable, target: str, event_type: str, data: bytes) -> int:
    """What identifies a message's content. SipHash keyed for this process: it never leaves it."""
    return hash((source, target, event_type, data))
