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
        self._nodes, self._waits, self._stuck = model.nodes, model.waits, model.stuck
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
        if depth > DEPTH_MAX or node in self._stuck:
            return False
        for wait in row.waits:
            if not self._satisfied(wait, depth):
                return False
        self._seen[node] = True
        return True

    def again(self, node: int) -> bool:
        """Once more with what has been proved: whom the first attempt met too early it may prove now."""
        if self.spent > self._steps:
            return False
        self._seen = {known: True for known, proved in self._seen.items() if proved}
        return self.goes(node)

    def _satisfied(self, wait: int, depth: int) -> bool:
        """First what is known or needs no proof of a node that waits, then nodes, last what hangs on several."""
        row = self._waits[wait]
        missing, left = row.need, len(row.conditions)
        self.spent += 1 + left
        nodes: list[int] = []
        others: list[Condition] = []
        for condition in row.conditions:
            if condition.kind != EXECUTION:
                others.append(condition)
            elif (known := self._known(condition.target)) is None:
                nodes.append(condition.target)
            elif known:
                missing -= 1
            else:
                left -= 1
        for node in nodes:
            if missing <= 0 or missing > left or self.spent > self._steps:
                break
            proved = self.goes(node, depth + 1)
            missing -= proved
            left -= not proved
        for condition in others:
            if missing <= 0 or missing > left or self.spent > self._steps:
                break
            proved = self._true(condition, wait, depth)
            missing -= proved
            left -= not proved
        return missing <= 0

    def _known(self, node: int) -> bool | None:
        """Whether *node* goes on, where that needs no proof."""
        known = self._seen.get(node)
        if known is None:
            row = self._nodes.get(node)
            if row is None or not row.waits:
                return True
        return known

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
        if len(row.queue) > AHEAD_MAX and row.queue[AHEAD_MAX][0] <= wait:
            return False
        for at, entry in enumerate(row.queue[:AHEAD_MAX]):
            if entry[0] == wait:
                return at + 1 == len(row.queue) or row.queue[at + 1][0] != wait
            self.spent += 1
            if self.spent > self._steps or not self.goes(entry[3], depth + 1):
                return False
        return False
