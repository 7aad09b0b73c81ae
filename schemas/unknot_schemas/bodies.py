"""Bodies of the wire, version 1. JSON; unknown fields are ignored; ``data`` stays raw bytes."""

from typing import Any, Literal

from msgspec import Raw, field

from unknot_schemas import base
from unknot_schemas.base import MaybeRaw
from unknot_schemas.holds import Fulfilled, Hold

NULL = base.NULL
Body = base.Body

OutcomeKind = Literal[
    "reply",
    "failed",
    "deadlock",
    "expired",
    "unreachable",
    "responder_lost",
    "refused",
    "cancelled",
    "over_limit",
    "granted",
    "produced",
    "approved",
    "denied",
]
Handled = Literal["no", "maybe", "yes"]
"""no: never delivered; yes: answered or reported running; maybe: delivered, else."""
Need = Literal["all", "any"] | int
CancelMode = Literal["interruptible", "at_checkpoint", "never"]


class Error(Body, frozen=True):
    """What happened, to whom, and what to do now."""

    code: str
    message: str
    detail: dict[str, Any] | None = None


class Group(Body, frozen=True):
    """Requests with the same group are one wait: *need* of *n* answers."""

    id: str
    n: int
    need: int


class Envelope(Body, frozen=True):
    """What an agent sends: an event, a request or an answer. Without ``unknot`` the whole body is bare data."""

    unknot: int = 0
    id: str | None = None
    session: str | None = None
    data: Raw = NULL
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    group: Group | None = None
    run: str | None = None
    timeout_s: float | None = None
    wait_for_target_s: float | None = None
    metadata: MaybeRaw = None
    error: Error | None = None
    done: bool = True
    traceparent: str | None = None
    tracestate: str | None = None
    response_to: str | None = None
    """Of an event for a channel: the post that it names."""
    accept_uncorrelated: str | None = None
    """Of a request: a pattern; a one-way event of such a type from its target, which took it, is its answer too."""


class Delivered(Body, frozen=True):
    """What the gateway hands to an agent; in an Outcome: the answer. ``time`` is for people only."""

    id: str
    type: str
    source: str
    target: str
    data: Raw
    requires_response: bool
    epoch: int
    unknot: int = field(default_factory=lambda: 1)
    response_to: str | None = None
    run: str | None = None
    metadata: MaybeRaw = None
    time: str | None = None
    deadline_in_s: float | None = None
    seq: int | None = None
    """Number of this delivery within its session, from 1; a heartbeat's ``seen`` is the last one."""
    for_: str | None = field(default=None, name="for")
    redelivered: bool = False
    traceparent: str | None = None
    tracestate: str | None = None


class Receipt(Body, frozen=True):
    """Answer to everything that is not a blocking request."""

    ok: bool
    id: str | None = None
    timeout_s: float | None = None
    duplicate: bool = False
    error: Error | None = None
    lease_s: float | None = None
    """Of a lease that was renewed: how long it lasts from now on."""


class Outcome(Body, frozen=True):
    """How a request or a wait ended; exactly one for each id."""

    request_id: str
    outcome: OutcomeKind
    handled: Handled
    epoch: int
    event: Delivered | None = None
    error: Error | None = None
    fulfilled: Fulfilled | None = None


class Pool(Body, frozen=True):
    """Slots that serve event types; types None: what no other pool of the session names; slots None: no limit."""

    slots: int | None
    types: list[str] | None = None
    main: bool = False


class Hello(Body, frozen=True):
    """A session begins, or goes on after an epoch change (resume)."""

    session: str
    protocol: int = 1
    instance: str | None = None
    pools: list[Pool] | None = None
    concurrency: int | None = None
    main_runs: bool = True
    channels: list[str] | None = None
    reentrant: bool = False
    exclusive: bool = False
    heartbeat_s: float | None = None
    sdk: str | None = None
    resume: bool = False
    open: list[str] | None = None
    held: list["Held"] | None = None
    answered: list[str] | None = None
    seen: int = 0
    connection: str | None = None
    """To the NATS server: the server's id and the number it gave the connection, ``<server_id>/<client_id>``."""
    holds: list[Hold] | None = None
    """What it holds of locks and permits."""


class Held(Body, frozen=True):
    """An event in the hands of a session: its handler runs, or it has been deferred."""

    id: str
    state: Literal["running", "deferred"] = "running"
    type: str | None = None
    """Its type: after an epoch change it says which pool's slot is held. May be left out where there is one pool."""


class Welcome(Body, frozen=True):
    """Answer to hello and heartbeat's ground: what holds for this session."""

    ok: bool
    session: str
    epoch: int
    protocol: int
    heartbeat_s: float
    session_loss_s: float
    limits: dict[str, float]


class Heartbeat(Body, frozen=True):
    """What is open and held and older than one interval; ``seen``: number of the last delivery that arrived."""

    session: str
    open: list[str] = []
    held: list[Held] = []
    seen: int = 0
    connection: str | None = None
    """As in the hello; another one after the client has lost its connection and come back."""
    holds: list[Hold] | None = None
    """Of locks and permits, all of them; None: says nothing of them."""


