"""The state of the graph: nodes, waits, resources, artifacts, and which nodes are known to be stuck.

Only tables and the links between them; what a change means for who can go on is decided elsewhere. Handles are ints
that are never reused, so one of something gone is simply not found, and what is not found holds nobody up.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from unknot_gateway.core.graph.bags import joined, without
from unknot_gateway.core.graph.conditions import (
    ANY,
    ARTIFACT,
    EXECUTION,
    FALSE,
    RESOURCE,
    TRUE,
    Condition,
    leaves,
)
from unknot_gateway.core.graph.rows import (
    GONE,
    NOBODY,
    SPOT_BITS,
    STUCK,
    UNRANKED,
    ArtifactRow,
    Entry,
    NodeRow,
    Place,
    ResourceRow,
    Rest,
    WaitRow,
)


class Model:
    """Tables of the graph; `stuck` is kept by `mark` and `unmark` together with its share of each resource."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeRow] = {}
        self.waits: dict[int, WaitRow] = {}
        self.resources: dict[int, ResourceRow] = {}
        self.artifacts: dict[int, ArtifactRow] = {}
        self.stuck: set[int] = set()
        self.odd: set[int] = set()
        """Stuck nodes that may leave a queue although they are stuck: see `is_odd`."""
        self.leaving: set[Place] = set()
        """Their places that count for nothing now; only right after `report.refresh`."""
        self.lowest = 0
        """No rank is lower."""
        self.ceiling = 0
        """Ranks from here on say nothing."""

    # ------------------------------------------------------------------------------------ waits
    def link(self, row: WaitRow) -> None:
        """Enter an open wait of a living node."""
        self.waits[row.wait] = row
        waiter = self.nodes[row.waiter]
        waiter.waits = joined(waiter.waits, row)
        self._link_conditions(row)
        if self.stuck:
            self._see_if_odd(row.waiter)

    def _link_conditions(self, row: WaitRow) -> None:
        """Find what the conditions rest on, and let it know the wait."""
        nodes, rests = self.nodes, []
        others: list[Rest] = []
        spot = 0
        for condition in row.conditions:
            if condition.kind == EXECUTION:
                node = nodes.get(condition.target)
                if node is None:
                    node = NOBODY
                else:
                    node.dependents = joined(node.dependents, row)
                rests.append(node)
            elif condition.kind != FALSE:
                others.append(self._link(row, spot, condition))
            spot += 1 << SPOT_BITS
        row.rests, row.others = tuple(rests), tuple(others)

    def _link(self, row: WaitRow, spot: int, leaf: Condition) -> Rest:
        kind = leaf.kind
        if kind == RESOURCE:
            pool = self.resources.get(leaf.target)
            if pool is not None:
                entry = (row.wait, spot, leaf.units, row.waiter)
                _put_in(pool.queue, entry)
                if row.waiter in self.stuck:
                    insort(pool.stuck, entry)
            return spot, leaf.units, pool
        if kind == ARTIFACT:
            made = self.artifacts.get(leaf.target)
            if made is not None:
                made.waits = joined(made.waits, row)
            return spot, 0, made
        if kind == EXECUTION:
            node = self.nodes.get(leaf.target)
            if node is not None:
                node.dependents = joined(node.dependents, row)
            return spot, 0, node
        options = enumerate(leaf.options, spot)
        return spot, 0, tuple([self._link(row, at, each) for at, each in options]) if kind == ANY else None

    def unlink(self, row: WaitRow) -> None:
        """Take an open wait out."""
        self._unlink_conditions(row)
        waiter = self.nodes[row.waiter]
        waiter.waits = without(waiter.waits, row)
        del self.waits[row.wait]
        if self.stuck:
            self._see_if_odd(row.waiter)

    def _unlink_conditions(self, row: WaitRow) -> None:
        for node in row.rests:
            if node.rank != GONE:
                node.dependents = without(node.dependents, row)
        for rest in row.others:
            self._unlink(row, rest)

    def _unlink(self, row: WaitRow, rest: Rest) -> None:
        spot, units, on = rest
        if isinstance(on, NodeRow):
            if on.rank != GONE:
                on.dependents = without(on.dependents, row)
        elif isinstance(on, ResourceRow):
            if on.is_gone:
                return
            entry = (row.wait, spot, units, row.waiter)
            _take(on.queue, entry)
            if row.waiter in self.stuck:
                _take(on.stuck, entry)
        elif isinstance(on, ArtifactRow):
            on.waits = without(on.waits, row)
        else:
            for option in on or ():
                self._unlink(row, option)

    def replace(self, row: WaitRow, index: int, condition: Condition) -> Condition:
        """One condition becomes another; the old one."""
        old = row.conditions[index]
        self._unlink_conditions(row)
        row.conditions = (*row.conditions[:index], condition, *row.conditions[index + 1 :])
        self._link_conditions(row)
        self._see_if_odd(row.waiter)
        return old

    def entries(self, node: int) -> Iterator[tuple[ResourceRow, Entry]]:
        """The places of all open waits of *node* in the queues of resources."""
        for row in self.nodes[node].waits:
            if row.others:
                for resource, spot, units in self.asks(row):
                    yield self.resources[resource], (row.wait, spot, units, node)

    def asks(self, row: WaitRow) -> Iterator[tuple[int, int, int]]:
        """The conditions of a wait on resources: (resource, spot, units)."""
        for index, condition in enumerate(row.conditions):
            if condition.kind in (RESOURCE, ANY):
                for spot, leaf in enumerate(leaves(condition), index << SPOT_BITS):
                    if leaf.kind == RESOURCE and leaf.target in self.resources:
                        yield leaf.target, spot, leaf.units

    # -------------------------------------------------------------------------------- resources
    def hold(self, resource: int, node: int, units: int) -> None:
        """Change what *node* holds of *resource* by *units*; never below nothing."""
        row, holder = self.resources[resource], self.nodes[node]
        before = row.held.pop(node, 0)
        after = max(0, before + units)
        if holder.holds is None:
            holder.holds = {}
        if after:
            row.held[node] = holder.holds[resource] = after
        else:
            holder.holds.pop(resource, None)
        row.held_units += after - before
        if node in self.stuck:
            row.stuck_units += after - before

    def drop_resource(self, resource: int) -> None:
        """Nobody holds it or queues for it any more."""
        for node in self.resources[resource].held:
            holds = self.nodes[node].holds
            assert holds is not None
            del holds[resource]
        row = self.resources.pop(resource)
        row.capacity, row.is_gone = None, True  # for those whose conditions rest on it

    # -------------------------------------------------------------------------------- artifacts
    def make(self, artifact: int, node: int) -> None:
        """*node* becomes a producer."""
        row, producer = self.artifacts[artifact], self.nodes[node]
        row.producers = joined(row.producers, node)
        producer.makes = joined(producer.makes, artifact)

    def unmake(self, artifact: int, node: int) -> None:
        """*node* is none any more."""
        row, producer = self.artifacts[artifact], self.nodes[node]
        row.producers = without(row.producers, node)
        producer.makes = without(producer.makes, artifact)

    def drop_artifact(self, artifact: int) -> None:
        """It is produced: nothing rests on it any more."""
        for node in tuple(self.artifacts[artifact].producers):
            self.unmake(artifact, node)
        del self.artifacts[artifact]

    # ------------------------------------------------------------------------------- who is stuck
    def mark(self, node: int) -> None:
        """*node* is stuck."""
        self.stuck.add(node)
        row = self.nodes[node]
        row.rank = STUCK
        for resource, units in (row.holds or {}).items():
            self.resources[resource].stuck_units += units
        for pool, entry in self.entries(node):
            insort(pool.stuck, entry)
        self._see_if_odd(node)

    def unmark(self, node: int) -> None:
        """*node* is not, or not known to be, stuck."""
        self.stuck.remove(node)
        self.odd.discard(node)
        row = self.nodes[node]
        row.rank = UNRANKED
        for resource, units in (row.holds or {}).items():
            self.resources[resource].stuck_units -= units
        for pool, entry in self.entries(node):
            _take(pool.stuck, entry)

    def is_odd(self, node: int) -> bool:
        """Whether one of its waits may be over without one of its places in a queue, while others keep it stuck.

        Only raw clients open several waits at once for one node, one of them an any-of or quorum over a queue; so
        this may be slow, and is only exact.
        """
        waits = self.nodes[node].waits
        return len(waits) > 1 and any(map(self._is_soft, waits))

    def _is_soft(self, row: WaitRow) -> bool:
        enough = row.need >= len(row.conditions)
        return any(
            leaf.kind == RESOURCE
            for condition in row.conditions
            if condition.kind == ANY or not enough
            for leaf in leaves(condition)
        )

    def _see_if_odd(self, node: int) -> None:
        if node in self.stuck:
            (self.odd.add if self.is_odd(node) else self.odd.discard)(node)

    # ---------------------------------------------------- what is true while `stuck` stand still
    def satisfied(self, node: int) -> bool:
        """Whether all open waits of *node* are."""
        return all(map(self.wait_satisfied, self.nodes[node].waits))

    def wait_satisfied(self, row: WaitRow) -> bool:
        """Whether enough conditions of a wait are true."""
        missing = row.need
        left = len(row.conditions)
        for index, condition in enumerate(row.conditions):
            if missing <= 0 or missing > left:
                break
            left -= 1
            if self.true(condition, row.wait, index):
                missing -= 1
        return missing <= 0

    def false_leaves(self, row: WaitRow) -> Iterator[tuple[int, Condition]]:
        """What the false conditions of a wait consist of, each with its spot."""
        for index, condition in enumerate(row.conditions):
            if not self.true(condition, row.wait, index):
                yield from enumerate(leaves(condition), index << SPOT_BITS)

    def true(self, condition: Condition, wait: int, index: int) -> bool:
        """Whether condition *index* of *wait* is true."""
        if condition.kind == EXECUTION:
            return condition.target not in self.stuck
        if condition.kind != ANY:
            return self.leaf_true(condition, wait, index << SPOT_BITS)
        options = enumerate(condition.options, index << SPOT_BITS)
        return any(self.leaf_true(leaf, wait, spot) for spot, leaf in options)

    def leaf_true(self, leaf: Condition, wait: int, spot: int) -> bool:
        """Whether a condition that is no any-of is true."""
        if leaf.kind == EXECUTION:
            return leaf.target not in self.stuck
        if leaf.kind == RESOURCE:
            row = self.resources.get(leaf.target)
            return row is None or self._served(row, leaf.units, (wait, spot))
        if leaf.kind == ARTIFACT:
            made = self.artifacts.get(leaf.target)
            return made is None or not made.producers or not self.stuck.issuperset(made.producers)
        return leaf.kind == TRUE

    def _served(self, row: ResourceRow, units: int, place: Place) -> bool:
        """Whoever ahead can go on is out of the way; who cannot keeps what it is served, or blocks all behind."""
        if row.capacity is None:
            return True
        left = max(0, row.capacity - row.stuck_units)
        if row.fifo:
            for entry in row.stuck:
                if entry[:2] >= place:
                    break
                if entry[:2] in self.leaving:
                    continue
                if entry[2] > left:
                    return False
                left -= entry[2]
        return units <= left


def served(row: ResourceRow) -> list[int]:
    """The stuck waiters of a resource that would be served now."""
    if row.capacity is None:
        return [entry[3] for entry in row.stuck]
    left = max(0, row.capacity - row.stuck_units)
    if not row.fifo:
        return [entry[3] for entry in row.stuck if entry[2] <= left]
    found = []
    for entry in row.stuck:
        if entry[2] > left:
            break
        left -= entry[2]
        found.append(entry[3])
    return found


def blocked_before(row: ResourceRow, place: Place) -> bool:
    """Whether a stuck waiter ahead of *place* blocks the queue."""
    left = max(0, (row.capacity or 0) - row.stuck_units)
    for entry in row.stuck:
        if entry[:2] >= place:
            return False
        if entry[2] > left:
            return True
        left -= entry[2]
    return False


def _put_in(queue: list[Entry], entry: Entry) -> None:
    """Nearly always at the end: handles only rise."""
    if queue and queue[-1] > entry:
        insort(queue, entry)
    else:
        queue.append(entry)


def _take(entries: list[Entry], entry: Entry) -> None:
    at = bisect_left(entries, entry)
    assert entries[at] == entry, "an open wait is in every queue it waits in"
    del entries[at]
