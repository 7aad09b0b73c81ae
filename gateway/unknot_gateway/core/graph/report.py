"""Cores, their cycles and tails: what the stuck set rests on, as a graph, and its strongly connected parts."""

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from unknot_gateway.core.graph.conditions import ARTIFACT, EXECUTION, RESOURCE, Condition, Node, Wait
from unknot_gateway.core.graph.cycles import shortest_cycle
from unknot_gateway.core.graph.edges import Edges
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.reduce import Reduction
from unknot_gateway.core.graph.rows import WaitRow


class Core(Struct, frozen=True):
    """A strongly connected part of the stuck set that is stuck by itself.

    `members` by label; `cycle` the shortest in it, of those the least by label, from its least member, without the
    closing repeat; `waits` its members' unsatisfied waits with a false condition that leads into it.
    """

    members: tuple[Node, ...]
    cycle: tuple[Node, ...]
    waits: tuple[Wait, ...]


def refresh(model: Model) -> None:
    """Find out which places of stuck nodes count for nothing: what is said of single conditions depends on it."""
    model.leaving = set()
    if model.odd:
        reduction = Reduction(model, set())
        reduction.run()
        model.leaving = reduction.left


def cores_among(model: Model, starts: Iterable[int]) -> list[Core]:
    """The cores that *starts*, known stuck nodes, belong to or rest on; by members."""
    refresh(model)
    edges = Edges(model, starts)
    found = [_core(model, edges, members) for members in _parts(model, edges)]
    return sorted(found, key=lambda core: [edges.order[member] for member in core.members])


def _parts(model: Model, edges: Edges) -> Iterator[list[int]]:
    """Largest strongly connected parts that are stuck when everyone else goes on."""
    todo = [set(edges.order)]
    while todo:
        for part in edges.strong_parts(todo.pop()):
            members = set(part)
            alone = Reduction(model, set(members), alone=True).run()
            if alone == members:
                yield part
            elif alone:  # somebody who waits for an outsider tied it together; the rest may hide a core
                todo.append(alone)


def _core(model: Model, edges: Edges, members: list[int]) -> Core:
    inside = set(members)
    into = Into(model, inside)
    waits = [row.wait for member in members for row in model.nodes[member].waits if into.leads(row)]
    return Core(
        members=tuple(map(Node, sorted(members, key=edges.order.__getitem__))),
        cycle=tuple(map(Node, shortest_cycle(edges, inside))),
        waits=tuple(map(Wait, sorted(waits))),
    )


class Into:
    """Which waits have a false condition that rests on one of a set of stuck nodes."""

    def __init__(self, model: Model, inside: Collection[int]) -> None:
        self._model, self._inside = model, inside
        self._first: dict[int, tuple[int, int] | None] = {}

    def leads(self, row: WaitRow) -> bool:
        """Whether the wait is unsatisfied, and a false condition of it rests on one of them."""
        model = self._model
        return not model.wait_satisfied(row) and any(
            self._leaf(leaf, (row.wait, spot)) for spot, leaf in model.false_leaves(row)
        )

    def _leaf(self, leaf: Condition, place: tuple[int, int]) -> bool:
        if leaf.kind == EXECUTION:
            return leaf.target in self._inside
        if leaf.kind == ARTIFACT:
            return any(node in self._inside for node in self._model.artifacts[leaf.target].producers)
        if leaf.kind != RESOURCE:
            return False
        first = self._first_place(leaf.target)
        return first is not None and first < place

    def _first_place(self, resource: int) -> tuple[int, int] | None:
        """From where on in the queue everybody rests on one of them; None: nobody does."""
        if resource not in self._first:
            row = self._model.resources[resource]
            places = [(0, -1)] if any(node in self._inside for node in row.held) else []
            if row.fifo and not places:
                places = [entry[:2] for entry in row.stuck if entry[3] in self._inside]
                places = [place for place in places if place not in self._model.leaving]
            self._first[resource] = places[0] if places else None
        return self._first[resource]


def tail_of(model: Model, core: Core, cores: Iterable[Core]) -> list[int]:
    """The stuck nodes that belong to no core and rest on *core*, directly or through others of no core; by label."""
    refresh(model)
    edges = Edges(model, model.stuck)
    others = {member for other in cores for member in other.members}
    found = edges.resting_on(core.members, others)
    return sorted(found, key=edges.order.__getitem__)
