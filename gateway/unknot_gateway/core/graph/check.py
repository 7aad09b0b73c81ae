"""Keeps the stuck set right after each change, within a budget of steps; what does not fit is a suspect.

What is known to be stuck is stuck at every moment. The law that makes it complete as well: every set of nodes that is
stuck by itself (given the known stuck set) has a suspect in it. A change that makes something harder to satisfy can
only tie such a set together through the node it happened to; so that node alone is checked: whatever it closes is
found by walking from it, forward (whom it waits for) and backward (who waits for it) in turns, and reducing the side
that ends first.
"""

from collections.abc import Collection, Iterable

from unknot_gateway.core.graph import ranks
from unknot_gateway.core.graph.dependents import Dependents, has_dependents
from unknot_gateway.core.graph.model import Model, served
from unknot_gateway.core.graph.reduce import Reduction
from unknot_gateway.core.graph.rows import UNRANKED, NodeRow, WaitRow
from unknot_gateway.core.graph.sweep import Sweep

FIRST_TURN = 32
"""Steps of the first turn of each side; each further turn is twice as long."""
CHAIN_PART = 2
"""Of a check that does not end with a chain, the part that is spent on finding out whether it is one."""
SUSPECT_TIMES = 10
"""How many times more than an inline check the check of a suspect may spend."""
HARD_MAX = 8
"""When so many suspects did not fit a slice, the sweep takes all the others as well."""


