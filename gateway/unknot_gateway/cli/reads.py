"""``unknot waits`` and ``unknot agents``: what the gateway's api says, as a table or as JSON."""

import sys
from typing import Any, Final

import click

from unknot_gateway.cli import exits, options, tables
from unknot_gateway.cli import verdicts as shown

_LIMIT: Final = 1_000
_NO_SESSION: Final = "0"
"""The session of an agent that never said hello."""


@click.group()
def waits() -> None:
    """Who waits for whom, and for what."""


@click.group()
def agents() -> None:
    """Which agents live, and what they do."""


@click.group()
def holds() -> None:
    """Who holds which lock or permits, and since when."""


_limit = click.option(
    "--limit",
    type=click.IntRange(1, 5_000),
    default=_LIMIT,
    show_default=True,
    help="Rows at most; oldest first.",
)


@waits.command("list")
@click.option(
    "--verdicts",
    is_flag=True,
    help="Say who waits for one another, the worst first, and whether it can ever end.",
)
@_limit
@options.where
def waits_list(verdicts: bool, limit: int, where: options.Where, as_json: bool) -> None:
    """List the open waits.

    With --json and --verdicts the verdicts stand beside the rows.

    \b
    Exit codes: 0 fine, 2 wrong usage, 3 with --verdicts: there is a deadlock,
                4 no NATS server or no gateway.
    """
    answer, payload = _asked(where, "waits", limit)
    judged, verdicts_payload = _asked(where, "verdicts", limit) if verdicts else ({}, b"")
    if as_json:
        click.echo(payload[:-1] + b',"verdicts":' + verdicts_payload + b"}" if verdicts else payload)
    else:
        tables.show(_WAIT_HEAD, [_wait(row) for row in answer["rows"]])
        if verdicts:
            click.echo("\n".join(shown.lines(judged)))
        _rest(answer, "waits")
    if verdicts and shown.is_deadlocked(judged):
        sys.exit(exits.DEADLOCK)


@agents.command("list")
@_limit
@options.where
def agents_list(limit: int, where: options.Where, as_json: bool) -> None:
    """List the live sessions of all agents.

    \b
    Exit codes: 0 fine, 2 wrong usage, 4 no NATS server or no gateway.
    """
    answer, payload = _asked(where, "agents", limit)
    if as_json:
        click.echo(payload)
        return
    tables.show(_AGENT_HEAD, [_agent(row) for row in answer["rows"] if not _is_a_name(row)])
    _rest(answer, "sessions")


@holds.command("list")
@_limit
@options.where
def holds_list(limit: int, where: options.Where, as_json: bool) -> None:
    """List what is held of locks and permits, the longest held first.

    \b
    Exit codes: 0 fine, 2 wrong usage, 4 no NATS server or no gateway.
    """
    answer, payload = _asked(where, "holds", limit)
    if as_json:
        click.echo(payload)
        return
    tables.show(_HOLD_HEAD, [_hold(row) for row in answer["rows"]])
    _rest(answer, "holds")


def _asked(where: options.Where, endpoint: str, limit: int) -> tuple[dict[str, Any], bytes]:
    import msgspec

    from unknot_gateway.cli import talk

    async def ask() -> bytes:
        async with talk.connected(where) as client:
            return await talk.ask_api(
                client, talk.subjects_of(where.network), endpoint, b'{"limit":%d}' % limit
            )

    payload = talk.run(ask())
    return msgspec.json.decode(payload), payload


_WAIT_HEAD: Final = ("WAITER", "EXECUTION", "FOR", "STATE", "HELD BY", "SINCE", "ENDS IN", "ID")
_HOLD_HEAD: Final = ("HELD BY", "EXECUTION", "KIND", "NAME", "UNITS", "SINCE", "LAPSES IN", "WAITING", "ID")
_AGENT_HEAD: Final = (
    "AGENT",
    "SESSION",
    "HEARD",
    "SLOTS",
    "BUSY",
    "QUEUED",
    "WAITS",
    "HELD",
    "VERDICT",
    "SDK",
)


def _wait(row: dict[str, Any]) -> tuple[str, ...]:
    what = f"{row['target']} {row['type']}".strip()
    state = row["state"] if row["position"] is None else f"{row['state']} #{row['position']}"
    execution = f"{row['execution']}/{row['strand']}" if row["strand"] else row["execution"]
    return (
        row["waiter"],
        execution,
        f"{row['kind']}: {what}",
        f"{state} STUCK" if row["stuck"] else state,
        row["holder"] or "-",
        f"{row['since_s']:.1f}s",
        f"{row['deadline_in_s']:.1f}s",
        row["id"],
    )


def _is_a_name(row: dict[str, Any]) -> bool:
    """Whether nothing is known of the agent but that somebody asked for it."""
    counts = ("busy", "queued", "open", "held")
    return row["session"] == _NO_SESSION and not any(row[name] for name in counts)


def _agent(row: dict[str, Any]) -> tuple[str, ...]:
    slots = "any" if row["slots"] is None else str(row["slots"])
    heard = f"{row['heard_s']:.1f}s" if row["fresh"] else f"{row['heard_s']:.1f}s stale"
    counts = (str(row[name]) for name in ("busy", "queued", "open", "held"))
    return (row["agent"], row["session"][:8], heard, slots, *counts, row["verdict"], row["sdk"] or "-")


def _hold(row: dict[str, Any]) -> tuple[str, ...]:
    execution = f"{row['execution']}/{row['strand']}" if row["strand"] else row["execution"]
    return (
        f"{row['agent']} (lost)" if row["is_lost"] else row["agent"],
        execution,
        row["kind"],
        row["target"],
        f"{row['units']} of {row['of']}",
        f"{row['since_s']:.1f}s",
        f"{row['lapses_in_s']:.1f}s",
        str(row["waiting"]),
        row["id"],
    )


def _rest(answer: dict[str, Any], what: str) -> None:
    shown = len(answer["rows"])
    if shown < answer["total"]:
        click.echo(f"{shown} of {answer['total']} {what}: see --limit", err=True)
