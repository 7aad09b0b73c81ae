"""Blocks of the event loop (``async with``) for code that blocks its thread."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

Enter = Callable[[], AbstractAsyncContextManager[Any]]


class Visit:
    """A stay inside such a block, in one task of the loop, as long as the thread is inside its own."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter
        self.arrived = threading.Event()
        """Set when the thread may go on: inside, or because there is no way in."""
        self.is_inside = False
        self.given: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._leaving: asyncio.Future[None]

    async def stay(self) -> None:
        """Enter, stay until the thread leaves, leave."""
        self._loop = asyncio.get_running_loop()
        self._leaving = self._loop.create_future()
        try:
            async with self._enter() as self.given:
                self.is_inside = True
                self.arrived.set()
                await self._leaving
        except _ThreadFailed:
            pass  # what it raised, it raises itself
        finally:
            self.given = None
            self.arrived.set()

    def leave(self, *, failed: bool) -> None:
        """The thread has left; *failed*: by an exception."""
        self._loop.call_soon_threadsafe(self._left, failed)

    def _left(self, failed: bool) -> None:
        if self._leaving.done():
            return  # the block has ended by itself
        if failed:
            self._leaving.set_exception(_ThreadFailed())
        else:
            self._leaving.set_result(None)


class _ThreadFailed(Exception):
    """Ends the block as an exception of its own would."""
