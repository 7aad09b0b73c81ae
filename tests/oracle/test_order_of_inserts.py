"""Inserts that do not depend on each other give the same report in every order."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.compare import BUDGETS, as_truth
from tests.oracle.examples import share
from tests.oracle.scripts import QUEUED, Step, inserts
from unknot_gateway.core.graph.script import Script

pytestmark = pytest.mark.timeout(300)  # for a machine that does much else: many examples, not slow ones


@share(0.1)
@given(steps=inserts(), order=st.randoms(use_true_random=False), budget=st.sampled_from(BUDGETS))
def test_independent_inserts_commute(steps: list[Step], order: random.Random, budget: int | None) -> None:
    bounds = [step for step in steps if step["op"] == "resource"]
    rest = [step for step in steps if step["op"] != "resource"]
    assert _report(bounds + rest, budget) == _report(bounds + _shuffled(rest, order), budget)


def _shuffled(steps: list[Step], order: random.Random) -> list[Step]:
    """Another order, in which the waits that queue keep theirs: their order is what a queue is."""
    shuffled = list(steps)
    order.shuffle(shuffled)
    queued = iter([step for step in steps if _queues(step)])
    return [next(queued) if _queues(step) else step for step in shuffled]


def _queues(step: Step) -> bool:
    return any(leaf in str(step.get("on")) for leaf in QUEUED)


def _report(steps: list[Step], budget: int | None) -> Any:
    script = Script(budget)
    for step in steps:
        script.apply(step)
    script.drain()
    return as_truth(script.report())


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_knot_is_the_same_in_whatever_order_it_is_tied(order: tuple[int, ...]) -> None:
    knot: list[Step] = [
        {"op": "wait", "id": "w0", "waiter": "A", "on": [{"exec": "B"}, {"exec": "C"}], "mode": "any"},
        {"op": "wait", "id": "w1", "waiter": "B", "on": [{"exec": "A"}]},
        {"op": "wait", "id": "w2", "waiter": "C", "on": [{"any": [{"exec": "A"}, {"exec": "D"}]}]},
        {"op": "wait", "id": "w3", "waiter": "D", "on": [{"exec": "B"}, {"exec": "C"}]},
    ]
    report = _report([knot[at] for at in order], 0)
    assert report["cores"] == [["A", "B", "C", "D"]]
    assert report["cycles"] == [["A", "B"]]
