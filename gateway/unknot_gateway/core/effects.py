"""What the kernel orders: effects, in the imperative. The shell carries them out in their order."""

from msgspec import Struct

from unknot_schemas import bodies, resources
from unknot_schemas.ids import AgentId, SessionId


class Effect(Struct, frozen=True, gc=False):
    """Base of all effects."""


class Deliver(Effect, frozen=True, gc=False):
    """Publish *event* to ``out.<agent>.<session>.event.<type>``.

    With *answerable* its NATS reply subject is ``in.<agent>.reply.<event id>`` (a 503 comes back there, too).
    The shell stamps ``time``.
    """

    agent: AgentId
    session: SessionId
    event: bodies.Delivered
    answerable: bool = True


class Broadcast(Effect, frozen=True, gc=False):
    """Publish *event* to a shared subject: ``channel.<channel>.<type>``, or ``topic.<type>`` when channel is None."""

    channel: str | None
    event: bodies.Delivered


class SendOutcome(Effect, frozen=True, gc=False):
    """Publish *outcome* to *reply_to*, or to ``out.<agent>.<session>.outcome`` when that is None."""

    agent: AgentId
    session: SessionId
    outcome: bodies.Outcome
    reply_to: str | None = None


class Answer(Effect, frozen=True, gc=False):
    """Publish *body* (a Receipt, Welcome or Pulse) to a reply subject."""

    reply_to: str
    body: bodies.Receipt | bodies.Welcome | bodies.Pulse


class SendControl(Effect, frozen=True, gc=False):
    """Publish *body* to ``out.<agent>.<session>.control.<type>``."""

    agent: AgentId
    session: SessionId
    type: str
    body: (
        bodies.Confirm
        | bodies.Abandoned
        | bodies.Replaced
        | bodies.DeadlockDetected
        | bodies.BlockedBehind
        | resources.Lapsed
        | resources.ApprovalRequested
    )


class SendNotice(Effect, frozen=True, gc=False):
    """Publish *body* to ``notice.<type>`` for monitors."""

    type: str
    body: (
        bodies.DeadlockDetected
        | bodies.BlockedBehind
        | bodies.OverLimit
        | bodies.PoolsDiffer
        | resources.ApprovalRequested
    )


AnyEffect = Deliver | Broadcast | SendOutcome | Answer | SendControl | SendNotice
