"""Who of a region can go on: the least fixpoint by counters, in time linear in what the region waits for.

Whoever is outside the region counts as able to go on, unless it is known to be stuck. A reduction is told its nodes one
by one and keeps its own record of what they wait for and hold, so it can be built and run in slices; when the graph
changes meanwhile, what it finds must be confirmed (see `sweep`).
"""

from bisect import bisect_left
from collections.abc import Collection, Set

from msgspec import Struct

from unknot_gateway.core.graph.conditions import ANY, ARTIFACT, EXECUTION, RESOURCE, TRUE, Condition
from unknot_gateway.core.graph.model import SPOT_BITS, Model, ResourceRow, WaitRow

GOES, PENDING, STANDS = range(3)
"""What is known of a node or a condition: it goes on (is true), that is open yet, it stands still (is false)."""

NO_CELL = -1
"""In a queue only because its waiter is: its own condition decides nothing here."""

Place = tuple[int, int, int, int, int]
"""An entry of a queue, and the cell that it fires when it is served."""


class Pool(Struct, gc=False):
    """A resource as the reduction sees it; the places before the cursor are served or gone."""

    row: ResourceRow
    places: list[Place]
    base: int = 0
    """Units that are not held by known stuck nodes."""
    held: int = 0
    """Units held by nodes of the region that have not gone on."""
    kept: int = 0
    """Units served to such nodes."""
    cursor: int = 0
    scanned: int = 0
    """Entries of the queue whose waiters were taken into the region."""
    sealed: bool = False


