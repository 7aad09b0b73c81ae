"""Who of a region can go on: the least fixpoint by counters, in time linear in what the region waits for.

Whoever is outside the region counts as able to go on, unless it is known to be stuck. A reduction is told its nodes one
by one and keeps its own record of what they wait for and hold, so it can be built and run in slices; when the graph
changes meanwhile, what it finds must be confirmed (see `sweep`).
"""

from bisect import bisect_left
from collections.abc import Collection, Set

from unknot_gateway.core.graph.conditions import ANY, ARTIFACT, EXECUTION, RESOURCE, TRUE, Condition
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.pools import NO_CELL, Entered, Pool
from unknot_gateway.core.graph.rows import SPOT_BITS, Place, ResourceRow, WaitRow

GOES, PENDING, STANDS = range(3)
"""What is known of a node or a condition: it goes on (is true), that is open yet, it stands still (is false)."""

NOBODY, MANY = -2, -1
"""What made a cell true, when it is not the spot of one place in a queue."""

HOLDERS_LOOKED_AT = 8
"""Of a resource with more, only free units are known to be had before all that its holders wait for is looked at."""


class Reduction:
    """One fixpoint over a region; `todo` are the nodes to add, `done` those that go on, `spent` counts the steps."""

    def __init__(
        self,
        model: Model,
        region: set[int],
        *,
        alone: bool = False,
        ignore: Collection[int] = (),
        barred: Collection[int] = (),
        widest: int | None = None,
    ) -> None:
        """*alone*: whoever is outside the region goes on. *ignore*: these waits do not count. *barred*: these nodes
        are in the region and can never go on.

        *widest*: the region grows by whomever it waits for, so that only the known stuck set stays outside it;
        `too_wide` says that a resource with more holders and waiters than that was met, and the rest is void.
        """
        self.model, self.region, self.ignore = model, region, ignore
        self.grow, self.widest, self.too_wide = widest is not None, widest or 0, False
        self.standing: Set[int] = frozenset() if alone else model.stuck
        self.done: set[int] = set()
        self.todo: list[int] = list(region)
        self.spent = 0
        self._open: set[int] = set()
        self._unmet: dict[int, int] = {}
        self.left: set[Place] = set()  # places in queues whose wait is, or can be, over without them
        # By slot, a wait: true conditions that are missing, and who waits.
        self._need: list[int] = []
        self._waiter: list[int] = []
        # By cell, a condition that was open when it was entered: its slot, and what made it true.
        self._slot: list[int] = []
        self._by: list[int] = []
        self._watch: dict[int, list[int]] = {}  # node -> cells
        self._makes: dict[int, list[int]] = {}  # node -> artifacts
        self._made: dict[int, list[int]] = {}  # artifact -> cells
        self._pools: dict[int, Pool] = {}
        self._holds: dict[int, list[tuple[Pool, int]]] = {}  # node -> units it holds
        self._kept: dict[Place, int] = {}  # place -> units it was served
        self._queues: dict[int, list[tuple[Pool, Place, int]]] = {}  # slot -> its places, with their cells
        self._slots: dict[int, list[int]] = {}  # node -> slots with places
        self._unsealed: list[Pool] = []
        self._moved: list[Pool] = []
        self._ready: list[int] = []
        for node in barred:
            self._bar(node)
        for node in () if alone else model.odd:
            self._enter_all(node)

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
        if self._ready:
            self._go(self._ready.pop())
        elif self.todo:
            self.add(self.todo.pop())
        elif self._unsealed:
            self._seal(self._unsealed.pop())
        elif self._moved:
            self._serve(self._moved.pop())
        return not (self.todo or self._unsealed or self._moved or self._ready)

    def standing_still(self) -> set[int]:
        """The nodes of the region that have not gone on."""
        return self._open

    # ------------------------------------------------------------------------------------ build
    def add(self, node: int) -> None:
        """Record what *node* waits for and holds; at once done when nothing of that is open."""
        if node in self._unmet or node in self.done:
            return
        row = self.model.nodes.get(node)
        if row is None or not self._enter_all(node):
            self.done.add(node)
            self._ready.append(node)
        else:
            self._open.add(node)
            self._hold(node)
        self.spent += 1

    def _enter_all(self, node: int) -> int:
        """Enter the waits of *node* that are not satisfied for sure: how many. A satisfied one leaves all queues."""
        missing: list[tuple[WaitRow, int, list[int]]] = []
        for row in self.model.nodes[node].waits:
            if row.wait in self.ignore:
                continue
            known = [
                self._node(each.target) if each.kind == EXECUTION else self._known(each)
                for each in row.conditions
            ]
            count = row.need - known.count(GOES)
            if count > 0:
                missing.append((row, count, known))
            elif node in self.model.odd:
                self.left.update((row.wait, spot) for _, spot, _ in self.model.asks(row))
        if missing:
            self._unmet[node] = len(missing)
            for each_missing in missing:
                self._enter(*each_missing)
        return len(missing)

    def _known(self, condition: Condition) -> int:
        kind, target = condition.kind, condition.target
        if kind == EXECUTION:
            return self._node(target)
        if kind == RESOURCE:
            row = self.model.resources.get(target)
            if row is None or row.capacity is None:
                return GOES
            alone = not row.fifo or len(row.queue) == 1
            return GOES if alone and condition.units <= self._room(row, row.capacity) else PENDING
        if kind == ARTIFACT:
            made = self.model.artifacts.get(target)
            if made is None or not made.producers:
                return GOES
            return min(map(self._node, made.producers))
        if kind == ANY:
            return min(map(self._known, condition.options))
        return GOES if kind == TRUE else STANDS

    def _room(self, row: ResourceRow, capacity: int) -> int:
        """Units that are free, or will be for sure."""
        if len(row.held) > HOLDERS_LOOKED_AT:
            return capacity - row.held_units
        return capacity - sum(units for node, units in row.held.items() if self._node(node) != GOES)

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

    def _enter(self, row: WaitRow, missing: int, known: list[int]) -> None:
        slot = len(self._need)
        self.spent += len(known)
        self._need.append(missing)
        self._waiter.append(row.waiter)
        for index, condition in enumerate(row.conditions):
            state = known[index]
            if state == PENDING or (state == GOES and condition.kind == ANY):
                cell = len(self._slot)
                self._slot.append(slot)
                self._by.append(NOBODY if state == PENDING else MANY)
                self._await(condition, cell, row.wait, row.waiter, index << SPOT_BITS)

    def _await(self, condition: Condition, cell: int, wait: int, waiter: int, spot: int) -> None:
        kind, target = condition.kind, condition.target
        if kind == EXECUTION:
            self._await_node(target, cell)
        elif kind == RESOURCE:
            self._queue(target, (wait, spot, condition.units, waiter, cell))
        elif kind == ARTIFACT and self._known(condition) == PENDING:
            self._await_artifact(target, cell)
        elif kind == ANY:
            for at, option in enumerate(condition.options, spot):
                self._await(option, cell, wait, waiter, at)

    def _await_node(self, node: int, cell: int) -> None:
        if node not in self.region:
            if self._node(node) != PENDING:
                return
            self._grow(node)
        cells = self._watch.get(node)
        if cells is None:
            self._watch[node] = [cell]
        else:
            cells.append(cell)

    def _await_artifact(self, artifact: int, cell: int) -> None:
        if artifact not in self._made:
            self._made[artifact] = []
            for node in self.model.artifacts[artifact].producers:
                if self._node(node) == PENDING:
                    self._makes.setdefault(node, []).append(artifact)
                    if node not in self.region:
                        self._grow(node)
        self._made[artifact].append(cell)

    def _grow(self, node: int) -> None:
        self.region.add(node)
        self.todo.append(node)

    def _bar(self, node: int) -> None:
        self.region.add(node)
        self._open.add(node)
        self._unmet[node] = 1
        self._hold(node)

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

    def _queue(self, resource: int, entered: Entered) -> None:
        row = self.model.resources.get(resource)
        if row is None or row.capacity is None:
            return
        pool = self._pool(resource)
        if not pool.places:
            self._unsealed.append(pool)
        pool.places.append(entered)
        slot = self._slot[entered[4]]
        if row.fifo:
            if slot not in self._queues:
                self._queues[slot] = []
                self._slots.setdefault(entered[3], []).append(slot)
            self._queues[slot].append((pool, entered[:2], entered[4]))
        if self.grow:
            self._grow_by(pool, entered)

    def _grow_by(self, pool: Pool, entered: Entered) -> None:
        row = pool.row
        ahead = bisect_left(row.queue, entered[:2]) if row.fifo else 0
        holders = row.held if len(pool.places) == 1 else ()
        self.spent += len(holders) + max(0, ahead - pool.scanned)
        if len(holders) + ahead - pool.scanned > self.widest:
            self.too_wide = True
            return
        for node in holders:
            if node not in self.region and self._node(node) == PENDING:
                self._grow(node)
        for entry in row.queue[pool.scanned : ahead]:
            if entry[3] not in self.region and self._node(entry[3]) == PENDING:
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
                pool.places += ((*entry, NO_CELL) for entry in row.stuck if entry[3] not in self._unmet)
        pool.places.sort(key=None if row.fifo else _by_units)
        pool.sealed = True
        self.spent += len(pool.places)
        self._serve(pool)

    def _serve(self, pool: Pool) -> None:
        """Walk on from the cursor as far as the units reach."""
        self.spent += 1  # whether anybody is served or not: a pool may be looked at often
        places, fifo = pool.places, pool.row.fifo
        while pool.cursor < len(places):
            wait, spot, units, _, cell = places[pool.cursor]
            if fifo and (wait, spot) in self.left:
                if cell != NO_CELL:
                    pool.late.append(pool.cursor)
            elif units > max(0, pool.base - pool.held) - pool.kept:
                break
            else:
                if fifo:
                    pool.kept += units
                    self._kept[wait, spot] = units
                if cell != NO_CELL:
                    self._fire(cell, spot if fifo else MANY)
            pool.cursor += 1
            self.spent += 1
        if pool.late:
            pool.late = [at for at in pool.late if self._is_open(pool.places[at])]
            if pool.late:
                self._serve_late(pool)

    def _is_open(self, entered: Entered) -> bool:
        """Whether it matters yet that this place is served: its wait may be over without its other places then."""
        slot = self._slot[entered[4]]
        return slot in self._queues and self._need[slot] >= 0

    def _serve_late(self, pool: Pool) -> None:
        units_left, late = max(0, pool.base - pool.held), set(pool.late)
        for at, (wait, spot, units, _, cell) in enumerate(pool.places[: pool.cursor]):
            units_left -= self._kept.get((wait, spot), 0)
            if at in late and units <= units_left:
                self._fire(cell, spot)

    def _fire(self, cell: int, by: int) -> None:
        """A condition is true, because of the place at spot *by*, or of something else."""
        slot, before = self._slot[cell], self._by[cell]
        if before == NOBODY:
            self._by[cell] = by
            self._need[slot] -= 1
            if self._need[slot] == 0:
                self._satisfied(self._waiter[slot])
        elif before in (MANY, by):
            return
        else:
            self._by[cell] = MANY  # true without either
        if self._need[slot] <= 0 and slot in self._queues:
            self._leave_queues(slot)

    def _satisfied(self, waiter: int) -> None:
        self._unmet[waiter] -= 1
        if self._unmet[waiter] == 0 and waiter not in self.standing:
            self._open.discard(waiter)
            self.done.add(waiter)
            self._ready.append(waiter)

    def _leave_queues(self, slot: int) -> None:
        """The places without which the wait is satisfied as well count for nothing any more."""
        surplus = self._need[slot] < 0
        for pool, place, cell in self._queues[slot]:
            if surplus or self._by[cell] != place[1]:
                self._leave(pool, place)

    def _leave(self, pool: Pool, place: Place) -> None:
        if place not in self.left:
            self.left.add(place)
            pool.kept -= self._kept.pop(place, 0)
            if pool.sealed:
                self._moved.append(pool)

    def _go(self, node: int) -> None:
        """*node* goes on: what waits for it, for what it makes, holds and was served may be true now."""
        cells = self._watch.pop(node, [])
        for made in self._makes.pop(node, ()):
            cells += self._made.pop(made, ())
        self.spent += 1 + len(cells)
        for cell in cells:
            self._fire(cell, MANY)
        for pool, units in self._holds.pop(node, ()):
            pool.held -= units
            if pool.sealed:
                self._moved.append(pool)
        for slot in self._slots.pop(node, ()):
            for pool, place, _ in self._queues.pop(slot):
                self._leave(pool, place)


def _by_units(entered: Entered) -> int:
    return entered[2]
