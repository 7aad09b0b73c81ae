"""After every step the engine says nothing but the truth, and once its suspects are worked off the whole truth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.compare import BUDGETS, compare, exact_at_once, shrink
from tests.oracle.examples import SOAK, share, soak
from tests.oracle.scripts import Step, script_by_seed, scripts
from unknot_gateway.core.graph.script import Script

pauses = st.one_of(
    st.none(), st.lists(st.booleans(), max_size=24)
)  # when the engine may work off its suspects


@pytest.mark.parametrize("budget", BUDGETS)
@share(0.15)
@given(steps=scripts(), drained=pauses)
def test_a_report_is_within_the_truth_and_once_drained_the_truth(
    budget: int | None, steps: list[Step], drained: list[bool] | None
) -> None:
    compare(Script(budget), steps, drained)


@share(0.15)
@given(steps=scripts())
def test_within_the_budget_a_report_is_the_truth_at_once(steps: list[Step]) -> None:
    exact_at_once(Script(), steps)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_same_in_scripts_of_fixed_seeds(budget: int | None) -> None:
    for seed in range(share(0.25).max_examples):
        steps = script_by_seed(seed, 10 + seed % 30)
        if not agrees(steps, budget):
            compare(Script(budget), shrink(steps, lambda shorter: not agrees(shorter, budget)), None)


def agrees(steps: list[Step], budget: int | None) -> bool:
    try:
        compare(Script(budget), steps, None)
    except AssertionError:  # the engine's own asserts are failures as well
        return False
    return True


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="run by `make soak` only")
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("budget", BUDGETS)
@soak(1 / 3)
@given(steps=scripts(60), drained=pauses)
def test_the_same_in_many_more_and_longer_scripts(
    budget: int | None, steps: list[Step], drained: list[bool] | None
) -> None:
    compare(Script(budget), steps, drained)
