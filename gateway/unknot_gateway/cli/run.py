"""``unknot run``: agents of the current folder, through the client library."""

import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from unknot_gateway.cli import exits, options

if TYPE_CHECKING:
    from unknot import Agent


@click.command()
@click.argument("names", metavar="MODULE:AGENT...", nargs=-1, required=True)
@click.option(
    "--wait",
    "patience_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the NATS server and the gateway.",
)
@click.option(
    "--instance",
    metavar="NAME",
    help="Which of several processes this one is: the next one with that name takes its place at once.",
)
@options.where
def run(
    names: tuple[str, ...], patience_s: float, instance: str | None, where: options.Where, as_json: bool
) -> None:
    """Run agents: MODULE is imported from the current folder, AGENT is what it calls an unknot.Agent.

    Prints one line on stdout when all are up; logs go to stderr. After SIGTERM or Ctrl-C nothing new comes, and what is
    running has ten seconds to end. Each agent logs in as its own user: with --password-file, --creds or --nkey,
    {agent} in the name of the file stands for the agent's name.

    \b
    Exit codes: 0 stopped, 1 an agent failed, 2 wrong usage or nothing of that name,
                4 no NATS server or no gateway.
    """
    import unknot

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if instance is not None and not instance:
        raise click.UsageError("--instance needs a name: all processes without one would replace one another")
    sys.path.insert(0, str(Path.cwd()))
    agents = [_agent(name) for name in names]
    if len({agent.name for agent in agents}) != len(agents):
        raise click.UsageError("one agent is named twice")

    try:
        unknot.run(
            *agents,
            url=where.url,
            network=where.network,
            timeout=patience_s,
            on_up=lambda: _say_up(agents, where, as_json=as_json),
            login=where.login,
            instance=instance,
        )
    except unknot.BadLogin as bad:
        raise exits.BadFile(str(bad)) from bad
    except unknot.Unreachable as error:
        raise exits.NobodyThere(str(error)) from error
    except unknot.WaitFailed as error:
        raise exits.Failure(str(error)) from error


def _say_up(agents: "list[Agent]", where: options.Where, *, as_json: bool) -> None:
    import msgspec

    names = [agent.name for agent in agents]
    if as_json:
        up = {"agents": names, "nats": where.shown, "network": where.network, "pid": os.getpid()}
        click.echo(msgspec.json.encode(up))
    else:
        click.echo(f"{', '.join(names)} up at {where.shown} (network {where.network})")


def _agent(name: str) -> "Agent":
    from unknot import Agent

    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise click.UsageError(f"{name!r} is not MODULE:AGENT{_agents_in(module_name)}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it needs is not
        raise exits.BadFile(f"no module {module_name!r} in {Path.cwd()}") from error
    found: Any = getattr(module, attribute, None)
    if not isinstance(found, Agent):
        known = ", ".join(_names(module)) or "none"
        raise exits.BadFile(f"{module_name} has no agent {attribute!r}; it has {known}")
    return found


def _agents_in(module_name: str) -> str:
    """What could have been meant by a module alone, or its file; "" when there is no such module."""
    module_name = module_name.removesuffix(".py")
    try:
        names = _names(import_module(module_name)) if module_name else []
    except ModuleNotFoundError:
        return ""
    found = " ".join(f"{module_name}:{name}" for name in names)
    return f"; did you mean: unknot run {found}" if found else ""


def _names(module: ModuleType) -> list[str]:
    """What *module* calls its agents."""
    from unknot import Agent

    return [name for name, value in vars(module).items() if isinstance(value, Agent)]
