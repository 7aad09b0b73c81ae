"""The verdict on everybody who waits, and on each component of the wait graph. Read only: nothing acts on it.

Who is stuck or orphaned, the engine says; a deadlock is one only when it was decided on. Of all others the ends of
their chains are followed: to somebody who works, to the outside, to where nobody is.
"""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from unknot_gateway.core.explain import first_open
from unknot_gateway.core.graph import Core
from unknot_gateway.core.hanging import (
    NOBODY,
    OUTSIDE,
    UNJUDGED,
    WORKING,
    Edge,
    Hanging,
    Key,
    Part,
    Point,
    key_of,
)
from unknot_gateway.core.policy import agents_of
from unknot_gateway.core.records import Message, Session

if TYPE_CHECKING:
    from unknot_gateway.core.kernel import Kernel

Verdict = Literal[
    "DEADLOCK", "LIVELOCK", "ORPHANED", "STARVATION_RISK", "WAITING_OUTSIDE", "CONTENTION", "PROGRESSING"
]
WORST_FIRST: Final[tuple[Verdict | None, ...]] = (
    "DEADLOCK",
    "LIVELOCK",
    None,
    "ORPHANED",
    "STARVATION_RISK",
    "WAITING_OUTSIDE",
    "CONTENTION",
    "PROGRESSING",
)
"""None: not judged (yet): suspected of a deadlock and being probed, cut off by a limit, or after an epoch change."""

_DECIDED: Final = 16
_SUSPECTED: Final = 32
"""Ends of chains beside those of `hanging`: in a core that was decided on, or in one that was not."""


class Waiter(Struct, frozen=True):
    """One strand that waits. *in_core*: whether it is part of a deadlock, not behind one."""

    agent: str
    session: str
    execution: str
    strand: str
    verdict: Verdict | None
    in_core: bool
    edges: list[Edge]


class Component(Struct, frozen=True):
    """Who waits for one another. *verdict*: the worst in it; *others*: all others, worst first.

    *agents*: the verdict on each; *cycles*: of deadlocks and livelocks, first == last; *decided*: how often the most
    frequent of them was decided on lately.
    """

    verdict: Verdict | None
    others: list[Verdict | None]
    agents: dict[str, Verdict | None]
    cycles: list[list[str]]
    decided: int
    runs: list[str]
    waiters: list[Waiter]


class RunVerdict(Struct, frozen=True):
    """Of one run: the worst of its components, and all others, worst first."""

    verdict: Verdict | None
    others: list[Verdict | None]


class Verdicts(Struct, frozen=True):
    """All components, worst first. *total*: open requests and waits; *judged*: those looked at, of them that block.

    *suspects*: strands that the engine has not judged yet. *agents*: of every live agent its worst verdict; IDLE: it
    neither waits nor works.
    """

    network: str
    epoch: int
    total: int
    judged: int
    suspects: int
    components: list[Component]
    agents: dict[str, Verdict | Literal["IDLE"] | None]
    runs: dict[str, RunVerdict]


