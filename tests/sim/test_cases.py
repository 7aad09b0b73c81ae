"""Every scenario that ever failed, by the name of what was wrong."""

from pathlib import Path

import msgspec
import pytest

from tests.sim.scenario import Scenario
from tests.sim.world import play

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


class Case(msgspec.Struct):
    """*violations*: what it showed when it failed."""

    violations: list[str]
    scenario: Scenario


@pytest.mark.once
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_once_failed_holds(path: Path) -> None:
    case = msgspec.json.decode(path.read_bytes(), type=Case)
    assert not play(case.scenario).violations
