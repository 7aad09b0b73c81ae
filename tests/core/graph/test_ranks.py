"""A rank is a proof: whoever has one has enough true conditions that rest on lower ranks only."""

import random
from collections.abc import Callable

import pytest
from hypothesis import settings

from tests.benchmarks.graph_families import Mix
from tests.core.graph import stories
from tests.core.graph.mirror import Mirror
from unknot_gateway.core.graph import Graph, execution, ranks
from unknot_gateway.core.graph.conditions import ANY, ARTIFACT, EXECUTION, RESOURCE, TRUE, Condition
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.rows import SPOT_BITS, UNRANKED, WaitRow

STORIES = min(200, settings().max_examples * 3 // 10)


class Law:
    """Reads the ranks of a model; nobody is asked for a proof."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def broken_at(self) -> list[int]:
        """Nodes whose rank is no proof."""
        ranked = [
            node for node, row in self.model.nodes.items() if row.waits and row.rank < self.model.ceiling
        ]
        return [node for node in ranked if not all(map(self.holds, self.model.nodes[node].waits))]

    def holds(self, row: WaitRow) -> bool:
        own = self.model.nodes[row.waiter].rank
        true = [self.true(each, own, row.wait, at << SPOT_BITS) for at, each in enumerate(row.conditions)]
        return sum(true) >= row.need

    def true(self, condition: Condition, own: int, wait: int, spot: int) -> bool:
        if condition.kind == ANY:
            return any(self.true(each, own, wait, at) for at, each in enumerate(condition.options, spot))
        if condition.kind == EXECUTION:
            return self.below(condition.target, own)
        if condition.kind == ARTIFACT:
            made = self.model.artifacts.get(condition.target)
            return made is None or not made.producers or any(self.below(each, own) for each in made.producers)
        if condition.kind == RESOURCE:
            return self.served(condition, own, (wait, spot))
        return condition.kind == TRUE

    def below(self, node: int, own: int) -> bool:
        row = self.model.nodes.get(node)
        return row is None or row.rank < own

    def served(self, condition: Condition, own: int, place: tuple[int, int]) -> bool:
        row = self.model.resources.get(condition.target)
        if row is None or row.capacity is None:
            return True
        kept = sum(units for node, units in row.held.items() if not self.below(node, own))
        for entry in row.queue if row.fifo else ():
            if entry[:2] < place and not self.below(entry[3], own):
                kept += entry[2]
        return condition.units <= row.capacity - kept


def _at_once(insert: Callable[[], object]) -> None:
    insert()


class FewRuns(Mix):
    """Large enough for chains of ranks that have to sink, pools that change hands, and deadlocks among them."""

    RUNS = 3


@pytest.fixture(params=["its bounds", "a narrow search"])
def _how_far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow: much is left to the search that is exact, and leaves no proof."""
    if request.param == "a narrow search":
        monkeypatch.setattr(ranks, "DEPTH_MAX", 0)
        monkeypatch.setattr(ranks, "AHEAD_MAX", 0)


@pytest.mark.usefixtures("_how_far")
def test_every_rank_is_a_proof_whatever_is_done_to_the_graph() -> None:
    proofs = 0
    for seed in range(2 * STORIES):
        pick, mirror = random.Random(seed), Mirror(2_000)
        for at in range(40):
            stories.step(mirror, pick)
            law = Law(mirror.graph._model)
            if not mirror.graph.suspects:
                assert law.broken_at() == [], (seed, at)
                proofs += sum(1 for row in law.model.nodes.values() if row.waits and row.rank < 0)
    assert proofs > 2 * STORIES


@pytest.mark.usefixtures("_how_far")
@pytest.mark.parametrize(("budget", "slice_steps"), [(2_000, 1_000), (20, 1_000), (20, 20), (1, 2)])
def test_ranks_hold_and_nobody_is_missed_in_large_runs(budget: int, slice_steps: int) -> None:
    graph, found = Graph(check_steps=budget), 0
    family = FewRuns(graph, random.Random(9))
    family.fill(120)
    for at in range(1_500):
        family.churn(_at_once)
        while not graph.drain(slice_steps):
            pass
        assert at % 10 or Law(graph._model).broken_at() == [], at
        for core in graph.found():
            found += 1
            family.resolve(core)
        if at % 100 == 0:
            known = graph.stuck()
            graph.start_sweep()
            while not graph.drain(1_000):
                pass
            assert graph.stuck() == known, at
    assert found


@pytest.mark.parametrize("rank", [None, UNRANKED])
def test_a_sweep_finds_the_ring_that_no_check_has_seen(rank: int | None) -> None:
    graph = Graph()
    ring = [graph.add(f"node-{at}") for at in range(3)]
    for at, node in enumerate(ring):
        on = (execution(ring[at - 1]),)
        graph._model.link(WaitRow(1_000 + at, node, on, 1, tentative=False))
        if rank is not None:
            graph._model.nodes[node].rank = rank
    assert not graph.stuck()
    graph.start_sweep()
    while not graph.drain(1):
        pass
    assert graph.stuck() == set(ring)
