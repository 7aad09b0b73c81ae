"""What is held of locks and permits, and what a wait for such things got."""

from typing import Literal

from msgspec import Raw

from unknot_schemas.base import Body


class ResourceUnits(Body, frozen=True):
    """So many units of a lock (it has one) or of a pool of permits."""

    id: str
    kind: Literal["lock", "permits"] = "lock"
    units: int = 1


class Hold(Body, frozen=True):
    """What a session holds: *id* of the wait by which it was granted, and its fencing token."""

    id: str
    token: int
    resources: list[ResourceUnits]
    execution: str | None = None
    strand: str | None = None
    detached: bool = False
    lease_s: float | None = None


class Fulfilled(Body, frozen=True):
    """What made a wait's need come true. *true*: conditions by index, *need* of them."""

    true: list[int]
    fencing_token: int | None = None
    lease_s: float | None = None
    artifacts: dict[str, Raw] = {}
    """Data of the artifacts among them."""
    decision: Literal["approved", "denied"] | None = None
