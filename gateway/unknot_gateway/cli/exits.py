"""Exit codes of all verbs, and the exceptions that end a verb with one."""

from typing import Final

import click

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
"""Wrong usage, or a file that cannot be used."""
DEADLOCK: Final = 3
NOT_REACHABLE: Final = 4


class Failure(click.ClickException):
    """What was asked for did not happen."""

    exit_code = FAILED


class BadFile(click.ClickException):
    """A file, setting or argument cannot be used."""

    exit_code = USAGE


class NobodyThere(click.ClickException):
    """No NATS server, no gateway or no agent answers."""

    exit_code = NOT_REACHABLE
