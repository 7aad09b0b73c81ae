"""A suspected core on its way to a verdict: who was asked, what they said, what is parked meanwhile."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

from msgspec import Struct, field

from unknot_gateway.core.graph import Core, Node
from unknot_gateway.core.graph import Wait as GraphWait
from unknot_gateway.core.records import Message, OpenWait, Session, Strand, Wait
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies
from unknot_schemas.ids import MAIN, OWN_TASK, EventId, ExecutionId

Evidence = Literal["observed", "assumed", "reported"]


_REPLY = bodies.WaitCondition("reply")


class Incident(Struct, eq=False):
    """One suspected core, being probed. *read*: 1 while the members' facts are awaited, then 2."""

    id: str
    digest: str
    nodes: frozenset[Node]
    opened_at: float
    asked: dict[Session, bodies.Facts | None]
    named: frozenset[EventId]
    """Ids of all requests and waits that were asked about."""
    closing: "Part | None"
    revisions: frozenset[str] = frozenset()
    parked: list[Message] = field(default_factory=list)
    read: Literal[1, 2] = 1
    is_news: bool = False
    """Whether facts or heartbeats have come since the last verdict."""
    beats: dict[Session, int] = field(default_factory=dict)
    """Heartbeats of silent members since the first read that named all their waits."""

    @property
    def is_complete(self) -> bool:
        """Whether every member that can be asked has answered."""
        return None not in self.asked.values()

    def vouches(self, session: Session, beats_needed: int) -> bool:
        """Whether *session* has confirmed its waits: by facts, or in the second read by heartbeats."""
        if not session.said_hello or self.asked.get(session) is not None:
            return True
        return self.read == 2 and self.beats.get(session, 0) >= beats_needed


Part = Message | OpenWait
"""A request or a wait of its own that one member waits for."""


class Reading(Struct, eq=False):
    """A core of the graph in the core's records; true only until the graph changes."""

    core: Core
    strands: list[Strand]
    sessions: list[Session]
    """Of the members, each once, by agent and age."""
    waits: list[Wait]
    """The members' own; an execution's wait for its strand is not one."""
    parts: list[Part]
    """What of the waits is open and cannot come true."""
    is_whole: bool
    """Whether each of the waits has such a part."""
    digest: str
    """Names the core by its waits and their generations: a retry that deadlocks again is another one."""
    revisions: frozenset[str]
    """Of what is only reported of its holders: another one is another report."""

    @property
    def is_live(self) -> bool:
        """Whether no member's session is over: what such a one leaves behind is about to be cleared away."""
        return all(session.live for session in self.sessions)


