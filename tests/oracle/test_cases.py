"""The given cases and every script that ever failed, told to the engine and to the oracle alike.

Where a case and DESIGN disagree DESIGN wins. So far none does: in the given cases every resource is walked as a
queue (DESIGN section 4), which the README of the cases leaves out, and the answers are the same.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.compare import BUDGETS, as_truth, compare
from tests.oracle.cores import truth
from tests.oracle.world import World
from unknot_gateway.core.graph.script import Script

GIVEN = Path(__file__).parent.parent / "cases" / "graphs.json"
FAILED = Path(__file__).parent / "cases"


def _cases() -> list[Any]:
    files = [GIVEN, *sorted(FAILED.glob("*.json"))]
    cases = [case for file in files for case in json.loads(file.read_text())["cases"]]
    return [pytest.param(case["steps"], id=case["name"]) for case in cases]


@pytest.mark.parametrize("steps", _cases())
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_engine_gives_the_answers_of_the_case(steps: list[Any], budget: int | None) -> None:
    script = Script(budget)
    for step in steps:
        if step["op"] == "expect":
            script.drain()
            assert as_truth(script.report()) == _answer(step)
        else:
            script.apply(step)


@pytest.mark.parametrize("steps", _cases())
def test_the_oracle_gives_the_answers_of_the_case(steps: list[Any]) -> None:
    world = World()
    for step in steps:
        world.apply(step)
        if step["op"] == "expect":
            assert truth(world) == _answer(step)


@pytest.mark.parametrize("steps", _cases())
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_engine_and_the_oracle_agree_after_every_step_of_the_case(
    steps: list[Any], budget: int | None
) -> None:
    compare(Script(budget), [step for step in steps if step["op"] != "expect"], None)


def _answer(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "op"}
