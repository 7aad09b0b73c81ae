"""What open waits hang on, read from the records: whose turn it is, or where nobody inside can help.

Everything that is waited for is a point: an execution's strand, the slots of a pool, the queue of a lock. Links lead
from who waits to what must happen first. Nothing is changed, and nothing is decided: who is stuck, the engine says.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, Literal

from msgspec import Struct

from unknot_gateway.core.records import Leg, Message, OpenWait, Pool, Session, Strand
from unknot_gateway.core.resources.approvals import approver
from unknot_gateway.core.resources.pools import LeasedPool
from unknot_gateway.core.resources.resources import is_leased
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies
from unknot_schemas.ids import MAIN, OWN_TASK, AgentId, EventId, ExecutionId, StrandId, agent_id

Part = Message | OpenWait
"""A request, or a wait of its own, that somebody waits for."""
Key = tuple[Session, ExecutionId, StrandId]
"""A strand, whether the graph knows it or not."""
Point = Key | tuple[str, object] | tuple[str, object, int]
Evidence = Literal["observed", "assumed", "reported"]

WORKING, OUTSIDE, NOBODY, UNJUDGED = 1, 2, 4, 8
"""Where chains end: somebody works or could, it is outside, nobody is there, or the question was cut short here."""

_HOLDERS_MAX: Final = 8
"""Holders that are shown of one thing."""
_CONDITIONS_MAX: Final = 64
"""Conditions that are shown of one wait."""


class Edge(Struct, frozen=True, gc=False):
    """One condition of an open wait that is not true yet. *kind* and *id*: what is waited for.

    *wait*: the request or wait; *type*: of a request; *holders*: who can make it true, as ``agent/execution``.
    """

    wait: str
    kind: str
    id: str
    type: str
    age_s: float
    deadline_in_s: float
    evidence: Evidence
    holders: list[str]


class Hanging:
    """The links from all waits that were entered. *ends*: where points end by themselves."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables
        self._left = tables.limits.verdict_links
        self._waits_for: dict[str, list[tuple[bodies.WaitCondition, list[Point]]]] = {}
        self.links: dict[Point, list[Point]] = {}
        self.ends: dict[Point, int] = {}
        self.waiters: dict[Key, list[Part]] = {}

    # -- waits

    def enter(self, part: Part) -> None:
        """Link who waits for *part* to all that it still waits for."""
        waiter = waiter_of(part)
        self.waiters.setdefault(waiter, []).append(part)
        session, execution, strand = waiter
        if strand and not _is_detached(part):
            self._link((session, execution, OWN_TASK), [waiter])
        if isinstance(part, Message):
            found = [(bodies.WaitCondition("reply", part.target), self._reply(part))]
        else:
            found = [(on, self._condition(part, on)) for _, on in pending(part)]
        self._waits_for[part.id] = found
        self._link(waiter, (point for _, points in found for point in points))

    def edges(self, part: Part, now: float) -> list[Edge]:
        """What *part*, which was entered, still waits for, at most so many conditions."""
        event_type = part.type if isinstance(part, Message) else ""
        shown = self._waits_for[part.id][:_CONDITIONS_MAX]
        return [self._edge(part, on, event_type, points, now) for on, points in shown]

    def _edge(
        self, part: Part, on: bodies.WaitCondition, event_type: str, points: Iterable[Point], now: float
    ) -> Edge:
        found = list(self.strands(points))
        evidence: Evidence = "observed"
        if isinstance(part, OpenWait) and self._t.resources.is_reported(on):
            evidence = "reported"
        elif not all(session.said_hello for session, *_ in [waiter_of(part), *found]):
            evidence = "assumed"
        holders = [self._name(key) for key in found]
        left_s = max(part.deadline_at - now, 0.0)
        return Edge(part.id, on.kind, on.id, event_type, now - part.since, left_s, evidence, holders)

    def _name(self, key: Key) -> str:
        return f"{key[0].name}/{key[1]}" + ("" if key[0].live else " (lost)")

    def strands(self, points: Iterable[Point]) -> Iterator[Key]:
        """The first strands among *points*, or behind those of them that are none."""
        left, seen, todo = _HOLDERS_MAX, set[Point](), list(points)
        while todo and left:
            point = todo.pop(0)
            if point in seen:
                continue
            seen.add(point)
            if isinstance(point[0], Session):
                yield point
                left -= 1
            else:
                todo += self.links.get(point, ())

    def _link(self, point: Point, others: Iterable[Point]) -> None:
        self.links.setdefault(point, []).extend(others)

    def _some(self, others: Iterable[Point]) -> list[Point]:
        """As many of *others* as may still be followed; of the rest nothing is known."""
        found = list(islice(others, max(0, self._left + 1)))
        self._left -= len(found)
        if self._left < 0:
            found[-1:] = [self._end(UNJUDGED)]
        return found

    # -- requests

    def _reply(self, message: Message) -> list[Point]:
        if not message.legs:
            return [self._end(NOBODY)]
        return self._some(point for leg in message.legs if not leg.ended for point in self._leg(leg))

    def _leg(self, leg: Leg) -> list[Point]:
        match leg.state:
            case "queued" | "parked":
                pools = leg.lane.pools if leg.lane is not None else (leg.pool,)
                return [self._slot(pool) for pool in pools if pool is not None] or [self._end(NOBODY)]
            case "running":
                return [running_in(leg)]
            case "deferred":
                return [key_of(leg.by)] if leg.by is not None else [self._end(OUTSIDE)]
            case _:
                return [self._end(NOBODY)]

    def _slot(self, pool: Pool) -> Point:
        if pool.main:
            return (pool.session, ExecutionId(MAIN), OWN_TASK)
        point: Point = ("slot", pool)
        if point not in self.links:
            if pool.has_free_slot:
                self.ends[point] = WORKING
            held = pool.session.held.values() if not pool.has_free_slot else ()
            self._link(point, self._some(running_in(leg) for leg in held if leg.pool is pool))
        return point

    # -- conditions

    def _condition(self, wait: OpenWait, on: bodies.WaitCondition) -> list[Point]:
        if is_leased(on):
            return [self._queue(wait, on)]
        match on.kind:
            case "reply":
                message = self._t.messages.open.get(EventId(on.id))
                is_own = message is not None and message.source is wait.session
                return self._reply(message) if message is not None and is_own else [self._end(OUTSIDE)]
            case "agent":
                return self._agent(agent_id(on.id))
            case "approval":
                named = approver(on)
                return self._agent(named) if named is not None else [self._end(OUTSIDE)]
            case "event" if on.source is not None:
                is_there = self._sessions(AgentId(on.source))
                return [self._end(OUTSIDE if is_there else NOBODY)]
            case "artifact":
                wanted = self._t.resources.artifacts.find(on.id)
                producers = [*wanted.producers] if wanted is not None else []
                return self._of_strands([*producers, *self._reported(on)], NOBODY)
            case "task":
                return self._of_strands(self._reported(on), NOBODY)
            case "lock" | "permits":
                return self._of_strands(self._reported(on), OUTSIDE)
            case _:
                return [self._end(OUTSIDE)]

    def _queue(self, wait: OpenWait, on: bodies.WaitCondition) -> Point:
        """The place of *wait* in the queue of a lock or pool: behind those who hold it and all ahead."""
        pool = self._t.resources.pools.find((on.kind, on.id))
        if pool is None:
            return self._end(WORKING)
        if ("queue", pool) not in self.links:
            self._line_up(pool)
        place: Point = ("place", (wait, pool))
        if place not in self.links:
            self._link(place, [("queue", pool), self._end(UNJUDGED)])  # far behind
        return place

    def _line_up(self, pool: LeasedPool) -> None:
        before: Point = ("queue", pool)
        holds = self._t.resources.leases.of_pool(pool.key)
        self._link(before, self._some(key_of(hold.strand) for hold in holds))
        if not holds and not pool.capacity:
            self.ends[before] = NOBODY  # nothing is there, and nobody can give anything back
        for ask in chain(pool.places, pool.queue):
            if self._left <= 0:
                break
            self._left -= 1
            place: Point = ("place", (ask.wait, pool))
            self._link(place, [before])
            before = ("after", (ask.wait, pool))
            self._link(before, [place, waiter_of(ask.wait)])

    def _reported(self, on: bodies.WaitCondition) -> list[Strand]:
        thing = self._t.resources.holders.find((on.kind, on.id))
        return [*thing.reports] if thing is not None else []

    def _of_strands(self, strands: list[Strand], if_none: int) -> list[Point]:
        return self._some(map(key_of, dict.fromkeys(strands))) if strands else [self._end(if_none)]

    def _agent(self, name: str | None) -> list[Point]:
        sessions = self._sessions(AgentId(name or ""))
        found: list[Point] = [self._slot(pool) for session in sessions for pool in session.pools]
        mains = [each for each in sessions if each.hello is None or each.hello.main_runs]
        found += [(session, ExecutionId(MAIN), OWN_TASK) for session in mains]
        return found or [self._end(NOBODY)]

    def _sessions(self, name: AgentId) -> list[Session]:
        entry = self._t.sessions.agents.get(name)
        if entry is None:
            return []
        return list(entry.sessions.values()) or ([entry.zero] if entry.zero is not None else [])

    def _end(self, end: int) -> Point:
        point: Point = ("end", end)
        self.ends[point] = end
        return point


