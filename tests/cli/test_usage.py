"""What every verb keeps: help with its exit codes, --json, code 2 for wrong usage, and a fast start."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from tests.cli.rig import ended, start, unknot
from tests.support.gateway import paths
from unknot_gateway.cli import main

VERBS = [
    ["agents", "list"],
    ["approvals", "approve"],
    ["approvals", "deny"],
    ["approvals", "list"],
    ["audit"],
    ["conformance"],
    ["demo"],
    ["graph", "check"],
    ["graph", "export"],
    ["graph", "replay"],
    ["holds", "list"],
    ["request"],
    ["run"],
    ["send"],
    ["serve"],
    ["users", "add"],
    ["users", "change"],
    ["users", "export"],
    ["users", "list"],
    ["users", "revoke"],
    ["users", "rotate"],
    ["waits", "list"],
    ["watch"],
]


def test_the_list_of_verbs_is_whole() -> None:
    assert main.list_commands(click.Context(main)) == sorted({verb[0] for verb in VERBS})


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_says_its_exit_codes_and_has_json(verb: list[str]) -> None:
    shown = CliRunner().invoke(main, [*verb, "--help"])
    assert shown.exit_code == 0
    assert "--json" in shown.output
    if verb != ["demo"]:
        assert "Exit codes:" in shown.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["sing"],
        ["request"],
        ["request", "elm"],
        ["request", "a b", "work"],
        ["request", "gateway", "work"],
        ["request", "elm", "Work"],
        ["request", "elm", "work", "{"],
        ["request", "elm", "work", "1", "--timeout", "0"],
        ["send", "elm", "work", "NaN"],
        ["waits", "list", "--network", "a b"],
        ["waits", "list", "--limit", "0"],
        ["graph", "check", "no/such/file"],
        ["run"],
        ["run", "team"],
        ["run", "no_such_module:agent"],
        ["run", "json:dumps"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2_and_says_nothing_on_stdout(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_help_imports_no_more_than_it_shows() -> None:
    """The command starts fast because it imports click, and a verb's own needs only when that is called."""
    code = (
        "import sys; from unknot_gateway.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Commands:" in ended.stdout
    for heavy in (
        "asyncio",
        "nats",
        "msgspec",
        "structlog",
        "uvloop",
        "unknot",
        "unknot_schemas",
        "email",
        "json",
    ):
        assert f"'{heavy}'" not in ended.stderr, heavy


@pytest.mark.parametrize(
    "arguments", [["request", "elm", "work"], ["send", "elm", "work"], ["waits", "list"], ["agents", "list"]]
)
async def test_no_server_is_code_4(arguments: list[str]) -> None:
    tried = await unknot(*arguments, "--nats", "nats://127.0.0.1:1")
    assert (tried.code, tried.out) == (4, "")
    assert "no NATS server at nats://127.0.0.1:1" in tried.err
    assert "start one with `unknot serve`" in tried.err


async def test_no_server_to_watch_is_code_4() -> None:
    tried = await ended(await start("watch", "--nats", "nats://127.0.0.1:1"))
    assert (tried.code, tried.out) == (4, "")
