"""The context for handlers that are plain functions: the same words, blocking, from their worker thread."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from unknot._asking import Answer, Request
from unknot._context import Context
from unknot._event import Event
from unknot._strands import acting_for

T = TypeVar("T")


class ThreadContext:
    """What a ``def`` handler gets as its ctx: every call blocks this thread, never the event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._strand = context._strand()

    @property
    def event(self) -> Event:
        """The event that is handled."""
        return self._context.event

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for this answer any more."""
        return self._context.abandoned.is_set()

    def send_and_wait(self, target: str, type: str, data: Any = None, **options: Any) -> Any:
        """As Context.send_and_wait."""
        return self._run(self._context.send_and_wait(target, type, data, **options))

    def request(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> Request[Any]:
        """As Context.request."""
        return Request(target, type, data, into=into)

    def wait_all(self, requests: Sequence[Request[T]], *, timeout: float | None = None) -> list[T]:
        """As Context.wait_all."""
        return self._run(self._context.wait_all(requests, timeout=timeout))

    def wait_any(self, requests: Sequence[Request[T]], *, timeout: float | None = None) -> Answer[T]:
        """As Context.wait_any."""
        return self._run(self._context.wait_any(requests, timeout=timeout))

    def reply(self, data: Any = None, *, error: str | None = None) -> None:
        """As Context.reply."""
        self._run(self._context.reply(data, error=error))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run *call* on the loop for this thread: it is the handler's own strand, which waits for the thread."""
        return asyncio.run_coroutine_threadsafe(acting_for(self._strand, call), self._loop).result()
