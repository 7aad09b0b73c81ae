"""Open messages, tombstones, and the Outcomes kept for repetition. An id is one thing once."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Literal

from msgspec import Struct

from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Message, OpenWait, Session
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId, EventId


class Tombstone(Struct, gc=False):
    """A closed id. *outcome* is None when there was none (one-way), or its body is no longer kept."""

    digest: int
    ended_at: float
    kind: str
    targets: tuple[AgentId, ...]
    blocks: bool
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
        self._kept: OrderedDict[EventId, Tombstone] = OrderedDict()
        self.kept_bytes = 0
        self.open_bytes = 0

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
        self.open_bytes += len(bytes(message.envelope.data))
        if message.verb != "send":
            message.source.open[message.id] = message

    def remove(self, message: Message) -> None:
        """*message* is open no more."""
        if self.open.pop(message.id, None) is not None:
            self.open_bytes -= len(bytes(message.envelope.data))
            message.source.open.pop(message.id, None)

    def bury(
        self,
        event_id: EventId,
        digest: int,
        now: float,
        *,
        kind: str = "",
        targets: tuple[AgentId, ...] = (),
        blocks: bool = False,
    ) -> Tombstone:
        """Remember *event_id* as closed."""
        tombstone = Tombstone(digest, now, kind, targets, blocks)
        self._closed[event_id] = tombstone
        self.forget_old(now)
        return tombstone

    def keep(self, session: Session, event_id: EventId, outcome: bodies.Outcome, now: float) -> None:
        """Keep the Outcome of a closed id so that it can be repeated to *session*."""
        tombstone = self._closed.get(event_id)
        if tombstone is None:
            return
        tombstone.outcome = outcome
        tombstone.weight = 200 + (len(bytes(outcome.event.data)) if outcome.event is not None else 0)
        self.kept_bytes += tombstone.weight
        self._kept[event_id] = tombstone
        session.kept.append((now, session.beats, event_id))
        while self.kept_bytes > self._limits.kept_bytes_max and self._kept:
            self.let_go(next(iter(self._kept)))

    def let_go(self, event_id: EventId) -> None:
        """Drop the kept body of *event_id*; its id stays remembered."""
        tombstone = self._kept.pop(event_id, None)
        if tombstone is not None:
            self.kept_bytes -= tombstone.weight
            tombstone.outcome = None

    def let_go_before(self, session: Session, instant: float) -> None:
        """Drop what is kept for *session* and ended before *instant*."""
        kept = session.kept
        while kept and kept[0][0] < instant:
            self.let_go(kept.popleft()[2])

    def forget_old(self, now: float) -> None:
        """Forget closed ids beyond their time and number."""
        closed, limits = self._closed, self._limits
        while closed:
            event_id = next(iter(closed))
            if len(closed) <= limits.remembered_max and now - closed[event_id].ended_at < limits.remembered_s:
                return
            self.let_go(event_id)
            del closed[event_id]


def digest_of(source: Hashable, target: str, event_type: str, data: bytes) -> int:
    """What identifies a message's content. SipHash keyed for this process: it never leaves it."""
    return hash((source, target, event_type, data))
