"""The ``unknot`` command. Each verb is imported only when it is called: the command starts fast."""

from unknot_gateway.cli.root import main

__all__ = ["main"]
