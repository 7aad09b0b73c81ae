"""``unknot serve``: the gateway as a process."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unknot_gateway.cli import exits, options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unknot import Login
    from unknot_gateway.shell.settings import Settings


@click.command()
@click.option(
    "--nats", metavar="URL", help="Use this NATS server instead of an embedded one; several with commas."
)
@click.option(
    "--network", "networks", multiple=True, metavar="N", help="Serve this network; may be repeated."
)
@click.option("--port", type=int, help="Port of the embedded server; 0: a free one.  [default: 4222]")
@click.option(
    "--data", type=click.Path(file_okay=False), help="Folder of its data.  [default: a temporary one]"
)
@click.option(
    "--policy", type=click.Choice(["shadow", "refuse", "fail_all"]), help="What happens to a deadlock."
)
@click.option(
    "--users",
    type=click.Path(dir_okay=False),
    help="File of the users of `unknot users`: each agent is itself and no other.",
)
@click.option(
    "--system-user",
    metavar="NAME",
    help="User of the system account of --nats: dead agents are noticed at once; with UNKNOT_SYSTEM_PASSWORD.",
)
@click.option("--system-password-file", metavar="FILE", help="Its password.")
@click.option("--system-creds", metavar="FILE", help="The same by a creds file.")
@click.option("--system-nkey", metavar="FILE", help="The same by a file of an nkey's seed.")
@click.option("--config", type=click.Path(dir_okay=False), help="File of settings (TOML).")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False), help="Write the line of --json here when ready."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object when ready: nats, networks, pid, epoch."
)
@options.login
def serve(config: str | None, ready_file: str | None, as_json: bool, login: "Login", **flags: Any) -> None:
    """Run the gateway, with a NATS server of its own unless --nats names one.

    Prints one line on stdout when it takes messages; logs are JSON on stderr. SIGTERM and Ctrl-C drain: what has come
    is handled, every open wait ends, then it exits 0.

    Flags go before environment (UNKNOT_NATS, UNKNOT_NETWORKS=a,b, UNKNOT_PORT, UNKNOT_POLICY, ...), environment before
    file, file before default. The file has the same names, and [network.NAME] for what differs there.

    With --users only those users are let in, and SIGHUP loads them again. With --nats the server has them by
    `unknot users export`; --user, --creds and the others are the gateway's own login there.

    \b
    Exit codes: 0 stopped, 1 failed or served by another, 2 wrong usage or settings, 4 no NATS server at --nats.
    """
    from unknot import BadLogin
    from unknot_gateway.identity.presence import AlreadyPresent
    from unknot_gateway.identity.users import BadUsers
    from unknot_gateway.shell import logs, settings
    from unknot_gateway.shell.bus import NotReachable
    from unknot_gateway.shell.embedded import ServerFailed
    from unknot_gateway.shell.serving import AlreadyServed, Ready
    from unknot_gateway.shell.serving import serve as serve_gateway
    from unknot_gateway.shell.succession import Superseded
    from unknot_schemas.ids import GATEWAY

    flags["networks"] = list(flags["networks"]) or None
    if click.get_current_context().params["context"]:  # UNKNOT_CONTEXT is for agents, as UNKNOT_URL is
        flags["nats"] = flags["nats"] or login.url
    try:
        wanted = settings.load(flags, os.environ, config)
    except settings.BadSettings as bad:
        raise exits.BadFile(str(bad)) from bad
    logs.set_up(wanted.log_level)

    def on_ready(ready: Ready) -> None:
        line = msgspec.json.encode(ready).decode()
        if ready_file is not None:
            _write_whole(Path(ready_file), line)
        names = ", ".join(ready.networks)
        click.echo(line if as_json else f"unknot is ready at {ready.nats} (network {names})")

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            system = _system_login(wanted, login)
            runner.run(serve_gateway(wanted, on_ready, lambda: login.options(GATEWAY), system))
    except NotReachable as error:
        raise exits.NobodyThere(str(error)) from error
    except (BadUsers, BadLogin) as bad:
        raise exits.BadFile(str(bad)) from bad
    except (ServerFailed, AlreadyServed, Superseded, AlreadyPresent) as error:
        raise exits.Failure(str(error)) from error


def _system_login(wanted: "Settings", login: "Login") -> "Callable[[], Mapping[str, Any]] | None":
    """To the system account of the server at --nats, over the same TLS as *login*; None: not asked for."""
    from unknot import Login

    known = {
        "user": wanted.system_user,
        "password": wanted.system_password,
        "password_file": wanted.system_password_file,
        "creds": wanted.system_creds,
        "nkey": wanted.system_nkey,
    }
    if not any(known.values()):
        return None
    tls = {"tls_ca": login.tls_ca, "tls_cert": login.tls_cert, "tls_key": login.tls_key}
    system = Login(**known, **tls)
    return lambda: system.options("system")


def _loop_factory() -> Any:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def _write_whole(path: Path, line: str) -> None:
    """Who sees the file sees all of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(line + "\n")
    part.replace(path)
