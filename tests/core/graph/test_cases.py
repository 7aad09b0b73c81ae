"""The given cases, with every budget. They are in tests/cases/graphs.json.

DESIGN wins over the README of the cases in one thing: a `resource` is walked first in, first out unless it says
`"fifo": false`; none of these cases is decided by that.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from unknot_gateway.core.graph.script import Script

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "cases" / "graphs.json").read_text(encoding="utf-8")
)["cases"]


@pytest.mark.parametrize("budget", [0, 1, None])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_report_is_the_one_expected(case: dict[str, Any], budget: int | None) -> None:
    script = Script(budget)
    for step in case["steps"]:
        if step["op"] != "expect":
            script.apply(step)
            continue
        script.drain()
        report = script.report()
        assert {key: getattr(report, key) for key in step if key != "op"} == {
            key: value for key, value in step.items() if key != "op"
        }
