"""Ranks: a proof that most nodes can go on, kept from one change to the next.

The law: a waiting node with a rank has enough true conditions in every wait that rest only on nodes of lower rank (or
on nobody). So, by induction from the lowest, all of them can go on, and none of them needs a node of higher rank for
it. A new wait of a node is therefore harmless when it rests on lower ranks, which is all that most checks look at; else
what it rests on is ranked anew, below the node. What cannot be ranked so is left to the search, which is exact.

Ranks only ever sink while they say something: whoever rests on a node stays right. A node that does not wait has a rank
too, that of those who rest on it are higher. While suspects are left ranks may rest on them: every set that is stuck
has one of them in it, and is found with it.

An order kept under insertion, as in Bender, Fineman, Gilbert and Tarjan, "A New Approach to Incremental Cycle Detection
and Related Problems" (2016), but over proofs instead of edges: of k-of-n conditions only those that are used count.
"""

from bisect import bisect_left
from collections.abc import Iterable

from unknot_gateway.core.graph.conditions import ANY, ARTIFACT, EXECUTION, RESOURCE, TRUE, Condition
from unknot_gateway.core.graph.dependents import Dependents
from unknot_gateway.core.graph.model import (
    APART,
    GONE,
    SPOT_BITS,
    UNRANKED,
    ArtifactRow,
    Entry,
    Model,
    NodeRow,
    Place,
    ResourceRow,
    WaitRow,
)

STEP = APART >> 10
"""How far below a node that rests on them others are put."""
DEPTH_MAX = 40
"""Nested proofs: the only recursion here, and bounded by this."""
AHEAD_MAX = 32
"""Places ahead in a queue that are looked at."""

HOLDERS_MAX = 64
"""Holders of a resource that are looked at; of one with more, only free units are known to be had."""

Shared = ResourceRow | ArtifactRow
"""What has a floor."""


def forget(model: Model) -> None:
    """No rank given so far says anything from now on."""
    model.ceiling = model.lowest


def unrank(model: Model, behind: Dependents, limit: int) -> None:
    """Nobody who may rest on the starts of *behind* has a rank; when those are too many, nobody at all."""
    if not behind.run(limit):
        forget(model)
    for node in behind.seen:
        model.nodes[node].rank = UNRANKED


def sink(model: Model, node: int, shared: Shared) -> None:
    """Others who rest on *shared* rest on *node* from now on; whether it can go on is for the caller to check."""
    row = model.nodes[node]
    if row.rank >= shared.floor and shared.floor < UNRANKED:
        _put(model, row, shared.floor - STEP)


def rests_below(model: Model, node: int, wait: int) -> bool:
    """Whether *node*, which is ranked or did not wait, keeps its rank with *wait*, which is new: at a look."""
    row, own = model.waits[wait], model.nodes[node].rank
    if own >= model.ceiling:
        return False
    missing = row.need
    for target in row.rests:
        if target.rank < own:
            missing -= 1
        elif not target.waits:
            _put(model, target, own - STEP)
            missing -= 1
    return missing <= 0


def place(model: Model, node: int, wait: int) -> bool:
    """Rank *node*, on which nobody depends yet, wherever its only *wait* allows: at a look; whether it is ranked."""
    row, own, found = model.waits[wait], model.nodes[node], []
    for target in row.rests:
        if target.rank >= model.ceiling and not target.waits:
            _put(model, target, model.lowest - STEP)
        if target.rank < model.ceiling:
            found.append(target.rank)
    if len(found) < row.need:
        own.rank = UNRANKED
        return False
    found.sort()
    needed = found[row.need - 1] + STEP if row.need > 0 else model.lowest
    if needed > own.rank or own.rank >= model.ceiling:
        own.rank = needed if needed < model.ceiling else UNRANKED
    return own.rank < model.ceiling


def _put(model: Model, row: NodeRow, rank: int) -> None:
    row.rank = rank
    model.lowest = min(model.lowest, rank)


