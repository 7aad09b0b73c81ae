"""What must be so: nobody is stuck for long, nothing is lost on its way, no wait fails without a reason."""

from typing import TYPE_CHECKING

from tests.sim.nodes import Children, Decision, Living, Place, Request, Thing, Waits, Want, text
from tests.sim.view import is_sure
from unknot import (
    Cancelled,
    DeadlockDetected,
    HandlerFailed,
    LeaseLost,
    Refused,
    ResponderLost,
    Unreachable,
    WaitExpired,
    WaitFailed,
)
from unknot_schemas import errors as codes

if TYPE_CHECKING:
    from tests.sim.truth import Truth

MISSED_S = 3.0
"""A set that is stuck for longer, with nothing broken meanwhile, and untold, was missed."""
REPORTED_BEATS = 3
"""What rests on reports is told so many heartbeats later."""
GRANTED_S = 1.0
"""A wait for which all was there for longer, with nothing broken meanwhile, has been forgotten."""
LOST_S = 2.0
"""An answer given so long ago, with nothing broken meanwhile, that still has not arrived, was lost."""
NOBODYS_FAULT = (Unreachable, ResponderLost, Cancelled)
"""How no wait fails where nothing breaks."""


class Laws:
    """Accuses whoever breaks one."""

    def __init__(self, truth: "Truth", heartbeat_s: float) -> None:
        self._truth = truth
        self._heartbeat_s = heartbeat_s

    # -- how waits end

    def failed(self, why: WaitFailed) -> None:
        """A wait has failed, as its waiter sees it."""
        self._truth.figures[f"failed {type(why).__name__}"] += 1

    def judge(self, why: WaitFailed, wait: Waits | Children | None) -> None:
        """Accuse whoever lets a wait fail without a reason, or after its answers were given."""
        assert isinstance(wait, Waits)
        who = wait.name or wait.requests[0].nonce
        if isinstance(why, HandlerFailed):
            if why.code == codes.HANDLER_FAILED and not any(each.has_failed for each in wait.requests):
                self._truth.accuse(f"{who}: no handler has failed, but {why!r}")
            return
        if isinstance(why, DeadlockDetected):
            return
        if isinstance(why, Refused) and why.code == codes.UNKNOWN_POOL and self._truth.is_calm:
            self._truth.accuse(f"{who}: {why!r}, though its pool was declared")
        # When one has failed the rest may be of no use.
        has_failed = any(each.ended is False and not each.is_withdrawn for each in wait.requests)
        if self._truth.is_calm and isinstance(why, NOBODYS_FAULT) and not has_failed:
            self._truth.accuse(f"{who}: {why!r}, though nothing has broken")
        given = sorted(each.answered_at for each in wait.requests if each.answered and _is_kept(each))
        if len(given) < wait.need or not isinstance(why, (WaitExpired, *NOBODYS_FAULT)):
            return
        late_s = self._truth.clock() - max(given[wait.need - 1], self._truth.quiet_since)
        if late_s > LOST_S:
            self._truth.accuse(f"{who}: an answer was given {late_s:.1f} s ago and is lost: {why!r}")

    def lease_lost(self, life: Living, why: LeaseLost, lease_s: float, lapsed_at: float) -> None:
        """A lease was over before its holder gave it back: somebody has not been heard for all its time."""
        self._truth.figures["leases lost"] += 1
        now = self._truth.clock()
        began = min(now, lapsed_at) - lease_s
        was_quiet = self._truth.is_calm or began - self._truth.quiet_since > LOST_S
        if was_quiet and life.alive and is_sure(life, now):
            self._truth.accuse(f"{life.key} has lost a lease, though nothing has broken: {why!r}")

    # -- who is stuck

    def look(self) -> None:
        """Accuse whoever has been stuck for too long since all was quiet, and not only behind who just got stuck."""
        now = self._truth.clock()
        stuck = self._truth.stuck()
        for node in self._truth.nodes():
            if node not in stuck:
                node.since = None
            elif node.since is None:
                node.since = now
        is_reported = any(isinstance(node.wait, Waits) and node.wait.is_reported for node in stuck)
        patience_s = MISSED_S + REPORTED_BEATS * self._heartbeat_s * is_reported
        old = {node for node in stuck if now - max(node.since or now, self._truth.quiet_since) > patience_s}
        missed = self._truth.stuck(old) if old else old
        for node in [node for node in self._truth.nodes() if node in missed]:
            node.since = float("inf")  # once
            self._truth.accuse(f"missed: {node.life.key} is stuck behind {text(node.wait)}")

    def look_at_deliveries(self) -> None:
        """Accuse the gateway of a request that has begun nowhere, though its agent has had free slots since long."""
        now = self._truth.clock()
        for node in self._truth.nodes():
            for request in node.wait.requests if isinstance(node.wait, Waits) else ():
                if request.ended is not None or request.executions or not self._could_begin(request):
                    request.idle_since = None
                elif request.idle_since is None:
                    request.idle_since = now
                elif now - max(request.idle_since, self._truth.quiet_since) > MISSED_S:
                    request.idle_since = float("inf")  # once
                    self._truth.accuse(
                        f"{request.nonce} is not delivered, though {request.target} has free slots"
                    )

    def _could_begin(self, request: Request) -> bool:
        lives = self._truth.lives.get(request.target, [])
        free = [
            life
            for life in lives
            if life.main is None
            and len(self._truth.holders(life, pool := life.pool_of(request.type))) < life.slots(pool)
        ]
        return bool(free) and all(is_sure(life, self._truth.clock()) for life in lives)

    # -- who should have got what it waits for

    def look_at_grants(self) -> None:
        """Accuse the gateway of a wait that it has not ended, though all that it needs is there since long."""
        now = self._truth.clock()
        for node in self._truth.nodes():
            wait = node.wait
            if not isinstance(wait, Waits) or not wait.things or wait.arrived is None:
                continue
            is_there = not wait.is_settled and is_sure(node.life, now) and self._is_there(wait)
            if not is_there:
                wait.idle_since = None
            elif wait.idle_since is None:
                wait.idle_since = now
            elif now - max(wait.idle_since, self._truth.quiet_since) > GRANTED_S:
                wait.idle_since = float("inf")  # once
                self._truth.accuse(f"{wait.name} waits still, though all is there: {text(wait)}")

    def _is_there(self, wait: Waits) -> bool:
        there = sum(request.ended is True for request in wait.requests)
        places = [each for each in wait.things if isinstance(each, Place)]
        there += sum(self._has(thing) for thing in wait.things if not isinstance(thing, Place))
        if there + len(places) < wait.need:  # places take long to look at
            return False
        return there + sum(self._has_place(wait, place) for place in places) >= wait.need

    def _has(self, thing: Thing) -> bool:
        match thing:
            case Want():
                return self._truth.things.is_there(thing.name)
            case Decision():
                return thing.given is True and self._truth.is_calm  # else it may be lost with whoever decided
            case _:
                return False

    def _has_place(self, wait: Waits, place: Place) -> bool:
        """Whether what is held, and what those ahead ask for, leaves room for it."""
        capacity = self._truth.things.capacity(place.key)
        if capacity is None:
            return False
        capacity -= sum(held.parts[place.key] for held in self._truth.things.held(place.key))
        capacity -= sum(grant.parts.get(place.key, 0) for grant in self._truth.wire.granted.values())
        for other, units in self._truth.queue(place.key):
            capacity -= units
            if capacity < 0:
                return False
            if other is wait:
                return True
        return False


def _is_kept(request: Request) -> bool:
    """Whether whoever has answered it still says so."""
    if request.answered_by is None:
        return False
    life, token = request.answered_by
    return life.alive and life.token() == token
