"""``unknot demo``."""

import asyncio
import contextlib
import os
import signal
from typing import Any

import click
import msgspec

from unknot_gateway.cli import exits


@click.command("demo")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object at the end: incident, answers, times."
)
def demo_command(as_json: bool) -> None:
    """See a deadlock among real agents found, named and resolved.

    Replays a recorded run: five agent processes, two of which wait for each other, on a NATS server and a gateway of
    its own. Takes about ten seconds and leaves nothing behind.

    \b
    Exit codes: 0 every step really happened, 1 one did not (stderr says which).
    """
    from unknot_gateway.cli.demo.page import Page
    from unknot_gateway.cli.demo.script import play
    from unknot_gateway.cli.demo.stage import Missing

    _forget_settings()
    page = Page(quiet=as_json)
    try:
        with asyncio.Runner() as runner:
            played = runner.run(_ended_by_signals(play(page)))
    except Missing as missing:
        page.missing(str(missing))
        raise click.exceptions.Exit(exits.FAILED) from missing
    except (KeyboardInterrupt, asyncio.CancelledError) as stopped:
        raise click.Abort from stopped
    if as_json:
        click.echo(msgspec.json.encode(played))


def _forget_settings() -> None:
    """What is set for other gateways and agents is not for these."""
    from unknot_gateway.shell.settings import ENVIRONMENT_PREFIX, Settings

    names = (*Settings.__struct_fields__, "network", "url", "blocking_waits")
    for name in ("NATS_URL", *(ENVIRONMENT_PREFIX + name.upper() for name in names)):
        os.environ.pop(name, None)


async def _ended_by_signals(playing: Any) -> Any:
    """SIGTERM and a closed terminal end it as Ctrl-C does: with all that it started."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError):  # a platform without signals in loops
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await playing