class Members:
    """Reads cores, and what their members say."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables

    def read(self, core: Core) -> Reading:
        """*core* in the core's records."""
        waiting = self._t.waiting
        strands = [waiting.strands[node] for node in core.members]
        sessions = sorted(
            {s.session for s in strands}, key=lambda session: (session.name, session.generation)
        )
        waits = [wait for handle in core.waits if (wait := waiting.waits.get(handle)) is not None]
        parts_of = [self.open_parts(wait) for wait in waits]
        parts = [part for found in parts_of for part in found]
        named = sorted((str(part.id), generation_of(part)) for part in parts)
        digest = blake2b(repr(named).encode(), digest_size=16).hexdigest()
        is_whole = bool(parts) and all(parts_of)
        revisions = frozenset(revision for wait in waits for revision in self._revisions(wait))
        return Reading(core, strands, sessions, waits, parts, is_whole, digest, revisions)

    def open_parts(self, wait: Wait) -> list[Part]:
        """What of *wait* is still open and cannot come true now."""
        if wait.opened is not None:
            return [wait.opened]
        if wait.group is None:
            return [message for message in wait.messages if message.is_open]
        false = set(self._t.waiting.graph.false_conditions(wait.handle))
        return [message for message in wait.messages if message.is_open and message.index in false]

    def is_sound(self, incident: Incident, reading: Reading) -> bool:
        """Whether every wait of the core is open, was asked about where somebody could be asked, and rests on the
        same reports."""
        return (reading.is_live and reading.is_whole and reading.revisions <= incident.revisions) and all(
            part.id in incident.named or not owner_of(part).said_hello for part in reading.parts
        )

    def evidence(self, reading: Reading) -> Evidence:
        """The weakest ground that the core rests on."""
        if any(self._is_reported(wait) for wait in reading.waits):
            return "reported"
        if any(not session.said_hello for session in reading.sessions):
            return "assumed"
        return "observed"

    def ripe_at(self, reading: Reading) -> float:
        """When each wait of the core has stood for as long as the network wants one of its kind to stand."""
        after_s = self._t.config.detect_after_s
        if not after_s:
            return 0.0
        return max(
            part.since + max(self._after(kind, after_s) for kind in _kinds(part)) for part in reading.parts
        )

    def _after(self, condition: bodies.WaitCondition, after_s: Mapping[str, float]) -> float:
        evidence = "reported" if self._t.resources.is_reported(condition) else "observed"
        return after_s.get(condition.kind, after_s.get(evidence, 0.0))

    def _is_reported(self, wait: Wait) -> bool:
        if wait.opened is None:
            return False
        on, is_reported = wait.opened.body.on, self._t.resources.is_reported
        return any(is_reported(on[at]) for at in self._t.waiting.graph.false_conditions(wait.handle))

    def _revisions(self, wait: Wait) -> list[str]:
        """What the false conditions of *wait* rest on, where only agents told of it, as of now."""
        if wait.opened is None:
            return []
        false = (wait.opened.body.on[at] for at in self._t.waiting.graph.false_conditions(wait.handle))
        return [f"{on.kind}:{on.id}:{rev}" for on in false if (rev := self._t.resources.revision(on))]

    def questions(self, incident: Incident, reading: Reading) -> dict[Session, bodies.Confirm]:
        """What each session of the core that can be asked is asked."""
        waits: dict[Session, list[bodies.ConfirmWait]] = {}
        held: dict[Session, set[str]] = {}
        executions: dict[Session, list[str]] = {}
        for strand in reading.strands:
            named = executions.setdefault(strand.session, [])
            if strand.execution not in named:
                named.append(strand.execution)
            if EventId(strand.execution) in strand.session.held:
                held.setdefault(strand.session, set()).add(strand.execution)
        for part in reading.parts:
            waits.setdefault(owner_of(part), []).append(bodies.ConfirmWait(part.id, generation_of(part)))
            for leg in part.legs if isinstance(part, Message) else ():
                if leg.session is not None:
                    held.setdefault(leg.session, set()).add(part.id)
        return {
            session: bodies.Confirm(
                incident.id,
                waits.get(session, []),
                sorted(held.get(session, ())),
                executions.get(session, []),
            )
            for session in incident.asked
        }

    def contradicted(self, incident: Incident, named: frozenset[str], session: Session) -> list[Part]:
        """Waits of *session* that were asked about and are not *named* as open: they have ended there."""
        return [item for item in session.open.values() if item.id in incident.named and item.id not in named]

    def running(self, incident: Incident, now: float) -> set[Node]:
        """Nodes that count as able to go on for this verdict: their sessions say so, say nothing, or are not fresh."""
        found: set[Node] = set()
        for node in self._t.waiting.graph.stuck():
            session = self._t.waiting.strands[node].session
            if not session.said_hello:
                continue
            stale = now - session.heard_at > 2 * session.heartbeat_s
            asked = session in incident.asked
            if stale or not asked or not incident.vouches(session, self._t.limits.second_read_beats):
                found.add(node)
        for session, facts in incident.asked.items():
            if facts is not None:
                found |= self._alive(session, facts)
        return found

    def _alive(self, session: Session, facts: bodies.Facts) -> set[Node]:
        found: set[Node] = set()
        for execution, strands in facts.strands.items():
            own = session.strands.get((ExecutionId(execution), OWN_TASK))
            if strands.alive and own is not None:
                found.add(own.node)
        for event_id, state in facts.requests.items():
            own = session.strands.get((ExecutionId(event_id), OWN_TASK))
            if state != "running" and own is not None and event_id != MAIN:
                found.add(own.node)
        return found

    def not_awaited(self, incident: Incident) -> set[GraphWait]:
        """Tentative waits for detached strands that the own task does not stand waiting for, as far as is known."""
        waiting = self._t.waiting
        found: set[GraphWait] = set()
        for node in waiting.graph.stuck():
            for handle in waiting.graph.waits_of(node):
                strand = waiting.implied.get(handle)
                if strand is None or not strand.detached:
                    continue
                facts = incident.asked.get(strand.session)
                awaited = facts.strands.get(strand.execution) if facts is not None else None
                if awaited is None or strand.id not in awaited.awaited:
                    found.add(handle)
        return found


def _kinds(part: Part) -> list[bodies.WaitCondition]:
    return part.body.on if isinstance(part, OpenWait) else [_REPLY]


def owner_of(part: Part) -> Session:
    """The session that waits."""
    return part.source if isinstance(part, Message) else part.session


def generation_of(part: Part) -> int:
    """The wait's generation; a request's id never opens twice."""
    return part.body.generation if isinstance(part, OpenWait) else 0
