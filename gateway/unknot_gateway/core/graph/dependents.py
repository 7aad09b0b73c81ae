"""Who depends on a node: the search against the direction of waiting."""

from bisect import bisect_right
from collections.abc import Iterable
from sys import maxsize

from unknot_gateway.core.graph.bags import Bag
from unknot_gateway.core.graph.model import Model, blocked_before
from unknot_gateway.core.graph.rows import ResourceRow, WaitRow


def has_dependents(model: Model, node: int) -> bool:
    """Whether any wait, its own ones included, could be true or false because of *node*."""
    row = model.nodes[node]
    if row.dependents:
        return True
    for made in row.makes:
        if model.artifacts[made].waits:
            return True
    for held in row.holds or ():
        if model.resources[held].queue:
            return True
    return any(pool.fifo and pool.queue[-1] != entry for pool, entry in model.entries(node))


class Dependents:
    """The waiting nodes that depend on *starts*, directly or through each other; `closed`: one of them does.

    *stuck*: of the known stuck set; else of all others, through odd stuck ones. *widest* bounds what one node may add:
    `too_wide`, and the search is void.
    """

    def __init__(
        self, model: Model, starts: Iterable[int], *, stuck: bool = False, widest: int | None = None
    ) -> None:
        self._model, self._stuck, self._widest = model, stuck, widest
        self._starts = set(starts)
        self.todo = list(self._starts)
        self.seen: set[int] = set()
        self._through: set[int] = set()
        self._newly_stuck = False
        self.closed = self.too_wide = False
        self.spent = 0
        self._scanned: dict[int, int] = {}

    def run(self, spent: int | None = None) -> bool:
        """Go on until *spent* steps are spent in all, None: to the end. Whether it is at the end."""
        while self.todo and not self.too_wide:
            if spent is not None and self.spent >= spent:
                return False
            self.expand(self.todo.pop())
        return not self.too_wide

    def direct(self, *, newly_stuck: bool = False) -> set[int]:
        """Only who depends on *starts* directly, or through odd stuck ones.

        *newly_stuck*: and has not been behind another stuck one that blocks its queue before.
        """
        self._newly_stuck = newly_stuck and not self._model.odd
        while self.todo:
            node = self.todo.pop()
            if node not in self.seen:
                self.expand(node)
        return self.seen

    def expand(self, node: int) -> None:
        """Take in who depends on *node* directly."""
        model, row = self._model, self._model.nodes[node]
        self.spent += 1
        self._reach(row.dependents)
        for made in row.makes:
            self._reach(model.artifacts[made].waits)
        for resource in row.holds or ():
            self._scan(resource, model.resources[resource], 0)
        for wait in row.waits:
            for resource, spot, _ in model.asks(wait) if wait.others else ():
                pool, place = model.resources[resource], (wait.wait, spot)
                if self._newly_stuck and blocked_before(pool, place):
                    continue
                if pool.fifo and pool.queue[-1][:2] != place:
                    self._scan(resource, pool, bisect_right(pool.queue, (*place, maxsize)))

    def _reach(self, waits: Bag[WaitRow]) -> None:
        if self._fits(len(waits)):
            for wait in waits:
                self._take(wait.waiter)

    def _scan(self, resource: int, pool: ResourceRow, first: int) -> None:
        scanned = self._scanned.get(resource, len(pool.queue))
        if first < scanned and self._fits(scanned - first):
            self._scanned[resource] = first
            for entry in pool.queue[first:scanned]:
                self._take(entry[3])

    def _fits(self, width: int) -> bool:
        self.spent += width
        if self._widest is not None and width > self._widest:
            self.too_wide = True
        return not self.too_wide

    def _take(self, node: int) -> None:
        if node in self._starts:
            self.closed = True
        elif (node in self._model.stuck) is self._stuck:
            if node not in self.seen:
                self.seen.add(node)
                self.todo.append(node)
        elif node in self._model.odd and node not in self._through:
            self._through.add(node)
            self.todo.append(node)
