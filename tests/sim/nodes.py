"""What truth is written down in: processes, tasks, requests, and what a task waits for."""

from typing import Protocol

from msgspec import Struct, field

PoolKey = tuple[str, str]
"""Kind and name of a lock, or of permits."""


class Living(Protocol):
    """One life of one process, as far as truth needs it."""

    key: str
    name: str
    alive: bool
    channel: bool
    reentrant: bool
    doubtful_until: float
    """Until then the gateway may take its session for lost, and rightly."""
    main: "Node | None"
    """Who reads the events, where a script's own loop does; of a driver, who does its jobs."""
    main_runs: bool
    """Whether code outside of handlers may do something at any time."""
    serves_pools: tuple[str, ...]
    """Its pools, apart from main's."""

    @property
    def leaving(self) -> bool:
        """Whether it was asked to leave: it is no member of a channel any more."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether the gateway has welcomed it."""
        ...

    def pool_of(self, event_type: str) -> str:
        """The pool that serves *event_type*."""
        ...

    def slots(self, pool: str) -> int:
        """Its slots."""
        ...

    def token(self) -> str:
        """The session it lives under now."""
        ...


class Node(Struct, eq=False):
    """One task. *since*: when it was first seen stuck in this wait."""

    life: Living
    wait: "Waits | Children | None" = None
    since: float | None = None
    is_over: bool = False
    detached: bool = False
    """Whether nobody waits for it, as far as a gateway can know, and for whom it waits by itself, likewise."""


class Execution(Struct, eq=False):
    """One handling of one event. *by*: who has promised to give its answer."""

    life: Living
    token: str
    pool: str
    node: Node
    nonce: str = ""
    returned: bool = False
    deferred: bool = False
    by: Node | None = None


class Request(Struct, eq=False):
    """One request, known by the *nonce* in its data."""

    nonce: str
    source: str
    target: str
    type: str
    asker: Living | None = None
    executions: list[Execution] = field(default_factory=list)
    members: list[str] | None = None
    """Of a channel, when it was sent: who joins later does not get it."""
    answered_at: float = 0.0
    answered_by: tuple[Living, str] | None = None
    """Who, and in which session: what is not heard before that is over is lost with it."""
    has_failed: bool = False
    """Whether any of its handlers has: there may be several, in a channel or after a restart."""
    idle_since: float | None = None
    """Since when it could have begun."""
    answered: bool | None = None
    """True when its answer was given, False when its handler has failed; of a channel's: the first one's."""
    settled: bool | None = None
    """The same in the words of the gateway that lives now."""
    is_withdrawn: bool = False
    """Whether that one has ended it because nobody needs it any more."""

    @property
    def ended(self) -> bool | None:
        """True with an answer, False without, None as long as it is open."""
        return self.answered if self.settled is None else self.settled


class Place(Struct, eq=False):
    """A lock, or units of a pool of permits, that the gateway grants."""

    key: PoolKey
    units: int


class Want(Struct, eq=False):
    """An artifact."""

    name: str


class Decision(Struct, eq=False):
    """A decision of an agent, or of a human, who may always decide. *given*: it is no more open.

    *yes*: what it will be, after *s* seconds; None: it is left open.
    """

    by: str
    s: float = 0.0
    yes: bool | None = None
    given: bool | None = None


class Hand(Struct, eq=False):
    """Something that any execution of an agent may do."""

    agent: str


class Outside(Struct, eq=False):
    """Something that no gateway grants: a lock or permits elsewhere, a task of somebody; others report who has it."""

    key: PoolKey
    units: int


Thing = Place | Want | Decision | Hand | Outside


class Waits(Struct, eq=False):
    """*need* of these requests must be answered, or of these things be there."""

    requests: list[Request]
    need: int
    things: list[Thing] = field(default_factory=list)
    name: str = ""
    node: Node | None = None
    strand: tuple[str, str, str] = ("", "", "")
    """Who waits, on the wire: session, execution, strand."""
    ids: list[str] = field(default_factory=list)
    """On the wire: what does not fit into one answer is waited for once more."""
    token: str = ""
    """The session in which it was opened."""
    arrived: int | None = None
    """When it first came to the gateway that lives now, as a number."""
    queued: int | None = None
    """When that one has said that it has it, likewise. What is sent again has no answer."""
    is_settled: bool = False
    """Whether that gateway has said how it ended."""
    idle_since: float | None = None
    """Since when all that it needs is there."""

    @property
    def is_reported(self) -> bool:
        """Whether it rests on what only agents tell."""
        return any(isinstance(each, Outside | Hand) for each in self.things)


class Children(Struct, eq=False):
    """All of these tasks must end. *is_known*: to a gateway, too."""

    nodes: list[Node]
    is_known: bool = True


def text(wait: Waits | Children | None) -> str:
    """For people."""
    if isinstance(wait, Waits):
        parts = [f"{request.nonce} to {request.target}" for request in wait.requests]
        parts += [_thing(each) for each in wait.things]
        return f"{wait.need} of " * bool(wait.things) + ", ".join(parts)
    return "its child tasks"


def _thing(thing: Thing) -> str:
    match thing:
        case Place() | Outside():
            return f"{thing.units} of {' '.join(thing.key)}"
        case Want():
            return f"artifact {thing.name}"
        case Decision():
            return f"a decision of {thing.by}"
        case Hand():
            return f"agent {thing.agent}"
