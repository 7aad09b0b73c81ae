"""Functions that a framework calls while its run stands still for them: nodes and tools."""

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from unknot._blocking_on import BlocksOn
from unknot.adapters._work import current

P = ParamSpec("P")
T = TypeVar("T")


def step(
    function: Callable[P, Awaitable[T]], kind: BlocksOn | None = None, id: str = ""
) -> Callable[P, Awaitable[T]]:
    """*function*, whose own waits count as waits of the run that calls it; with *kind* it is such a wait itself.

    Only for what the framework calls, and awaits: what a task on the side calls must not be one. Outside of any
    ``working`` it does nothing.
    """
    name = getattr(function, "__name__", type(function).__name__)

    @functools.wraps(function)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        work = current()
        if work is None:
            return await function(*args, **kwargs)
        with work.branch():
            if kind is None:
                return await function(*args, **kwargs)
            async with work.standing(kind, id or name, name):
                return await function(*args, **kwargs)

    return called
