"""What enters the kernel: facts, in the past tense. The shell makes them from bytes and time."""

from typing import Literal

from msgspec import Struct

from unknot_schemas import bodies, resources
from unknot_schemas.ids import AgentId, EventId

FreeVerb = (
    resources.LockRenew
    | resources.LockRelease
    | resources.LockCheck
    | resources.PoolDeclare
    | resources.ArtifactForget
    | resources.ApprovalResolve
)
"""Verbs about resources that need no session; one that is named must be live."""
SessionVerb = (
    resources.LockAcquire
    | resources.ArtifactDeclare
    | resources.ArtifactWithdraw
    | resources.ArtifactPublish
    | resources.ArtifactWait
    | resources.ApprovalRequest
    | resources.HolderSet
    | resources.HolderClear
)
"""Those of a live session."""


class Fact(Struct, frozen=True, gc=False):
    """Base of all facts. *reply_to*: where a Receipt may go; None when no legal reply subject was given."""


class EventSeen(Fact, frozen=True, gc=False):
    """An agent sent an event, an ask or a blocking request (*verb*) for *target* (an agent or ``@channel``)."""

    agent: AgentId
    verb: str
    target: str
    type: str
    envelope: bodies.Envelope
    reply_to: str | None = None


class PublishSeen(Fact, frozen=True, gc=False):
    """An agent sent an event without target."""

    agent: AgentId
    type: str
    envelope: bodies.Envelope
    reply_to: str | None = None


class ReplySeen(Fact, frozen=True, gc=False):
    """An agent answered a request."""

    agent: AgentId
    request_id: EventId
    envelope: bodies.Envelope
    reply_to: str | None = None


class NobodyListened(Fact, frozen=True, gc=False):
    """The server said that nobody subscribes where *event_id* was delivered to *agent* (status 503): a hint."""

    agent: AgentId
    event_id: EventId


class PubAckSeen(Fact, frozen=True, gc=False):
    """A JetStream acknowledgement came where an answer was expected: some stream captures the prefix."""

    agent: AgentId
    request_id: EventId


class BodySeen(Fact, frozen=True, gc=False):
    """An agent sent one of the verbs about its session, waits or requests; *body* is of the verb's own type."""

    agent: AgentId
    body: (
        bodies.Hello
        | bodies.Heartbeat
        | bodies.Bye
        | bodies.Done
        | bodies.Defer
        | bodies.Facts
        | bodies.WaitOpen
        | bodies.WaitClose
        | bodies.RequestCancel
        | FreeVerb
        | SessionVerb
    )
    reply_to: str | None = None


class InputRefused(Fact, frozen=True, gc=False):
    """Bytes that mean nothing. *event_id*: the id, where it could be read; *verb*: "" where it could not."""

    agent: str
    verb: str
    error: bodies.Error
    event_id: str | None = None
    session: str | None = None
    reply_to: str | None = None


class Disconnected(Fact, frozen=True, gc=False):
    """The NATS server said that a connection (``<server id>/<client id>``) has ended, from the client's side."""

    connection: str


class ApprovalDecided(Fact, frozen=True, gc=False):
    """An operator decided an approval that a human was asked for; *by*: ``human:<name>``, None: whichever it was."""

    id: str
    decision: Literal["approved", "denied"]
    reason: str | None = None
    by: str | None = None
    reply_to: str | None = None


class TimePassed(Fact, frozen=True, gc=False):
    """The instant that ``next_wakeup_at`` named has come, or the shell had a moment to spare."""


class Stopped(Fact, frozen=True, gc=False):
    """The gateway stops and nobody takes over: every open wait must end now."""


OtherFact = (
    PublishSeen
    | ReplySeen
    | NobodyListened
    | PubAckSeen
    | BodySeen
    | InputRefused
    | Disconnected
    | ApprovalDecided
    | TimePassed
    | Stopped
)
AnyFact = EventSeen | OtherFact
