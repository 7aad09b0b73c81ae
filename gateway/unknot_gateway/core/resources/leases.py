"""What is held of locks and permits: for the length of a lease, under a token that only grows."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import field

from unknot_gateway.core.deadlines import Deadlines
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Session, Strand
from unknot_gateway.core.resources.pools import LeasedPool, PoolKey, Pools
from unknot_gateway.core.resources.ties import Tie, Ties
from unknot_gateway.core.waiting import Waiting
from unknot_schemas import holds
from unknot_schemas.ids import EventId
from unknot_schemas.limits import LEASE_DEFAULT_S, LEASE_MAX_S, LEASE_MIN_S

_TOKEN_BITS: Final = 10
"""An epoch is a number of milliseconds: a million grants a second fit between two of them."""


class Hold(Tie, eq=False):
    """Units of pools that one strand holds until it releases them, its lease is over, or its execution ends."""

    id: EventId
    token: int
    lease_s: float
    lapses_at: float
    since: float
    parts: list[tuple[LeasedPool, int]] = field(default_factory=list)
    omitted: int = 0
    """Heartbeats in a row that do not name it."""

    @property
    def resources(self) -> list[holds.ResourceUnits]:
        """The parts as the wire names them."""
        return [holds.ResourceUnits(pool.key[1], pool.key[0], units) for pool, units in self.parts]  # type: ignore[arg-type]


class Leases:
    """Owner of all holds."""

    def __init__(
        self, epoch: int, limits: Limits, waiting: Waiting, deadlines: Deadlines, pools: Pools, ties: Ties
    ) -> None:
        self._limits = limits
        self._waiting = waiting
        self._deadlines = deadlines
        self._pools = pools
        self._ties = ties
        self.first_token = epoch << _TOKEN_BITS
        """No hold of this epoch has a lower one, none of an epoch before a higher one."""
        self._token = self.first_token
        self._holds: dict[EventId, Hold] = {}
        self._of_pool: dict[PoolKey, dict[EventId, Hold]] = {}
        self.passed_on: set[PoolKey] = set()
        """Locks granted in this epoch while those who held them before it might still come back."""

    def __len__(self) -> int:
        return len(self._holds)

    def all(self) -> Iterator[Hold]:
        """Every hold, oldest first."""
        yield from self._holds.values()

    def find(self, hold_id: str) -> Hold | None:
        """The hold that the wait *hold_id* was granted."""
        return self._holds.get(EventId(hold_id))

    def of_session(self, session: Session) -> list[Hold]:
        """All that *session* holds."""
        return [tie for tie in self._ties.of_session(session) if isinstance(tie, Hold)]

    def of_pool(self, key: PoolKey) -> list[Hold]:
        """Who holds something of that lock or pool, oldest first."""
        return list(self._of_pool.get(key, {}).values())

    def is_full(self) -> bool:
        """Whether nothing more may be held."""
        return len(self._holds) >= self._limits.holds_max

    def next_token(self) -> int:
        """Higher than all before, also those of earlier epochs."""
        self._token += 1
        return self._token

    def grant(
        self,
        hold_id: EventId,
        strand: Strand,
        parts: list[tuple[LeasedPool, int]],
        lease_s: float,
        now: float,
    ) -> Hold:
        """*strand* holds *parts*, which are counted as held already."""
        return self.enter(
            Hold(strand, hold_id, self.next_token(), lease_s, now + lease_s, now, parts),
        )

    def enter(self, hold: Hold) -> Hold:
        """Take *hold* in."""
        self._holds[hold.id] = hold
        self._ties.add(hold)
        for pool, units in hold.parts:
            self._of_pool.setdefault(pool.key, {})[hold.id] = hold
            self._waiting.graph.grant(pool.resource, hold.strand.node, units)
        self._waiting.is_touched = True
        self._deadlines.set("lease", hold.id, hold.lapses_at)
        return hold

    def renew(self, hold: Hold, lease_s: float, now: float) -> None:
        """Its lease begins anew."""
        hold.lease_s, hold.lapses_at = lease_s, now + lease_s
        self._deadlines.set("lease", hold.id, hold.lapses_at)

    def drop(self, hold: Hold) -> None:
        """It is held no more: others may have it."""
        del self._holds[hold.id]
        self._deadlines.drop("lease", hold.id)
        self._waiting.is_touched = True
        for pool, units in hold.parts:
            others = self._of_pool.get(pool.key, {})  # a hold may have two parts of one pool
            others.pop(hold.id, None)
            if not others:
                self._of_pool.pop(pool.key, None)
            self._waiting.graph.release(pool.resource, hold.strand.node, units)
            self._pools.give_back(pool, units)
        self._ties.drop(hold)

    def is_good(self, resource: str, token: int, kinds: Sequence[str] = ("lock", "permits")) -> bool:
        """Whether *token* is the one of a live hold of *resource*."""
        return any(
            hold.token == token for kind in kinds for hold in self._of_pool.get((kind, resource), {}).values()
        )


def lease_of(asked_s: float | None) -> float:
    """The lease that holds: within bounds, the default where none is named or it cannot be read."""
    if asked_s is None or math.isnan(asked_s) or asked_s <= 0:
        return LEASE_DEFAULT_S
    return min(max(asked_s, LEASE_MIN_S), LEASE_MAX_S)
