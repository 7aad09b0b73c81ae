"""Suspicion, probe, verdict: look twice before acting.

A core that the graph finds is only suspected. Its members are asked, and the fixpoint is evaluated again on what
they say and on everything that arrived before it. A wait's id never re-opens, so a wait that is open in the facts
and still open now was open at one instant together with all the others. Who says nothing counts as able to go on.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from unknot_gateway.core import policy
from unknot_gateway.core.effects import SendControl, SendNotice
from unknot_gateway.core.graph import Core
from unknot_gateway.core.incidents import Incident, Members, Part, Reading
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.records import Message, OpenWait, Session
from unknot_gateway.core.repeats import Repeats
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies
from unknot_schemas.ids import EventId
from unknot_schemas.limits import REPORTED_ENTRIES_MAX
from unknot_schemas.subjects import CONTROL_BLOCKED_BEHIND, CONTROL_CONFIRM, CONTROL_DEADLOCK

_GATHER_S: Final = 0.01
"""How long a second read gathers facts before it evaluates them."""

Release = Callable[[Message, float], None]
"""Delivers what is parked of a message."""


def _keep_parked(message: Message, now: float) -> None:
    raise AssertionError(f"nobody delivers {message.id} at {now}: the kernel sets `release`")


class Detector:
    """Owner of all incidents."""

    def __init__(self, tables: Tables, settle: Settle, openwaits: OpenWaits) -> None:
        self._t = tables
        self._settle = settle
        self._openwaits = openwaits
        self._members = Members(tables)
        self.incidents: dict[str, Incident] = {}
        self.decided: OrderedDict[str, str] = OrderedDict()
        """Digests that were decided on, and their incidents: one decision each."""
        self.repeats = Repeats(tables.limits)
        self.release: Release = _keep_parked

    def is_decided(self, core: Core) -> bool:
        """Whether there is a verdict on *core* as it stands."""
        return self._members.read(core).digest in self.decided

    # -- suspicion

    def closes(self, message: Message, now: float) -> bool:
        """Whether the wait that *message* has just opened closes a suspected core: then its delivery is parked."""
        wait = message.wait
        if self._t.is_reconciling:
            return False
        for core in self._t.waiting.graph.found():
            self._suspect(core, message, now)
        if wait is None or not self.incidents:
            return not message.is_open
        in_core = any(wait.strand.node in core.members for core in self._t.waiting.graph.cores())
        for incident in self.incidents.values():
            is_asked = incident.read == 1 or self._t.config.policy == "refuse"
            if not in_core or not is_asked or wait.strand.node not in incident.nodes:
                continue
            if any(leg.state == "parked" for leg in message.legs):
                if message.is_open and message not in incident.parked:
                    incident.parked.append(message)
                return True
        return not message.is_open

    def look(self, now: float) -> None:
        """Take up what other changes than a new request have closed: a wait just opened, or anything else."""
        opened, self._t.opened = self._t.opened, None
        if self._t.is_reconciling:
            return
        while cores := self._t.waiting.graph.found():
            for core in cores:
                is_in = opened is not None and opened.wait is not None and opened.wait.handle in core.waits
                self._suspect(core, opened if is_in else None, now)

    def sweep(self, now: float) -> None:
        """Take up again every suspected core that is neither being probed nor decided."""
        if self._t.is_reconciling:
            return
        for core in self._t.waiting.graph.cores():
            self._suspect(core, None, now)

    def _suspect(self, core: Core, closing: Part | None, now: float) -> None:
        nodes = frozenset(core.members)
        if any(i.read == 1 and not i.nodes.isdisjoint(nodes) for i in self.incidents.values()):
            return
        reading = self._members.read(core)
        if not reading.is_live:
            return
        if any(incident.digest == reading.digest for incident in self.incidents.values()):
            return  # a second read takes long: only another core is asked about beside it
        if reading.digest in self.decided or len(self.incidents) >= self._t.limits.incidents_max:
            return
        ripe_at = self._members.ripe_at(reading)
        if ripe_at > now:
            self._t.deadlines.set(
                "ripe", "", ripe_at
            )  # one timer for all: whatever is not ripe then sets it anew
            return
        self._t.count("suspicions")
        asked: dict[Session, bodies.Facts | None] = {s: None for s in reading.sessions if s.said_hello}
        named = frozenset(part.id for part in reading.parts)
        incident = Incident(
            self._t.new_id("i"), reading.digest, nodes, now, asked, named, closing, reading.revisions
        )
        self.incidents[incident.id] = incident
        self._ask(incident, reading)
        if asked:
            self._t.deadlines.set("probe", incident.id, now + self._t.config.probe_s)
        else:
            self._judge(incident, now)

    def _ask(self, incident: Incident, reading: Reading) -> None:
        for session, question in self._members.questions(incident, reading).items():
            self._t.out.append(SendControl(session.name, session.id, CONTROL_CONFIRM, question))

    # -- probe

    def facts(self, session: Session, facts: bodies.Facts, now: float) -> None:
        """Take a member's answer; with the last one comes the verdict."""
        incident = self.incidents.get(facts.incident)
        if incident is None or session not in incident.asked:
            self._t.count("facts.unasked")
            return
        incident.asked[session] = facts
        for event_id, state in facts.requests.items():
            self._settle.reported(session, EventId(event_id), state, now)
        if facts.holds is not None:
            self._let_go(session, {*facts.holds, *facts.open}, incident.opened_at)
        for part in self._members.contradicted(incident, frozenset(facts.open), session):
            self._t.count("waits.contradicted")
            self._drop_edge(part, now)
        if incident.is_complete:
            self._judge(incident, now)
        elif incident.read == 2:
            self._judge_soon(incident, now)

    def _let_go(self, session: Session, named: set[str], asked_at: float) -> None:
        """What *session* held when it was asked and names no more was given back: word of that is lost, or late."""
        for hold in self._t.resources.leases.of_session(session):
            if hold.id not in named and hold.since <= asked_at:
                self._t.count("holds.contradicted")
                self._t.resources.leases.drop(hold)

    def heard(self, session: Session, named: frozenset[str], now: float) -> None:
        """A heartbeat: in a second read it stands for facts if it names every wait that its session was asked about."""
        for incident in list(self.incidents.values()):
            if incident.read == 2 and session in incident.asked and incident.asked[session] is None:
                if not self._members.contradicted(incident, named, session):
                    incident.beats[session] = incident.beats.get(session, 0) + 1
                self._judge_soon(incident, now)

    def _judge_soon(self, incident: Incident, now: float) -> None:
        """Many members speak at once: one verdict for all of them."""
        if not incident.is_news:
            incident.is_news = True
            self._t.deadlines.set("judge", incident.id, now + _GATHER_S)

    def judge(self, incident_id: str, now: float) -> None:
        """Evaluate anew what has been said in the second read."""
        incident = self.incidents.get(incident_id)
        if incident is not None:
            incident.is_news = False
            self._judge(incident, now)

    def probe_over(self, incident_id: str, now: float) -> None:
        """The members' time to answer is over: the silent ones count as able to go on."""
        incident = self.incidents.get(incident_id)
        if incident is None:
            return
        if incident.read == 2:
            self._retract(incident, now)
            return
        self._t.count("probes.unanswered")
        incident.read = 2
        if self._t.config.policy != "refuse":
            self._release(incident, now)
        beat_s = max(session.heartbeat_s for session in incident.asked)
        limit_s = (self._t.limits.second_read_beats + 1) * beat_s
        self._t.deadlines.set("probe", incident.id, now + limit_s)
        self._judge(incident, now)

    def _drop_edge(self, part: Message | OpenWait, now: float) -> None:
        if isinstance(part, OpenWait):
            self._openwaits.close(part.session, bodies.WaitClose(part.id), None, now)
        elif part.group is not None:
            self._t.waiting.settle(part, answered=True)
        elif part.wait is not None:
            self._t.waiting.close(part.wait)
            part.wait = None

    # -- verdict

    def _judge(self, incident: Incident, now: float) -> None:
        strands = self._t.waiting.strands
        nodes = [node for node in incident.nodes if node in strands]
        cores = self._t.waiting.graph.second_look(
            nodes,
            running=self._members.running(incident, now),
            ignore=self._members.not_awaited(incident),
        )
        found = [
            reading for core in cores if self._members.is_sound(incident, reading := self._members.read(core))
        ]
        if not found:
            if incident.read == 1 or incident.is_complete:
                self._retract(incident, now)
            return
        if incident.read == 1 and any(self._members.evidence(reading) == "reported" for reading in found):
            self._read_again(incident, now)
            return
        self._close(incident)
        decisions = [policy.decide(self._t, self._members, incident, reading, now) for reading in found]
        for decision in decisions:
            self._carry_out(decision, now)
        self._release(incident, now)
        self._look_around(incident, now)

    def _read_again(self, incident: Incident, now: float) -> None:
        """What agents only reported must survive a second read one heartbeat later."""
        incident.read = 2
        incident.asked = dict.fromkeys(incident.asked)
        self._release(incident, now)
        beat_s = max((session.heartbeat_s for session in incident.asked), default=1.0)
        self._t.deadlines.set("probe", incident.id, now + (self._t.limits.second_read_beats + 1) * beat_s)
        self._t.deadlines.set("ask again", incident.id, now + beat_s)

    def ask_again(self, incident_id: str, now: float) -> None:
        """One heartbeat after the first read: ask the members of a reported core once more."""
        incident = self.incidents.get(incident_id)
        if incident is None:
            return
        for core in self._t.waiting.graph.cores():
            if not incident.nodes.isdisjoint(core.members):
                reading = self._members.read(core)
                # Who is a member no more is asked about nothing, and what it does not name has not ended.
                incident.named &= {part.id for part in reading.parts}
                self._ask(incident, reading)
                return
        self._retract(incident, now)

    def _carry_out(self, decision: policy.Decision, now: float) -> None:
        event = decision.event
        if event.digest in self.decided:
            return
        self.decided[event.digest] = event.incident
        while len(self.decided) > self._t.limits.decisions_max:
            self.decided.popitem(last=False)
        self.repeats.note(event.cycle, now)
        self._t.count(f"deadlocks.{event.policy}")
        self._t.count(f"deadlocks.evidence.{event.evidence}")
        if decision.fails:
            for session in decision.told:
                self._t.out.append(SendControl(session.name, session.id, CONTROL_DEADLOCK, event))
        self._t.out.append(SendNotice(CONTROL_DEADLOCK, event))
        self._tell_tails(decision)
        error = policy.outcome_error(event)
        for part in decision.fails:
            if isinstance(part, OpenWait):
                self._openwaits.end(part, "deadlock", now, error=error)
            else:
                self._settle.end(part, "deadlock", now, error=error)

    def _tell_tails(self, decision: policy.Decision) -> None:
        event = decision.event
        for session, waits in decision.tails.items():
            body = bodies.BlockedBehind(event.incident, event.cycle, waits[:REPORTED_ENTRIES_MAX])
            if decision.fails and session.said_hello:
                self._t.out.append(SendControl(session.name, session.id, CONTROL_BLOCKED_BEHIND, body))
            self._t.out.append(SendNotice(CONTROL_BLOCKED_BEHIND, body))

    def _retract(self, incident: Incident, now: float) -> None:
        self._t.count("retracted")
        self._close(incident)
        self._release(incident, now)
        self._look_around(incident, now)

    def _look_around(self, incident: Incident, now: float) -> None:
        """The core may have grown or moved while it was probed: what is another core now is taken up at once."""
        for core in self._t.waiting.graph.cores():
            is_near = not incident.nodes.isdisjoint(core.members)
            if is_near and self._members.read(core).digest != incident.digest:
                self._suspect(core, None, now)

    def _close(self, incident: Incident) -> None:
        self.incidents.pop(incident.id, None)
        self._t.deadlines.drop("probe", incident.id)
        self._t.deadlines.drop("ask again", incident.id)
        self._t.deadlines.drop("judge", incident.id)

    def _release(self, incident: Incident, now: float) -> None:
        parked, incident.parked = incident.parked, []
        for message in parked:
            if message.is_open:
                self.release(message, now)
