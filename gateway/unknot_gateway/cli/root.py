"""The verbs of ``unknot``: where each one lives, and what it does in one line."""

from importlib import import_module
from typing import Any, Final

import click

_HERE: Final = "unknot_gateway.cli"
_VERBS: Final = {
    "agents": ("reads:agents", "Which agents live, and what they do."),
    "approvals": ("approvals:approvals", "Which decisions people are waited for, and make them."),
    "audit": ("audit:audit", "Find waits in agent code that unknot cannot see."),
    "conformance": ("conformance:conformance_command", "Show that a client keeps the laws of the wire."),
    "demo": ("demo:demo_command", "See a deadlock among real agents found, named and resolved."),
    "graph": ("graph:graph", "Export the wait graph, check such files, replay what agents reported."),
    "holds": ("reads:holds", "Who holds which lock or permits, and since when."),
    "request": ("calls:request", "Ask an agent, and print its answer."),
    "run": ("run:run", "Run agents of the current folder."),
    "send": ("calls:send", "Send an agent a one-way event."),
    "serve": ("serve:serve", "Run the gateway, with a NATS server of its own."),
    "users": ("users:users", "Who may connect to the NATS server, and as what."),
    "waits": ("reads:waits", "Who waits for whom, and for what."),
    "watch": ("watch:watch", "Print deadlocks as they are found."),
}
_EPILOG: Final = """\b
Exit codes of all verbs:
  0  fine
  1  failure
  2  wrong usage, or a file that cannot be used
  3  deadlock found
  4  nobody there: no NATS server, no gateway, or no agent
"""


class _Verbs(click.Group):
    """Knows all verbs by name, imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, attribute = _VERBS[cmd_name][0].split(":")
        command: Any = getattr(import_module(f"{_HERE}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in _VERBS.items()])


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"unknot {version('unknot')}")
        except PackageNotFoundError:
            click.echo("unknot, not installed: run from its sources")
        ctx.exit()


@click.group(cls=_Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def main() -> None:
    """Events and requests between agents on NATS, without waits that never end."""