class Judge:
    """Answers one question; good only until the next fact."""

    def __init__(self, kernel: "Kernel", now: float, limit: int) -> None:
        self._kernel, self._t, self._now = kernel, kernel.tables, now
        graph = self._t.waiting.graph
        strands = self._t.waiting.strands
        self._cores = list(_first_cores(graph.cores(), limit))
        self._stuck = {key_of(strands[node]) for node in graph.stuck()}
        self._orphaned = {key_of(strands[node]) for node in graph.orphaned()}
        self._chosen = list(islice(self._parts(), limit + 1))
        self._is_cut = len(self._chosen) > limit
        del self._chosen[limit:]
        self._hanging = Hanging(self._t)
        for part in self._chosen:
            self._hanging.enter(part)
        self._cycles: dict[Key, list[tuple[str, ...]]] = {}
        self._in_core = self._mark_cores()
        self._ends = self._followed()
        self._livelocks = kernel.detector.repeats.livelocks(now)
        self._again = {key: cycle for key in self._hanging.waiters if (cycle := self._builds(key))}
        for key, again in self._again.items():
            self._cycles.setdefault(key, []).append(again)

    # -- which waits

    def _all_parts(self) -> Iterator[Part]:
        messages = self._t.messages
        blocking: Iterator[Part] = (message for message in messages.open.values() if _is_edge(message))
        opened: Iterator[Part] = iter(messages.waits.values())
        yield from merge(blocking, opened, key=lambda part: part.opened_at)

    def _parts(self) -> Iterator[Part]:
        waiting = self._t.waiting
        nodes = sorted(waiting.graph.stuck() | waiting.graph.orphaned())
        seen: set[str] = set()
        handles = (handle for node in nodes for handle in waiting.graph.waits_of(node))
        first = (wait for handle in handles if (wait := waiting.waits.get(handle)) is not None)
        urgent = (part for wait in first if (part := first_open(wait)) is not None)
        grouped = (message for wait in first if wait.group for message in wait.group.open.values())
        for part in chain(urgent, grouped, self._all_parts()):
            if part.id not in seen:
                seen.add(part.id)
                yield part

    # -- where chains end

    def _mark_cores(self) -> set[Key]:
        strands, found = self._t.waiting.strands, set()
        for core in self._cores:
            is_decided = self._kernel.detector.is_decided(core)
            for node in core.members:
                key = key_of(strands[node])
                self._hanging.ends[key] = _DECIDED if is_decided else _SUSPECTED
                if is_decided:
                    found.add(key)
            if is_decided:
                cycle = tuple(agents_of([strands[node] for node in core.cycle]))
                self._cycles.setdefault(key_of(strands[core.members[0]]), []).append(cycle)
        return found

    def _followed(self) -> dict[Point, int]:
        """For each point what its chains end in, as bits."""
        links = self._hanging.links
        backward: dict[Point, list[Point]] = {}
        for point, others in links.items():
            for other in others:
                backward.setdefault(other, []).append(point)
        ends = dict(self._hanging.ends)
        for point in backward:
            if point not in links and isinstance(point[0], Session):
                ends[point] = ends.get(point, 0) | self._end_of(point)
        todo = deque(ends)
        while todo:
            point = todo.popleft()
            for waiter in backward.get(point, ()):
                before = ends.get(waiter, 0)
                ends[waiter] = before | ends[point]
                if ends[waiter] != before:
                    todo.append(waiter)
        return ends

    def _end_of(self, key: Key) -> int:
        """Of a strand none of whose waits was looked at."""
        session, execution, strand_id = key
        if not session.live:
            return 0  # lost: the engine says what that means
        strand = session.strands.get((execution, strand_id))
        may_wait = (strand is not None and strand.open_waits) or len(session.open)
        return UNJUDGED if self._is_cut and may_wait else WORKING

    # -- verdicts

    def of(self, key: Key) -> Verdict | None:
        """The verdict on one strand that waits."""
        if self._t.is_reconciling:
            return None  # who holds and produces what is not known again yet
        ends = self._ends.get(key, 0)
        if key in self._stuck:
            is_decided = key in self._in_core or (ends & _DECIDED and not ends & _SUSPECTED)
            return "DEADLOCK" if is_decided else None
        if key in self._again:
            return "LIVELOCK"
        if key in self._orphaned:
            return "ORPHANED"
        if ends & WORKING:
            return "CONTENTION"
        if ends & UNJUDGED:
            return None
        if ends & NOBODY:
            return "STARVATION_RISK"
        return "WAITING_OUTSIDE" if ends & OUTSIDE else "PROGRESSING"

    def _builds(self, key: Key) -> tuple[str, ...] | None:
        """The cycle, decided on again and again, of which *key* builds up one step anew."""
        if not self._livelocks:
            return None
        holders = {str(holder[0].name) for holder in self._hanging.strands(self._hanging.links.get(key, ()))}
        for cycle in self._livelocks:
            steps = pairwise(cycle)
            if any(agent == key[0].name and following in holders for agent, following in steps):
                return cycle
        return None

    def verdicts(self) -> Verdicts:
        """All of them."""
        components = [self._component(keys) for keys in self._components()]
        shown = {tuple(cycle) for component in components for cycle in component.cycles}
        components += [_retried(cycle, n) for cycle, n in self._livelocks.items() if cycle not in shown]
        components.sort(
            key=lambda component: (WORST_FIRST.index(component.verdict), sorted(component.agents))
        )
        total = sum(len(session.open) for session in self._t.sessions.all())
        suspects = self._t.waiting.graph.suspects
        agents = self._agents(components)
        network, epoch, judged = self._kernel.network, self._kernel.epoch, len(self._chosen)
        return Verdicts(network, epoch, total, judged, suspects, components, agents, _runs(components))

    def _components(self) -> list[list[Key]]:
        """The strands that are tied together by what they wait for."""
        parent: dict[Point, Point] = {}

        def root(point: Point) -> Point:
            while (above := parent.setdefault(point, point)) != point:
                parent[point] = parent[above]
                point = above
            return point

        for point, others in self._hanging.links.items():
            for other in others:
                if other[0] != "end":
                    parent[root(point)] = root(other)
        found: dict[Point, list[Key]] = {}
        for point in list(parent) + list(self._hanging.waiters):
            if isinstance(point[0], Session):
                keys = found.setdefault(root(point), [])
                if point not in keys[-1:]:
                    keys.append(point)
        return [list(dict.fromkeys(keys)) for keys in found.values()]

    def _component(self, keys: list[Key]) -> Component:
        waiters = [self._waiter(key) for key in keys if self._waits(key)]
        waiters.sort(key=lambda waiter: (WORST_FIRST.index(waiter.verdict), waiter.agent, waiter.execution))
        agents: dict[str, Verdict | None] = {}
        for waiter in waiters:
            agents.setdefault(waiter.agent, waiter.verdict)
        for session, *_ in (key for key in keys if not self._waits(key) and key[0].live):
            agents.setdefault(session.name, "PROGRESSING")
        through = (cycle for key in keys for cycle in self._cycles.get(key, ()))
        cycles = [list(cycle) for cycle in dict.fromkeys(through)]
        found = sorted({waiter.verdict for waiter in waiters}, key=WORST_FIRST.index)
        decided = max((self._livelocks.get(tuple(cycle), 0) for cycle in cycles), default=0)
        if decided and found[0] == "DEADLOCK" and "LIVELOCK" not in found:
            found.insert(1, "LIVELOCK")
        runs = {run for key in keys for part in self._hanging.waiters.get(key, ()) if (run := _run(part))}
        return Component(found[0], found[1:], agents, cycles, decided, sorted(runs), waiters)

    def _waits(self, key: Key) -> bool:
        """Whether it waits itself, or for its own strands."""
        return key in self._hanging.waiters or key in self._hanging.links

    def _waiter(self, key: Key) -> Waiter:
        session, execution, strand = key
        parts = self._hanging.waiters.get(key, ())
        edges = [edge for part in parts for edge in self._hanging.edges(part, self._now)]
        in_core = key in self._in_core
        return Waiter(session.name, session.id, execution, strand, self.of(key), in_core, edges)

    def _agents(self, components: list[Component]) -> dict[str, Verdict | Literal["IDLE"] | None]:
        found: dict[str, Verdict | Literal["IDLE"] | None] = {}
        for component in components:  # worst first
            for agent, verdict in component.agents.items():
                found.setdefault(agent, verdict)
        for name, entry in islice(self._t.sessions.agents.items(), self._t.limits.verdict_waits):
            sessions = entry.sessions.values()
            if sessions:
                works = any(leg.state == "running" for session in sessions for leg in session.held.values())
                found.setdefault(name, "PROGRESSING" if works else "IDLE")
        return found


