"""After every step the engine says nothing but the truth, and once its suspects are worked off the whole truth."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.compare import BUDGETS, compare, exact_at_once, shrink
from tests.oracle.examples import SOAK, SOAK_EXAMPLES, share, soak
from tests.oracle.scripts import Step, script_by_seed, scripts
from unknot_gateway.core.graph.script import Script

pytestmark = pytest.mark.timeout(300)  # for a machine that does much else: many examples, not slow ones

pauses = st.one_of(
    st.none(), st.lists(st.booleans(), max_size=24)
)  # when the engine may work off its suspects


@pytest.mark.parametrize("budget", BUDGETS)
@share(0.34)
@given(steps=scripts(), drained=pauses)
def test_a_report_is_within_the_truth_and_once_drained_the_truth(
    budget: int | None, steps: list[Step], drained: list[bool] | None
) -> None:
    compare(Script(budget), steps, drained)


@share(0.15)
@given(steps=scripts())
def test_within_the_budget_a_report_is_the_truth_at_once(steps: list[Step]) -> None:
    exact_at_once(Script(), steps)


@pytest.mark.parametrize("budget", [*BUDGETS, 6])
def test_the_same_in_scripts_of_fixed_seeds(budget: int | None) -> None:
    _all_agree(range(share(0.25).max_examples), budget, 40)


def _all_agree(seeds: Iterable[int], budget: int | None, length: int) -> None:
    for seed in seeds:
        # The engine works its suspects off after every step, or at the end alone.
        _agree(script_by_seed(seed, 10 + seed % (length - 10)), budget, None if seed % 3 else [])


def _agree(steps: list[Step], budget: int | None, drained: list[bool] | None) -> None:
    """Compare; where they differ, raise with the shortest script that shows it."""
    try:
        compare(Script(budget), steps, drained)
    except Exception:
        compare(Script(budget), shrink(steps, lambda less: _differs(less, budget, drained)), drained)
        raise


def _differs(steps: list[Step], budget: int | None, drained: list[bool] | None) -> bool:
    try:
        compare(Script(budget), steps, drained)
    except Exception:  # noqa: BLE001 - whatever the engine raises on a good script is a failure of the same worth
        return True
    return False


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="run by `make soak` only")
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("budget", BUDGETS)
@soak(1 / len(BUDGETS))
@given(steps=scripts(60), drained=pauses)
def test_the_same_in_many_more_and_longer_scripts(
    budget: int | None, steps: list[Step], drained: list[bool] | None
) -> None:
    compare(Script(budget), steps, drained)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="run by `make soak` only")
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("budget", [*BUDGETS, 2, 6, 20])
def test_the_same_in_many_more_seeds(budget: int | None) -> None:
    first = random.SystemRandom().randrange(2**32)
    _all_agree(range(first, first + SOAK_EXAMPLES // 6), budget, 100)  # a failure shows its script
