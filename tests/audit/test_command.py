"""``unknot audit``: what it prints, and its exit codes."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from unknot_gateway.audit import RULES
from unknot_gateway.cli import main

BAD = "async def take(inbox):\n    return await inbox.get()\n"


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def test_a_clean_file_is_code_0(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print()\n")
    done = audit(tmp_path)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no finding\n")


def test_a_finding_is_code_1_and_says_where_what_and_what_instead(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(BAD)
    done = audit(tmp_path)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{path}:2:18: UNK002 `inbox.get()` waits for whoever puts something")
    assert f"instead: {RULES['UNK002'].instead}" in done.stdout
    assert "findings: 1, files: 1" in done.stderr


def test_json_is_one_object_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD + "input()\n")
    done = audit(tmp_path, "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["rule"], first["line"], first["column"], first["text"]) == ("UNK002", 2, 18, "inbox.get()")
    assert {"path", "what", "why", "instead"} < second.keys()
    assert (second["rule"], done.exit_code, done.stderr) == ("UNK011", 1, "")


def test_a_file_that_is_no_python_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def\n")
    done = audit(path)
    assert (done.exit_code, done.stdout) == (1, f"{path}:1:1: UNK099 is no Python: invalid syntax\n")


def test_wrong_usage_is_code_2(tmp_path: Path) -> None:
    assert audit().exit_code == 2
    assert audit(tmp_path / "nowhere").exit_code == 2


def test_the_rules_are_told(tmp_path: Path) -> None:
    done = audit("--rules")
    assert done.exit_code == 0
    for rule in RULES.values():
        assert f"{rule.id}  {rule.what}\n  why:     {rule.why}\n  instead: {rule.instead}" in done.stdout


def test_the_page_names_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    assert [rule for rule in RULES if f"`{rule}`" not in page] == []
