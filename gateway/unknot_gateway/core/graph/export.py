"""A graph as steps of the case format: replayed from nothing, they give the same verdicts."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from unknot_gateway.core.graph.conditions import (
    ARTIFACT,
    EXECUTION,
    FALSE,
    RESOURCE,
    Condition,
    Label,
    Wait,
    leaves,
)
from unknot_gateway.core.graph.edges import sort_key
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.rows import WaitRow

BETWEEN: Final = "#"
"""Between the parts of a label: less than any character of an id, so that names sort as labels do."""

Step = dict[str, Any]


class Names:
    """What things are called in steps: their label; of two with the same the later has its handle behind it."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()

    def of(self, handle: int, label: Label) -> str:
        """The name of what *handle* stands for."""
        if handle not in self._names:
            parts = [*sort_key(label)]
            while len(parts) > 1 and not parts[-1]:
                parts.pop()
            name = BETWEEN.join(parts)
            self._names[handle] = name if name not in self._taken else f"{name}{BETWEEN}{BETWEEN}{handle}"
            self._taken.add(self._names[handle])
        return self._names[handle]


class Export:
    """Writes *waits* of a graph, and all that they rest on, as steps. *id_of*: what a wait is called."""

    def __init__(self, model: Model, lost: Collection[int], id_of: Callable[[Wait], str | None]) -> None:
        self._model, self._lost, self._id_of = model, lost, id_of
        self._nodes, self._things = Names(), Names()

    def node(self, node: int) -> str:
        """What *node* is called in the steps."""
        return self._nodes.of(node, self._model.nodes[node].label)

    def steps(self, waits: Iterable[int]) -> Iterator[Step]:
        """First what is held and produced by whom, then who is lost, then the waits in order of opening."""
        chosen = sorted(waits)
        rows = [self._model.waits[wait] for wait in chosen]
        resources = sorted({target for row in rows for target, _, _ in self._model.asks(row)})
        yield from map(self._resource, resources)
        yield from map(self._artifact, sorted(self._artifacts_of(rows)))
        for node in sorted(self._lost):
            yield {"op": "crash", "id": self.node(node)}
        yield from map(self._wait, chosen)

    def _artifacts_of(self, rows: Iterable[WaitRow]) -> set[int]:
        known = self._model.artifacts
        found = (leaf for row in rows for condition in row.conditions for leaf in leaves(condition))
        return {leaf.target for leaf in found if leaf.kind == ARTIFACT and leaf.target in known}

    def _resource(self, resource: int) -> Step:
        row = self._model.resources[resource]
        step: Step = {"op": "resource", "id": self._things.of(resource, row.label), "fifo": row.fifo}
        if row.capacity is not None:
            step["capacity"] = row.capacity
        return step | {"held": {self.node(node): units for node, units in row.held.items()}}

    def _artifact(self, artifact: int) -> Step:
        row = self._model.artifacts[artifact]
        producers = [self.node(node) for node in row.producers]
        return {"op": "artifact", "id": self._things.of(artifact, row.label), "producers": producers}

    def _wait(self, wait: int) -> Step:
        row = self._model.waits[wait]
        step: Step = {
            "op": "wait",
            "id": self._id_of(Wait(wait)) or f"{BETWEEN}{wait}",
            "waiter": self.node(row.waiter),
            "on": [self._condition(condition) for condition in row.conditions],
        }
        if row.need != len(row.conditions):
            step |= {"mode": "k", "k": max(0, row.need)}
        return step

    def _condition(self, condition: Condition) -> Step:
        """One that is false for ever is an any-of without options; on what is gone, one that is true."""
        model, target = self._model, condition.target
        if condition.options or condition.kind == FALSE:
            return {"any": [self._condition(option) for option in condition.options]}
        if condition.kind == EXECUTION and target in model.nodes:
            return {"exec": self.node(target)}
        if condition.kind == ARTIFACT and target in model.artifacts:
            return {"artifact": self._things.of(target, model.artifacts[target].label)}
        if condition.kind == RESOURCE and target in model.resources:
            name = self._things.of(target, model.resources[target].label)
            return {"resource": name, "units": condition.units}
        return {"external": "outside"}
