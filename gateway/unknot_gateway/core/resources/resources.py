"""All tables of resources, and the conditions of waits that rest on them."""

from collections.abc import Iterable
from typing import Final

from unknot_gateway.core.deadlines import Deadlines
from unknot_gateway.core.graph import OUTSIDE, Condition
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import OpenWait
from unknot_gateway.core.resources import holders
from unknot_gateway.core.resources.approvals import HUMAN, Approvals, approver
from unknot_gateway.core.resources.artifacts import Artifacts
from unknot_gateway.core.resources.holders import Holders
from unknot_gateway.core.resources.leases import Leases
from unknot_gateway.core.resources.pools import Pools
from unknot_gateway.core.resources.ties import Ties
from unknot_gateway.core.waiting import Waiting
from unknot_schemas import bodies, errors
from unknot_schemas.limits import UNITS_MAX

_LEASED: Final = ("lock", "permits")


class Resources:
    """Owner of locks, permits, artifacts, approvals and reports. *touched*: waits that may be over now."""

    def __init__(self, epoch: int, limits: Limits, waiting: Waiting, deadlines: Deadlines) -> None:
        self._limits = limits
        self._waiting = waiting
        self.ties = Ties(waiting)
        self.pools = Pools(limits, waiting)
        self.leases = Leases(epoch, limits, waiting, deadlines, self.pools, self.ties)
        self.artifacts = Artifacts(limits, waiting, self.ties)
        self.holders = Holders(limits, waiting, deadlines, self.artifacts, self.ties)
        self.approvals = Approvals()
        self.touched: dict[OpenWait, None] = {}
        self.stirs: tuple[object, ...] = (
            self.touched,
            self.pools.stirred,
            self.ties.ended,
            self.approvals.unshown,
        )
        """Where there is something, there is something to be done after this fact."""

    @property
    def is_touched(self) -> bool:
        """Whether a wait may be over, or a place in a queue may be free."""
        return bool(self.touched or self.pools.stirred)

    @property
    def is_stirred(self) -> bool:
        """Whether there is anything to be done after this fact."""
        return any(self.stirs)

    # -- waits

    def fault(self, body: bodies.WaitOpen, *, is_reconciling: bool) -> bodies.Error | None:
        """Why *body* cannot be waited for; None if it can. While reconciling, pools may still be declared again."""
        if self.leases.find(body.id) is not None:
            return bodies.Error(errors.ID_CONFLICT, f"id {body.id!r} names what is held; take a new id")
        asked: dict[tuple[str, str], int] = {}
        for condition in body.on:
            fault = self._units_fault(condition)
            if fault is None and is_leased(condition):
                key = (condition.kind, condition.id)
                all_needed = body.need in ("all", len(body.on))
                asked[key] = condition.units + (asked.get(key, 0) if all_needed else 0)
                fault = self._pool_fault(key, asked[key], is_reconciling)
            elif condition.kind == "approval":
                fault = self._approval_fault(condition)
            if fault is not None:
                return fault
        return self._fullness(body)

    def _fullness(self, body: bodies.WaitOpen) -> bodies.Error | None:
        asks = sum(is_leased(condition) for condition in body.on)
        if asks and (self.leases.is_full() or self.pools.asks + asks > self._limits.asks_max):
            return self._over_limit("too much is held, or waited for")
        decisions = sum(condition.kind == "approval" for condition in body.on)
        if decisions and self.approvals.decisions + decisions > self._limits.approvals_max:
            return self._over_limit("too many approvals are waited for")
        return None

    def _units_fault(self, condition: bodies.WaitCondition) -> bodies.Error | None:
        if condition.kind not in _LEASED or 1 <= condition.units <= UNITS_MAX:
            return None
        text = f"{condition.kind} {condition.id!r}: units are 1 to {UNITS_MAX}"
        return bodies.Error(errors.BAD_UNITS, text)

    def _pool_fault(self, key: tuple[str, str], in_all: int, is_reconciling: bool) -> bodies.Error | None:
        kind, name = key
        if not name:
            return bodies.Error(errors.BAD_UNITS, f"{kind}: what is to be granted has a name")
        pool = self.pools.find(key)
        if kind == "permits" and (pool is None or not pool.is_declared):
            text = f"no pool {name!r} is declared: say pool.declare first"
            return None if is_reconciling else bodies.Error(errors.UNKNOWN_POOL, text)
        capacity = pool.capacity if pool is not None else 1
        if in_all > capacity:
            text = f"{kind} {name!r} has {capacity} in all: {in_all} can never be granted"
            return bodies.Error(errors.OVER_CAPACITY, text)
        return None

    def _approval_fault(self, condition: bodies.WaitCondition) -> bodies.Error | None:
        if approver(condition) is None and not condition.id.removeprefix(HUMAN):
            return bodies.Error(errors.BAD_ID, "an approval comes from human:<name> or from an agent")
        if not condition.id.startswith(HUMAN) and approver(condition) is None:
            return bodies.Error(errors.BAD_ID, f"{condition.id[:80]!r} is neither human:<name> nor an agent")
        return None

    def _over_limit(self, what: str) -> bodies.Error:
        detail: dict[str, object] = {"retry_after_s": self._limits.retry_after_s}
        return bodies.Error(errors.OVER_LIMIT, f"{what}; try again later", detail)

    def enter(self, wait: OpenWait, index: int, condition: bodies.WaitCondition) -> Condition:
        """Condition *index* of *wait* as the graph sees it: outside, unless something here says more."""
        if is_leased(condition):
            return self.pools.enter(wait, index, condition)
        if condition.kind == "artifact":
            entered = self.artifacts.enter(wait, index, condition.id)
            if index in wait.taken:
                self.touched[wait] = None
            return entered
        if condition.kind in holders.KINDS:
            return self.holders.enter(condition)
        if condition.kind == "approval":
            self.approvals.enter(wait, condition)
        return OUTSIDE

    def leave(self, wait: OpenWait) -> None:
        """*wait* is over."""
        self.touched.pop(wait, None)
        self.pools.leave(wait)
        for condition in wait.body.on:
            if condition.kind == "artifact":
                self.artifacts.leave(wait, condition.id)
            elif condition.kind == "approval":
                self.approvals.leave(wait, condition)
            elif condition.kind in holders.KINDS and not is_leased(condition):
                self.holders.leave(condition)

    def replied(self, watchers: Iterable[tuple[OpenWait, int]], *, answered: bool) -> None:
        """A request whose answer is a condition of these waits has ended: true for ever, or spent."""
        for wait, index in watchers:
            if wait.is_ended_here:
                if answered:
                    wait.taken.add(index)
                else:
                    wait.spent |= {index}
                self.touched[wait] = None

    def is_reported(self, condition: bodies.WaitCondition) -> bool:
        """Whether an edge of such a condition rests on what only agents told."""
        if condition.kind == "artifact":
            return self.holders.is_reported(condition.id)
        return condition.kind not in ("reply", "event", "approval") and not is_leased(condition)

    def revision(self, condition: bodies.WaitCondition) -> int:
        """Of what is reported for such a condition; 0: nothing is."""
        thing = self.holders.find((condition.kind, condition.id)) if not is_leased(condition) else None
        return thing.revision if thing is not None else 0


def is_leased(condition: bodies.WaitCondition) -> bool:
    """Whether the gateway grants it."""
    return condition.lease_s is not None and condition.kind in _LEASED


def is_ended_here(body: bodies.WaitOpen) -> bool:
    """Whether the gateway says when the wait is over; else its client knows."""
    return any(is_leased(each) or each.kind in ("artifact", "approval") for each in body.on)
