"""A quick proof that a node can go on: found for most, and much cheaper than a search that is exact either way.

It derives from nodes that do not wait, each node at most once, so what it proves is true; what it does not prove in its
few steps, or because it met a node that it was just about to prove, is left to the search.
"""

from unknot_gateway.core.graph.conditions import ANY, ARTIFACT, EXECUTION, RESOURCE, TRUE, Condition
from unknot_gateway.core.graph.model import Model, ResourceRow

DEPTH_MAX = 40
"""Nested proofs: the only recursion here, and bounded by this."""
AHEAD_MAX = 32
"""Places ahead in a queue that are looked at."""


class Proof:
    """One attempt. `spent` counts nodes and conditions looked at."""

    def __init__(self, model: Model, steps: int) -> None:
        self._model, self._steps = model, steps
        self._nodes, self._waits = model.nodes, model.waits
        self._seen: dict[int, bool] = {}
        self.spent = 0

    def goes(self, node: int, depth: int = 0) -> bool:
        """Whether it is proved that *node* can go on."""
        known = self._seen.get(node)
        if known is not None:
            return known
        row = self._nodes.get(node)
        if row is None or not row.waits:
            return True
        self._seen[node] = False
        if depth > DEPTH_MAX or node in self._model.stuck:
            return False
        proved = all(self._satisfied(wait, depth) for wait in row.waits)
        self._seen[node] = proved
        return proved

    def _satisfied(self, wait: int, depth: int) -> bool:
        row = self._waits[wait]
        conditions, missing = row.conditions, row.need
        self.spent += 1 + len(conditions)
        later: list[Condition] = []
        for condition in conditions:
            if condition.kind == EXECUTION and self._waiting(condition.target):
                later.append(condition)
            elif self._true(condition, wait, depth):
                missing -= 1
        for at, condition in enumerate(later):
            if missing <= 0 or missing > len(later) - at or self.spent > self._steps:
                break
            missing -= self.goes(condition.target, depth + 1)
        return missing <= 0

    def _waiting(self, node: int) -> bool:
        row = self._nodes.get(node)
        return row is not None and bool(row.waits)

    def _true(self, condition: Condition, wait: int, depth: int) -> bool:
        kind = condition.kind
        if kind == EXECUTION:
            return self.goes(condition.target, depth + 1)
        if self.spent > self._steps:
            return False
        if kind == ARTIFACT:
            made = self._model.artifacts.get(condition.target)
            if made is None or not made.producers:
                return True
            return any(self.goes(node, depth + 1) for node in made.producers)
        if kind == RESOURCE:
            return self._served(condition, wait, depth)
        return kind == TRUE or (
            kind == ANY and any(self._true(each, wait, depth) for each in condition.options)
        )

    def _served(self, condition: Condition, wait: int, depth: int) -> bool:
        row = self._model.resources.get(condition.target)
        if row is None or row.capacity is None:
            return True
        if row.fifo and not self._at_head(row, wait, depth):
            return False
        left = row.capacity - row.held_units
        if condition.units <= left:
            return True
        for node, units in row.held.items():
            self.spent += 1
            if self.spent > self._steps:
                return False
            if self.goes(node, depth + 1):
                left += units
                if condition.units <= left:
                    return True
        return False

    def _at_head(self, row: ResourceRow, wait: int, depth: int) -> bool:
        """Whether everybody ahead of *wait*, which has one place in the queue, is proved to go on."""
        for at, entry in enumerate(row.queue[:AHEAD_MAX]):
            if entry[0] == wait:
                return at + 1 == len(row.queue) or row.queue[at + 1][0] != wait
            self.spent += 1
            if self.spent > self._steps or not self.goes(entry[3], depth + 1):
                return False
        return False
