"""10 000 simulated minutes with 50 agents: 0 violations."""

import pytest

from tests.sim.soak import soak

MINUTES = 10_000
AGENTS = 50
RUN_MIN = 50.0


@pytest.mark.soak
@pytest.mark.once
@pytest.mark.timeout(6 * 3600)
def test_ten_thousand_minutes_without_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    figures = soak(MINUTES, AGENTS, RUN_MIN)
    with capsys.disabled():
        print(f"\n{figures}")  # noqa: T201  its figures are what this test is for
    assert not figures.failed
