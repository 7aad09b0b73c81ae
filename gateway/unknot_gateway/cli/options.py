"""Options that several verbs share: which gateway, and as whom."""

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from unknot_gateway.cli import exits

if TYPE_CHECKING:
    from unknot import Login

_Function = TypeVar("_Function", bound=Callable[..., Any])
_URL_DEFAULT: Final = "nats://127.0.0.1:4222"
_NOBODY: Final = "cli"
_LOGIN: Final = ("user", "password_file", "creds", "nkey", "tls_ca", "tls_cert", "tls_key", "context")


class Where(NamedTuple):
    """The gateway of a network on a server, and the login there."""

    url: str
    network: str
    login: "Login"

    @property
    def agent(self) -> str:
        """The agent that the command speaks as: its user, else ``cli``."""
        from unknot_schemas import ids

        return ids.agent_id(self.login.user or "") or _NOBODY

    @property
    def shown(self) -> str:
        """The URL for people: without user and password."""
        return re.sub(r"//[^/@,]*@", "//", self.url)


def login(function: _Function) -> _Function:
    """``--user`` and the others: who one is to the NATS server, with what the environment and a context add."""

    @functools.wraps(function)
    def logged_in(**given: Any) -> Any:
        from unknot import BadLogin, Login

        try:
            known = Login(**{name: given.pop(name) for name in _LOGIN}).resolved()
        except BadLogin as bad:
            raise exits.BadFile(str(bad)) from bad
        return function(**given, login=known)

    wrapped: Any = logged_in
    for option in reversed(_LOGIN_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def where(function: _Function) -> _Function:
    """``--nats``, ``--network``, ``--json`` and those of ``login``: which gateway, and what for."""

    @functools.wraps(function)
    def there(**given: Any) -> Any:
        known, url, network = given.pop("login"), given.pop("url"), given.pop("network")
        return function(**given, where=Where(url or known.url or _URL_DEFAULT, network, known))

    wrapped: Any = login(there)
    for option in reversed(_WHERE_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def network_name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Check the name of a network."""
    from unknot_schemas import ids

    if not ids.is_id(value):
        raise click.BadParameter("letters, digits, '_' and '-', at most 64")
    return value


_LOGIN_OPTIONS: Final = (
    click.option(
        "--context", metavar="NAME", help="NATS CLI context for what is not given; also UNKNOT_CONTEXT."
    ),
    click.option(
        "--user", metavar="NAME", help="User on the NATS server; also UNKNOT_USER, with UNKNOT_PASSWORD."
    ),
    click.option("--password-file", metavar="FILE", help="Its password; also UNKNOT_PASSWORD_FILE."),
    click.option("--creds", metavar="FILE", help="Creds file; also UNKNOT_CREDS."),
    click.option("--nkey", metavar="FILE", help="File of an nkey's seed; also UNKNOT_NKEY."),
    click.option("--tls-ca", metavar="FILE", help="Who signs the server's certificate; also UNKNOT_TLS_CA."),
    click.option("--tls-cert", metavar="FILE", help="Own certificate; also UNKNOT_TLS_CERT."),
    click.option("--tls-key", metavar="FILE", help="Its key; also UNKNOT_TLS_KEY."),
)
_WHERE_OPTIONS: Final = (
    click.option(
        "--nats",
        "url",
        envvar=["UNKNOT_URL", "NATS_URL"],
        metavar="URL",
        help=f"NATS server; also UNKNOT_URL, NATS_URL.  [default: {_URL_DEFAULT}]",
    ),
    click.option(
        "--network",
        envvar="UNKNOT_NETWORK",
        default="default",
        show_default=True,
        metavar="N",
        callback=network_name,
        help="Network to speak in.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)
