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
from operator import attrgetter

from unknot_gateway.core.graph.dependents import Dependents
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.rows import (
    APART,
    STUCK,
    UNRANKED,
    ArtifactRow,
    NodeRow,
    Place,
    ResourceRow,
    Rest,
    WaitRow,
)

STEP = APART >> 10
"""How far below a node that rests on them others are put."""
DEPTH_MAX = 40
"""Nested proofs: the only recursion here, and bounded by this."""
AHEAD_MAX = 32
"""Places ahead in a queue that are looked at."""

DEEPEST = (DEPTH_MAX + 3) * STEP
"""How far below the first one a nested proof may put somebody."""
HOLDS, AHEAD = range(2)
"""Who is asked first."""
HOLDERS_MAX = 64
"""Holders of a resource that are looked at; of one with more, only free units are known to be had."""

Shared = ResourceRow | ArtifactRow
"""What has a floor."""

_RANK = attrgetter("rank")


def forget(model: Model) -> None:
    """No rank given so far says anything from now on."""
    model.ceiling = model.lowest


def unrank(model: Model, behind: Dependents, limit: int) -> None:
    """Nobody who may rest on the starts of *behind* has a rank; when those are too many, nobody at all."""
    if not behind.run(limit):
        forget(model)
    for node in behind.seen:
        if (row := model.nodes[node]).rank != STUCK:
            row.rank = UNRANKED


def sink(model: Model, node: int, shared: Shared) -> None:
    """Others who rest on *shared* rest on *node* from now on; whether it can go on is for the caller to check."""
    row = model.nodes[node]
    if row.rank >= shared.floor and shared.floor < UNRANKED:
        _put(model, row, shared.floor - STEP)


def rests_below(model: Model, row: NodeRow, wait: WaitRow) -> bool:
    """Whether a node that is ranked or did not wait keeps its rank with *wait*, which is new: at a look."""
    own = row.rank
    if own >= model.ceiling:
        return False
    missing = wait.need
    for target in wait.rests:
        if target.rank < own:
            missing -= 1
        elif not target.waits:
            _put(model, target, own - STEP)
            missing -= 1
    return missing <= 0


def place(model: Model, row: NodeRow, wait: WaitRow) -> bool:
    """Rank a node on which nobody depends yet wherever its only *wait* allows: at a look; whether it is ranked."""
    ceiling, found = model.ceiling, []
    for target in wait.rests:
        if target.rank >= ceiling and not target.waits:
            _put(model, target, model.lowest - STEP)
        if target.rank < ceiling:
            found.append(target.rank)
    if len(found) < wait.need:
        row.rank = UNRANKED
        return False
    found.sort()
    needed = found[wait.need - 1] + STEP if wait.need > 0 else model.lowest
    if needed > row.rank or row.rank >= ceiling:
        row.rank = needed if needed < ceiling else UNRANKED
    return row.rank < ceiling


def _put(model: Model, row: NodeRow, rank: int) -> None:
    row.rank = rank
    model.lowest = min(model.lowest, rank)


