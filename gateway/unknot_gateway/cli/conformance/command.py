"""``unknot conformance``."""

import asyncio
import shutil
from typing import TYPE_CHECKING

import click

from unknot_gateway.cli import exits

if TYPE_CHECKING:
    from unknot_gateway.cli.conformance.examination import Report


@click.command("conformance", context_settings={"ignore_unknown_options": True})
@click.option(
    "--only", multiple=True, metavar="LAW", help="Show this law only (* and ? fit); may be repeated."
)
@click.option("--list", "as_list", is_flag=True, help="Print the laws, and start nothing.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: passed, rows (law, passed, why)."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def conformance_command(
    only: tuple[str, ...], as_list: bool, as_json: bool, command: tuple[str, ...]
) -> None:
    """Show that a client keeps the laws of the wire: `unknot conformance -- COMMAND...`.

    COMMAND starts a program, in any language, that plays the role of docs/conformance.md: as the agent, on the NATS
    server and in the network that its environment names. It is looked at from outside, with a server and a gateway of
    its own that are frozen and killed meanwhile. Takes about half a minute.

    \b
    Exit codes: 0 all laws hold, 1 one does not, 2 wrong usage or no such command.
    """
    import msgspec

    from unknot_gateway.cli.conformance.examination import chosen, examine
    from unknot_gateway.cli.conformance.stage import NotStarted
    from unknot_gateway.shell.embedded import ServerFailed

    laws = chosen(only)
    if not laws:
        raise click.UsageError("no law of that name: see `unknot conformance --list`")
    if as_list:
        listed = [{"law": law.name, "about": law.about} for law in laws]
        click.echo(
            msgspec.json.encode(listed)
            if as_json
            else "\n".join(f"{one['law']:<20} {one['about']}" for one in listed)
        )
        return
    if not command:
        raise click.UsageError("which client? unknot conformance -- COMMAND...")
    if shutil.which(command[0]) is None:
        raise exits.BadFile(f"no command {command[0]!r}")
    try:
        report = asyncio.run(examine(list(command), laws))
    except (NotStarted, ServerFailed) as error:
        raise exits.Failure(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        _print(report)
    if not report.passed:
        raise click.exceptions.Exit(exits.FAILED)


def _print(report: "Report") -> None:
    said = ""
    for row in report.rows:
        click.echo(f"{'holds ' if row.passed else 'BROKEN'}  {row.law:<18}  {row.about}")
        if row.why and row.why != said:  # what breaks all of them is said once
            click.echo(f"{'':8}{'':18}  {row.why}")
        said = row.why
    held = sum(row.passed for row in report.rows)
    click.echo(f"{held} of {len(report.rows)} laws hold ({report.took_s:g} s)")
