"""The context for handlers that are plain functions: the same words, blocking, from their worker thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar, overload

from unknot._blocking import BlockingWaits
from unknot._channel import BlockingChannel
from unknot._context import Context
from unknot._event import Event
from unknot._sends import Asked
from unknot._strands import acting_for

T = TypeVar("T")


class ThreadContext(BlockingWaits):
    """What a ``def`` handler gets as its ctx: every call blocks this thread, never the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._strand = context._strand()
        self._thread: int | None = None

    def called(self, function: Callable[..., T], data: Any) -> T:
        """Call the handler, in the thread that is its own from now on."""
        self._thread = threading.get_ident()
        return function(data, self)

    @property
    def event(self) -> Event:
        """The event that is handled."""
        return self._context.event

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for this answer any more."""
        return self._context.abandoned.is_set()

    @overload
    def send_and_wait(
        self, target: str, type: str, data: Any = None, *, timeout: float | None = None
    ) -> Any: ...
    @overload
    def send_and_wait(
        self, target: str, type: str, data: Any = None, *, into: type[T], timeout: float | None = None
    ) -> T: ...
    def send_and_wait(
        self, target: str, type: str, data: Any = None, *, into: Any = Any, timeout: float | None = None
    ) -> Any:
        """As Context.send_and_wait."""
        return self._run(self._context.send_and_wait(target, type, data, into=into, timeout=timeout))

    def send(self, target: str, type: str, data: Any = None, *, timeout: float | None = None) -> str:
        """As Context.send."""
        return self._run(self._context.send(target, type, data, timeout=timeout))

    def publish(self, type: str, data: Any = None) -> str:
        """As Context.publish."""
        return self._run(self._context.publish(type, data))

    def ask(self, target: str, type: str, data: Any = None, *, timeout: float | None = None) -> Asked[Any]:
        """As Context.ask, without callbacks."""
        return self._run(self._context.ask(target, type, data, timeout=timeout))

    def channel(self, name: str) -> BlockingChannel:
        """As Context.channel."""
        return BlockingChannel(self._context.channel(name), self._run)

    def reply(self, data: Any = None, *, error: str | None = None) -> None:
        """As Context.reply."""
        self._run(self._context.reply(data, error=error))

    def defer(self, *, by: str | None = None) -> None:
        """As Context.defer."""
        self._run(self._defer(by))

    async def _defer(self, by: str | None) -> None:
        self._context.defer(by=by)

    def _waiting(self) -> Context:
        return self._context

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        future = self._begin(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _begin(self, call: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start *call* on the loop: for the handler's own thread as its own strand, for others as detached ones."""
        if threading.get_ident() == self._thread:
            call = acting_for(self._strand, call)
        return asyncio.run_coroutine_threadsafe(call, self._loop)
