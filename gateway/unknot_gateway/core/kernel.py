"""The one door: from fact to table, effects gathered.

Read here first; everything else hangs from it. A fact and the instant go in, effects come out, in order. Nobody else
changes the tables, and nothing here waits, sends, draws or reads a clock. The rooms behind the door:

    intake      what agents send: checked, entered before anything is sent   dispatch  routed, queued, delivered
    settle      how messages end, each request in exactly one Outcome        groups    requests that are one wait
    reception   who lives                                                    openwaits waits that agents open themselves
    backlog     what is too much for one fact, done between messages
    connections whose connection to the server has ended
    heartbeats  what sessions name, compared with what is known here
    waiting     from records to the graph of who waits for what              graph/    the exact engine
    reconcile   after an epoch change: what sessions still know              claims    what they held before it
    detector    suspicion, probe, verdict                                    policy    who fails, what would help
"""

from itertools import islice
from typing import Final, assert_never

from unknot_gateway.core.backlog import Backlog
from unknot_gateway.core.claims import Claims
from unknot_gateway.core.deadlines import Due
from unknot_gateway.core.detector import Detector
from unknot_gateway.core.dispatch import Dispatch
from unknot_gateway.core.effects import AnyEffect
from unknot_gateway.core.facts import (
    AnyFact,
    ApprovalDecided,
    BodySeen,
    Disconnected,
    EventSeen,
    InputRefused,
    NobodyListened,
    OtherFact,
    PubAckSeen,
    PublishSeen,
    ReplySeen,
    Stopped,
    TimePassed,
)
from unknot_gateway.core.groups import Groups
from unknot_gateway.core.heartbeats import Heartbeats
from unknot_gateway.core.intake import Intake
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.reception import Reception
from unknot_gateway.core.reconcile import Reconcile
from unknot_gateway.core.records import Leg, Session
from unknot_gateway.core.resources.door import Door
from unknot_gateway.core.settle import Settle, held_by
from unknot_gateway.core.tables import KernelConfig, Policy, Tables
from unknot_schemas import bodies, errors, resources
from unknot_schemas.ids import AgentId, EventId
from unknot_schemas.subjects import WAIT_VERBS

__all__ = ["Kernel", "KernelConfig", "Policy"]

_ROUNDS: Final = 3
"""A verdict frees what others wait for, and so on: what goes on longer follows between messages."""


