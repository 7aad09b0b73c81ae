"""Who gets what: places in queues are given out, and a wait whose need is reached is over, in one step."""

import msgspec

from unknot_gateway.core.openwaits import OpenWaits, need_of
from unknot_gateway.core.records import OpenWait
from unknot_gateway.core.resources.leases import Hold, lease_of
from unknot_gateway.core.resources.pools import Ask
from unknot_gateway.core.resources.resources import is_leased
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, holds
from unknot_schemas.bodies import OutcomeKind
from unknot_schemas.limits import DATA_BYTES_MAX


class Granting:
    """Ends waits by what they waited for."""

    def __init__(self, tables: Tables, openwaits: OpenWaits) -> None:
        self._t = tables
        self._openwaits = openwaits

    def run(self, now: float) -> bool:
        """Give out what is free, nothing while reconciling; False: a slice is over, and what is left stays touched."""
        resources = self._t.resources
        left = self._t.limits.grants_max
        while resources.is_touched and left > 0 and not self._t.is_reconciling:
            if not resources.touched:
                pool = next(iter(resources.pools.stirred))
                del resources.pools.stirred[pool]
                resources.touched.update((ask.wait, None) for ask in resources.pools.walk(pool))
                continue
            wait = next(iter(resources.touched))
            del resources.touched[wait]
            left -= self._look(wait, now)
        return left > 0

    def _look(self, wait: OpenWait, now: float) -> bool:
        """Whether *wait* is over: its need is reached, or can never be."""
        need = need_of(wait.body)
        if self._t.messages.waits.get(wait.id) is not wait:
            return False
        if len(wait.taken) >= need:
            self._fulfil(wait, now)
            return True
        if len(wait.body.on) - len(wait.spent) >= need:
            return False
        text = f"too few of what {wait.session.name!r} waited for can still come true"
        kind: OutcomeKind = "denied" if wait.denied is not None else "cancelled"
        self._openwaits.end(wait, kind, now, error=wait.denied or bodies.Error(errors.CANCELLED, text))
        return True

    def _fulfil(self, wait: OpenWait, now: float) -> None:
        """The need of *wait* is reached: of what is true the first are taken, its other places are given up."""
        body = wait.body
        true = sorted(wait.taken)[: need_of(body)]
        assert wait.wait is not None, "an open wait is in the graph"
        strand = wait.wait.strand
        parts = self._t.resources.pools.take(wait, true)
        strand.ties += bool(parts)  # its node must outlive the wait
        self._openwaits.finish(wait)
        hold = None
        if parts:
            leases = (lease_of(on.lease_s) for at in true if is_leased(on := body.on[at]))
            hold = self._t.resources.leases.grant(wait.id, strand, parts, min(leases), now)
            strand.ties -= 1
            self._note_passed_on(hold, now)
        kind, fulfilled = self._fulfilled(wait, true, hold)
        self._openwaits.tell(wait, kind, now, fulfilled=fulfilled)

    def _note_passed_on(self, hold: Hold, now: float) -> None:
        passed_on = self._t.resources.leases.passed_on
        if now <= self._t.began_at + self._t.limits.reconcile_s:
            passed_on.update(pool.key for pool, _ in hold.parts)
        else:
            passed_on.clear()  # nobody who held anything before this epoch comes back any more

    def _fulfilled(
        self, wait: OpenWait, true: list[int], hold: Hold | None
    ) -> tuple[OutcomeKind, holds.Fulfilled]:
        kinds = {wait.body.on[at].kind for at in true}
        is_approved = "approval" in kinds
        kind: OutcomeKind = "approved" if is_approved else "reply"
        if hold is not None or "artifact" in kinds:
            kind = "granted" if hold is not None else "produced"
        fulfilled = holds.Fulfilled(
            true,
            hold.token if hold is not None else None,
            hold.lease_s if hold is not None else None,
            _fitting(wait, true),
            "approved" if is_approved else None,
        )
        return kind, fulfilled

    # -- what can never be

    def refuse_over_capacity(self, asks: list[Ask], now: float) -> None:
        """A pool has become smaller than what these ask for."""
        for ask in asks:
            name = ask.pool.key[1]
            text = f"pool {name!r} has {ask.pool.capacity} permits now: {ask.units} can never be granted"
            self._openwaits.end(
                ask.wait, "refused", now, error=bodies.Error(errors.OVER_CAPACITY, text, {"pool": name})
            )

    def refuse_undeclared(self, now: float) -> None:
        """Reconciliation is over: a pool that nobody has declared again is unknown."""
        for pool in list(self._t.resources.pools.all()):
            if pool.is_declared:
                continue
            text = f"no pool {pool.key[1]!r} is declared: say pool.declare first"
            for ask in [*pool.places, *pool.queue]:
                self._openwaits.end(ask.wait, "refused", now, error=bodies.Error(errors.UNKNOWN_POOL, text))


def _fitting(wait: OpenWait, true: list[int]) -> dict[str, msgspec.Raw]:
    """Data of the artifacts, as far as one message can carry it; what is left out can be waited for alone."""
    found: dict[str, msgspec.Raw] = {}
    room = DATA_BYTES_MAX
    for at in true:
        name = wait.body.on[at].id
        data = (wait.got or {}).get(name) if wait.body.on[at].kind == "artifact" else None
        if data is not None and (size := memoryview(data).nbytes) <= room:
            found[name] = data
            room -= size
    return found
