"""The shortest cycle of a core, of those the lexicographically least by label, from its least member."""

from unknot_gateway.core.graph.edges import Edges

SEARCH_STEPS_MAX = 300_000
"""Then the shortest cycle found so far is shown: cores of some hundred members are searched to the end, and a larger
one is no easier to read for a cycle that is shorter still."""


def shortest_cycle(edges: Edges, inside: set[int]) -> list[int]:
    """The members of the cycle in order, without the closing repeat."""
    members = sorted(inside, key=edges.order.__getitem__)
    for member in members:
        if member in edges.loops:
            return [member]
    search = _Search(edges, inside)
    length, start = len(members) + 1, members[0]
    hopeless: set[int] = set()  # no cycle shorter than the one known leads through them
    for member in members:
        way = _one_way(edges, member, hopeless)
        if way[-1] not in hopeless:
            found = search.through(way[-1], length - 1)
            length, start = (found, way[-1]) if found else (length, start)
        hopeless.update(way)
        if length == 2 or search.steps > SEARCH_STEPS_MAX:
            break
    cycle = search.least(_first_on(members, start, length, search), length)
    least = cycle.index(min(cycle, key=edges.order.__getitem__))
    return cycle[least:] + cycle[:least]


def _one_way(edges: Edges, node: int, stop: set[int]) -> list[int]:
    """From *node* on as long as there is only one way: every cycle through it leads through all of them."""
    way = {node: None}
    while node not in stop:
        links = edges.links[node]
        if len(links) != 1 or links[0] < 0 or links[0] in way:
            break
        node = links[0]
        way[node] = None
    return list(way)


def _first_on(members: list[int], start: int, length: int, search: "_Search") -> int:
    """The least member on a cycle of this length; *start* is on one."""
    for member in members:
        if member == start or search.steps > 2 * SEARCH_STEPS_MAX:
            return start
        if search.through(member, length) == length:
            return member
    return start


class _Search:
    """Walks of a core that count nodes and pass through points for nothing."""

    def __init__(self, edges: Edges, inside: set[int]) -> None:
        self._edges, self._inside = edges, inside
        self.steps = 0

    def through(self, start: int, longest: int) -> int:
        """The length of the shortest cycle through *start*; 0 when it is longer than *longest*."""
        links = self._edges.links
        seen = set()
        front = [start]
        for length in range(1, longest + 1):
            todo = [point for node in front for point in links[node]]
            front = []
            while todo:
                point = todo.pop()
                self.steps += 1
                if point == start:
                    return length
                if point not in seen and (point < 0 or point in self._inside):
                    seen.add(point)
                    if point < 0:
                        todo += links[point]
                    else:
                        front.append(point)
            if not front:
                break
        return 0

    def least(self, start: int, length: int) -> list[int]:
        """Of the cycles of this length through *start*, the shortest there is, the least by label."""
        away = self._distances_to(start, length)
        cycle = [start]
        for left in range(length - 1, 0, -1):
            following = [node for node in self._next_nodes(cycle[-1]) if away.get(node) == left]
            cycle.append(min(following, key=self._edges.order.__getitem__))
        return cycle

    def _distances_to(self, goal: int, longest: int) -> dict[int, int]:
        backward = self._edges.backward()
        away: dict[int, int] = {goal: 0}
        seen = {goal}
        front = [goal]
        for distance in range(1, longest):
            todo = [point for node in front for point in backward[node]]
            front = []
            while todo:
                point = todo.pop()
                if point not in seen and (point < 0 or point in self._inside):
                    seen.add(point)
                    if point < 0:
                        todo += backward[point]
                    else:
                        away[point] = distance
                        front.append(point)
        return away

    def _next_nodes(self, node: int) -> list[int]:
        found, seen, todo = [], set(), list(self._edges.links[node])
        while todo:
            point = todo.pop()
            if point not in seen:
                seen.add(point)
                if point < 0:
                    todo += self._edges.links[point]
                elif point in self._inside:
                    found.append(point)
        return found
