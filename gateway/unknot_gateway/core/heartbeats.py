"""What sessions name in heartbeats is compared with what is known here: that cures every loss."""

from unknot_gateway.core.claims import Claims
from unknot_gateway.core.dispatch import Dispatch
from unknot_gateway.core.effects import Answer, SendControl
from unknot_gateway.core.intake import Intake
from unknot_gateway.core.messages import forgotten
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.reconcile import Reconcile
from unknot_gateway.core.records import Leg, Message, Session
from unknot_gateway.core.resources.door import Door
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, limits
from unknot_schemas.ids import AgentId, EventId
from unknot_schemas.subjects import CONTROL_ABANDONED


class Heartbeats:
    """Waits, deliveries and held events, each compared in its own way."""

    def __init__(
        self,
        tables: Tables,
        dispatch: Dispatch,
        settle: Settle,
        intake: Intake,
        openwaits: OpenWaits,
        reconcile: Reconcile,
        claims: Claims,
        resources: Door,
    ) -> None:
        self._t = tables
        self._dispatch = dispatch
        self._settle = settle
        self._intake = intake
        self._openwaits = openwaits
        self._reconcile = reconcile
        self._claims = claims
        self._resources = resources

    def heartbeat(
        self, name: AgentId, beat: bodies.Heartbeat, reply_to: str | None, now: float
    ) -> Session | None:
        """Compare what the session names with what is known here; the session, or None if it is not live."""
        session = self._t.sessions.find(name, beat.session)
        if session is None:
            if self._t.sessions.is_used(beat.session):
                text = f"this session of {name!r} has ended: say hello with a new token"
                self._t.refuse(reply_to, None, errors.STALE_SESSION, text)
            else:
                text = f"session of {name!r} is not known here: say hello with resume: true"
                self._t.refuse(reply_to, None, errors.UNKNOWN_SESSION, text)
            return None
        session.heard_at = now
        session.beats += 1
        self._t.connections.heard(session, beat.connection, now)
        self._reconcile.heard(session)
        self._compare_deliveries(session, beat.seen, now)
        unknown = self._compare_open(session, beat.open, now)
        not_held = self._compare_held(session, beat.held, now)
        holds = self._resources.locks.compare(session, beat.holds, beat.open, now)
        if reply_to is not None:
            self._t.out.append(Answer(reply_to, bodies.Pulse(True, self._t.epoch, unknown, not_held, holds)))
        return session

    def _compare_deliveries(self, session: Session, seen: int, now: float) -> None:
        """What a heartbeat confirms has arrived; what is older than one interval and unconfirmed is sent again."""
        for number in [number for number in session.unseen if number <= seen]:
            del session.unseen[number]
        for leg in list(session.unseen.values()):
            if leg.state == "ended" and leg.delivered_at + 4 * session.heartbeat_s <= now:
                del session.unseen[leg.number]  # it is over, and its session confirms nothing
            elif leg.delivered_at + session.heartbeat_s <= now:
                self._dispatch.repeat(leg)

    def _compare_open(self, session: Session, named: list[str], now: float) -> list[str]:
        unknown: list[str] = []
        for event_id in named:
            if event_id in session.open:
                continue
            tombstone = self._t.messages.closed(EventId(event_id))
            if tombstone is None:
                unknown.append(event_id)
            elif tombstone.outcome is not None:
                self._openwaits.repeat(session, tombstone, now)
            elif tombstone.blocks:
                self._t.outcome(session, forgotten(event_id, self._t.epoch), None)
        if len(named) >= limits.NAMED_IDS_MAX:
            return unknown
        names, old = frozenset(named), now - 2 * session.heartbeat_s
        for item in list(session.open.values()):
            if item.opened_at > old or item.id in names or (isinstance(item, Message) and item.reply_to):
                item.omitted = 0
            else:
                item.omitted += 1
                if item.omitted >= 2:
                    self._drop(item, now)
        return unknown

    def _drop(self, item: object, now: float) -> None:
        self._t.count("dropped.not_named")
        why = "its session names it no more"
        if isinstance(item, Message):
            self._settle.cancel(item, now, why)
        else:
            self._openwaits.end(item, "cancelled", now)  # type: ignore[arg-type]

    def _compare_held(self, session: Session, named: list[bodies.Held], now: float) -> list[str]:
        states = {held.id: held.state for held in named}
        if session.resumed:
            self._claim_late(session, named, now)
        known = session.held.keys() | session.claims.keys()
        not_held = [event_id for event_id in states if event_id not in known]
        complete = len(named) < limits.NAMED_IDS_MAX
        old = now - 2 * session.heartbeat_s
        for leg in list(session.held.values()):
            state = states.get(leg.message.id)
            if state is not None:
                leg.omitted = 0
                leg.message.reported_running = True
                self._settle.reported(session, leg.message.id, state, now)
                if leg.is_claim and leg.delivered_at + self._t.config.session_loss_s <= now:
                    self._abandon(session, leg)
            elif complete and leg.delivered_at <= old and leg.number not in session.unseen:
                self._omitted(session, leg, now)
        return not_held

    def _abandon(self, session: Session, leg: Leg) -> None:
        """Who may have asked for what runs from before this epoch has had the time to ask again: say that nobody waits.

        At every heartbeat that names it: this, too, may be lost.
        """
        body = bodies.Abandoned(leg.message.id, "cancelled")
        self._t.out.append(SendControl(session.name, session.id, CONTROL_ABANDONED, body))

    def _claim_late(self, session: Session, named: list[bodies.Held], now: float) -> None:
        """What the gateway before had sent off when its sessions resumed is claimed by the first heartbeat with it."""
        unknown = [
            held
            for held in named
            if held.id not in session.held
            and self._t.messages.closed(EventId(held.id)) is None
            and ((leg := self._leg(session, EventId(held.id))) is None or leg.session is None)
        ]
        self._claims.heard(session, unknown, now)
        self.give_claimed(session, [EventId(held.id) for held in unknown], now)

    def give_claimed(self, session: Session, claimed: list[EventId], now: float) -> None:
        """What was sent again before *session* claimed it, and nobody has got yet, is its own."""
        for event_id in claimed:
            leg = self._leg(session, event_id)
            if leg is not None and leg.session is None:
                self._t.admission.withdraw(leg)
                self._intake.place_again(leg, now)

    def _leg(self, session: Session, event_id: EventId) -> Leg | None:
        message = self._t.messages.open.get(event_id)
        legs = message.legs if message is not None else ()
        return next((leg for leg in legs if leg.agent is session.agent and not leg.ended), None)

    def _omitted(self, session: Session, leg: Leg, now: float) -> None:
        """Two heartbeats omit what was delivered: an answer may have been lost and is asked for, else it is over."""
        if leg.state == "deferred" and leg.message.envelope.accept_uncorrelated is not None:
            return  # its session has done with it; what answers it is an event
        leg.omitted += 1
        if leg.omitted < 2:
            return
        leg.omitted = 0
        may_be_answered = leg.message.is_open and not leg.ended and leg.message.verb != "send"
        if may_be_answered and leg.asked_again < self._t.limits.asks_again_max:
            leg.asked_again += 1
            leg.delivered_at = now  # heartbeats that were sent before say nothing of this one
            self._dispatch.repeat(leg)
            return
        self._t.count("slots.recovered")
        if leg.state == "deferred":
            self._settle.lose(leg, now, "its session names it no more")
        else:
            self._settle.done(session, leg.message.id, now)
