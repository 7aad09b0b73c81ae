"""A client for code without an event loop: the same words, blocking.

    with unknot.sync.connect("cli") as me:
        answer = me.send_and_wait("writer", "revise", {"topic": "knots"}, timeout=10)

Its own loop runs in a thread, so heartbeats and facts never wait for the caller. The thread that connected is main;
calls from other threads are strands that block nobody.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from unknot import _connection
from unknot._blocking import BlockingWaits
from unknot._channel import BlockingChannel
from unknot._connection import Connection
from unknot._event import Event
from unknot._sends import Asked
from unknot._strands import acting_for

T = TypeVar("T")


class SyncConnection(BlockingWaits):
    """An agent's main for code that blocks."""

    def __init__(self, me: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._me = me
        self._loop = loop
        self._main_thread = threading.get_ident()

    @property
    def agent(self) -> str:
        """The agent that this is."""
        return self._me.agent

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
        return self._run(self._me.send_and_wait(target, type, data, into=into, timeout=timeout))

    def send(self, target: str, type: str, data: Any = None, *, timeout: float | None = None) -> str:
        """As Context.send."""
        return self._run(self._me.send(target, type, data, timeout=timeout))

    def publish(self, type: str, data: Any = None) -> str:
        """As Context.publish."""
        return self._run(self._me.publish(type, data))

    def ask(self, target: str, type: str, data: Any = None, *, timeout: float | None = None) -> Asked[Any]:
        """As Context.ask, without callbacks."""
        return self._run(self._me.ask(target, type, data, timeout=timeout))

    def channel(self, name: str) -> BlockingChannel:
        """As Context.channel."""
        return BlockingChannel(self._me.channel(name), self._run)

    def events(self) -> Iterator[Event]:
        """As Connection.events: this thread is one serial main."""
        events = self._me.events()
        try:
            while True:
                yield self._run(_next(events))
        finally:
            if self._loop.is_running():
                self._run(events.aclose())

    def reply(self, data: Any = None, *, to: Event | str | None = None, error: str | None = None) -> None:
        """As Context.reply."""
        self._run(self._me.reply(data, to=to, error=error))

    def _waiting(self) -> Connection:
        return self._me

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        future = self._begin(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in the waiting thread withdraws what it waits for
            raise

    def _begin(self, call: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(self._as_strand(threading.get_ident(), call), self._loop)

    async def _as_strand(self, thread: int, call: Coroutine[Any, Any, T]) -> T:
        if thread == self._main_thread:
            return await acting_for(self._me._execution.own, call)
        task = asyncio.current_task()
        assert task is not None
        self._me._execution.add(task, detached=True)
        return await call


async def _next(events: Any) -> Event:
    event: Event = await anext(events)
    return event


@contextmanager
def connect(name: str, url: str | None = None, **options: Any) -> Iterator[SyncConnection]:
    """As unknot.connect, for code that blocks; *options* are its options."""
    opened = _connection.connect(name, url, **options)
    with _looping() as loop:
        me = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result()
        try:
            yield SyncConnection(me, loop)
        finally:
            asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result()


@contextmanager
def _looping() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="unknot: loop", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