class Ranking:
    """One attempt to rank a node, of at most about *steps*; `spent` counts nodes and conditions looked at.

    What it ranks on the way is right, whatever becomes of the attempt. Of all that an insert costs this is the most:
    it is written for few calls and no lists where one look is enough.
    """

    __slots__ = ("_met", "_nodes", "_ranked", "_steps", "spent")

    def __init__(self, model: Model, steps: int) -> None:
        self._nodes, self._steps = model.nodes, steps
        self._met: set[NodeRow] = set()  # being ranked, or failed
        self._ranked = 0
        self.spent = 0

    def goes(self, row: NodeRow, model: Model) -> bool:
        """Whether a node that waits is proved to go on: then its rank is one that all who rest on it can keep."""
        own = min(row.rank, model.ceiling - 1)
        model.lowest = min(model.lowest, own - DEEPEST)
        while True:
            ranked = self._ranked
            self._met = {row}
            if self._all_satisfied(row, own, 0):
                row.rank = own
                return True
            if self._ranked == ranked or self.spent > self._steps:
                return False

    def stands(self, row: NodeRow) -> bool:
        """Whether the rank of a node is a proof, by the ranks of others as they are."""
        own = row.rank
        for wait in row.waits:
            missing = wait.need
            for target in wait.rests:
                if target.rank < own:
                    missing -= 1
            self.spent += 1 + len(wait.rests)
            if missing > 0 and not (wait.others and self._others(wait, missing, own, DEPTH_MAX)):
                return False
        return True

    def _below(self, row: NodeRow, bound: int, depth: int) -> bool:
        """Whether a node whose rank is not below *bound* now gets one that is."""
        if row.waits:
            met = self._met
            if depth > DEPTH_MAX or row in met or row.rank == STUCK or self.spent > self._steps:
                return False
            met.add(row)
            if not self._all_satisfied(row, bound - STEP, depth):
                return False
            met.remove(row)
            self._ranked += 1
        row.rank = bound - STEP
        return True

    def _all_satisfied(self, row: NodeRow, own: int, depth: int) -> bool:
        """First what has a lower rank, then what needs no more than sinking, last what must be ranked itself."""
        for wait in row.waits:
            missing, rests = wait.need, wait.rests
            self.spent += 1 + len(rests)
            if self.spent > self._steps:
                return missing <= 0
            for target in rests:
                if target.rank < own:
                    missing -= 1
                elif not target.waits:
                    target.rank = own - STEP
                    missing -= 1
                else:
                    continue
                if missing <= 0:
                    break
            if missing > 0 and not self._more(wait, missing, own, depth):
                return False
        return True

    def _more(self, wait: WaitRow, missing: int, own: int, depth: int) -> bool:
        higher = [target for target in wait.rests if target.rank >= own]
        left = len(higher) + len(wait.others)
        if missing > left:
            return False
        if len(higher) > 1:
            higher.sort(key=_RANK)  # the lower, the less is to be ranked
        for row in higher:
            left -= 1
            if row.rank < own or self._below(row, own, depth + 1):
                missing -= 1
                if missing <= 0:
                    return True
            elif missing > left:
                return False
        return left > 0 and self._others(wait, missing, own, depth)

    def _others(self, wait: WaitRow, missing: int, own: int, depth: int) -> bool:
        left = len(wait.others)
        self.spent += left
        for rest in wait.others:
            left -= 1
            if self._true(rest, wait.wait, own, depth):
                missing -= 1
                if missing <= 0:
                    return True
            elif missing > left:
                return False
        return False

    def _true(self, rest: Rest, wait: int, own: int, depth: int) -> bool:
        on = rest[2]
        if isinstance(on, ResourceRow):
            return self._served(on, rest[1], (wait, rest[0]), own, depth)
        if isinstance(on, ArtifactRow):
            return self._made(on, own, depth)
        if isinstance(on, NodeRow):
            return on.rank < own or self._below(on, own, depth + 1)
        if on is None:
            return True
        return any(self._true(option, wait, own, depth) for option in on)

    def _made(self, made: ArtifactRow, own: int, depth: int) -> bool:
        made.floor = min(made.floor, own)
        nodes, higher = self._nodes, []
        for node in made.producers:
            row = nodes[node]
            if row.rank < own:
                return True
            if not row.waits:
                row.rank = own - STEP
                return True
            higher.append(row)
        higher.sort(key=_RANK)
        for row in higher:
            if self._below(row, own, depth + 1):
                return True
        return not higher

    def _served(self, pool: ResourceRow, units: int, place: Place, own: int, depth: int) -> bool:
        pool.floor = min(pool.floor, own)
        if pool.capacity is None:
            return True
        missing, nodes = units + pool.held_units - pool.capacity, self._nodes
        higher: list[tuple[int, int, int, NodeRow, int]] = []
        if pool.fifo and pool.queue[0][:2] != place:
            at = bisect_left(pool.queue, place)
            if at > AHEAD_MAX:
                return False
            self.spent += at
            for entry in pool.queue[:at]:  # who is not known to go on counts as keeping what it is served
                row = nodes[entry[3]]
                if row.rank >= own:
                    missing += entry[2]
                    higher.append((AHEAD, row.rank, len(higher), row, entry[2]))
        if missing <= 0:
            return True
        if len(pool.held) <= HOLDERS_MAX:
            self.spent += len(pool.held)
            for node, held in pool.held.items():
                row = nodes[node]
                if row.rank < own:
                    missing -= held
                elif row.waits:
                    higher.append((HOLDS, row.rank, len(higher), row, held))
                else:
                    row.rank = own - STEP
                    missing -= held
        return missing <= 0 or self._gained(higher, missing, own, depth)

    def _gained(
        self, higher: list[tuple[int, int, int, NodeRow, int]], missing: int, own: int, depth: int
    ) -> bool:
        """Whether enough units are gained when as many as it takes are put below."""
        higher.sort()
        for _, _, _, row, units in higher:
            if row.rank < own or self._below(row, own, depth + 1):
                missing -= units
                if missing <= 0:
                    return True
        return False


def rank_chain(model: Model, first: NodeRow, limit: int) -> int | None:
    """Rank *first* where it, and who follows, wait for one node only; the steps spent.

    0: it is not so simple; None: the chain is longer than *limit*.
    """
    row, way = first, list[NodeRow]()
    own = min(row.rank, model.ceiling - 1)
    for steps in range(1, limit):
        if len(row.waits) != 1:
            return 0
        wait = next(iter(row.waits))
        if len(wait.rests) != 1 or len(wait.conditions) != 1 or wait.need > 1:
            return 0
        way.append(row)
        target = wait.rests[0]
        if target.rank < own - STEP * (steps - 1):
            break
        if not target.waits:
            way.append(target)
            break
        if target is first or target.rank == STUCK:
            return 0
        row = target
    else:
        return None if len(set(way)) == len(way) else 0
    for rank, each in zip(range(own, own - STEP * len(way), -STEP), way, strict=True):
        _put(model, each, rank)
    return len(way)