class Pulse(Body, frozen=True):
    """Answer to a heartbeat. *unknown*: open ids to be sent again; *not_held*: held ids the gateway does not know.

    *unknown_holds*: ids of holds that are none (any more).
    """

    ok: bool
    epoch: int
    unknown: list[str] = []
    not_held: list[str] = []
    unknown_holds: list[str] = []


class Bye(Body, frozen=True):
    """No new work for this session; it ends when what it holds has ended, or after drain_s (0: now)."""

    session: str
    drain_s: float = 0.0


class Done(Body, frozen=True):
    """The handlers of these events have returned; a main loop has read on."""

    session: str
    ids: list[str]


class Defer(Body, frozen=True):
    """The answers come later from elsewhere; *by*: the execution of this session that will give them."""

    session: str
    ids: list[str]
    by: str | None = None


class Strands(Body, frozen=True):
    """Of one execution.

    *alive*: own task ("") and joined strands without an open wait; *awaited*: child tasks that the own task stands
    waiting for.
    """

    alive: list[str] = []
    awaited: list[str] = []


class Facts(Body, frozen=True):
    """Answer to ``confirm``, from the receive loop, at once. Keys of *strands* are execution ids."""

    session: str
    incident: str
    open: list[str] = []
    requests: dict[str, Literal["running", "deferred", "done"]] = {}
    strands: dict[str, Strands] = {}
    holds: list[str] | None = None
    """Waits by which it was, or may have been, granted locks or permits that it has still; None: nothing is said."""


class WaitCondition(Body, frozen=True):
    """What is waited for: kind reply (id: a request), event (id: a type pattern), agent, human, tool, artifact, …"""

    kind: str
    id: str = ""
    units: int = 1
    generation: int | None = None
    source: str | None = None
    """kind event: only from this agent."""
    lease_s: float | None = None
    """kind lock, permits: to be granted by the gateway for so long; None: only reported, the thing is elsewhere."""


class WaitOpen(Body, frozen=True):
    """An execution cannot go on until *need* of *on* are true."""

    id: str
    session: str
    on: list[WaitCondition]
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    generation: int = 0
    group: str | None = None
    run: str | None = None
    need: Need = "all"
    timeout_s: float | None = None
    cancel_mode: CancelMode = "interruptible"
    reason: str | None = None
    data: MaybeRaw = None
    """kind approval: what whoever approves is shown."""
    since_s: float = 0.0
    """For how long it has been open already, when a gateway that does not know it is told of it."""


class WaitClose(Body, frozen=True):
    """The wait ended on the agent's side; an older generation changes nothing."""

    id: str
    session: str | None = None
    generation: int | None = None


class RequestCancel(Body, frozen=True):
    """The sender does not want the answer any more."""

    id: str
    session: str | None = None


class ConfirmWait(Body, frozen=True):
    """One wait that a member is asked about."""

    id: str
    generation: int = 0


class Confirm(Body, frozen=True):
    """Control ``confirm``: are these waits open, and where do these requests stand?"""

    incident: str
    waits: list[ConfirmWait]
    requests: list[str]
    executions: list[str] = []


class Abandoned(Body, frozen=True):
    """Control ``request.abandoned``: nobody waits for this answer any more."""

    request_id: str
    reason: str


class Replaced(Body, frozen=True):
    """Control ``session.replaced``: another session has taken this one's place."""

    session: str
    by: str


class MemberWait(Body, frozen=True):
    """One wait of a deadlock's member."""

    id: str
    waiter: str
    session: str
    execution: str
    generation: int
    kind: str
    target: str
    since_s: float
    strand: str | None = None
    type: str | None = None
    deadline_in_s: float | None = None
    run: str | None = None


class DeadlockDetected(Body, frozen=True):
    """Control and notice ``agent.wait.deadlock_detected``: these waits can never end."""

    incident: str
    digest: str
    network: str
    cycle: list[str]
    waits: list[MemberWait]
    request_ids: list[str]
    blocked_behind: list[str]
    policy: str
    evidence: Literal["observed", "assumed", "reported"]
    remedy: str
    message: str
    members_total: int
    waits_total: int
    blocked_behind_total: int
    retry_after_s: float
    victim: str | None = None


class PoolsDiffer(Body, frozen=True):
    """Notice ``agent.pools_differ``: *session* serves *more* types than *other*, or not those of *less*."""

    network: str
    agent: str
    session: str
    other: str
    more: list[str]
    less: list[str]
    message: str


class OverLimit(Body, frozen=True):
    """Notice ``agent.over_limit``: *shed* messages of *agent* went unread since the last one, *shed_total* in all."""

    network: str
    agent: str
    shed: int
    shed_total: int
    message: str


class BlockedBehind(Body, frozen=True):
    """Control ``agent.wait.blocked_behind``: what these waits hang on is deadlocked; they go on."""

    incident: str
    cycle: list[str]
    waits: list[str]
