"""``unknot approvals``: decisions that people are waited for, and how to make them."""

import json
from typing import Any, Final

import click

from unknot_gateway.cli import exits, options, tables

_HEAD: Final = ("ID", "WAITER", "BY", "SINCE", "ENDS IN", "REASON", "DATA")
_DATA_CHARS: Final = 60
"""Of the data that a table shows; --json has it all."""


@click.group()
def approvals() -> None:
    """Which decisions people are waited for, and make them."""


@approvals.command("list")
@click.option(
    "--limit",
    type=click.IntRange(1, 5_000),
    default=1_000,
    show_default=True,
    help="Rows at most; oldest first.",
)
@options.where
def approvals_list(limit: int, where: options.Where, as_json: bool) -> None:
    """List the decisions that are waited for, of humans and of agents.

    \b
    Exit codes: 0 fine, 2 wrong usage, 4 no NATS server or no gateway.
    """
    payload = _asked(where, "approvals", {"limit": limit}, "network")
    if as_json:
        click.echo(payload)
        return
    answer = json.loads(payload)
    tables.show(_HEAD, [_row(row) for row in answer["rows"]])
    if len(answer["rows"]) < answer["total"]:
        click.echo(f"{len(answer['rows'])} of {answer['total']} approvals: see --limit", err=True)


@approvals.command("approve")
@click.argument("approval_id", metavar="ID")
@click.option("--reason", help="Why; the waiter is told.")
@options.where
def approvals_approve(approval_id: str, reason: str | None, where: options.Where, as_json: bool) -> None:
    """Approve what a human was asked for.

    \b
    Exit codes: 0 done, 1 not open (any more) or an agent's to decide, 2 wrong usage,
                4 no NATS server or no gateway.
    """
    _resolve(approval_id, "approved", reason, where, as_json)


@approvals.command("deny")
@click.argument("approval_id", metavar="ID")
@click.option("--reason", help="Why; the waiter is told.")
@options.where
def approvals_deny(approval_id: str, reason: str | None, where: options.Where, as_json: bool) -> None:
    """Deny it.

    \b
    Exit codes: 0 done, 1 not open (any more) or an agent's to decide, 2 wrong usage,
                4 no NATS server or no gateway.
    """
    _resolve(approval_id, "denied", reason, where, as_json)


def _resolve(
    approval_id: str, decision: str, reason: str | None, where: options.Where, as_json: bool
) -> None:
    said = {"id": approval_id, "decision": decision, "reason": reason}
    payload = _asked(where, "approval.resolve", said, "ok")
    receipt = json.loads(payload)
    if as_json:
        click.echo(payload)
    if not receipt["ok"]:
        raise exits.Failure(receipt["error"]["message"])
    if not as_json:
        click.echo(f"{approval_id} {decision}")


def _asked(where: options.Where, endpoint: str, question: dict[str, Any], key: str) -> bytes:
    from unknot_gateway.cli import talk

    async def ask() -> bytes:
        async with talk.connected(where) as client:
            subjects = talk.subjects_of(where.network)
            return await talk.ask_api(client, subjects, endpoint, json.dumps(question).encode(), key)

    return talk.run(ask())


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    data = json.dumps(row["data"]) if row["data"] is not None else "-"
    return (
        row["id"],
        row["waiter"],
        row["by"],
        f"{row['since_s']:.1f}s",
        f"{row['deadline_in_s']:.1f}s",
        row["reason"] or "-",
        data if len(data) <= _DATA_CHARS else data[: _DATA_CHARS - 1] + "…",
    )
