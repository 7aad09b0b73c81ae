"""10 000 simulated minutes with 50 agents: 0 violations. And how a soak goes on where it was stopped."""

from pathlib import Path

import pytest

from tests.sim.soak import soak

MINUTES = 10_000
AGENTS = 50
RUN_MIN = 20.0


@pytest.mark.soak
@pytest.mark.once
@pytest.mark.timeout(6 * 3600)
def test_ten_thousand_minutes_without_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    *_, figures = soak(MINUTES, AGENTS, RUN_MIN)
    with capsys.disabled():
        print(f"\n{figures}")  # noqa: T201  its figures are what this test is for
    assert not figures.failed


@pytest.mark.once
def test_a_soak_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    log = tmp_path / "soak.log"
    assert next(iter(soak(1.0, 5, 0.2, jobs=1, log=log))).seeds == 1
    with log.open("ab") as file:
        file.write(b'\n{"seed": 1, "dig')  # killed while it wrote
    assert [figures.seeds for figures in soak(1.0, 5, 0.2, jobs=1, log=log)] == [2, 3, 4, 5]
    [again] = soak(1.0, 5, 0.2, jobs=1, log=log)
    *_, whole = soak(1.0, 5, 0.2, jobs=1)
    assert (again.seeds, again.counts) == (5, whole.counts)
