"""The context for handlers that are plain functions: the same words, blocking, from their worker thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, overload

from unknot._asking import Answer, Request
from unknot._channel import BlockingChannel
from unknot._context import Context
from unknot._event import Event
from unknot._sends import Asked
from unknot._strands import acting_for

T = TypeVar("T")


class ThreadContext:
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

    def expect(
        self, what: str | Asked[Any], *, source: str | None = None, timeout: float | None = None
    ) -> Any:
        """As Context.expect."""
        if isinstance(what, Asked):
            return self._run(self._context.expect(what, timeout=timeout))
        return self._run(self._context.expect(what, source=source, timeout=timeout))

    def channel(self, name: str) -> BlockingChannel:
        """As Context.channel."""
        return BlockingChannel(self._context.channel(name), self._run)

    def request(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> Request[Any]:
        """As Context.request."""
        return Request(target, type, data, into=into)

    def wait_all(self, requests: Sequence[Request[T]], *, timeout: float | None = None) -> list[T]:
        """As Context.wait_all."""
        return self._run(self._context.wait_all(requests, timeout=timeout))

    def wait_any(self, requests: Sequence[Request[T]], *, timeout: float | None = None) -> Answer[T]:
        """As Context.wait_any."""
        return self._run(self._context.wait_any(requests, timeout=timeout))

    def wait_quorum(
        self, requests: Sequence[Request[T]], need: int, *, timeout: float | None = None
    ) -> list[Answer[T]]:
        """As Context.wait_quorum."""
        return self._run(self._context.wait_quorum(requests, need, timeout=timeout))

    def reply(self, data: Any = None, *, error: str | None = None) -> None:
        """As Context.reply."""
        self._run(self._context.reply(data, error=error))

    def defer(self, *, by: str | None = None) -> None:
        """As Context.defer."""
        self._run(self._defer(by))

    async def _defer(self, by: str | None) -> None:
        self._context.defer(by=by)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run *call* on the loop: for the handler's own thread as its own strand, for others as detached ones."""
        if threading.get_ident() == self._thread:
            call = acting_for(self._strand, call)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
