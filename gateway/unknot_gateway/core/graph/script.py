"""The case format on top of the graph: names, aliases, generations, tombstones, deadlines.

What a step means is said in the README of the cases; where that leaves a choice: a wait that is not entered (its
waiter crashed or is at a newer generation, it is over or closed already) changes nothing. A tombstone stays. What
nothing is known of holds nobody up. An alias of two names in use makes them one: at the newer generation, lost when
either is.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from unknot_gateway.core.graph import conditions, steps
from unknot_gateway.core.graph.conditions import OUTSIDE, Condition, Node
from unknot_gateway.core.graph.graph import CHECK_STEPS, Graph
from unknot_gateway.core.graph.steps import ScriptError

__all__ = ["Report", "Script", "ScriptError"]

DRAIN_STEPS = 100_000


class Report(Struct, frozen=True):
    """Names, all sorted: the whole stuck set, one canonical cycle for each core, the cores, the tail, the orphans."""

    deadlocked: list[str]
    cycles: list[list[str]]
    cores: list[list[str]]
    tail: list[str]
    orphaned: list[str]


class Open(Struct):
    """An open wait, as the step said it, with names resolved."""

    step: steps.Wait
    waiter: str
    handle: conditions.Wait


class Pool(Struct):
    """What is said of a resource."""

    handle: conditions.Resource
    capacity: int | None
    fifo: bool
    held: dict[str, int]


class Made(Struct):
    """What is said of an artifact."""

    handle: conditions.Artifact
    producers: dict[str, None]
    produced: bool = False


class Script:
    """A graph driven by steps. *check_steps*: the inline budget of one check; None: the default."""

    def __init__(self, check_steps: int | None = None) -> None:
        self._steps = CHECK_STEPS if check_steps is None else check_steps
        self._graph = Graph(self._steps)
        self._now = 0.0
        self._nodes: dict[str, Node] = {}
        self._aliases: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._lost: set[str] = set()
        self._waits: dict[str, Open] = {}
        self._tombstones: dict[str, int] = {}
        self._pools: dict[str, Pool] = {}
        self._artifacts: dict[str, Made] = {}

    def apply(self, step: Mapping[str, object]) -> None:
        """One step of the format, `expect` excepted; ScriptError when it is malformed: then nothing changed."""
        said = steps.parse(step)
        match said:
            case steps.Wait():
                self._wait(said)
            case steps.Close():
                self._close(said)
            case steps.Resource():
                self._resource(said)
            case steps.Grant():
                self._hold(said.resource, said.holder, said.units)
            case steps.Release():
                self._release(said)
            case steps.Artifact():
                self._artifact(said)
            case steps.Produce():
                self._produce(said)
            case steps.Withdraw():
                self._withdraw(said)
            case steps.Exec():
                self._exec(said)
            case steps.Crash():
                self._crash(self._name(said.id))
            case steps.Alias():
                self._alias(self._name(said.source), self._name(said.to))
            case steps.Tick():
                self._now = max(self._now, said.now)
                self._close_where(
                    lambda wait: wait.step.deadline is not None and wait.step.deadline <= self._now
                )

    def drain(self) -> None:
        """Until no suspect is left."""
        while not self._graph.drain(DRAIN_STEPS):
            pass

    def report(self) -> Report:
        """What is known now; suspects are not worked through."""
        graph = self._graph
        cores = graph.cores()
        inside = {member for core in cores for member in core.members}
        return Report(
            deadlocked=self._names(graph.stuck()),
            cycles=sorted([str(graph.label(node)) for node in core.cycle] for core in cores),
            cores=sorted(self._names(core.members) for core in cores),
            tail=self._names(graph.stuck() - inside),
            orphaned=self._names(graph.orphaned()),
        )

    def _names(self, nodes: Iterable[Node]) -> list[str]:
        return sorted(str(self._graph.label(node)) for node in nodes)

    # ------------------------------------------------------------------------------------ names
    def _name(self, raw: str) -> str:
        name = raw.removeprefix("agent:")
        while name in self._aliases:
            name = self._aliases[name]
        return name

    def _node(self, raw: str) -> Node:
        name = self._name(raw)
        if name not in self._nodes:
            self._nodes[name] = self._graph.add(name)
        return self._nodes[name]

    def _alias(self, old: str, new: str) -> None:
        if old == new:
            return
        self._aliases[old] = new
        if old in self._lost:
            self._lost = self._lost - {old} | {new}
        generation = max(self._generations.pop(old, 0), self._generations.get(new, 0))
        self._generations[new] = generation
        for wait in self._waits.values():
            wait.waiter = self._name(wait.waiter)
        self._waits = {
            id: wait
            for id, wait in self._waits.items()
            if wait.waiter != new or (wait.step.gen >= generation and new not in self._lost)
        }
        for pool in self._pools.values():
            if units := pool.held.pop(old, 0):
                pool.held[new] = pool.held.get(new, 0) + units
        for made in self._artifacts.values():
            made.producers = {self._name(producer): None for producer in made.producers}
        self._rebuild()

    def _rebuild(self) -> None:
        """The graph anew from what was said: rare, and simpler than to change what nodes are."""
        self._graph, self._nodes = Graph(self._steps), {}
        for name in self._lost:
            self._graph.lose(self._node(name))
        for id, pool in self._pools.items():
            pool.handle = self._graph.add_resource(id, pool.capacity, fifo=pool.fifo)
            for name, units in pool.held.items():
                self._graph.grant(pool.handle, self._node(name), units)
        for id, made in self._artifacts.items():
            made.handle = self._graph.add_artifact(id)
            for name in made.producers:
                self._graph.add_producer(made.handle, self._node(name))
            if made.produced:
                self._graph.produce(made.handle)
        for wait in self._waits.values():
            wait.handle = self._enter(wait.step)

    # ------------------------------------------------------------------------------------ waits
    def _wait(self, step: steps.Wait) -> None:
        waiter, known = self._name(step.waiter), self._waits.get(step.id)
        if (
            waiter in self._lost
            or step.gen < self._generations.get(waiter, 0)
            or step.gen <= self._tombstones.get(step.id, step.gen - 1)
            or (known is not None and step.gen <= known.step.gen)
            or (step.deadline is not None and step.deadline <= self._now)
        ):
            return
        self._end(step.id)
        self._waits[step.id] = Open(step, waiter, self._enter(step))

    def _enter(self, step: steps.Wait) -> conditions.Wait:
        return self._graph.open(
            self._node(step.waiter), [self._condition(leaf) for leaf in step.on], step.need
        )

    def _condition(self, leaf: steps.Leaf) -> Condition:
        if leaf.exec is not None:
            return conditions.execution(self._node(leaf.exec))
        if leaf.artifact is not None:
            return conditions.artifact(self._made(leaf.artifact).handle)
        if leaf.resource is not None:
            return conditions.resource(self._pool(leaf.resource).handle, leaf.units)
        if leaf.any is not None:
            return conditions.any_of(*map(self._condition, leaf.any))
        return OUTSIDE

    def _close(self, step: steps.Close) -> None:
        known = self._waits.get(step.id)
        gen = step.gen if step.gen is not None else known.step.gen if known is not None else 0
        if known is not None and gen < known.step.gen:
            return
        self._end(step.id)
        self._tombstones[step.id] = max(gen, self._tombstones.get(step.id, gen))

    def _end(self, id: str) -> None:
        wait = self._waits.pop(id, None)
        if wait is not None:
            self._graph.close(wait.handle)

    def _close_where(self, over: Callable[[Open], bool]) -> None:
        for id in [id for id, wait in self._waits.items() if over(wait)]:
            self._end(id)

    def _exec(self, step: steps.Exec) -> None:
        name = self._name(step.id)
        if step.gen > self._generations.get(name, 0):
            self._generations[name] = step.gen
            self._lost.discard(name)
            self._graph.revive(self._node(name))
            self._close_where(lambda wait: wait.waiter == name and wait.step.gen < step.gen)

    def _crash(self, name: str) -> None:
        self._lost.add(name)
        self._waits = {id: wait for id, wait in self._waits.items() if wait.waiter != name}
        self._graph.lose(self._node(name))

    # ------------------------------------------------------------------- resources and artifacts
    def _pool(self, id: str) -> Pool:
        """What nothing was said of has no bound."""
        if id not in self._pools:
            self._pools[id] = Pool(self._graph.add_resource(id, None, fifo=True), None, True, {})
        return self._pools[id]

    def _resource(self, step: steps.Resource) -> None:
        pool = self._pool(step.id)
        turned, pool.fifo, pool.capacity = pool.fifo is not step.fifo, step.fifo, step.capacity
        if turned:
            self._rebuild()
        self._graph.set_capacity(pool.handle, step.capacity)
        if step.held is not None:
            for name in tuple(pool.held):
                self._graph.release(pool.handle, self._node(name))
            pool.held = {}
            for name, units in step.held.items():
                self._hold(step.id, name, units)

    def _hold(self, id: str, holder: str, units: int) -> None:
        pool, name = self._pool(id), self._name(holder)
        held = pool.held.pop(name, 0) + units
        if held > 0:
            pool.held[name] = held
            self._graph.grant(pool.handle, self._node(name), units)

    def _release(self, step: steps.Release) -> None:
        pool, name = self._pool(step.resource), self._name(step.holder)
        self._graph.release(pool.handle, self._node(name), step.units)
        held = pool.held.pop(name, 0)
        if step.units is not None and held > step.units:
            pool.held[name] = held - step.units

    def _made(self, id: str) -> Made:
        if id not in self._artifacts:
            self._artifacts[id] = Made(self._graph.add_artifact(id), {})
        return self._artifacts[id]

    def _artifact(self, step: steps.Artifact) -> None:
        made = self._made(step.id)
        for raw in step.producers:
            made.producers[self._name(raw)] = None
            self._graph.add_producer(made.handle, self._node(raw))

    def _produce(self, step: steps.Produce) -> None:
        made = self._made(step.id)
        made.produced = True
        self._graph.produce(made.handle)

    def _withdraw(self, step: steps.Withdraw) -> None:
        made = self._made(step.id)
        made.producers.pop(self._name(step.producer), None)
        self._graph.withdraw(made.handle, self._node(step.producer))
