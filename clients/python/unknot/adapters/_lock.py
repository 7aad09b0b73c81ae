"""A lock inside one program whose waiters and holder are reported."""

import asyncio
from types import TracebackType

from unknot._holder import Holder
from unknot.adapters._reporting import has
from unknot.adapters._work import current


class Lock:
    """As ``asyncio.Lock``; *name*: the same in all of the network, so no two locks may share it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = asyncio.Lock()
        self._holder: Holder | None = None

    async def acquire(self) -> bool:
        """Wait for it, and hold it; DeadlockDetected when that can never be."""
        work = current()
        if work is None:
            return await self._lock.acquire()
        if self._lock.locked():
            async with work.standing("lock", self.name):
                await self._lock.acquire()
        else:
            await self._lock.acquire()
        self._holder = work.context.holder("lock", self.name)
        has(work.context, self._holder)
        return True

    def release(self) -> None:
        """Give it to whoever waits the longest."""
        holder, self._holder = self._holder, None
        if holder is not None:
            holder._let_go()
        self._lock.release()

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._lock.locked()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
