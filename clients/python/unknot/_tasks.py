"""Tasks with an owner: none is forgotten, none fails unseen, all end with their owner."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger("unknot")


class Tasks:
    """A set of tasks; one that fails is logged and takes no other with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run *work* until it ends, or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=f"unknot: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def idle(self) -> None:
        """Until none runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel all but the running one, and wait until they have ended."""
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (why := task.exception()) is not None:
            logger.error("%s failed: %r", task.get_name(), why, exc_info=why)
