"""What may be waited for beside requests, described: artifacts, locks and permits, decisions."""

from typing import Any, TypeVar

from unknot._asking import Waitable, bad_id
from unknot._leases import Lease
from unknot.errors import Refused
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import agent_id
from unknot_schemas.limits import CONDITION_ID_CHARS_MAX, LEASE_DEFAULT_S, UNITS_MAX

T_co = TypeVar("T_co", covariant=True)

HUMAN = "human:"


class Artifact(Waitable[T_co]):
    """An artifact, to be waited for: its data when it has been published."""

    __slots__ = ("id", "into")

    def __init__(self, id: str, *, into: Any = Any) -> None:
        self.id = thing(id)
        self.into = into

    def condition(self) -> bodies.WaitCondition:
        """As the wire says it."""
        return bodies.WaitCondition("artifact", self.id)


class Acquire(Waitable[Lease]):
    """A lock, or permits of a pool, to be acquired: the Lease when it is granted.

    *units*: so many permits of the pool; None: it is a lock. *lease*: seconds that it lasts from each renewal.
    """

    __slots__ = ("id", "lease", "units")

    def __init__(self, id: str, *, units: int | None = None, lease: float | None = None) -> None:
        if units is not None and not 1 <= units <= UNITS_MAX:
            raise Refused(f"1 to {UNITS_MAX} permits; got {units}", code=codes.BAD_UNITS, handled="no")
        self.id = thing(id)
        self.units = units
        self.lease = lease

    def condition(self) -> bodies.WaitCondition:
        """As the wire says it."""
        kind = "lock" if self.units is None else "permits"
        return bodies.WaitCondition(
            kind, self.id, units=self.units or 1, lease_s=self.lease or LEASE_DEFAULT_S
        )


class Decision(Waitable[bool]):
    """A decision, to be waited for: True when it is yes. *by*: an agent, or ``human:<name>``."""

    __slots__ = ("by", "data")

    def __init__(self, by: str, data: Any = None) -> None:
        named = by.removeprefix(HUMAN) if by.startswith(HUMAN) else agent_id(by)
        if not named:
            raise bad_id(f"{by!r} can decide nothing: name an agent, or human:<name>")
        self.by = f"{HUMAN}{named}" if by.startswith(HUMAN) else named
        self.data = data

    def condition(self) -> bodies.WaitCondition:
        """As the wire says it."""
        return bodies.WaitCondition("approval", self.by)


def thing(id: str) -> str:
    """*id*, if it can name a lock, a pool, an artifact or a task; Refused when not."""
    if not 1 <= len(id) <= CONDITION_ID_CHARS_MAX or not id.isprintable():
        raise bad_id(
            f"{id[:300]!r} cannot name a lock, pool, artifact or task: 1 to {CONDITION_ID_CHARS_MAX} printable"
            " characters"
        )
    return id
