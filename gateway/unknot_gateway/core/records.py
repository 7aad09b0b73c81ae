"""The records that the core's tables hold. Each has one owner; others hold references and ask."""

from collections import OrderedDict
from typing import Literal

import msgspec
from msgspec import Struct, field

from unknot_gateway.core.graph import Node, Resource
from unknot_gateway.core.graph import Wait as GraphWait
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId, EventId, ExecutionId, SessionId, StrandId

LegState = Literal["absent", "unheard", "queued", "parked", "running", "deferred", "ended"]
"""Where an event for one agent stands.

absent: no live session. unheard: published to an agent without hello, and the server says that nobody listens.
parked: its delivery waits for a probe. running: delivered, its handler has not ended. deferred: no handler runs,
the answer comes later.
"""


class Pool(Struct, eq=False):
    """Slots of one session for some event types."""

    session: "Session"
    slots: int | None
    patterns: tuple[str, ...] | None
    main: bool
    resource: Resource | None = None
    used: int = 0
    is_watched: bool = False
    """Whether somebody may wait for a slot: then its holders are nodes of the graph."""
    lanes: list["Lane"] = field(default_factory=list)

    @property
    def is_served(self) -> bool:
        """Whether its session is live and has not replaced it."""
        return self.session.live and self in self.session.pools

    @property
    def has_free_slot(self) -> bool:
        """Whether one more event can be handled now."""
        return self.slots is None or self.used < self.slots


class Lane(Struct, eq=False):
    """Queue of the events of one agent that the same pools can take, in order of arrival."""

    pools: tuple[Pool, ...]
    legs: OrderedDict[int, "Leg"] = field(default_factory=OrderedDict)


class Strand(Struct, eq=False):
    """A node of the graph: an execution's own task (id "") or one task inside it."""

    session: "Session"
    execution: ExecutionId
    id: StrandId
    node: Node
    detached: bool = False
    open_waits: int = 0
    owed: int = 0
    """Answers that it must give besides its own execution's: of requests it expected, or promised by a defer."""
    ties: int = 0
    """What it holds, will produce, or is reported to have (see resources.ties)."""
    is_lost: bool = False
    """Its session was lost, and it has ties: it can never go on, and is forgotten with the last of them."""
    leg: "Leg | None" = None
    implied: GraphWait | None = None
    """The wait of the execution's own task for this strand, while this strand waits."""


class Session(Struct, eq=False):
    """One life of one process of an agent; for an agent without hello: session "0", one serial main."""

    agent: "Agent"
    name: AgentId
    """Its agent's id."""
    id: SessionId
    generation: int
    said_hello: bool
    heard_at: float
    heartbeat_s: float
    hello: bodies.Hello | None = None
    pools: tuple[Pool, ...] = ()
    channels: frozenset[str] = frozenset()
    live: bool = True
    draining: bool = False
    beats: int = 0
    """Heartbeats taken in."""
    delivered: int = 0
    """Number of the last delivery."""
    unseen: "OrderedDict[int, Leg]" = field(default_factory=OrderedDict)
    """Deliveries that no heartbeat has confirmed."""
    held: "dict[EventId, Leg]" = field(default_factory=dict)
    open: "dict[EventId, Message | OpenWait]" = field(default_factory=dict)
    strands: dict[tuple[ExecutionId, StrandId], Strand] = field(default_factory=dict)
    groups: "dict[str, Group]" = field(default_factory=dict)
    void: dict[str, int] = field(default_factory=dict)
    """Waits that ended, or whose close came first: the generation up to which an open is void."""
    claims: dict[EventId, Literal["running", "deferred", "answered"]] = field(default_factory=dict)
    """What it said to hold, or to have answered, when it resumed after an epoch change."""
    resent: frozenset[EventId] = frozenset()
    """What it waited for when it resumed: sent again, these may have been delivered before."""
    resumed: bool = False
    """Whether it lived before this epoch."""
    connection: str | None = None
    """To the NATS server, as it says itself; None: it does not say."""
    gone_at: float | None = None
    """When that connection ended; None as long as it stands, for all that is known."""

    @property
    def is_reentrant(self) -> bool:
        """Whether a request whose chain already runs here needs no slot."""
        return self.hello is not None and self.hello.reentrant


