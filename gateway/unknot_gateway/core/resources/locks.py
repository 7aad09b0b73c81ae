"""Verbs about locks and permits, the end of leases, and what sessions name as held."""

from collections.abc import Sequence

from unknot_gateway.core.effects import SendControl
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.records import Session
from unknot_gateway.core.resources.granting import Granting
from unknot_gateway.core.resources.leases import Hold, lease_of
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, holds, limits, resources
from unknot_schemas.ids import MAIN, AgentId, EventId, ExecutionId, StrandId
from unknot_schemas.limits import LEASE_DEFAULT_S, UNITS_MAX
from unknot_schemas.subjects import CONTROL_LAPSED


class Locks:
    """What agents do with locks and permits; grants themselves are made in `Granting`."""

    def __init__(self, tables: Tables, openwaits: OpenWaits, granting: Granting) -> None:
        self._t = tables
        self._openwaits = openwaits
        self._granting = granting
        self._leases = tables.resources.leases
        self._pools = tables.resources.pools

    def acquire(
        self, session: Session, body: resources.LockAcquire, reply_to: str | None, now: float
    ) -> None:
        """Wait for all of them."""
        lease_s = body.lease_s if body.lease_s is not None else LEASE_DEFAULT_S
        wait = bodies.WaitOpen(
            body.id,
            body.session,
            [bodies.WaitCondition(on.kind, on.id, on.units, lease_s=lease_s) for on in body.resources],
            execution=body.execution,
            strand=body.strand,
            detached=body.detached,
            run=body.run,
            timeout_s=body.timeout_s,
            cancel_mode=body.cancel_mode,
            reason=body.reason,
        )
        self._openwaits.open(session, wait, reply_to, now)

    def declare(self, body: resources.PoolDeclare, reply_to: str | None, now: float) -> None:
        """So many permits are there from now on."""
        if not 0 <= body.capacity <= UNITS_MAX:
            text = f"pool {body.id!r}: a capacity is 0 to {UNITS_MAX}"
            self._t.refuse(reply_to, body.id, errors.BAD_UNITS, text)
        elif not self._pools.has_room(body.id):
            self._t.over_limit(reply_to, body.id, "too many pools are declared")
        else:
            self._granting.refuse_over_capacity(self._pools.declare(body.id, body.capacity), now)
            self._t.receipt(reply_to, bodies.Receipt(True, body.id))

    def renew(self, agent: AgentId, body: resources.LockRenew, reply_to: str | None, now: float) -> None:
        """The lease begins anew, unless it is over or somebody else's."""
        hold = self._own(agent, body.id, body.token, reply_to)
        if hold is not None and not hold.strand.session.live:
            text = f"the session that holds {body.id!r} has ended: its lease runs out"
            self._t.refuse(reply_to, body.id, errors.NOT_HELD, text)
        elif hold is not None:
            self._leases.renew(
                hold, lease_of(body.lease_s if body.lease_s is not None else hold.lease_s), now
            )
            self._t.receipt(reply_to, bodies.Receipt(True, body.id, lease_s=hold.lease_s))

    def release(self, agent: AgentId, body: resources.LockRelease, reply_to: str | None) -> None:
        """Others may have it."""
        hold = self._own(agent, body.id, body.token, reply_to)
        if hold is not None:
            self._leases.drop(hold)
            self._t.receipt(reply_to, bodies.Receipt(True, body.id))

    def check(self, body: resources.LockCheck, reply_to: str | None) -> None:
        """Is this token still good?"""
        if self._leases.is_good(body.resource, body.token):
            self._t.receipt(reply_to, bodies.Receipt(True))
        else:
            self.refuse_token(reply_to, None, body.resource, body.token)

    def refuse_token(self, reply_to: str | None, body_id: str | None, resource: str, token: int) -> None:
        """Whoever says that token holds nothing (any more)."""
        text = f"token {token} holds nothing of {resource!r} (any more): nothing was done"
        self._t.refuse(reply_to, body_id, errors.STALE_TOKEN, text)

    def closes(
        self, session: Session, wait_id: str, reply_to: str | None, generation: int | None = None
    ) -> bool:
        """Whether the end of wait *wait_id* has crossed its grant: then it is a release, unless of an older one."""
        hold = self._leases.find(wait_id)
        is_older = generation is not None and generation < session.void.get(wait_id, 0)
        if hold is None or hold.strand.session is not session or is_older:
            return False
        self._t.count("grants.crossed")
        self._leases.drop(hold)
        self._t.receipt(reply_to, bodies.Receipt(True, wait_id))
        return True

    def _own(self, agent: AgentId, hold_id: str, token: int | None, reply_to: str | None) -> Hold | None:
        hold = self._leases.find(hold_id)
        if hold is None or hold.strand.session.name != agent:
            text = f"{hold_id!r} holds nothing (any more): its lease is over, or it was released"
            self._t.refuse(reply_to, hold_id, errors.NOT_HELD, text)
        elif token is not None and token != hold.token:
            text = f"{hold_id!r} is held under another token"
            self._t.refuse(reply_to, hold_id, errors.STALE_TOKEN, text)
        else:
            return hold
        return None

    # -- the end of leases

    def lapse(self, hold_id: EventId) -> None:
        """The lease is over."""
        hold = self._leases.find(hold_id)
        if hold is not None:
            self._t.count("leases.lapsed")
            self.take_away(hold)

    def take_away(self, hold: Hold) -> None:
        """It is held no more, and whoever held it is told."""
        self._leases.drop(hold)
        self._openwaits.ungrant(hold.id)
        self._tell(hold.strand.session, holds.Hold(hold.id, hold.token, hold.resources))

    def _tell(self, session: Session, named: holds.Hold) -> None:
        if session.live:
            body = resources.Lapsed(named.id, named.resources, named.token)
            self._t.out.append(SendControl(session.name, session.id, CONTROL_LAPSED, body))

    # -- what sessions name

    def compare(
        self, session: Session, named: Sequence[holds.Hold] | None, open_ids: list[str], now: float
    ) -> list[str]:
        """What a heartbeat names as held: the ids that are none; what two of them omit is released."""
        if named is None:
            return []
        unknown = [hold.id for hold in named if not self._is_known(session, hold, now)]
        if len(named) >= limits.NAMED_IDS_MAX:
            return unknown
        names = {hold.id for hold in named}.union(open_ids)
        for hold in self._leases.of_session(session):
            if hold.id in names or hold.since > now - 2 * session.heartbeat_s:
                hold.omitted = 0
                continue
            hold.omitted += 1
            if hold.omitted >= 2:
                self._t.count("dropped.not_named")
                self._leases.drop(hold)
        return unknown

    def _is_known(self, session: Session, named: holds.Hold, now: float) -> bool:
        hold = self._leases.find(named.id)
        if hold is not None and hold.strand.session is session:
            return hold.token == named.token
        return hold is None and self._reenter(session, named, now)

    def resumed(self, session: Session, named: Sequence[holds.Hold], now: float) -> None:
        """*session* lived before this epoch, and says what it holds."""
        for hold in named:
            if not self._is_known(session, hold, now):
                self._tell(session, hold)

    def _reenter(self, session: Session, named: holds.Hold, now: float) -> bool:
        """Take in what was granted before this epoch; False if it is too late, or another has a higher token."""
        is_old = named.token < self._leases.first_token
        in_time = self._t.is_reconciling or now <= self._t.began_at + self._t.limits.reconcile_s
        if not (is_old and in_time and session.resumed) or self._leases.is_full():
            return False
        if any(part.units > UNITS_MAX for part in named.resources):
            return False
        wait = self._t.messages.waits.get(EventId(named.id))
        if (wait is not None and wait.session is not session) or not self._outdoes(named):
            return False
        if wait is not None:  # sent again before its client heard of the grant, and over with it
            self._openwaits.close(session, bodies.WaitClose(named.id), None, now)
        parts = [(self._pools.need((part.kind, part.id)), max(part.units, 1)) for part in named.resources]
        for pool, units in parts:
            self._pools.held_again(pool, units)
        strand = self._t.waiting.strand(
            session,
            ExecutionId(named.execution or MAIN),
            StrandId(named.strand or ""),
            detached=named.detached,
        )
        lease_s = lease_of(named.lease_s)
        self._leases.enter(Hold(strand, EventId(named.id), named.token, lease_s, now + lease_s, now, parts))
        self._t.count("leases.resumed")
        return True

    def _outdoes(self, named: holds.Hold) -> bool:
        """Whether nobody has, or has had, a lock of *named* under a higher token; who has a lower one has none now."""
        if any(
            part.kind == "lock" and (part.kind, part.id) in self._leases.passed_on for part in named.resources
        ):
            return False
        others = {
            hold.id: hold
            for part in named.resources
            if part.kind == "lock"
            for hold in self._leases.of_pool((part.kind, part.id))
        }
        if any(other.token > named.token for other in others.values()):
            return False
        for other in others.values():
            self._t.count("leases.outdone")
            self.take_away(other)
        return True
