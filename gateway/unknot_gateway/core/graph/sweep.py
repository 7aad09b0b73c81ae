"""The check of everything, in slices, while the graph goes on changing.

Whoever has a rank is looked at by itself: is it still a proof? Those without one are reduced together, each node as it
was when read. Why that misses nobody: take a set that is stuck by itself from the start of the sweep to its end, with
nothing in it made harder meanwhile. If somebody in it has a rank, that of the lowest is no proof, for all that it could
rest on is outside; it is `broken`, and a check of it finds the set. If nobody has, all of it is reduced, and can at any
moment not go on, whoever outside it does. Where something in it was made harder meanwhile, that change was checked by
itself. Why it accuses nobody: what is left at the end is reduced once more, exactly and at one instant, by who asked.
"""

from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.ranks import Ranking
from unknot_gateway.core.graph.reduce import Reduction

IDLE_PER_STEP = 8
"""Nodes that do not wait, for the price of a step."""


class Sweep:
    """One sweep over the nodes that wait and are not known to be stuck."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.broken: list[int] = []
        """Ranked nodes whose rank is no proof."""
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
        """Who waits without a proof; the steps spent."""
        nodes, model, look = self._nodes, self._model, Ranking(self._model, 0)
        idle = 0
        while nodes and look.spent + idle // IDLE_PER_STEP < steps:
            node = nodes.pop()
            row = model.nodes.get(node)
            if row is None or not row.waits or node in model.stuck:
                idle += 1
            elif row.rank >= model.ceiling:
                self._region.add(node)
                look.spent += 1
            elif not look.stands(row):
                self.broken.append(node)
        return look.spent + idle // IDLE_PER_STEP

    def standing_still(self) -> set[int]:
        """Who has not been found to go on."""
        assert self._reduction is not None
        return self._reduction.standing_still()