class Checks:
    """Owner of the stuck set. `changed`: the cores may be others than before."""

    def __init__(self, model: Model, steps: int) -> None:
        self.model = model
        self.steps = steps
        self.changed = False
        self.sweep_wanted = False
        self._suspects: dict[int, None] = {}
        self._spread: list[int] = []  # newly stuck, their dependents not looked at yet
        self._hard: dict[int, None] = {}  # did not fit a slice: for the next sweep
        self._sweep: Sweep | None = None
        self._swept = 0  # suspects that the running sweep answers
        self._loose: set[int] = set()  # stuck, but something they wait for became easier
        self._loose_pools: set[int] = set()

    # ------------------------------------------------------------------------------ was harder
    def harder(self, node: int, wait: WaitRow | None = None, *, behind: Iterable[ranks.Shared] = ()) -> None:
        """Something that *node* waits for (in *wait*; None: anywhere) became harder to get.

        *behind*: who waits for these may rest on *node* from now on; while it can go on that is nothing.
        """
        model = self.model
        self.settle()
        if node in model.stuck:
            self.changed = True
            if behind or node in model.odd:
                self._spread.append(node)
                self._work([])
            return
        for shared in behind:
            ranks.sink(model, node, shared)
        if wait is None or behind or model.odd:
            self._work([node])
        else:
            self._look(node, wait)

    def harder_for(self, nodes: Iterable[int]) -> None:
        """The same for many."""
        self.settle()
        asked = dict.fromkeys(nodes)
        known = [node for node in asked if node in self.model.stuck]
        self.changed |= bool(known)
        self._spread += (node for node in known if node in self.model.odd)
        self._work([node for node in asked if node not in self.model.stuck])

    def _look(self, node: int, wait: WaitRow) -> None:
        """*node* has a new *wait*: nearly always it can clearly go on, and nothing else is to be done."""
        model, row = self.model, self.model.nodes[node]
        if has_dependents(model, node):
            if not ranks.rests_below(model, row, wait):
                spent = self._rank(row, self.steps)
                if spent is None:
                    self._suspects[node] = None
                elif not spent:
                    self._work([node], wait)
        elif len(row.waits) > 1 or not ranks.place(model, row, wait):
            row.rank = UNRANKED
            if not model.wait_satisfied(wait):
                self._work([node], wait)

    def _rank(self, row: NodeRow, limit: int) -> int | None:
        """Prove that a node, which waits, can go on: the steps spent; 0: there is no such proof; None: not so soon."""
        spent = ranks.rank_chain(self.model, row, limit // CHAIN_PART)
        if spent is None or spent:
            return spent
        ranking = ranks.Ranking(self.model, limit)
        if ranking.goes(row, self.model):
            return ranking.spent
        return None if ranking.spent > limit else 0

    # ------------------------------------------------------------------------------ was easier
    def easier(self, nodes: Iterable[int]) -> None:
        """Something that *nodes* wait for became easier to get; who of them is not stuck does not matter."""
        self._loose.update(node for node in nodes if node in self.model.stuck)

    def easier_pool(self, resource: int) -> None:
        """The same for all who wait for a resource."""
        if self.model.resources[resource].stuck:
            self._loose_pools.add(resource)

    def settle(self) -> None:
        """Let go whom the changes since the last time have freed: afterwards nobody is called stuck who is not."""
        if not self._loose and not self._loose_pools:
            return
        seeds = self._loose.union(*map(self._next_served, self._loose_pools))
        self._loose, self._loose_pools = set(), set()
        self.changed = True
        model = self.model
        self.loosen([node for node in seeds if node in model.stuck and (model.odd or model.satisfied(node))])

    def _next_served(self, resource: int) -> Iterable[int]:
        row = self.model.resources.get(resource)
        if row is None:
            return ()
        return [entry[3] for entry in row.stuck] if self.model.odd else served(row)

    def leave(self, node: int) -> None:
        """*node*, which is stuck, is about to end."""
        self.changed = True
        self.easier(Dependents(self.model, (node,), stuck=True).direct())
        self._loose.discard(node)
        self.model.unmark(node)

    @property
    def stale(self) -> bool:
        """Whether the cores may be others than when `changed` was last reset."""
        return self.changed or bool(self._loose or self._loose_pools)

    def loosen(self, freed: Collection[int]) -> set[int]:
        """Take *freed* out of the stuck set, and whoever can go on then; all of them."""
        model = self.model
        region = set(freed)
        if region:
            behind = Dependents(model, freed, stuck=True)
            behind.run()
            region |= behind.seen
        for node in region:
            model.unmark(node)
        still = Reduction(model, set(region)).run() if region else set()
        for node in still:
            model.mark(node)
        return region - still

    # -------------------------------------------------------------------------------- deferred
    @property
    def suspects(self) -> int:
        """How many nodes are not judged yet."""
        return len(self._suspects) + len(self._spread) + len(self._hard) + self._swept + self.sweep_wanted

    def drain(self, steps: int) -> bool:
        """Work through suspects for about *steps*; whether none is left."""
        self.settle()
        spent = 0
        while self.suspects or self._sweep is not None:
            if spent >= max(1, steps):
                return False
            if self._spread:
                nodes = self._next_dependents()
                self._suspects.update(dict.fromkeys(nodes))
                spent += 1 + len(nodes)
            elif self._suspects and len(self._hard) < HARD_MAX:
                spent += self._one_suspect(steps)
            else:
                spent += self._sweep_on(steps - spent)
        return True

    def _one_suspect(self, steps: int) -> int:
        node = next(iter(self._suspects))
        del self._suspects[node]
        limit = max(steps, SUSPECT_TIMES * self.steps)
        spent = self._check(node, limit)
        if spent is None:
            self._hard[node] = None
        return limit if spent is None else spent

    def _sweep_on(self, steps: int) -> int:
        if self._sweep is None:
            self._hard.update(self._suspects)
            self._swept = len(self._hard) + 1
            if self._hard:
                ranks.forget(self.model)  # they may rest on these, whom nobody will check by themselves
            self._hard, self._suspects, self.sweep_wanted = {}, {}, False
            self._sweep = Sweep(self.model)
        if self._sweep.run(max(1, steps)):
            found = self._sweep.standing_still()
            self._suspects.update(dict.fromkeys(self._sweep.broken))
            self._sweep, self._swept = None, 0
            self._confirm(found)
        return max(1, steps)

    def _confirm(self, found: set[int]) -> None:
        """The graph changed under the sweep: nothing outside *found* but the stuck set counts as stuck now."""
        self.settle()
        model = self.model
        region = {node for node in found if node in model.nodes and node not in model.stuck}
        self._mark(Reduction(model, region).run())

    # ------------------------------------------------------------------------------- one check
    def _work(self, nodes: list[int], wait: WaitRow | None = None) -> None:
        """Check *nodes* and then whoever depends on what is found, as far as the steps of one check reach."""
        left = self._check_all(nodes, self.steps, wait)
        while self._spread and left > 0:
            left -= 1
            left = self._check_all(self._next_dependents(), left)

    def _check_all(self, nodes: list[int], left: int, wait: WaitRow | None = None) -> int:
        for at, node in enumerate(nodes):
            spent = self._check(node, left, wait) if left > 0 else None
            if spent is None:
                self._suspects.update(dict.fromkeys(nodes[at:]))
                return 0
            left -= spent
        return left

    def _next_dependents(self) -> list[int]:
        """Who depends directly on one of the newly stuck nodes.

        When it is not stuck any more, itself too: what was tied to it as a stuck node may be tied together with it as
        well, and its rank is gone, on which theirs may rest.
        """
        node = self._spread.pop()
        if node in self.model.stuck:
            return sorted(Dependents(self.model, (node,)).direct(newly_stuck=True))
        if node not in self.model.nodes:
            return []
        return [node, *sorted(Dependents(self.model, (node,)).direct() - {node})]

    def _check(self, node: int, limit: int, wait: WaitRow | None = None) -> int | None:
        """Find out whether *node* is stuck, and who is with it; the steps spent, None: more than *limit*.

        Exact for every smallest set that is stuck by itself and has *node* in it. *wait*: the only one that is new,
        and no proof was found at a look.
        """
        model = self.model
        row = model.nodes.get(node)
        if row is None or not row.waits or node in model.stuck:
            return 1
        rested_on = has_dependents(model, node)
        if model.odd and not self._satisfied(node, wait):
            self._mark((node,))
            return 1 + len(row.waits)
        if rested_on and wait is None:
            spent = self._rank(row, limit)
            if spent:
                return spent
        if not (model.odd or self._satisfied(node, wait)):  # asked late: a proof is nearly always found
            self._mark((node,))
            return 1 + len(row.waits)
        if not rested_on:
            row.rank = UNRANKED
            return 1
        return self._search(node, limit)

    def _satisfied(self, node: int, wait: WaitRow | None) -> bool:
        """Whether *node* could go on if everybody did who is not known to be stuck."""
        if self.model.odd:
            return not Reduction(self.model, {node}).run()
        return self.model.satisfied(node) if wait is None else self.model.wait_satisfied(wait)

    def _search(self, node: int, limit: int) -> int | None:
        """Both ways in turns of growing length; the way that ends first decides."""
        model = self.model
        behind = Dependents(model, (node,), widest=limit)
        ahead: Reduction | None = None
        spent, turn = 0, FIRST_TURN
        while spent < limit and not (behind.too_wide and ahead is not None and ahead.too_wide):
            if behind.run(min(limit, behind.spent + turn)):
                if behind.closed:
                    self._mark(Reduction(model, behind.seen | {node}).run())
                self._unrank(node, behind)
                return behind.spent + (ahead.spent if ahead is not None else 0)
            if ahead is None:
                ahead = Reduction(model, {node}, widest=limit)
            if not ahead.too_wide and ahead.run_until(min(limit, ahead.spent + turn), node):
                self._mark(ahead.standing_still() if node not in ahead.done else ())
                self._unrank(node, behind)
                return ahead.spent + behind.spent
            spent = ahead.spent + behind.spent
            turn *= 2
        return None

    def _unrank(self, node: int, behind: Dependents) -> None:
        """*node* may be able to go on, but nobody knows a proof that the ranks of those behind it can rest on."""
        model = self.model
        if node not in model.stuck:
            model.nodes[node].rank = UNRANKED
            ranks.unrank(model, behind, SUSPECT_TIMES * self.steps)

    def _mark(self, nodes: Collection[int]) -> None:
        """These are stuck: nobody outside them and the stuck set counts as stuck in that."""
        for node in nodes:
            self.model.mark(node)
        self._spread += nodes
        if len(nodes) > 1 or any(has_dependents(self.model, node) for node in nodes):
            self.changed = True
