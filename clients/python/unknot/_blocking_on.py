"""Waits that the agent's own code makes: while inside, its execution counts as waiting."""

import asyncio
import inspect
import queue
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Literal

import anyio

from unknot._pending import COME_TRUE, Settle, Wait
from unknot._strands import is_ready
from unknot.errors import WaitFailed, from_outcome
from unknot_schemas import bodies

BlocksOn = Literal["agent", "artifact", "lock", "permits", "task", "tool", "human"]


class BlockingOn:
    """``async with ctx.blocking_on(…)``: inside, the execution counts as waiting.

    When the wait ends by itself (a deadlock, its timeout) the body is cancelled and the failure raises.
    """

    def __init__(
        self, begin: Callable[[Settle], Wait], give_up: Callable[[Wait], None], *, expires: bool
    ) -> None:
        self._begin = begin
        self._give_up = give_up
        self._expires = expires
        self._wait: Wait | None = None
        self._task: asyncio.Task[Any] | None = None
        self._failure: WaitFailed | None = None
        self._cancelling = 0
        self._is_for_item = False

    async def __aenter__(self) -> "BlockingOn":
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._wait = self._begin(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = self._over()
        if failure is not None and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise failure from error

    async def until(self, item: Callable[[], Awaitable[Any]]) -> Any:
        """Wait for *item*, counting as waiting; what has come is given, whatever was said of the wait meanwhile."""
        self._is_for_item = True
        async with self:
            got = await item()
            self._over()
            return got

    def _over(self) -> WaitFailed | None:
        """The wait is over; why it had to end, when that is what has cancelled the body."""
        assert self._wait is not None
        assert self._task is not None
        self._give_up(self._wait)
        failure, self._failure = self._failure, None
        if failure is not None and self._task.uncancel() > self._cancelling:
            return None  # somebody else has cancelled it, too
        return failure

    def _ended(self, outcome: bodies.Outcome) -> None:
        if outcome.outcome in COME_TRUE or (outcome.outcome == "expired" and not self._expires):
            return
        assert self._task is not None
        if self._is_for_item and is_ready(self._task):
            return  # it has come: cancelled now, it would be lost
        self._failure = from_outcome(outcome)
        self._task.cancel()


def at_once(source: Any) -> tuple[Any, ...]:
    """What *source* has ready, as the only item; nothing when it has to be waited for."""
    if isinstance(source, queue.Queue | queue.SimpleQueue):
        raise TypeError("a queue.Queue blocks the event loop: use an asyncio.Queue, or a plain (def) handler")
    nowait = getattr(source, "receive_nowait", None) or getattr(source, "get_nowait", None)
    if nowait is None or not callable(nowait):
        return ()
    try:
        return (nowait(),)
    except (asyncio.QueueEmpty, anyio.WouldBlock):
        return ()


def item_of(source: Any) -> Awaitable[Any]:
    """What gives the next item of *source*: a queue, a stream, a function, or something to be awaited."""
    get = getattr(source, "receive", None) or getattr(source, "get", None)
    awaitable = source if inspect.isawaitable(source) else (get if callable(get) else source)()
    if not inspect.isawaitable(awaitable):
        raise TypeError(f"cannot receive from {source!r}: give an asyncio.Queue, a stream, or an awaitable")
    return awaitable