def _runs(components: list[Component]) -> dict[str, RunVerdict]:
    found: dict[str, dict[Verdict | None, None]] = {}
    for component in components:
        for run in component.runs:
            found.setdefault(run, {}).update(dict.fromkeys([component.verdict, *component.others]))
    ordered = {run: sorted(verdicts, key=WORST_FIRST.index) for run, verdicts in found.items()}
    return {run: RunVerdict(verdicts[0], verdicts[1:]) for run, verdicts in ordered.items()}


def _retried(cycle: tuple[str, ...], decided: int) -> Component:
    """A deadlock that comes again and again, and of which nothing stands now."""
    agents: dict[str, Verdict | None] = dict.fromkeys(cycle, "LIVELOCK")
    return Component("LIVELOCK", [], agents, [list(cycle)], decided, [], [])


def _is_edge(message: Message) -> bool:
    """Whether its sender stands still for it; its client may have said that it does not any more."""
    wait = message.group.wait if message.group is not None else message.wait
    return message.blocks and (message.is_unentered or wait is not None)


def _run(part: Part) -> str | None:
    return part.envelope.run if isinstance(part, Message) else part.body.run


def _first_cores(cores: list[Core], limit: int) -> Iterator[Core]:
    """As many as have *limit* members."""
    for core in cores:
        limit -= len(core.members)
        if limit < 0:
            break
        yield core
