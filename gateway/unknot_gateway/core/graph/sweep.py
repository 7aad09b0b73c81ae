"""The check of everything, in slices, while the graph goes on changing.

It reduces what it reads, each node as it was when read. Why that misses nobody: a set that is stuck by itself from the
start of the sweep to its end, with nothing in it made harder meanwhile, can at any moment not go on, whoever outside it
does; so none of it is ever found to go on. Where something in it was made harder meanwhile, that change was checked by
itself. Why it accuses nobody: what is left at the end is reduced once more, exactly and at one instant, by who asked.
"""

from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.reduce import Reduction


class Sweep:
    """One sweep over the nodes that wait and are not known to be stuck."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes = list(model.nodes)
        self._region: set[int] = set()
        self._reduction: Reduction | None = None

    def run(self, steps: int) -> bool:
        """Go on for *steps*; whether it is at the end."""
        if self._reduction is None:
            steps -= self._gather(steps)
            if self._nodes:
                return False
            self._reduction = Reduction(self._model, self._region)
        end = self._reduction.spent + max(1, steps)
        while self._reduction.spent < end:
            if self._reduction.step():
                return True
        return False

    def _gather(self, steps: int) -> int:
        """Who waits; a node costs half a step."""
        nodes, model = self._nodes, self._model
        for spent in range(max(1, steps) * 2):
            if not nodes:
                return spent // 2
            node = nodes.pop()
            row = model.nodes.get(node)
            if row is not None and row.waits and node not in model.stuck:
                self._region.add(node)
        return steps

    def standing_still(self) -> set[int]:
        """Who has not been found to go on."""
        assert self._reduction is not None
        return self._reduction.standing_still()
