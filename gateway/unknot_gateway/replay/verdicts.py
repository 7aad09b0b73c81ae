"""What a replay finds, as values; times are instants of the recording."""

from msgspec import Struct


class Edge(Struct, frozen=True):
    """One wait of a member: *agent* in *run* waits for *kind* *id*, which *owners* can make come true."""

    agent: str
    run: str
    kind: str
    id: str
    owners: list[str]
    since: int
    deadline_at: int | None


class Outside(Struct, frozen=True):
    """A wait that somebody outside ends, or that hangs on nobody that is known."""

    agent: str
    run: str
    kind: str
    id: str
    since: int


class Incident(Struct, frozen=True, tag="incident"):
    """A core. *since*: when its last wait began; *resolves_at*: when the first of them runs out by itself."""

    at: int
    number: int
    cycle: list[str]
    members: list[str]
    edges: list[Edge]
    behind: list[str]
    outside: list[Outside]
    evidence: str
    since: int
    resolves_at: int | None
    remedy: str


class Dissolved(Struct, frozen=True, tag="dissolved"):
    """A core is none any more. *is_acted_on*: it stood long enough for the second read of what is only reported."""

    at: int
    number: int
    cycle: list[str]
    because: list[str]
    stood: int
    is_acted_on: bool


class Orphaned(Struct, frozen=True, tag="orphaned"):
    """A wait hangs on *gone* agents only, over *chain*. *until*: when a lease ends that cures it; None: none does."""

    at: int
    edge: Edge
    chain: list[str]
    gone: str
    until: int | None


class Cured(Struct, frozen=True, tag="cured"):
    """An orphaned wait hangs on lost agents no more, or has ended."""

    at: int
    edge: Edge
    because: str


class Unresolved(Struct, frozen=True, tag="unresolved"):
    """What is waited for names nobody: no edge. A text written by a model where an id belongs ends here."""

    at: int
    wait: Outside
    why: str


class MalformedLine(Struct, frozen=True, tag="malformed"):
    """A line that says nothing usable; it is left out."""

    line: int
    why: str


class End(Struct, frozen=True, tag="end"):
    """The recording is over. *standing*: incidents left; *outside*, *unresolved*: waits left that are no edge."""

    at: int | None
    lines: int
    malformed: int
    out_of_order: int
    ignored_releases: int
    incidents: int
    standing: list[int]
    orphaned: int
    outside: list[Outside]
    unresolved: list[Outside]


Finding = Incident | Dissolved | Orphaned | Cured | Unresolved | MalformedLine | End
