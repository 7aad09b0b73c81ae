"""Options that several verbs share."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
_URL_DEFAULT: Final = "nats://127.0.0.1:4222"


def where(function: _Function) -> _Function:
    """``--nats``, ``--network`` and ``--json``: which gateway, and what for."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--network",
            envvar="UNKNOT_NETWORK",
            default="default",
            show_default=True,
            metavar="N",
            callback=_network,
            help="Network to speak in.",
        ),
        click.option(
            "--nats",
            "url",
            envvar=["UNKNOT_URL", "NATS_URL"],
            default=_URL_DEFAULT,
            metavar="URL",
            help=f"NATS server; also UNKNOT_URL, NATS_URL.  [default: {_URL_DEFAULT}]",
        ),
    ):
        function = option(function)
    return function


def _network(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    from unknot_schemas import ids

    if not ids.is_id(value):
        raise click.BadParameter("letters, digits, '_' and '-', at most 64")
    return value
