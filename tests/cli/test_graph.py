"""``unknot graph check``: the given cases pass, and a wrong expectation is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.gateway import ROOT
from unknot_gateway.cli import main

CASES = ROOT / "tests" / "cases" / "graphs.json"
CYCLE = [
    {"op": "wait", "id": "w1", "waiter": "A", "on": [{"exec": "B"}]},
    {"op": "wait", "id": "w2", "waiter": "B", "on": [{"exec": "A"}]},
]


def check(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["graph", "check", *arguments], input=stdin)


def file(steps: Any, **more: Any) -> str:
    return json.dumps({"format": 1, "cases": [{"name": "mine", "steps": steps}], **more})


def test_all_given_cases_pass() -> None:
    checked = check(str(CASES))
    names = [case["name"] for case in json.loads(CASES.read_text())["cases"]]
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.splitlines() == [f"ok {name}" for name in names]
    assert f"{len(names)} cases, {len(names)} as expected" in checked.stderr


def test_each_given_case_is_one_json_line() -> None:
    checked = check(str(CASES), "--json")
    assert checked.exit_code == 0
    assert all(json.loads(line)["ok"] for line in checked.stdout.splitlines())


def test_what_differs_is_named_with_its_step() -> None:
    text = file([*CYCLE, {"op": "expect", "deadlocked": ["A"], "cycles": [["A", "B"]]}])
    checked = check("-", stdin=text)
    assert checked.exit_code == 1
    assert checked.stdout == "DIFFERS mine: step 3: deadlocked: expected ['A'], found ['A', 'B']\n"
    line = json.loads(check("-", "--json", stdin=text).stdout)
    assert line["differences"] == [
        {"step": 3, "what": "deadlocked", "expected": ["A"], "found": ["A", "B"]},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "-: "),
        ('{"format": 2, "cases": []}', "format 2"),
        ('{"cases": []}', "format"),
        (file([{"op": "sing"}]), "case mine, step 1"),
        (file([{"id": "w1"}]), "case mine, step 1"),
        (file([{"op": "wait", "id": "w1"}]), "case mine, step 1"),
        (file([{"op": "expect", "colour": []}]), "colour"),
        (file([1]), "-: "),
    ],
)
def test_a_file_that_cannot_be_replayed_is_code_2(text: str, said: str) -> None:
    checked = check("-", stdin=text)
    assert (checked.exit_code, checked.stdout) == (2, ""), checked.output
    assert said in checked.stderr


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(file(CYCLE))
    assert check(str(path)).exit_code == 0