class Ranking:
    """One attempt to rank a node, of at most about *steps*; `spent` counts nodes and conditions looked at.

    What it ranks on the way is right, whatever becomes of the attempt.
    """

    def __init__(self, model: Model, steps: int) -> None:
        self._model, self._steps = model, steps
        self._nodes, self._waits = model.nodes, model.waits
        self._met: set[int] = set()  # being ranked, or failed
        self._ranked = 0
        self.spent = 0

    def goes(self, node: int) -> bool:
        """Whether *node*, which waits, is proved to go on: then its rank is one that all who rest on it can keep."""
        row = self._nodes[node]
        own = min(row.rank, self._model.ceiling - 1)
        while True:
            ranked = self._ranked
            self._met = {node}
            if all(self._satisfied(wait, own, 0) for wait in row.waits):
                _put(self._model, row, own)
                return True
            if self._ranked == ranked or self.spent > self._steps:
                return False

    def stands(self, node: int) -> bool:
        """Whether the rank of *node* is a proof, by the ranks of others as they are."""
        row = self._nodes[node]
        own = row.rank
        for wait in row.waits:
            asked = self._waits[wait]
            missing = asked.need
            for target in asked.rests:
                if target.rank < own:
                    missing -= 1
            self.spent += 1 + len(asked.conditions)
            if missing > 0 and not self._satisfied(wait, own, DEPTH_MAX):
                return False
        return True

    def _below(self, node: int, bound: int, depth: int) -> bool:
        """Whether *node* has, or now gets, a rank below *bound*."""
        row = self._nodes.get(node)
        if row is None or row.rank < bound:
            return True
        own = bound - STEP
        if row.waits:
            if (
                depth > DEPTH_MAX
                or node in self._met
                or self.spent > self._steps
                or node in self._model.stuck
            ):
                return False
            self._met.add(node)
            for wait in row.waits:
                if not self._satisfied(wait, own, depth):
                    return False
            self._met.remove(node)
            self._ranked += 1
        _put(self._model, row, own)
        return True

    def _satisfied(self, wait: int, own: int, depth: int) -> bool:
        """First what has a lower rank, then what needs no more than sinking, last what must be ranked itself."""
        row = self._waits[wait]
        missing = row.need
        self.spent += 1 + len(row.conditions)
        for target in row.rests:
            if target.rank < own:
                missing -= 1
            elif not target.waits:
                _put(self._model, target, own - STEP)
                missing -= 1
        return missing <= 0 or self._more(row, wait, missing, own, depth)

    def _more(self, row: WaitRow, wait: int, missing: int, own: int, depth: int) -> bool:
        nodes = self._nodes
        open_nodes: list[int] = []
        others: list[tuple[int, Condition]] = []
        for index, condition in enumerate(row.conditions):
            if condition.kind != EXECUTION:
                others.append((index << SPOT_BITS, condition))
            elif (target := nodes.get(condition.target)) is not None and target.rank >= own:
                open_nodes.append(condition.target)
        left = len(open_nodes) + len(others)
        open_nodes.sort(key=lambda node: nodes[node].rank)
        for node in open_nodes:
            if not 0 < missing <= left:
                break
            left -= 1
            missing -= self._below(node, own, depth + 1)
        for spot, condition in others:
            if not 0 < missing <= left:
                break
            left -= 1
            missing -= self._true(condition, (wait, spot), own, depth)
        return missing <= 0

    def _true(self, condition: Condition, place: Place, own: int, depth: int) -> bool:
        kind = condition.kind
        if kind == EXECUTION:
            return self._below(condition.target, own, depth + 1)
        if kind == ARTIFACT:
            made = self._model.artifacts.get(condition.target)
            return made is None or self._made(made, own, depth)
        if kind == RESOURCE:
            row = self._model.resources.get(condition.target)
            return row is None or self._served(row, condition.units, place, own, depth)
        if kind == ANY:
            wait, first = place
            options = enumerate(condition.options, first)
            return any(self._true(each, (wait, spot), own, depth) for spot, each in options)
        return kind == TRUE

    def _made(self, made: ArtifactRow, own: int, depth: int) -> bool:
        made.floor = min(made.floor, own)
        producers = made.producers
        return not producers or any(self._below(node, own, depth + 1) for node in self._by_ease(producers))

    def _by_ease(self, nodes: Iterable[int]) -> list[int]:
        """Who does not wait first, then by rank: the lower, the less is to be ranked."""
        rows = self._nodes
        return sorted(nodes, key=lambda node: rows[node].rank if rows[node].waits else GONE)

    def _served(self, row: ResourceRow, units: int, place: Place, own: int, depth: int) -> bool:
        row.floor = min(row.floor, own)
        if row.capacity is None:
            return True
        ahead = self._ahead(row, place, own) if row.fifo else []
        if ahead is None:
            return False
        # Whoever ahead is not known to go on counts as keeping what it is served.
        need, left = units + sum(entry[2] for entry in ahead), row.capacity - row.held_units
        if need <= left:
            return True
        self.spent += len(row.held)
        for node in self._by_ease(row.held) if len(row.held) <= HOLDERS_MAX else ():
            if self._below(node, own, depth + 1):
                left += row.held[node]
                if need <= left:
                    return True
        for entry in sorted(ahead, key=lambda entry: self._nodes[entry[3]].rank):
            if self._below(entry[3], own, depth + 1):
                need -= entry[2]
                if need <= left:
                    return True
        return False

    def _ahead(self, row: ResourceRow, place: Place, own: int) -> list[Entry] | None:
        """Who is ahead of *place* and has no lower rank; None: too many."""
        at = bisect_left(row.queue, place)
        self.spent += at
        return (
            None if at > AHEAD_MAX else [each for each in row.queue[:at] if self._nodes[each[3]].rank >= own]
        )


def rank_chain(model: Model, start: int, limit: int) -> int:
    """Rank *start* where it, and who follows, wait for one node only; the steps spent, 0: it is not so simple."""
    nodes, row = model.nodes, model.nodes[start]
    way: list[NodeRow] = []
    own = min(row.rank, model.ceiling - 1)
    for steps in range(1, limit):
        if len(row.waits) != 1:
            return 0
        wait = model.waits[next(iter(row.waits))]
        if len(wait.conditions) != 1 or wait.conditions[0].kind != EXECUTION:
            return 0
        way.append(row)
        target = nodes.get(wait.conditions[0].target)
        if target is None or target.rank < own - STEP * (steps - 1):
            break
        if not target.waits:
            way.append(target)
            break
        if wait.conditions[0].target == start:
            return 0
        row = target
    else:
        return 0
    for rank, each in zip(range(own, own - STEP * len(way), -STEP), way, strict=True):
        _put(model, each, rank)
    return len(way)
