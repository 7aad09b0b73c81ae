"""Who can make what come true: agents, locks and artifacts as points of the graph, and the executions behind them.

An execution is an agent in a run; one that was lost is none of the agent's any more, its next descriptor is a new
life's. A fact names only an agent, so whoever waits for what it owns goes on while *any* of its executions can. A
wait for an agent means its execution in the waiter's own run, where it was seen there.
"""

from msgspec import Struct, field

from unknot_gateway.core.graph import Artifact, Condition, Graph, Node, artifact
from unknot_gateway.replay.lines import Target


class Life(Struct, eq=False):
    """One life of an agent. *nodes*: its executions, by run; one that only facts name is in run None."""

    agent: str
    nodes: dict[str | None, Node] = field(default_factory=dict)
    owns: dict[Target, None] = field(default_factory=dict)
    is_lost: bool = False


class Point(Struct, eq=False):
    """Something that is waited for: true while one of its *owners* can go on, or while it has none."""

    handle: Artifact
    owners: list[Life] = field(default_factory=list)
    is_known: bool = False
    """Whether anything was ever said of it."""
    until: int | None = None
    """When the lease of its holder ends."""


class Owners:
    """All points and lives of one recording."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._points: dict[Target, Point] = {}
        self._lives: dict[str, Life] = {}
        self._asked: dict[str, dict[str, Point]] = {}
        """Waits for an agent as a whole: by agent and by the run of the waiter."""
        self.of_node: dict[Node, tuple[str, str | None, Life]] = {}

    # ------------------------------------------------------------------------------- executions
    def node(self, agent: str, run: str) -> Node:
        """The living execution of *agent* in *run*."""
        life = self._living(agent)
        if run not in life.nodes:
            adopted = life.nodes.pop(None, None)
            if adopted is not None:
                life.nodes[run] = adopted
                self.of_node[adopted] = (agent, run, life)
            else:
                self._add(life, run)
            self._narrow(life, run)
        return life.nodes[run]

    def _living(self, agent: str) -> Life:
        life = self._lives.get(agent)
        if life is None or life.is_lost:
            life = self._lives[agent] = Life(agent)
            for point in self._asked.get(agent, {}).values():
                self._leave(point)  # whoever waits for the agent waits for its new life
                point.owners = [life]
        return life

    def _owner(self, agent: str) -> Life:
        """The latest life of *agent*, lost or not, with an execution."""
        life = self._lives.get(agent) or self._living(agent)
        if not life.nodes:
            self._add(life, None)
        return life

    def _add(self, life: Life, run: str | None) -> None:
        node = self._graph.add((life.agent, run or ""))
        life.nodes[run] = node
        self.of_node[node] = (life.agent, run, life)
        for target in life.owns:
            self._graph.add_producer(self._points[target].handle, node)
        for asker, point in self._asked.get(life.agent, {}).items():
            if asker not in life.nodes or asker == run:
                self._graph.add_producer(point.handle, node)

    def _narrow(self, life: Life, run: str) -> None:
        """*life* was seen in *run*: who waits for it there waits for that execution alone."""
        point = self._asked.get(life.agent, {}).get(run)
        if point is not None:
            for other, node in life.nodes.items():
                if other != run:
                    self._graph.withdraw(point.handle, node)
            self._graph.add_producer(point.handle, life.nodes[run])

    def lose(self, agent: str) -> list[Node]:
        """The life of *agent* ended without a word; its executions."""
        life = self._owner(agent)
        life.is_lost = True
        for node in life.nodes.values():
            self._graph.lose(node)
        return list(life.nodes.values())

    # ------------------------------------------------------------------------------------ facts
    def owned(self, target: Target, agent: str, until: int | None = None) -> None:
        """*agent* produces the artifact, or holds the lock alone until *until*."""
        point, life = self._point(target), self._owner(agent)
        point.is_known = True
        if target.kind == "lock":
            point.until = until
            for owner in [owner for owner in point.owners if owner is not life]:
                self._disown(target, point, owner)
        if life not in point.owners:
            point.owners.append(life)
            life.owns[target] = None
            for node in life.nodes.values():
                self._graph.add_producer(point.handle, node)

    def released(self, lock: str, agent: str | None) -> bool:
        """The lock is free again; whether it was *agent*'s to release (None: its lease has ended)."""
        target = Target("lock", lock)
        point = self._points.get(target)
        if point is None or not point.owners or agent not in (None, point.owners[0].agent):
            return False
        point.until = None
        self._disown(target, point, point.owners[0])
        return True

    def _disown(self, target: Target, point: Point, owner: Life) -> None:
        point.owners.remove(owner)
        owner.owns.pop(target)
        for node in owner.nodes.values():
            self._graph.withdraw(point.handle, node)

    def _leave(self, point: Point) -> None:
        for owner in point.owners:
            for node in owner.nodes.values():
                self._graph.withdraw(point.handle, node)

    # ------------------------------------------------------------------------------------ waits
    def condition(self, target: Target, run: str) -> Condition:
        """What a wait for *target* in *run* rests on; not for what is outside."""
        return artifact(
            (self._asked_for(target.id, run) if target.kind == "agent" else self._point(target)).handle
        )

    def point(self, target: Target, run: str) -> Point | None:
        """What is known of *target*; None: nothing was ever said of it, it is an edge to nobody."""
        if target.kind == "agent":
            return self._asked_for(target.id, run) if target.id in self._lives else None
        point = self._points.get(target)
        return point if point is not None and point.is_known else None

    def lease(self, lock: str) -> int | None:
        """When the lease on *lock* ends; None: nobody holds it, or without an end."""
        point = self._points.get(Target("lock", lock))
        return point.until if point is not None else None

    def _point(self, target: Target) -> Point:
        if target not in self._points:
            self._points[target] = Point(self._graph.add_artifact((target.kind, target.id)))
        return self._points[target]

    def _asked_for(self, agent: str, run: str) -> Point:
        asked = self._asked.setdefault(agent, {})
        if run not in asked:
            point = asked[run] = Point(self._graph.add_artifact(("agent", agent, run)))
            life = self._lives.get(agent)
            if life is not None:
                point.owners = [life]
                nodes = [life.nodes[run]] if run in life.nodes else list(life.nodes.values())
                for node in nodes:
                    self._graph.add_producer(point.handle, node)
        return asked[run]
