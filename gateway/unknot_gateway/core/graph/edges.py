"""What stuck nodes rest on, as a graph of ints; queues and groups of holders are points of their own in it.

With such points a queue of n waiters costs n links, not n squared.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

from unknot_gateway.core.graph.conditions import ARTIFACT, EXECUTION, RESOURCE, Condition, Label
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.rows import ResourceRow


def sort_key(label: Label) -> tuple[str, ...]:
    """Labels in order: a plain name sorts as a label of one part."""
    return (label,) if isinstance(label, str) else label


class Edges:
    """The part of the graph that is reached from *starts*, which are stuck.

    A point below zero is no node: it stands for whoever it links to. `order` gives each node its rank by label;
    `loops` are the nodes that rest on themselves.
    """

    def __init__(self, model: Model, starts: Iterable[int]) -> None:
        self._model = model
        self.links: dict[int, list[int]] = {}
        self.loops: set[int] = set()
        self._points: dict[tuple[int, int, int], int] = {}
        self._first: dict[
            int, dict[int, int]
        ] = {}  # resource -> waiter -> its first place in the stuck queue
        self._todo = list(starts)
        while self._todo:
            node = self._todo.pop()
            if node not in self.links:
                self.links[node] = links = self._links_of(node)
                self._todo += (other for other in links if other >= 0 and other not in self.links)
        nodes = [node for node in self.links if node >= 0]
        nodes.sort(key=lambda node: (sort_key(model.nodes[node].label), node))
        self.order = {node: rank for rank, node in enumerate(nodes)}

    # ------------------------------------------------------------------------------------ build
    def _links_of(self, node: int) -> list[int]:
        model = self._model
        found: dict[int, None] = {}
        for wait in model.nodes[node].waits:
            if not model.wait_satisfied(wait):
                for spot, leaf in model.false_leaves(wait):
                    found.update(dict.fromkeys(self._leaf(node, leaf, (wait.wait, spot))))
        if node in found:
            self.loops.add(node)
        return list(found)

    def _leaf(self, node: int, leaf: Condition, place: tuple[int, int]) -> Collection[int]:
        if leaf.kind == EXECUTION:
            return (leaf.target,)
        if leaf.kind == ARTIFACT:
            return self._model.artifacts[leaf.target].producers
        if leaf.kind != RESOURCE:
            return ()
        row = self._model.resources[leaf.target]
        ahead = bisect_left(row.stuck, place) if row.fifo else 0
        if node in row.held or self._first_place(leaf.target, row).get(node, ahead) < ahead:
            self.loops.add(node)
        return (self._ahead(leaf.target, row, ahead),)

    def _first_place(self, resource: int, row: ResourceRow) -> dict[int, int]:
        if resource not in self._first:
            places = reversed(list(enumerate(row.stuck)))
            leaving = self._model.leaving
            self._first[resource] = {entry[3]: at for at, entry in places if entry[:2] not in leaving}
        return self._first[resource]

    def _ahead(self, resource: int, row: ResourceRow, ahead: int) -> int:
        """The point of the stuck holders and the first *ahead* stuck waiters of a queue."""
        known = ahead
        while known and (RESOURCE, resource, known) not in self._points:
            known -= 1
        if not known:
            holders = [node for node in row.held if node in self._model.stuck]
            self._point((RESOURCE, resource, 0), holders)
        for at in range(known, ahead):
            entry, before = row.stuck[at], self._points[RESOURCE, resource, at]
            counts = entry[:2] not in self._model.leaving
            self._point((RESOURCE, resource, at + 1), [entry[3], before] if counts else [before])
        return self._points[RESOURCE, resource, ahead]

    def _point(self, key: tuple[int, int, int], links: list[int]) -> None:
        if key not in self._points:
            point = self._points[key] = -1 - len(self._points)
            self.links[point] = links
            self._todo += (other for other in links if other >= 0 and other not in self.links)

    # ------------------------------------------------------------------------------------- read
    def strong_parts(self, allowed: Collection[int]) -> Iterator[list[int]]:
        """The strongly connected parts of the graph of *allowed* that hold a cycle."""
        for part in self._components(allowed):
            nodes = [point for point in part if point >= 0]
            if len(nodes) > 1 or (nodes and nodes[0] in self.loops):
                yield nodes

    def _components(self, allowed: Collection[int]) -> Iterator[list[int]]:
        """Tarjan's algorithm, with its own stack."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        path: list[int] = []
        closed: set[int] = set()
        for start in allowed:
            walk = [] if start in index else [(start, self._enter(start, index, low, path))]
            while walk:
                point, links = walk[-1]
                for other in links:
                    if other >= 0 and other not in allowed:
                        continue
                    if other not in index:
                        walk.append((other, self._enter(other, index, low, path)))
                        break
                    if other not in closed:
                        low[point] = min(low[point], index[other])
                else:
                    walk.pop()
                    if walk:
                        low[walk[-1][0]] = min(low[walk[-1][0]], low[point])
                    if low[point] == index[point]:
                        part = _cut(path, point)
                        closed.update(part)
                        yield part

    def _enter(
        self, point: int, index: dict[int, int], low: dict[int, int], path: list[int]
    ) -> Iterator[int]:
        index[point] = low[point] = len(index)
        path.append(point)
        return iter(self.links[point])

    def backward(self) -> dict[int, list[int]]:
        """Every link the other way round."""
        found: dict[int, list[int]] = {point: [] for point in self.links}
        for point, links in self.links.items():
            for other in links:
                found[other].append(point)
        return found

    def resting_on(self, nodes: Iterable[int], others: Collection[int]) -> list[int]:
        """Who rests on *nodes*, directly or through each other, but is none of *others*."""
        backward = self.backward()
        seen: set[int] = set()
        todo = [point for node in nodes for point in backward[node]]
        while todo:
            point = todo.pop()
            if point not in seen and point not in others:
                seen.add(point)
                todo += backward[point]
        return [point for point in seen if point >= 0]


def _cut(path: list[int], point: int) -> list[int]:
    at = len(path) - 1
    while path[at] != point:
        at -= 1
    part = path[at:]
    del path[at:]
    return part
