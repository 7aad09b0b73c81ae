"""What a law is, and all of them in the order in which they are shown."""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from unknot_gateway.cli.conformance.stage import Stage

Phase = Literal["begin", "serve", "freeze", "connection", "restart", "end", "whole"]
"""begin: from the start on · serve: many at once · freeze: the gateway stands still · connection: it breaks · restart:
the gateway is killed · end: SIGTERM, and a second life · whole: over everything that was said."""


class Law(NamedTuple):
    """One row. *check* raises Broken; its docstring is the law."""

    name: str
    phase: Phase
    check: Callable[[Stage], Awaitable[None]]

    @property
    def about(self) -> str:
        """The law in one sentence."""
        return " ".join((self.check.__doc__ or "").split())
