"""``unknot users``: who may connect to the NATS server, kept in one file; a running gateway loads each change."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from unknot_gateway.cli import exits, options, tables

if TYPE_CHECKING:
    from unknot_gateway.identity.users import User, Users

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HEAD: Final = ("USER", "ROLE", "NETWORK", "KNOWN BY", "MAY REQUEST", "CHANNELS")
_KEEP: Final = "*"
"""Of --may-request: everybody."""


@click.group()
def users() -> None:
    """Who may connect to the NATS server, and as what.

    The users are in one file (--users, UNKNOT_USERS). `unknot serve --users FILE` lets in these and no others; a change
    is loaded by a running one at once, and nobody else is disturbed.
    """


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name for name in value.replace(" ", "").split(",") if name]


_file = click.option(
    "--users",
    "file",
    envvar="UNKNOT_USERS",
    default="unknot-users.json",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the users; also UNKNOT_USERS.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_may_request = click.option(
    "--may-request",
    metavar="B,@C",
    callback=_names,
    help="Send to and ask these agents and @channels alone; '*': all.",
)
_channels = click.option(
    "--channels", metavar="C,D", callback=_names, help="Channels that it may be a member of."
)
_name = click.argument("name", metavar="AGENT")


@users.command()
@_name
@click.option(
    "--role",
    type=click.Choice(["agent", "gateway", "monitor", "operator"]),
    default="agent",
    show_default=True,
    help="monitor: notices and the api's queries. operator: all of the api.",
)
@click.option(
    "--network",
    envvar="UNKNOT_NETWORK",
    default="default",
    show_default=True,
    callback=options.network_name,
    help="Network that it speaks in.",
)
@_may_request
@_channels
@click.option("--nkey", default="", metavar="U...", help="Its public nkey, instead of a password.")
@_file
@_json
def add(
    name: str,
    role: Any,
    network: str,
    may_request: list[str] | None,
    channels: list[str] | None,
    nkey: str,
    file: Path,
    as_json: bool,
) -> None:
    """Add the user of AGENT; its password is printed on stdout, once.

    \b
    Exit codes: 0 fine, 1 a running gateway has not loaded it, 2 wrong usage or a file that cannot be used.
    """
    from unknot_gateway.identity import passwords
    from unknot_gateway.identity.users import User

    password = "" if nkey else passwords.new_password()
    user = User(
        name=name,
        role=role,
        network=network,
        secret=passwords.sealed(password) if password else "",
        nkey=nkey,
        may_request=_targets(may_request),
        channels=channels or [],
    )
    told = _change(file, lambda known: known.with_user(user))
    _say(user, told, as_json, password)


@users.command()
@_name
@_may_request
@_channels
@_file
@_json
def change(
    name: str, may_request: list[str] | None, channels: list[str] | None, file: Path, as_json: bool
) -> None:
    """Change what AGENT may do; what is not given stays. It stays connected.

    \b
    Exit codes: 0 fine, 1 a running gateway has not loaded it, 2 wrong usage or a file that cannot be used.
    """
    import msgspec

    changes: dict[str, Any] = {}
    if may_request is not None:
        changes["may_request"] = _targets(may_request)
    if channels is not None:
        changes["channels"] = channels
    if not changes:
        raise click.UsageError("nothing to change: --may-request, --channels")
    _replace(file, name, as_json, lambda user: msgspec.structs.replace(user, **changes))


@users.command()
@_name
@click.option("--nkey", default="", metavar="U...", help="Its new public nkey, instead of a password.")
@_file
@_json
def rotate(name: str, nkey: str, file: Path, as_json: bool) -> None:
    """Give AGENT a new password, printed on stdout, once. Whoever is connected with the old one is cut off.

    \b
    Exit codes: 0 fine, 1 a running gateway has not loaded it, 2 wrong usage or a file that cannot be used.
    """
    import msgspec

    from unknot_gateway.identity import passwords

    password = "" if nkey else passwords.new_password()
    secret = passwords.sealed(password) if password else ""
    _replace(
        file, name, as_json, lambda user: msgspec.structs.replace(user, secret=secret, nkey=nkey), password
    )


@users.command()
@_name
@_file
@_json
def revoke(name: str, file: Path, as_json: bool) -> None:
    """Remove the user of AGENT: whoever is connected as it is cut off at once.

    \b
    Exit codes: 0 fine, 1 a running gateway has not loaded it, 2 wrong usage or a file that cannot be used.
    """
    gone: list[User] = []

    def without(known: "Users") -> "Users":
        gone.append(known.named(name))
        return known.without(name)

    told = _change(file, without)
    _say(gone[0], told, as_json)


@users.command("list")
@_file
@_json
def list_users(file: Path, as_json: bool) -> None:
    """List the users, without their secrets.

    \b
    Exit codes: 0 fine, 2 wrong usage or a file that cannot be used.
    """
    import msgspec

    from unknot_gateway.identity import users as known

    with _bad_files():
        found = known.load(file).users
    if as_json:
        click.echo(msgspec.json.encode([_row(user) for user in found]))
        return
    tables.show(_HEAD, [tuple(_row(user).values()) for user in found])


@users.command()
@click.option(
    "--prefix", envvar="UNKNOT_PREFIX", default="unknot", show_default=True, help="Of all subjects."
)
@_file
@click.option("--json", "as_json", is_flag=True, help="Only the block's value, as JSON.")
def export(prefix: str, file: Path, as_json: bool) -> None:
    """Print the users as a block of a NATS server's configuration.

    Put it in a file that the server's own includes, and reload the server: nats-server --signal reload.

    \b
    Exit codes: 0 fine, 2 wrong usage or a file that cannot be used.
    """
    from unknot_gateway.identity import configuration
    from unknot_gateway.identity import users as known

    with _bad_files():
        found = known.load(file).users
    if not any(user.role == "gateway" for user in found):
        click.echo("there is no user for the gateway: unknot users add gateway --role gateway", err=True)
    block = configuration.authorization(found, prefix)
    click.echo(block.removeprefix("authorization: ") if as_json else block, nl=False)


@contextlib.contextmanager
def _bad_files() -> Iterator[None]:
    from unknot_gateway.identity.users import BadUsers

    try:
        yield
    except BadUsers as bad:
        raise exits.BadFile(str(bad)) from bad


def _targets(given: list[str] | None) -> list[str] | None:
    return None if given is None or given == [_KEEP] else given


def _replace(
    file: Path, name: str, as_json: bool, anew: "Callable[[User], User]", password: str = ""
) -> None:
    changed: list[User] = []

    def replaced(known: "Users") -> "Users":
        changed.append(anew(known.named(name)))
        return known.with_changed(changed[0])

    told = _change(file, replaced)
    _say(changed[0], told, as_json, password)


def _change(file: Path, anew: "Callable[[Users], Users]") -> str | None:
    """Change the file and have its gateway load it; what ``presence.reload`` says."""
    from unknot_gateway.identity import presence
    from unknot_gateway.identity import users as known

    with _bad_files(), known.changing(file) as change:
        wanted = anew(change.users)
        change.write(wanted)
        return presence.reload(file, known.digest(wanted))


def _say(user: "User", told: str | None, as_json: bool, password: str = "") -> None:
    """The password on stdout, everything else on stderr: a redirection makes a file of the secret alone."""
    import msgspec

    if as_json:
        shown = _row(user) | ({"password": password} if password else {}) | {"loaded": told == ""}
        click.echo(msgspec.json.encode(shown))
    elif password:
        click.echo(password)
    if told:
        raise exits.Failure(f"the file is changed, but the gateway has not loaded it: {told}")
    if told is None and not as_json:
        click.echo("no gateway serves this file now; it is loaded by `unknot serve --users`", err=True)


def _row(user: "User") -> dict[str, str]:
    from unknot_gateway.identity import passwords

    known_by = "nkey" if user.nkey else "bcrypt" if passwords.is_sealed(user.secret) else "plain password"
    return {
        "user": user.name,
        "role": user.role,
        "network": "-" if user.role == "gateway" else user.network,
        "known_by": known_by,
        "may_request": "*" if user.may_request is None else ",".join(user.may_request) or "-",
        "channels": ",".join(user.channels) or "-",
    }
