"""A suspected core on its way to a verdict: who was asked, what they said, what is parked meanwhile."""

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
_SEEN = frozenset({"reply", "event"})
"""Kinds of conditions that the gateway sees come true itself."""


class Incident(Struct, eq=False):
    """One suspected core, being probed. *read*: 1 while the members' facts are awaited, then 2."""

    id: str
    digest: str
    nodes: frozenset[Node]
    opened_at: float
    asked: dict[Session, bodies.Facts | None]
    named: frozenset[EventId]
    """Ids of all requests and waits that were asked about."""
    closing: Message | None
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


class Members:
    """Reads a core of the graph in the core's records."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables

    def strands(self, core: Core) -> list[Strand]:
        """The nodes of *core*."""
        strands = self._t.waiting.strands
        return [strands[node] for node in core.members]

    def sessions(self, core: Core) -> list[Session]:
        """Sessions of the members, each once, by agent and age."""
        found = {strand.session for strand in self.strands(core)}
        return sorted(found, key=lambda session: (session.name, session.generation))

    def waits(self, core: Core) -> list[Wait]:
        """The members' own waits in *core*; an execution's wait for its strand is not one."""
        return [wait for handle in core.waits if (wait := self._t.waiting.waits.get(handle)) is not None]

    def open_parts(self, wait: Wait) -> list[Message | OpenWait]:
        """What of *wait* is still open and cannot come true now."""
        if wait.opened is not None:
            return [wait.opened]
        if wait.group is None:
            return [message for message in wait.messages if message.is_open]
        false = set(self._t.waiting.graph.false_conditions(wait.handle))
        return [message for message in wait.messages if message.is_open and message.index in false]

    def parts(self, core: Core) -> list[Message | OpenWait]:
        """Every open request and wait of *core* that cannot end."""
        return [part for wait in self.waits(core) for part in self.open_parts(wait)]

    def is_sound(self, incident: Incident, core: Core) -> bool:
        """Whether every wait of *core* is one that is open, and was asked about where somebody could be asked."""
        waits = self.waits(core)
        parts = [self.open_parts(wait) for wait in waits]
        return bool(parts) and all(
            found and all(part.id in incident.named or not owner_of(part).said_hello for part in found)
            for found in parts
        )

    def digest(self, core: Core) -> str:
        """Names *core* by its waits and their generations: a retry that deadlocks again is another one."""
        named = sorted((str(part.id), generation_of(part)) for part in self.parts(core))
        return blake2b(repr(named).encode(), digest_size=16).hexdigest()

    def evidence(self, core: Core) -> Evidence:
        """The weakest ground that *core* rests on."""
        if any(self._is_reported(wait) for wait in self.waits(core)):
            return "reported"
        if any(not session.said_hello for session in self.sessions(core)):
            return "assumed"
        return "observed"

    def _is_reported(self, wait: Wait) -> bool:
        if wait.opened is None:
            return False
        on = wait.opened.body.on
        return any(on[at].kind not in _SEEN for at in self._t.waiting.graph.false_conditions(wait.handle))

    def questions(self, incident: Incident, core: Core) -> dict[Session, bodies.Confirm]:
        """What each session of *core* that can be asked is asked."""
        waits: dict[Session, list[bodies.ConfirmWait]] = {}
        held: dict[Session, set[str]] = {}
        executions: dict[Session, list[str]] = {}
        for strand in self.strands(core):
            named = executions.setdefault(strand.session, [])
            if strand.execution not in named:
                named.append(strand.execution)
            if EventId(strand.execution) in strand.session.held:
                held.setdefault(strand.session, set()).add(strand.execution)
        for part in self.parts(core):
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

    def contradicted(
        self, incident: Incident, named: frozenset[str], session: Session
    ) -> list[Message | OpenWait]:
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


def owner_of(part: Message | OpenWait) -> Session:
    """The session that waits."""
    return part.source if isinstance(part, Message) else part.session


def generation_of(part: Message | OpenWait) -> int:
    """The wait's generation; a request's id never opens twice."""
    return part.body.generation if isinstance(part, OpenWait) else 0