class Reduction:
    """One fixpoint over a region; `todo` are the nodes to add, `done` those that go on, `spent` counts the steps."""

    def __init__(
        self,
        model: Model,
        region: set[int],
        *,
        alone: bool = False,
        ignore: Collection[int] = (),
        widest: int | None = None,
    ) -> None:
        """*alone*: whoever is outside the region goes on. *ignore*: these waits do not count.

        *widest*: the region grows by whomever it waits for, so that only the known stuck set stays outside it;
        `too_wide` says that a resource with more holders and waiters than that was met, and the rest is void.
        """
        self.model, self.region, self.ignore = model, region, ignore
        self.grow, self.widest, self.too_wide = widest is not None, widest or 0, False
        self.standing: Set[int] = frozenset() if alone else model.stuck
        self.done: set[int] = set()
        self.todo: list[int] = list(region)
        self.spent = 0
        self._unmet: dict[int, int] = {}
        self._need: list[int] = []  # by slot: true conditions that are missing; a slot is a wait
        self._waiter: list[int] = []  # by slot
        self._slot: list[
            int
        ] = []  # by cell: a cell is a condition that is open yet; NO_CELL once it has fired
        self._watch: dict[int, list[int]] = {}  # node -> cells
        self._makes: dict[int, list[int]] = {}  # node -> artifacts
        self._made: dict[int, list[int]] = {}  # artifact -> cells
        self._pools: dict[int, Pool] = {}
        self._holds: dict[int, list[tuple[Pool, int]]] = {}  # node -> units it holds
        self._served: dict[int, list[tuple[Pool, int]]] = {}  # node -> units it was served
        self._queues: dict[int, list[Pool]] = {}  # node -> pools in whose queue it is
        self._unsealed: list[Pool] = []
        self._ready: list[int] = []

    # -------------------------------------------------------------------------------------- run
    def run(self) -> set[int]:
        """To the end: the nodes of the region that cannot go on."""
        while not self.step():
            pass
        return self.standing_still()

    def run_until(self, spent: int, node: int) -> bool:
        """Until *spent* steps are spent in all; whether it is at the end, or *node* goes on, which is all asked for."""
        while self.spent < spent and not self.too_wide:
            if self.step() or node in self.done:
                return not self.too_wide
        return False

    def step(self) -> bool:
        """One piece of work; True when none is left."""
        if self.todo:
            self.add(self.todo.pop())
        elif self._unsealed:
            self._seal(self._unsealed.pop())
        elif self._ready:
            self._go(self._ready.pop())
        return not (self.todo or self._unsealed or self._ready)

    def standing_still(self) -> set[int]:
        """The nodes of the region that have not gone on."""
        return self.region - self.done

    # ------------------------------------------------------------------------------------ build
    def bar(self, node: int) -> None:
        """*node* is in the region and can never go on, whatever it waits for."""
        self.region.add(node)
        self._unmet[node] = 1
        self._hold(node)

    def add(self, node: int) -> None:
        """Record what *node* waits for and holds; at once done when nothing of that is open."""
        if node in self._unmet or node in self.done:
            return
        row = self.model.nodes.get(node)
        waits = [wait for wait in row.waits if wait not in self.ignore] if row is not None else ()
        missing = [self._missing(wait) for wait in waits]
        unmet = sum(count > 0 for count in missing)
        if not unmet:
            self.done.add(node)
            self._ready.append(node)
            return
        self._unmet[node] = unmet
        self._hold(node)
        self.spent += 1
        for wait, count in zip(waits, missing, strict=True):
            self._enter(wait, self.model.waits[wait], count)

    def _missing(self, wait: int) -> int:
        """How many more conditions must become true than are so for sure."""
        row = self.model.waits[wait]
        missing = row.need
        for condition in row.conditions:
            if missing > 0 and self._known(condition) == GOES:
                missing -= 1
        return missing

    def _known(self, condition: Condition) -> int:
        kind, target = condition.kind, condition.target
        if kind == EXECUTION:
            return self._node(target)
        if kind == RESOURCE:
            row = self.model.resources.get(target)
            if row is None or row.capacity is None:
                return GOES
            alone = not row.fifo or len(row.queue) == 1
            return GOES if alone and condition.units <= row.capacity - row.held_units else PENDING
        if kind == ARTIFACT:
            made = self.model.artifacts.get(target)
            if made is None or not made.producers:
                return GOES
            return min(map(self._node, made.producers))
        if kind == ANY:
            return min(map(self._known, condition.options))
        return GOES if kind == TRUE else STANDS

    def _node(self, node: int) -> int:
        if node in self.done:
            return GOES
        if node in self.region:
            return PENDING
        if node in self.standing:
            return STANDS
        if self.grow and (row := self.model.nodes.get(node)) is not None and row.waits:
            return PENDING
        return GOES

    def _enter(self, wait: int, row: WaitRow, missing: int) -> None:
        slot = len(self._need)
        self.spent += len(row.conditions)
        self._need.append(missing)
        self._waiter.append(row.waiter)
        for index, condition in enumerate(row.conditions):
            kind = condition.kind
            if missing <= 0 and kind not in (RESOURCE, ANY):
                continue  # the wait is satisfied: only its places in queues matter
            cell = NO_CELL
            if missing > 0 and self._known(condition) == PENDING:
                cell = len(self._slot)
                self._slot.append(slot)
            self._await(condition, cell, wait, row.waiter, index << SPOT_BITS)

    def _await(self, condition: Condition, cell: int, wait: int, waiter: int, spot: int) -> None:
        kind, target = condition.kind, condition.target
        if kind == RESOURCE:
            self._queue(target, (wait, spot, condition.units, waiter, cell))
        elif kind == ANY:
            for at, option in enumerate(condition.options, spot):
                self._await(option, cell, wait, waiter, at)
        elif cell == NO_CELL:
            return
        elif kind == EXECUTION:
            self._await_node(target, cell)
        elif kind == ARTIFACT:
            self._await_artifact(target, cell)

    def _await_node(self, node: int, cell: int) -> None:
        if self._node(node) == PENDING:
            self._watch.setdefault(node, []).append(cell)
            self._grow(node)

    def _await_artifact(self, artifact: int, cell: int) -> None:
        if artifact not in self._made:
            self._made[artifact] = []
            for node in self.model.artifacts[artifact].producers:
                if self._node(node) == PENDING:
                    self._makes.setdefault(node, []).append(artifact)
                    self._grow(node)
        self._made[artifact].append(cell)

    def _grow(self, node: int) -> None:
        if node not in self.region:
            self.region.add(node)
            self.todo.append(node)

    def _hold(self, node: int) -> None:
        for resource, units in (self.model.nodes[node].holds or {}).items():
            pool = self._pool(resource)
            pool.held += units
            self._holds.setdefault(node, []).append((pool, units))

    def _pool(self, resource: int) -> Pool:
        pool = self._pools.get(resource)
        if pool is None:
            pool = self._pools[resource] = Pool(self.model.resources[resource], [])
        return pool

    def _queue(self, resource: int, place: Place) -> None:
        row = self.model.resources.get(resource)
        if row is None or row.capacity is None or (place[4] == NO_CELL and not row.fifo):
            return
        pool = self._pool(resource)
        if not pool.places:
            self._unsealed.append(pool)
        pool.places.append(place)
        self._queues.setdefault(place[3], []).append(pool)
        if self.grow:
            self._grow_by(pool, place)

    def _grow_by(self, pool: Pool, place: Place) -> None:
        row = pool.row
        ahead = bisect_left(row.queue, place[:2]) if row.fifo else 0
        holders = row.held if len(pool.places) == 1 else ()
        self.spent += len(holders) + max(0, ahead - pool.scanned)
        if len(holders) + ahead - pool.scanned > self.widest:
            self.too_wide = True
            return
        for node in holders:
            if self._node(node) == PENDING:
                self._grow(node)
        for entry in row.queue[pool.scanned : ahead]:
            if self._node(entry[3]) == PENDING:
                self._grow(entry[3])
        pool.scanned = max(pool.scanned, ahead)

    # -------------------------------------------------------------------------------- propagate
    def _seal(self, pool: Pool) -> None:
        """All places are known: put them in order, among those of the known stuck set, and serve."""
        row = pool.row
        pool.base = row.capacity or 0
        if self.standing:
            pool.base -= row.stuck_units
            if row.fifo:
                pool.places.extend((*entry, NO_CELL) for entry in row.stuck)
        pool.places.sort(key=None if row.fifo else _by_units)
        pool.sealed = True
        self.spent += len(pool.places)
        self._serve(pool)

    def _serve(self, pool: Pool) -> None:
        places, fifo = pool.places, pool.row.fifo
        left = max(0, pool.base - pool.held) - pool.kept
        while pool.cursor < len(places):
            _, _, units, waiter, cell = places[pool.cursor]
            if not (fifo and waiter in self.done):
                if units > left:
                    break
                if fifo:
                    left -= units
                    pool.kept += units
                    self._served.setdefault(waiter, []).append((pool, units))
                if cell != NO_CELL:
                    self._fire(cell)
            pool.cursor += 1
            self.spent += 1

    def _fire(self, cell: int) -> None:
        slot = self._slot[cell]
        if slot == NO_CELL:
            return
        self._slot[cell] = NO_CELL
        self._need[slot] -= 1
        if self._need[slot] == 0:
            waiter = self._waiter[slot]
            self._unmet[waiter] -= 1
            if self._unmet[waiter] == 0:
                self.done.add(waiter)
                self._ready.append(waiter)

    def _go(self, node: int) -> None:
        """*node* goes on: what waits for it, for what it makes, holds and was served may be true now."""
        cells = self._watch.pop(node, [])
        for made in self._makes.pop(node, ()):
            cells += self._made.pop(made, ())
        self.spent += 1 + len(cells)
        for cell in cells:
            self._fire(cell)
        for pool, units in self._holds.pop(node, ()):
            pool.held -= units
            self._queues.setdefault(node, []).append(pool)
        for pool, units in self._served.pop(node, ()):
            pool.kept -= units
        for pool in self._queues.pop(node, ()):
            if pool.sealed:
                self._serve(pool)


def _by_units(place: Place) -> int:
    return place[2]
