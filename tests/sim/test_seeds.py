"""The real gateway and the real clients on a virtual clock and a network that breaks: what they promise holds."""

import pytest

from tests.sim.drawing import scenario
from tests.sim.shrink import as_case, shortest
from tests.sim.world import play

SEEDS = 200


@pytest.mark.once
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_false_or_missed_deadlock_no_answer_lost_or_doubled_nothing_left(seed: int) -> None:
    drawn = scenario(seed)
    report = play(drawn)
    if report.violations:
        small, again = shortest(drawn)
        pytest.fail(f"seed {seed}: {report.violations}\nkeep as a case:\n{as_case(small, again)}")