def pending(wait: OpenWait) -> Iterator[tuple[int, bodies.WaitCondition]]:
    """The conditions of *wait* that are not true, and may still come true."""
    for index, condition in enumerate(wait.body.on):
        if index not in wait.taken and index not in wait.spent:
            yield index, condition


def key_of(strand: Strand) -> Key:
    """The point of a strand that the graph knows."""
    return (strand.session, strand.execution, strand.id)


def waiter_of(part: Part) -> Key:
    """Who waits for *part*."""
    session, of = (part.source, part.envelope) if isinstance(part, Message) else (part.session, part.body)
    if not session.said_hello:
        return (session, ExecutionId(MAIN), OWN_TASK)
    return (session, ExecutionId(of.execution or MAIN), StrandId(of.strand or OWN_TASK))


def running_in(leg: Leg) -> Key:
    """The execution that handles *leg*."""
    session = leg.session
    assert session is not None, "what runs, runs in a session"
    if leg.strand is not None:
        return key_of(leg.strand)
    is_main = not session.said_hello or (leg.pool is not None and leg.pool.main)
    return (session, ExecutionId(MAIN if is_main else leg.message.id), OWN_TASK)


def _is_detached(part: Part) -> bool:
    return part.envelope.detached if isinstance(part, Message) else part.body.detached
