"""From the folded state to what is new in it: incidents that appear and dissolve, orphans, waits for nobody."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from unknot_gateway.core.graph import Core, Node
from unknot_gateway.replay.fold import Fold, Standing
from unknot_gateway.replay.limits import SHOWN_MAX
from unknot_gateway.replay.lines import OUTSIDE
from unknot_gateway.replay.remedies import remedy
from unknot_gateway.replay.verdicts import (
    Cured,
    Dissolved,
    Edge,
    Finding,
    Incident,
    Orphaned,
    Outside,
    Unresolved,
)
from unknot_schemas.ids import agent_id

Key = frozenset[tuple[object, ...]]


class _Open(Struct):
    found: Incident
    waits: list[Standing]


class Judge:
    """Compares what is with what was. *confirm*: how long something only reported must stand to be acted on."""

    def __init__(self, fold: Fold, confirm: int) -> None:
        self._fold, self._confirm = fold, confirm
        self.incidents = 0
        self._open: dict[Key, _Open] = {}
        self.orphans: dict[Standing, Edge] = {}

    @property
    def standing(self) -> list[int]:
        """The numbers of the incidents that have not dissolved."""
        return [each.found.number for each in self._open.values()]

    def look(self, at: int) -> Iterator[Finding]:
        """What is new at *at*, after everything of that instant."""
        fold = self._fold
        if not fold.is_touched:
            return
        fold.is_touched = False
        fold.settle()
        cores = {self._key(core): core for core in fold.graph.cores()}
        for key in [key for key in self._open if key not in cores]:
            yield self._dissolved(at, self._open.pop(key), cores)
        for key, core in cores.items():
            if key not in self._open:
                yield self._incident(at, key, core)
        yield from self._orphans(at)
        opened, fold.opened = fold.opened, []
        for standing in opened:
            if (
                not standing.ended
                and not _may_still_come(standing)
                and (why := self.why_unresolved(standing))
            ):
                yield Unresolved(at, outside(standing), why)

    # -- cores

    def _key(self, core: Core) -> Key:
        return frozenset(self._fold.by_wait[wait].key for wait in core.waits)

    def _incident(self, at: int, key: Key, core: Core) -> Incident:
        waits = [self._fold.by_wait[wait] for wait in core.waits]
        edges = sorted((self.edge(each) for each in waits), key=lambda edge: (edge.agent, edge.run))
        ends = [end for edge in edges if (end := self._ends_at(edge)) is not None]
        self.incidents += 1
        found = Incident(
            at,
            self.incidents,
            self._agents([*core.cycle, core.cycle[0]])[:SHOWN_MAX],
            sorted(set(self._agents(core.members)))[:SHOWN_MAX],
            edges[:SHOWN_MAX],
            sorted(set(self._agents(self._fold.graph.tail_of(core))))[:SHOWN_MAX],
            self.outside_of({edge.run for edge in edges})[:SHOWN_MAX],
            "reported",
            max(edge.since for edge in edges),
            min(ends, default=None),
            remedy(edges),
        )
        self._open[key] = _Open(found, waits)
        return found

    def _ends_at(self, edge: Edge) -> int | None:
        lease = self._fold.owners.lease(edge.id) if edge.kind == "lock" else None
        ends = [end for end in (edge.deadline_at, lease) if end is not None]
        return min(ends, default=None)

    def _dissolved(self, at: int, was: _Open, cores: dict[Key, Core]) -> Dissolved:
        inside = {key for core in cores for key in core}
        because = [
            f"{each.agent}'s wait for {_target(each)}: {each.ended}" for each in was.waits if each.ended
        ]
        if not because and any(each.key in inside for each in was.waits):
            because = ["others belong to it, too, now"]
        before = {(edge.kind, edge.id): edge.owners for edge in was.found.edges}
        because = because or [
            self._owned(each) for each in was.waits if before.get(_names(each)) != self.edge(each).owners
        ]
        stood = at - was.found.at
        return Dissolved(
            at, was.found.number, was.found.cycle, because[:SHOWN_MAX], stood, stood >= self._confirm
        )

    def _owned(self, standing: Standing) -> str:
        owners = self.edge(standing).owners
        own = "produced" if standing.target.kind == "artifact" else "held"
        return f"{_target(standing)} is {own + ' by ' + ' or '.join(owners) if owners else 'free'} now"

    def _agents(self, nodes: Sequence[Node]) -> list[str]:
        return [self._fold.owners.of_node[node][0] for node in nodes]

    # -- orphans and what is no edge

    def _orphans(self, at: int) -> Iterator[Finding]:
        fold = self._fold
        nodes = fold.graph.orphaned()
        now = {standing for standing in fold.by_wait.values() if standing.node in nodes} if nodes else set()
        for standing in [standing for standing in self.orphans if standing not in now]:
            was = self.orphans[standing]
            because = standing.ended or (
                self._owned(standing)
                if self.edge(standing).owners != was.owners
                else "who it waits for can go on"
            )
            yield Cured(at, self.orphans.pop(standing), because)
        for standing in sorted(now - self.orphans.keys(), key=lambda each: (each.agent, each.run)):
            self.orphans[standing] = self.edge(standing)
            yield self._orphaned(at, standing)

    def _orphaned(self, at: int, standing: Standing) -> Orphaned:
        owners = self._fold.owners
        chain = self._fold.graph.chain(standing.handle, SHOWN_MAX)
        last = next((node for node in chain if owners.of_node[node][2].is_lost), chain[-1])
        before = chain[max(0, chain.index(last) - 1)]
        target = next((each.target for each in self._fold.by_wait.values() if each.node == before), None)
        until = owners.lease(target.id) if target is not None and target.kind == "lock" else None
        return Orphaned(at, self.edge(standing), self._agents(chain), owners.of_node[last][0], until)

    def why_unresolved(self, standing: Standing) -> str:
        """Why the wait is an edge to nobody; empty: it is none, or is outside."""
        if standing.target.kind in OUTSIDE:
            return ""
        if self._fold.owners.point(standing.target, standing.run) is not None:
            return ""
        return {
            "agent": "no agent of this name was ever heard of",
            "artifact": "nobody is known to produce it",
            "lock": "nobody is known to hold it",
        }[standing.target.kind]

    def outside_of(self, runs: set[str] | None = None) -> list[Outside]:
        """Waits that a tool or a human ends, in *runs* (None: in all)."""
        return [
            outside(each)
            for each in self._fold.standing
            if each.target.kind in OUTSIDE and (runs is None or each.run in runs)
        ]

    def unresolved(self) -> list[Outside]:
        """Waits that are an edge to nobody now."""
        return [outside(each) for each in self._fold.standing if self.why_unresolved(each)]

    def edge(self, standing: Standing) -> Edge:
        """The wait as an edge to whoever can make it come true."""
        point = self._fold.owners.point(standing.target, standing.run)
        owners = [owner.agent for owner in point.owners][:SHOWN_MAX] if point is not None else []
        return Edge(
            standing.agent,
            standing.run,
            standing.target.kind,
            standing.target.id,
            owners,
            standing.since,
            standing.deadline_at,
        )


def outside(standing: Standing) -> Outside:
    """The wait as one that is no edge."""
    return Outside(standing.agent, standing.run, standing.target.kind, standing.target.id, standing.since)


def _may_still_come(standing: Standing) -> bool:
    """Whether it names an agent that was perhaps not heard of yet: then only the end says so."""
    return standing.target.kind == "agent" and agent_id(standing.target.id) is not None


def _names(standing: Standing) -> tuple[str, str]:
    return standing.target.kind, standing.target.id


def _target(standing: Standing) -> str:
    return f"{standing.target.kind} {standing.target.id}"
