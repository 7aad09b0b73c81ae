"""``unknot graph``: files of wait graphs and of reports, through the gateway's own engine."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from unknot_gateway.cli import exits, options

_FORMAT: Final = 1


@click.group()
def graph() -> None:
    """Write the live wait graph to a file, check such files, replay what agents reported."""


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


@graph.command()
@click.option(
    "--limit",
    type=click.IntRange(1, 5_000),
    default=5_000,
    show_default=True,
    help="Waits at most; those that cannot end first.",
)
@options.where
def export(limit: int, where: options.Where, as_json: bool) -> None:
    """Write the live wait graph as a file that `unknot graph check` reads: whoever has it can check the verdict.

    Its last step says what the gateway has found. --json: without line breaks.

    \b
    Exit codes: 0 fine, 1 no verdict: the graph is too large for one message, or not judged yet,
                2 wrong usage, 4 no NATS server or no gateway.
    """
    import msgspec

    from unknot_gateway.cli import talk

    async def ask() -> bytes:
        async with talk.connected(where) as client:
            subjects = talk.subjects_of(where.network)
            return await talk.ask_api(client, subjects, "graph", b'{"limit":%d}' % limit)

    answer = msgspec.json.decode(talk.run(ask()))
    steps = answer["steps"]
    case = {
        "name": f"{answer['network']}-{answer['epoch']}",
        "tags": ["live"],
        "why": "the wait graph of a gateway, and what it has found in it",
        "steps": steps,
    }
    text = msgspec.json.encode({"format": _FORMAT, "cases": [case]})
    click.echo(text if as_json else msgspec.json.format(text, indent=1))
    if (shown := sum(step["op"] == "wait" for step in steps)) < answer["total"]:
        click.echo(f"{shown} of {answer['total']} waits; the others can end", err=True)
    if not steps or steps[-1]["op"] != "expect":
        raise exits.Failure("no verdict: the graph is too large for one message, or not judged yet")


@graph.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--heartbeat-s",
    type=click.FloatRange(0.001, 3_600),
    default=15.0,
    show_default=True,
    help="Between two descriptors of an agent that stays blocked; one counts for two of these.",
)
@click.option("--json", "as_json", is_flag=True, help="One object a line, malformed lines and the end too.")
def replay(file: str, heartbeat_s: float, as_json: bool) -> None:
    """Say what would have been found, and when, in FILE: recorded `blocked_on` descriptors, one a line. '-' is stdin.

    \b
    {"run_id", "agent", "at", "blocked_on": {"kind", "id", "since"?, "wait_deadline"?} | null}
        kind: agent, artifact, lock, tool, human
    {"at", "produces": {"agent", "artifact"}}   {"at", "holds": {"agent", "lock", "until"?}}
    {"at", "released": {"agent", "lock"}}       {"at", "gone": {"agent"}}
    Times: HH:MM:SSZ, or RFC 3339 throughout. Lines may be out of order: they are sorted by time.

    \b
    Exit codes: 0 no deadlock, 2 a line is malformed (the others are replayed all the same),
                3 a deadlock found.
    """
    from unknot_gateway.cli import replay as shown
    from unknot_gateway.replay import Replay

    recording = Replay(heartbeat_s)
    say = shown.as_json if as_json else shown.as_text
    with click.open_file(file, "rb") as lines:
        for malformed in recording.read(lines):
            click.echo(say(malformed, recording.clock.text), err=not as_json)
    incidents = 0
    for finding in recording.findings():
        incidents += type(finding).__name__ == "Incident"
        click.echo(say(finding, recording.clock.text))
    if recording.malformed:
        sys.exit(exits.USAGE)
    if incidents:
        sys.exit(exits.DEADLOCK)


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
