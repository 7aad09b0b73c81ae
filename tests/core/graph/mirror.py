"""A graph under test and a plain record of what was done to it, from which the same graph can be built anew."""

from collections.abc import Collection, Iterable
from typing import Any

from unknot_gateway.core.graph import (
    NEVER,
    OUTSIDE,
    Condition,
    Core,
    Graph,
    any_of,
    artifact,
    execution,
    resource,
)

Leaf = tuple[Any, ...]
"""("exec", node) ("artifact", made) ("resource", pool, units) ("outside",) ("never",) ("any", leaves)"""


class Mirror:
    """Everything here is named by numbers of the record; `handles` are the graph's."""

    def __init__(self, check_steps: int) -> None:
        self.graph = Graph(check_steps=check_steps)
        self.handles: dict[int, Any] = {}
        self.nodes: set[int] = set()
        self.lost: set[int] = set()
        self.waits: dict[int, tuple[int, list[Leaf], int | None]] = {}
        self.pools: dict[int, tuple[int | None, bool, dict[int, int]]] = {}
        self.makers: dict[int, set[int] | None] = {}  # None: produced

    def _named(self, handle: Any) -> int:
        number = len(self.handles)
        self.handles[number] = handle
        return number

    # ------------------------------------------------------------------------------------ nodes
    def add(self) -> None:
        self.nodes.add(self._named(self.graph.add(_label(len(self.handles)))))

    def remove(self, node: int) -> None:
        self._end(node)
        self.nodes.remove(node)
        self.lost.discard(node)
        for _, _, held in self.pools.values():
            held.pop(node, None)
        for makers in self.makers.values():
            (makers or set()).discard(node)
        self.graph.remove(self.handles[node])

    def lose(self, node: int) -> None:
        self._end(node)
        self.lost.add(node)
        self.graph.lose(self.handles[node])

    def _end(self, node: int) -> None:
        self.waits = {wait: each for wait, each in self.waits.items() if each[0] != node}

    # ------------------------------------------------------------------------------------ waits
    def open(self, node: int, on: list[Leaf], need: int | None) -> None:
        conditions = [condition(self.handles, leaf) for leaf in on]
        wait = self._named(self.graph.open(self.handles[node], conditions, need))
        if node in self.nodes and node not in self.lost:
            self.waits[wait] = (node, list(on), need)

    def close(self, wait: int) -> None:
        self.waits.pop(wait, None)
        self.graph.close(self.handles[wait])

    def change(self, wait: int, index: int, leaf: Leaf) -> None:
        self.waits[wait][1][index] = leaf
        self.graph.change(self.handles[wait], index, condition(self.handles, leaf))

    # ------------------------------------------------------------------- resources and artifacts
    def add_pool(self, capacity: int | None, fifo: bool) -> None:
        handle = self.graph.add_resource(_label(len(self.handles)), capacity, fifo=fifo)
        self.pools[self._named(handle)] = (capacity, fifo, {})

    def set_capacity(self, pool: int, capacity: int | None) -> None:
        self.pools[pool] = (capacity, *self.pools[pool][1:])
        self.graph.set_capacity(self.handles[pool], capacity)

    def grant(self, pool: int, node: int, units: int) -> None:
        held = self.pools[pool][2]
        held[node] = held.get(node, 0) + units
        self.graph.grant(self.handles[pool], self.handles[node], units)

    def release(self, pool: int, node: int, units: int | None) -> None:
        held = self.pools[pool][2]
        held[node] = held.get(node, 0) - (held.get(node, 0) if units is None else units)
        if held[node] <= 0:
            del held[node]
        self.graph.release(self.handles[pool], self.handles[node], units)

    def remove_pool(self, pool: int) -> None:
        del self.pools[pool]
        self.graph.remove_resource(self.handles[pool])

    def add_artifact(self) -> None:
        self.makers[self._named(self.graph.add_artifact(_label(len(self.handles))))] = set()

    def add_producer(self, made: int, node: int) -> None:
        makers = self.makers[made]
        if makers is not None:
            makers.add(node)
        self.graph.add_producer(self.handles[made], self.handles[node])

    def withdraw(self, made: int, node: int) -> None:
        (self.makers[made] or set()).discard(node)
        self.graph.withdraw(self.handles[made], self.handles[node])

    def produce(self, made: int) -> None:
        self.makers[made] = None
        self.graph.produce(self.handles[made])

    # ------------------------------------------------------------------------------------- read
    def numbers(self, handles: Iterable[Any]) -> set[int]:
        """The record's numbers of nodes of the graph."""
        return {node for node in self.nodes if self.handles[node] in set(handles)}

    def anew(self, running: Collection[int] = (), ignore: Collection[int] = ()) -> Graph:
        """The same state without its history, drained; without the waits of *running* and those in *ignore*."""
        graph = Graph()
        handles: dict[int, Any] = {}
        for number in self.handles:
            if number in self.pools:
                capacity, fifo, _ = self.pools[number]
                handles[number] = graph.add_resource(_label(number), capacity, fifo=fifo)
            elif number in self.makers and self.makers[number] is not None:
                handles[number] = graph.add_artifact(_label(number))
            elif number in self.nodes:
                handles[number] = graph.add(_label(number))
        for node in self.lost:
            graph.lose(handles[node])
        for pool, (_, _, held) in self.pools.items():
            for node, units in held.items():
                graph.grant(handles[pool], handles[node], units)
        for made, makers in self.makers.items():
            for node in makers or ():
                graph.add_producer(handles[made], handles[node])
        for wait, (node, on, need) in self.waits.items():
            if node not in running and wait not in ignore:
                graph.open(handles[node], [condition(handles, leaf) for leaf in on], need)
        while not graph.drain(1_000):
            pass
        return graph


def _label(number: int) -> str:
    return f"n{number:04}"


def condition(handles: dict[int, Any], leaf: Leaf) -> Condition:
    """The condition of the graph with these *handles*; what is gone has none and is true."""
    kind = leaf[0]
    if kind == "any":
        return any_of(*(condition(handles, each) for each in leaf[1]))
    if kind == "never":
        return NEVER
    if kind == "outside" or leaf[1] not in handles:
        return OUTSIDE
    if kind == "exec":
        return execution(handles[leaf[1]])
    return artifact(handles[leaf[1]]) if kind == "artifact" else resource(handles[leaf[1]], leaf[2])


def shown(graph: Graph, cores: list[Core]) -> list[Any]:
    """Cores by labels: members, cycle, number of waits."""
    return sorted(
        (
            [graph.label(each) for each in core.members],
            [graph.label(each) for each in core.cycle],
            len(core.waits),
        )
        for core in cores
    )
