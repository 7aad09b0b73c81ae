"""From an open message to the agents it is for: routed, queued, delivered, delivered again."""

from itertools import islice

from unknot_gateway.core import marks
from unknot_gateway.core.claims import Claims
from unknot_gateway.core.effects import Deliver
from unknot_gateway.core.reconcile import Reconcile
from unknot_gateway.core.records import Leg, Message, OpenWait, Pool, Session
from unknot_gateway.core.served import not_subscribed
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import ExecutionId, StrandId, matches
from unknot_schemas.limits import PROTOCOL


class Dispatch:
    """Decides where a leg goes now, and sends it there. It ends no message: what cannot be sent is returned."""

    def __init__(self, tables: Tables, reconcile: Reconcile, claims: Claims) -> None:
        self._t = tables
        self._reconcile = reconcile
        self._claims = claims

    def place(self, leg: Leg, now: float) -> bodies.Error | None:
        """Route *leg*: parked with its pool (ready), queued, or absent; an Error if it can go nowhere."""
        agent, message = leg.agent, leg.message
        admission = self._t.admission
        if self._reconcile.has_begun and self._claimed(leg) is not None:
            return None
        if self._t.is_reconciling:
            return self._place_later(leg)
        if agent.unplaced and leg.order > next(iter(agent.unplaced)):
            return self._postpone(leg)
        if not agent.sessions:
            return self._place_absent(leg, now)
        if message.source.resent and (fault := self._reconcile.fault(leg)) is not None:
            return fault
        route = agent.routes.get(message.type) or admission.route(agent, message.type)
        if not route:
            if all(session.draining for session in agent.sessions.values()):
                return self._place_absent(leg, now)
            return not_subscribed(agent, message.type)
        pool = admission.free_pool(route) or self._reentrant_pool(leg, route)
        if pool is not None:
            leg.state, leg.pool = "parked", pool
            return None
        if not admission.has_room(agent):
            return self._full(agent.id)
        admission.enqueue(leg, route)
        return None

    def deliver(self, leg: Leg, now: float) -> None:
        """Hand a parked leg to its pool's session: a slot is taken, the handler starts."""
        pool = leg.pool
        assert pool is not None
        pool.used += 1
        self._hand_over(leg, pool.session, pool, now)

    def deliver_expected(self, leg: Leg, expect: OpenWait, now: float) -> None:
        """Hand the event to the wait that expects it, and which has its event then: no slot is taken."""
        place = place_for(leg.message, expect)
        assert place is not None
        expect.taken.add(place)
        if all(
            at in expect.taken for at, condition in enumerate(expect.body.on) if condition.kind == "event"
        ):
            expect.session.agent.expects.pop(expect.id, None)
        self._hand_over(leg, expect.session, None, now, expected_by=expect)

    def expecting(self, message: Message, leg: Leg) -> OpenWait | None:
        """The open ``expect`` of the leg's agent that this event answers."""
        if self._t.is_reconciling or self._claimant(leg) is not None:
            return None
        return next(
            (wait for wait in leg.agent.expects.values() if place_for(message, wait) is not None), None
        )

    def queued_for(self, expect: OpenWait) -> Leg | None:
        """The oldest event in the queues of its agent that an ``expect`` just opened has been waiting for."""
        lanes = expect.session.agent.lanes.values()
        legs = [leg for lane in lanes for leg in islice(lane.legs.values(), self._t.limits.expect_search_max)]
        fitting = [leg for leg in legs if place_for(leg.message, expect) is not None]
        return min(fitting, key=lambda leg: leg.order) if fitting else None

    def free(self, leg: Leg, now: float, *, returned: bool = True) -> None:
        """The handler of *leg* has ended: its slot goes to the next in the queue. *returned*: surely."""
        session = leg.session
        if returned and session is not None and session in self._t.resources.ties.sessions:
            self._t.resources.ties.ended.append((session, ExecutionId(leg.message.id)))
        leg.state = "ended"
        if leg.by is not None:
            self._t.waiting.promise_over(leg)
        if leg.is_claim:
            self._claims.over(leg)
        if session is not None:
            session.held.pop(leg.message.id, None)
            session.unseen.pop(leg.number, None)
        self._handler_ended(leg, now)

    def own(self, leg: Leg) -> None:
        """What was delivered for an ``expect`` runs in an execution of its own: the event crossed the wait's end."""
        self._t.waiting.handler_ended(leg)
        leg.is_expected = False
        self._t.waiting.execution_of(leg)
        self._t.waiting.update(leg.message)

    def let_go(self, leg: Leg) -> None:
        """A one-way event for an ``expect`` is over with its delivery, which is repeated until it is confirmed."""
        assert leg.session is not None
        leg.session.held.pop(leg.message.id, None)
        leg.state = "ended"
        self._t.waiting.handler_ended(leg)

    def rehome(self, leg: Leg, pool: Pool | None) -> None:
        """The pools of its session have changed: what runs takes a slot of *pool* (None: of none) from now on."""
        if leg.pool is not None:
            leg.pool.used -= 1
            if leg.strand is not None:
                self._t.waiting.slot_freed(leg, leg.pool)
        leg.pool = pool
        if pool is not None:
            pool.used += 1
            if leg.strand is not None:
                self._t.waiting.slot_taken(leg, pool)

    def take_back(self, leg: Leg) -> None:
        """Undo the delivery of *leg* to a stand-in session: it is to be placed anew."""
        session, pool = leg.session, leg.pool
        assert session is not None
        del session.held[leg.message.id]
        if pool is not None:
            pool.used -= 1
        self._drop_timers(leg)
        self._t.deadlines.drop("window", leg.message.id)
        leg.session = leg.pool = leg.strand = leg.event = None
        leg.state = "absent"

    def defer(self, leg: Leg, by: str | None, now: float) -> None:
        """The handler has returned, the answer comes later: from execution *by*, or from outside."""
        session = leg.session
        assert session is not None
        leg.state = "deferred"
        if session in self._t.resources.ties.sessions:
            self._t.resources.ties.ended.append((session, ExecutionId(leg.message.id)))
        if by is not None:
            self._t.waiting.promised(leg, self._t.waiting.strand(session, ExecutionId(by)))
        self._t.waiting.update(leg.message)
        self._handler_ended(leg, now)

    def drain(self, pool: Pool, now: float) -> None:
        """Fill the free slots of *pool* from its queues."""
        while not self._t.is_reconciling and (leg := self._t.admission.next_for(pool)) is not None:
            leg.pool = pool
            self.deliver(leg, now)

    def withdraw(self, leg: Leg) -> None:
        """Take a leg that was never delivered out of all queues."""
        self._t.admission.withdraw(leg)
        self._drop_timers(leg)
        leg.state, leg.pool = "ended", None
        self._t.sessions.forget_if_gone(leg.agent)

    def repeat(self, leg: Leg) -> None:
        """Deliver again to the same session under the same number; its client knows what it had."""
        assert leg.session is not None
        self._t.count("redelivered")
        self._send(leg, leg.session, redelivered=True)

    def nobody_listened(self, leg: Leg, now: float) -> bool:
        """Take the server's hint for a delivered leg; False if the target counts as unreachable now."""
        session, message = leg.session, leg.message
        if session is None or leg.state not in ("running", "unheard"):
            return True
        retry_at = now + self._t.limits.hint_retry_s
        if session.said_hello:
            if retry_at <= min(leg.delivered_at + 2 * session.heartbeat_s, message.deadline_at):
                leg.has_timer = True
                self._t.deadlines.set("hint", (message.id, leg.agent.id), retry_at)
            return True
        leg.state = "unheard"
        message.was_delivered = False
        self._t.waiting.update(message)
        if retry_at > max(message.opened_at + patience_s(message), self._reconcile.expects_until):
            return False
        leg.has_timer = True
        self._t.deadlines.set("hint", (message.id, leg.agent.id), retry_at)
        return True

    def try_again(self, leg: Leg) -> None:
        """Publish once more what the server said nobody listened for."""
        if leg.session is None or leg.state not in ("running", "unheard"):
            return
        if leg.state == "unheard":
            leg.state = "running"
            leg.message.was_delivered = True
            self._t.waiting.update(leg.message)
        self._send(leg, leg.session, redelivered=leg.session.said_hello)

    def receipt(self, message: Message) -> None:
        """Give the Receipt that *message* still owes: it has been taken in."""
        if message.receipt_to is not None:
            timeout_s = message.deadline_at - message.opened_at
            self._t.receipt(message.receipt_to, bodies.Receipt(True, message.id, timeout_s=timeout_s))
            message.receipt_to = None

    # -- inside

    def _place_absent(self, leg: Leg, now: float) -> bodies.Error | None:
        agent, message = leg.agent, leg.message
        if message.id in message.source.resent:
            return self._place_resent(leg, now)
        if not agent.said_hello:
            leg.pool = self._t.zero(agent, now).pools[0]
            leg.state = "parked"
            return None
        until = message.opened_at + patience_s(message)
        if until <= now:
            return bodies.Error(
                errors.UNREACHABLE,
                f"agent {agent.id!r} has no live session: start it, or pass wait_for_target_s to wait for it",
            )
        if not self._t.admission.has_room(agent):
            return self._full(agent.id)
        self._t.admission.wait_for_agent(leg)
        leg.has_timer = True
        self._t.deadlines.set("patience", (message.id, agent.id), min(until, message.deadline_at))
        return None

    def _place_resent(self, leg: Leg, now: float) -> bodies.Error | None:
        """Who may have it from before the restart is not there yet: wait for as long as a session may be silent."""
        until = self._t.began_at + self._t.config.session_loss_s
        if until <= now:
            return self._reconcile.fault(leg)
        leg.has_timer = True
        self._t.deadlines.set("patience", (leg.message.id, leg.agent.id), min(until, leg.message.deadline_at))
        return self._place_later(leg)

    def _place_later(self, leg: Leg) -> bodies.Error | None:
        if not self._t.admission.has_room(leg.agent):
            return self._full(leg.agent.id)
        self._t.admission.wait_for_agent(leg)
        return None

    def _postpone(self, leg: Leg) -> bodies.Error | None:
        if not self._t.admission.has_room(leg.agent):
            return self._full(leg.agent.id)
        self._t.admission.postpone(leg)
        return None

    def _full(self, agent: str) -> bodies.Error:
        self._t.count("queue_full")
        return bodies.Error(
            errors.OVER_LIMIT,
            f"the queue of agent {agent!r} is full ({self._t.limits.queue_max}): try again later",
            {"retry_after_s": self._t.limits.retry_after_s},
        )

    def _claimed(self, leg: Leg) -> Session | None:
        """After an epoch change: the session that said it holds or has answered this request gets it, no other."""
        session = self._claimant(leg)
        if session is not None:
            leg.event = self._event(leg, None)
            claim = self._claims.adopt(leg, session)
            if claim == "deferred":
                self.defer(leg, None, leg.message.opened_at)
            elif claim == "answered":
                self.repeat(leg)
        return session

    def _claimant(self, leg: Leg) -> Session | None:
        return self._claims.claimant(leg) if self._reconcile.has_begun else None

    def _reentrant_pool(self, leg: Leg, route: tuple[Pool, ...]) -> Pool | None:
        for pool in route:
            if not pool.main and pool.session.is_reentrant and self._runs_in(leg.message, pool.session):
                return Pool(pool.session, None, None, main=False)
        return None

    def _runs_in(self, message: Message, session: Session) -> bool:
        chain: Message | None = message
        for _ in range(self._t.limits.depth_max + 1):
            if chain is None:
                return False
            if chain.source is session:
                return True
            chain = self.parent_of(chain)
        return False

    def parent_of(self, message: Message) -> Message | None:
        """The open request whose handler sent *message*."""
        execution = message.envelope.execution
        leg = message.source.held.get(execution) if execution is not None else None  # type: ignore[call-overload]
        return leg.message if leg is not None else None

    def _hand_over(
        self, leg: Leg, session: Session, pool: Pool | None, now: float, expected_by: OpenWait | None = None
    ) -> None:
        message = leg.message
        leg.session, leg.pool, leg.state, leg.delivered_at = session, pool, "running", now
        session.held[message.id] = leg
        if session.said_hello:
            session.delivered += 1
            leg.number = session.delivered
            session.unseen[leg.number] = leg
        if expected_by is None:
            if session.strands or pool is None or pool.main or pool.is_watched or not session.said_hello:
                self._t.waiting.started(leg, pool)  # else it is no node, and none is to be made of it
        else:
            body = expected_by.body
            strand = self._t.waiting.strand(
                session,
                ExecutionId(body.execution or "main"),
                StrandId(body.strand or ""),
                detached=body.detached,
            )
            self._t.waiting.expected(leg, strand)
        message.was_delivered = True
        if message.wait is not None or message.watchers:
            self._t.waiting.update(message)
        if leg.has_timer:
            self._drop_timers(leg)
        left_s = message.deadline_at - now
        deadline_in_s = None if message.verb == "send" else left_s if left_s > 0.0 else 0.0
        leg.event = event = self._event(leg, deadline_in_s, expected_by.id if expected_by else None)
        self._t.counters["delivered"] += 1
        if message.source.resent and message.id in message.source.resent:
            leg.may_be_known = True
        sent = redelivery_of(event) if leg.may_be_known else event
        self._t.out.append(Deliver(session.name, session.id, sent))
        if message.receipt_to is not None and session.said_hello:
            self.receipt(message)

    def _event(self, leg: Leg, deadline_in_s: float | None, for_: str | None = None) -> bodies.Delivered:
        message = leg.message
        envelope = message.envelope
        metadata = envelope.metadata
        if message.verb == "request":
            metadata = marks.BLOCKING_ONLY if metadata is None else marks.with_blocking(metadata)
        return bodies.Delivered(
            message.id,
            message.type,
            message.source.name,
            message.target,
            envelope.data,
            message.verb != "send",
            self._t.epoch,
            PROTOCOL,
            run=envelope.run,
            metadata=metadata,
            deadline_in_s=deadline_in_s,
            seq=leg.number or None,
            for_=for_,
            traceparent=envelope.traceparent,
            tracestate=envelope.tracestate,
        )

    def _send(self, leg: Leg, session: Session, *, redelivered: bool) -> None:
        event = leg.event
        assert event is not None
        if redelivered:
            event = redelivery_of(event)
        self._t.out.append(Deliver(session.name, session.id, event))

    def _drop_timers(self, leg: Leg) -> None:
        leg.has_timer = False
        self._t.deadlines.drop("patience", (leg.message.id, leg.agent.id))
        self._t.deadlines.drop("hint", (leg.message.id, leg.agent.id))

    def _handler_ended(self, leg: Leg, now: float) -> None:
        pool, leg.pool = leg.pool, None
        if pool is not None:
            pool.used -= 1
            if leg.strand is not None:
                self._t.waiting.slot_freed(leg, pool)
        if leg.strand is not None:
            self._t.waiting.handler_ended(leg)
        if pool is not None and pool.lanes and pool.session.live:
            self.drain(pool, now)


def place_for(message: Message, expect: OpenWait) -> int | None:
    """The condition of *expect*, by index, that waits for an event like *message*."""
    for at, condition in enumerate(expect.body.on):
        wanted = condition.kind == "event" and condition.source in (None, message.source.name)
        if wanted and at not in expect.taken and matches(condition.id, message.type):
            return at
    return None


def patience_s(message: Message) -> float:
    """How long *message* waits for its target to appear, in seconds."""
    asked = message.envelope.wait_for_target_s
    return asked if asked is not None and asked > 0 else 0.0


def redelivery_of(event: bodies.Delivered) -> bodies.Delivered:
    """The same event, marked as a copy."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return bodies.Delivered(**{**fields, "redelivered": True})
