"""``unknot graph check``: files of wait graphs, through the gateway's own engine."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from unknot_gateway.cli import exits

_FORMAT: Final = 1


@click.group()
def graph() -> None:
    """Check files of wait graphs."""


@graph.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help='One object a line: {"case", "ok", "differences"}.')
def check(file: str, as_json: bool) -> None:
    """Replay the cases of FILE and compare each `expect` with what the engine finds. '-' is stdin.

    FILE: {"format": 1, "cases": [{"name", "steps": [...]}]}; steps: wait, close, resource, grant, release, artifact,
    produce, withdraw, exec, crash, alias, tick, expect.

    \b
    Exit codes: 0 all as expected, 1 a case differs, 2 a file that cannot be read or replayed.
    """
    import msgspec

    cases = _cases(file)
    failed = 0
    for case in cases:
        differences = list(_differences(case))
        failed += bool(differences)
        if as_json:
            verdict = {"case": case["name"], "ok": not differences, "differences": differences}
            click.echo(msgspec.json.encode(verdict))
        else:
            click.echo(f"ok {case['name']}" if not differences else _line(case["name"], differences))
    if not as_json:
        click.echo(f"{len(cases)} cases, {len(cases) - failed} as expected", err=True)
    if failed:
        sys.exit(exits.FAILED)


def _cases(file: str) -> list[dict[str, Any]]:
    import msgspec

    class Case(msgspec.Struct):
        name: str
        steps: list[dict[str, Any]]

    class Cases(msgspec.Struct):
        format: int
        cases: list[Case]

    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        read = msgspec.json.decode(text, type=Cases)
    except (msgspec.DecodeError, RecursionError) as error:
        raise exits.BadFile(f"{file}: {error}") from error
    if read.format != _FORMAT:
        raise exits.BadFile(f"{file}: format {read.format} is not known; {_FORMAT} is")
    return [{"name": case.name, "steps": case.steps} for case in read.cases]


def _differences(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from unknot_gateway.core.graph.script import Script, ScriptError

    script = Script()
    for number, step in enumerate(case["steps"], start=1):
        try:
            if step.get("op") != "expect":
                script.apply(step)
                continue
        except ScriptError as error:
            raise exits.BadFile(f"case {case['name']}, step {number}: {error}") from error
        script.drain()
        found = script.report()
        for key, expected in step.items():
            if key == "op":
                continue
            if not hasattr(found, key):
                raise exits.BadFile(f"case {case['name']}, step {number}: nothing is called {key!r}")
            if _plain(getattr(found, key)) != _plain(expected):
                yield {"step": number, "what": key, "expected": expected, "found": getattr(found, key)}


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _line(name: str, differences: list[dict[str, Any]]) -> str:
    first = differences[0]
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return (
        f"DIFFERS {name}: step {first['step']}: {first['what']}:"
        f" expected {first['expected']}, found {_plain(first['found'])}{more}"
    )