class Kernel:
    """One network's state and rules. One task owns it and calls it; it never calls anybody."""

    def __init__(self, network: str, epoch: int, config: KernelConfig | None = None) -> None:
        self.network = network
        self.epoch = epoch
        self.config = config or KernelConfig()
        self.tables = tables = Tables(network, epoch, self.config)
        self.counters = tables.counters
        self.claims = claims = Claims(tables)
        self.reconcile = reconcile = Reconcile(tables, claims)
        self.dispatch = dispatch = Dispatch(tables, reconcile, claims)
        self.groups = groups = Groups(tables)
        self.settle = settle = Settle(tables, dispatch, groups, claims)
        self.openwaits = openwaits = OpenWaits(tables)
        self.resources = Door(tables, openwaits)
        self.detector = Detector(tables, settle, openwaits)
        closes = self.detector.closes
        self.intake = intake = Intake(tables, dispatch, settle, groups, reconcile, openwaits, closes)
        self.heartbeats = beats = Heartbeats(
            tables, dispatch, settle, intake, openwaits, reconcile, claims, self.resources
        )
        self.backlog = backlog = Backlog(tables, settle, intake)
        self.reception = Reception(
            tables, dispatch, settle, groups, intake, self.resources, reconcile, beats, backlog
        )
        self.detector.release = self.intake.release
        self._sweeps = 0
        self._stirs: tuple[object, ...] = (*tables.resources.stirs, self.reception.draining)

    def handle(self, fact: AnyFact, now: float) -> list[AnyEffect]:
        """Take *fact* in at instant *now* (seconds, monotonic, never running back); return what to do, in order.

        Should it raise, which is a bug, what it had ordered so far leaves with the next fact.
        """
        tables = self.tables
        if now < tables.began_at:  # noqa: PLR1730  with each fact; min() costs three times as much
            tables.began_at = now
        # Nearly all facts are of these two kinds: nothing is called for them that need not be.
        if isinstance(fact, EventSeen):
            self.intake.event(fact, now)
        elif isinstance(fact, ReplySeen) and not tables.is_reconciling:
            self.settle.reply(fact, now)
        else:
            self.backlog.begin(now)
            self._take(fact, now)
        if tables.is_reconciling:
            self._reconcile(now)
        if tables.waiting.is_touched or any(self._stirs):
            self._follow_up(now)
        out, tables.out = tables.out, []
        return out

    def _take(self, fact: OtherFact, now: float) -> None:
        match fact:
            case ReplySeen():
                if self.reconcile.parks(fact, now):
                    self.settle.given(fact, now)
                else:
                    self.settle.reply(fact, now)
            case BodySeen():
                self._body(fact, now)
            case PublishSeen():
                self.intake.publish(fact, now)
            case NobodyListened():
                self._nobody_listened(fact.agent, fact.event_id, now)
            case PubAckSeen():
                self.tables.count(f"ignored.{errors.PUB_ACK}")
            case InputRefused():
                self._refused(fact)
            case Disconnected():
                self.tables.connections.ended(fact.connection, now)
            case ApprovalDecided():
                self.resources.deciding.of_operator(fact)
            case TimePassed():
                self._time_passed(now)
            case Stopped():
                self._stop(now)
            case _:
                assert_never(fact)

    def _reconcile(self, now: float) -> None:
        if (opened := self.tables.opened) is not None:
            self.reconcile.entered(opened.session, opened.id)
        if self.reconcile.is_over:
            self.reception.end_reconciliation(now)

    def _follow_up(self, now: float) -> None:
        """Grants, verdicts and ends that the fact brings about, and what these bring about."""
        tables = self.tables
        for _ in range(_ROUNDS):
            may_go_on = self.resources.run(now) if tables.resources.is_stirred else True
            if tables.waiting.is_touched:
                tables.waiting.is_touched = False
                self.detector.look(now)
                self._arm_sweep(now)
            if self.reception.draining:
                self.backlog.begin(now)
                self.reception.end_drained()
            if not (may_go_on and tables.resources.is_stirred):
                return

    def next_wakeup_at(self) -> float | None:
        """When TimePassed is due; None if nothing is. One in the past: there is work left, come back soon."""
        tables = self.tables
        may_grant = tables.resources.is_touched and not tables.is_reconciling
        if self.backlog or tables.waiting.graph.suspects or may_grant:
            return 0.0
        return self.tables.deadlines.next_at()

    # -- verbs of sessions

    def _body(self, fact: BodySeen, now: float) -> None:
        match fact.body:
            case bodies.Hello():
                self.reception.hello(fact.agent, fact.body, fact.reply_to, now)
            case bodies.Heartbeat():
                session = self.heartbeats.heartbeat(fact.agent, fact.body, fact.reply_to, now)
                if session is not None:
                    self.detector.heard(session, frozenset(fact.body.open), now)
            case bodies.RequestCancel():
                self._cancel(fact.agent, fact.body, fact.reply_to, now)
            case (
                resources.LockRenew()
                | resources.LockRelease()
                | resources.LockCheck()
                | resources.PoolDeclare()
                | resources.ArtifactForget()
                | resources.ApprovalResolve()
            ):
                self.resources.of_agent(fact.agent, fact.body, fact.reply_to, now)
            case bodies.WaitClose(session=None):
                text = f"agent {fact.agent!r} must name its session"
                self.tables.refuse(fact.reply_to, fact.body.id, errors.SESSION_REQUIRED, text)
            case _:
                session = self.tables.sessions.find(fact.agent, fact.body.session)
                if session is None:
                    text = f"no live session {fact.body.session!r} of {fact.agent!r}; nothing was changed"
                    self.tables.refuse(fact.reply_to, None, errors.STALE_SESSION, text)
                    return
                session.heard_at = now
                self._of_session(session, fact, now)

    def _of_session(self, session: Session, fact: BodySeen, now: float) -> None:
        body, reply_to = fact.body, fact.reply_to
        match body:
            case bodies.WaitOpen():
                self.openwaits.open(session, body, reply_to, now)
                self.intake.give_queued(EventId(body.id), now)
                return
            case bodies.WaitClose():
                if not self.resources.locks.closes(session, body.id, reply_to, body.generation):
                    self.openwaits.close(session, body, reply_to, now)
                return
            case bodies.Done():
                for event_id in body.ids:
                    self.settle.done(session, EventId(event_id), now)
            case bodies.Defer():
                for event_id in body.ids:
                    self.settle.defer(session, EventId(event_id), body.by, now)
            case bodies.Facts():
                self.detector.facts(session, body, now)
            case bodies.Bye():
                self.reception.bye(session, body.drain_s, now)
            case (
                resources.LockAcquire()
                | resources.ArtifactDeclare()
                | resources.ArtifactWithdraw()
                | resources.ArtifactPublish()
                | resources.ArtifactWait()
                | resources.ApprovalRequest()
                | resources.HolderSet()
                | resources.HolderClear()
            ):
                self.resources.of_session(session, body, reply_to, now)
                return
            case _:
                raise AssertionError("handled by the caller")
        self.tables.receipt(reply_to, bodies.Receipt(True))

    def _cancel(self, agent: AgentId, body: bodies.RequestCancel, reply_to: str | None, now: float) -> None:
        message = self.tables.messages.open.get(EventId(body.id))
        if message is None:
            if not self.resources.cancel(agent, body, now):
                self.tables.count("cancel.unknown")
        elif message.source.name != agent or (body.session is not None and body.session != message.source.id):
            text = f"request {body.id!r} is not this session's; nothing was changed"
            self.tables.refuse(reply_to, body.id, errors.STALE_SESSION, text)
            return
        else:
            self.settle.cancel(message, now, "its sender wants no answer any more")
        self.tables.receipt(reply_to, bodies.Receipt(True, body.id))

    def _refused(self, fact: InputRefused) -> None:
        """What could not be read: a Receipt, or an Outcome where it was a request whose id could be read."""
        tables, error = self.tables, fact.error
        tables.count(f"input.{error.code}")
        session = tables.sessions.find(AgentId(fact.agent), fact.session)
        request_id = EventId(fact.event_id or "")
        is_new = tables.messages.is_new(request_id) and not self.resources.holds(request_id)
        kind: bodies.OutcomeKind = "over_limit" if error.code == errors.OVER_LIMIT else "refused"
        outcome = bodies.Outcome(request_id, kind, "no", self.epoch, error=error)
        if fact.verb in WAIT_VERBS and request_id and is_new and session is not None:
            tables.outcome(session, outcome, None)
        if fact.verb == "request" and request_id and is_new and (fact.reply_to or session is not None):
            agent = tables.sessions.agents.get(AgentId(fact.agent))
            to = session or (agent.zero if agent is not None else None)
            if to is not None:
                tables.outcome(to, outcome, fact.reply_to)
                return
        tables.receipt(fact.reply_to, bodies.Receipt(False, fact.event_id, error=error))

    # -- hints and time

    def _nobody_listened(self, agent: AgentId, event_id: EventId, now: float) -> None:
        self.tables.count("hints")
        leg = held_by(self.tables.sessions.agents.get(agent), event_id)
        if leg is not None and not self.dispatch.nobody_listened(leg, now):
            text = f"agent {agent!r} never said hello and nobody listens for it: start it, or pass wait_for_target_s"
            self.settle.reject(leg, bodies.Error(errors.UNREACHABLE, text), now)

    def _time_passed(self, now: float) -> None:
        self.tables.waiting.is_touched = True
        self.tables.waiting.graph.drain(self.tables.limits.drain_steps)
        for due in islice(self.tables.deadlines.take(now), self.tables.limits.due_max):
            self._due(due, now)
        self.backlog.run()
        self.tables.messages.forget_old(now)
        self.reconcile.forget_old(now)

    def _due(self, due: Due, now: float) -> None:
        key, messages = due.key, self.tables.messages
        match due.kind:
            case "deadline":
                if (message := messages.open.get(key)) is not None:  # type: ignore[call-overload]
                    self.settle.expire(message, now)
            case "wait":
                if (wait := messages.waits.get(key)) is not None:  # type: ignore[call-overload]
                    self.openwaits.expire(wait, now)
            case "patience":
                self._patience_over(key, now)
            case "hint":
                if (leg := self._leg(key)) is not None:
                    self.dispatch.try_again(leg)
                    self._arm_window(leg, now)
            case "window":
                self._window_over(EventId(str(key)), now)
            case "probe":
                self.detector.probe_over(str(key), now)
            case "judge":
                self.detector.judge(str(key), now)
            case "ask again":
                self.detector.ask_again(str(key), now)
            case "late":
                self.tables.uncorrelated.forget(key)  # type: ignore[arg-type]
            case "sweep":
                self._sweep(now)
            case "ripe":
                self.detector.sweep(now)
            case "lease":
                self.resources.locks.lapse(key)  # type: ignore[arg-type]
            case "report":
                self.resources.report_over(key)  # type: ignore[arg-type]
            case "group":
                self.groups.forget(key)  # type: ignore[arg-type]
            case _:
                assert isinstance(key, Session)
                self._session_due(due.kind, key, now)

    def _session_due(self, kind: str, session: Session, now: float) -> None:
        match kind:
            case "silence":
                self.reception.silence(session, now)
            case "drain":
                self.reception.end(session, "its drain time was over", said_bye=True)
            case "idle":
                self.reception.idle(session, now)
            case "claims":
                self.claims.expire(session, now)
            case "reconcile":
                self.reconcile.gone(session)
            case "gone":
                self.reception.disconnected(session, now)
            case _:
                raise AssertionError(f"nobody set a deadline of kind {kind!r}")

    def _patience_over(self, key: object, now: float) -> None:
        assert isinstance(key, tuple)
        leg = self._leg(key)
        if leg is None:
            self.intake.nobody_joined(EventId(key[0]), str(key[1]), now)
        elif leg.order in leg.agent.unplaced:
            return  # it is to be placed: that says what becomes of it
        elif leg.state == "absent" and (fault := self.reconcile.fault(leg)) is not None:
            self.settle.reject(leg, fault, now)
        elif leg.state == "absent":
            text = f"agent {leg.agent.id!r} did not appear within wait_for_target_s: is it started?"
            self.settle.reject(leg, bodies.Error(errors.UNREACHABLE, text), now)

    def _leg(self, key: object) -> Leg | None:
        assert isinstance(key, tuple)
        message = self.tables.messages.open.get(key[0])
        legs = message.legs if message is not None else ()
        return next((leg for leg in legs if leg.agent.id == key[1]), None)

    def _arm_window(self, leg: Leg, now: float) -> None:
        if leg.message.verb == "send" and leg.session is not None and not leg.session.said_hello:
            self.tables.deadlines.set("window", leg.message.id, now + self.tables.limits.hint_window_s)

    def _window_over(self, event_id: EventId, now: float) -> None:
        """The server has not objected: as far as can be known, a one-way event has reached its agent without hello."""
        message = self.tables.messages.open.get(event_id)
        if message is None or message.legs[0].state == "unheard":
            return
        leg = message.legs[0]
        self.dispatch.receipt(message)
        self.settle.end(message, "reply", now)
        self.dispatch.free(leg, now)

    def _sweep(self, now: float) -> None:
        """Take suspicions up again; from time to time check every wait anew, the more seldom the more there are."""
        graph, limits = self.tables.waiting.graph, self.tables.limits
        self._sweeps += 1
        if not self._sweeps % (1 + len(graph) // limits.sweep_waits):
            graph.start_sweep()
        self.detector.sweep(now)

    def _arm_sweep(self, now: float) -> None:
        """While anybody waits, everything is checked anew now and then: detection never rests on arrivals alone."""
        tables = self.tables
        if len(tables.waiting.waits) and ("sweep", "") not in tables.deadlines:
            tables.deadlines.set("sweep", "", now + self.config.sweep_s)

    def _stop(self, now: float) -> None:
        """Nobody takes over: every request and wait ends now, with a reason."""
        error = bodies.Error(errors.GATEWAY_STOPPED, "the gateway was stopped; send the request again later")
        for message in list(self.tables.messages.open.values()):
            self.settle.end(message, "cancelled", now, error=error)
        for wait in list(self.tables.messages.waits.values()):
            self.openwaits.end(wait, "cancelled", now, error=error)
