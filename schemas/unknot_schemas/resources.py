"""Bodies of the verbs about locks, permits, artifacts, approvals, and of what is told about them."""

from typing import Literal

from msgspec import Raw, field

from unknot_schemas.base import NULL, Body, MaybeRaw
from unknot_schemas.bodies import CancelMode
from unknot_schemas.holds import ResourceUnits


class LockAcquire(Body, frozen=True):
    """Grant all of *resources* or none: a wait with need all. Outcome ``granted``."""

    id: str
    session: str
    resources: list[ResourceUnits]
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    run: str | None = None
    lease_s: float | None = None
    timeout_s: float | None = None
    cancel_mode: CancelMode = "interruptible"
    reason: str | None = None


class LockRenew(Body, frozen=True):
    """The lease of the hold *id* begins anew."""

    id: str
    token: int
    lease_s: float | None = None
    session: str | None = None


class LockRelease(Body, frozen=True):
    """What *id* holds is given back."""

    id: str
    token: int | None = None
    session: str | None = None


class LockCheck(Body, frozen=True):
    """Is *token* still the one of a live hold of *resource*? Asked by whoever writes under a lock."""

    resource: str
    token: int
    session: str | None = None


class PoolDeclare(Body, frozen=True):
    """There are *capacity* permits in the pool *id*; said again: so many from now on."""

    id: str
    capacity: int
    session: str | None = None


class ArtifactDeclare(Body, frozen=True):
    """This execution may produce the artifact *id*."""

    id: str
    session: str
    execution: str | None = None
    strand: str | None = None
    detached: bool = False


class ArtifactWithdraw(Body, frozen=True):
    """This execution will not produce it."""

    id: str
    session: str
    execution: str | None = None
    strand: str | None = None


class FencingToken(Body, frozen=True):
    """The token of a hold of *resource*."""

    resource: str
    token: int


class ArtifactPublish(Body, frozen=True):
    """The artifact *id* is there, for ever; with *token* only while that hold is live."""

    id: str
    session: str
    data: Raw = NULL
    token: FencingToken | None = None


class ArtifactForget(Body, frozen=True):
    """The artifact *id* may be produced anew."""

    id: str
    session: str | None = None


class ArtifactWait(Body, frozen=True):
    """Wait for one artifact: a wait with one condition. Outcome ``produced``."""

    id: str
    session: str
    artifact: str
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    run: str | None = None
    timeout_s: float | None = None
    cancel_mode: CancelMode = "interruptible"
    reason: str | None = None


class ApprovalRequest(Body, frozen=True):
    """Wait until *from* (``human:<name>`` or an agent) has decided. Outcome ``approved`` or ``denied``."""

    id: str
    session: str
    from_: str = field(name="from")
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    run: str | None = None
    timeout_s: float | None = None
    data: MaybeRaw = None
    reason: str | None = None


class ApprovalResolve(Body, frozen=True):
    """The decision on the approval *id*, by the agent that was asked."""

    id: str
    decision: Literal["approved", "denied"]
    reason: str | None = None
    session: str | None = None


class Holder(Body, frozen=True):
    """An execution of an agent; None: its main."""

    agent: str
    execution: str | None = None


class HolderSet(Body, frozen=True):
    """Who holds, or can produce or do, something outside: a report that waits without a lease rest on.

    *holder*: None: the sender's own *execution*. *until_s*: then it is forgotten.
    """

    session: str
    kind: Literal["lock", "permits", "artifact", "task"]
    id: str
    holder: Holder | None = None
    units: int = 1
    capacity: int | None = None
    until_s: float | None = None
    execution: str | None = None
    strand: str | None = None
    detached: bool = False


class HolderClear(Body, frozen=True):
    """It does not any more."""

    session: str
    kind: Literal["lock", "permits", "artifact", "task"]
    id: str
    holder: Holder | None = None
    execution: str | None = None
    strand: str | None = None


class Lapsed(Body, frozen=True):
    """Control ``lock.lapsed``: this is held no more; another may have it, with a higher token."""

    id: str
    resources: list[ResourceUnits]
    token: int


class ApprovalRequested(Body, frozen=True):
    """Control and notice ``approval.requested``: *by* waits for the decision of *from*."""

    id: str
    by: str
    from_: str = field(name="from")
    deadline_in_s: float
    data: MaybeRaw = None
    reason: str | None = None
    run: str | None = None