class Agent(Struct, eq=False):
    """A named peer and what is queued for it."""

    id: AgentId
    sessions: dict[SessionId, Session] = field(default_factory=dict)
    zero: Session | None = None
    """Its stand-in session as long as it never said hello."""
    said_hello: bool = False
    lanes: dict[tuple[Pool, ...], Lane] = field(default_factory=dict)
    routes: dict[str, tuple[Pool, ...]] = field(default_factory=dict)
    waiting: OrderedDict[int, "Leg"] = field(default_factory=OrderedDict)
    """Events for it while it is absent."""
    unplaced: OrderedDict[int, "Leg"] = field(default_factory=OrderedDict)
    """Events that wait to be placed anew: its sessions or their pools have changed."""
    queued: int = 0
    expects: "dict[EventId, OpenWait]" = field(default_factory=dict)


class Leg(Struct, eq=False):
    """The way of one event to one agent: queued, delivered, handled. ``order`` is its place in all queues."""

    message: "Message"
    agent: Agent
    order: int
    state: LegState = "absent"
    lane: Lane | None = None
    session: Session | None = None
    pool: Pool | None = None
    """The pool one of whose slots it holds."""
    strand: Strand | None = None
    by: Strand | None = None
    """After a defer: the execution that promised the answer."""
    number: int = 0
    delivered_at: float = 0.0
    event: bodies.Delivered | None = None
    omitted: int = 0
    asked_again: int = 0
    """How often its answer, which may be lost, was asked for."""
    is_expected: bool = False
    """Whether an ``expect`` took it: whoever expected it must answer it, in no slot."""
    may_be_known: bool = False
    """Whether its agent may have heard it before: a copy says so."""
    has_timer: bool = False
    """Whether a deadline of its own may be set (patience, a hint)."""
    ended: bool = False
    """Its request has ended; the handler may still run."""
    is_claim: bool = False
    """Whether it stands for what only its session knows: it ran before this epoch (see claims)."""


class Message(Struct, eq=False):
    """An event in the gateway's hands; a request unless *verb* is send."""

    id: EventId
    verb: str
    source: Session
    target: str
    type: str
    envelope: bodies.Envelope
    digest: int
    opened_at: float
    deadline_at: float
    reply_to: str | None
    has_timeout: bool
    weight: int
    """Bytes of its data."""
    receipt_to: str | None = None
    """Where a Receipt is still owed."""
    legs: list[Leg] = field(default_factory=list)
    wait: "Wait | None" = None
    index: int = 0
    """Its condition's place in *wait*."""
    group: "Group | None" = None
    depth: int = 0
    was_delivered: bool = False
    reported_running: bool = False
    omitted: int = 0
    watchers: "tuple[tuple[OpenWait, int], ...]" = ()
    """Waits that its sender opened for its answer, and the place of their condition."""
    is_unentered: bool = False
    """Its wait is left out of the graph as long as it cannot matter."""

    @property
    def since(self) -> float:
        """When its sender began to wait, as far as is known."""
        return self.opened_at

    is_open: bool = True

    @property
    def blocks(self) -> bool:
        """Whether its sender's execution stands still until it ends."""
        return self.verb == "request"

    @property
    def handled(self) -> bodies.Handled:
        """What is known of its handling, as long as no answer came."""
        if self.reported_running:
            return "yes"
        return "maybe" if self.was_delivered else "no"


class OpenWait(Struct, eq=False):
    """A wait that an agent opened by ``wait.open``."""

    id: EventId
    session: Session
    body: bodies.WaitOpen
    opened_at: float
    """When it became known here."""
    since: float
    """When it began, which another gateway may have seen."""
    deadline_at: float
    reply_to: str | None = None
    wait: "Wait | None" = None
    taken: set[int] = field(default_factory=set)
    """Its conditions, by index, that are true here: had their event, have a place reserved, are there, approved."""
    is_ended_here: bool = False
    """Whether the gateway says when it is over; else its client knows."""
    got: "dict[str, msgspec.Raw] | None" = None
    """Data of the artifacts that it has waited for."""
    spent: frozenset[int] = frozenset()
    """Its conditions that can never be true: denied, or a request that ended without an answer."""
    denied: bodies.Error | None = None
    omitted: int = 0


class Wait(Struct, eq=False):
    """One open wait of the graph, and what it is made of."""

    handle: GraphWait
    strand: Strand
    messages: "list[Message]" = field(default_factory=list)
    opened: OpenWait | None = None
    group: "Group | None" = None


class Group(Struct, eq=False):
    """Requests that are one wait: *need* of *n* answers."""

    id: str
    session: Session
    place: tuple[ExecutionId, StrandId]
    """Whose wait it is, in the session."""
    n: int
    need: int
    opened_at: float
    arrived: int = 0
    answered: int = 0
    spent: int = 0
    ended: dict[int, bool] = field(default_factory=dict)
    """Whether a member that has ended, by its index, was answered."""
    open: "dict[EventId, Message]" = field(default_factory=dict)
    wait: Wait | None = None
    is_closed: bool = False
