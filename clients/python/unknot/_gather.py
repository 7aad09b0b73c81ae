"""Joined strands: child tasks that their execution waits for, a node of the graph each."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from unknot._strands import Strand, enter


async def gather(parent: Strand, branches: Sequence[Awaitable[Any]]) -> list[Any]:
    """All results in order. The first failure cancels the others, and raises when they have ended."""
    tasks = [asyncio.create_task(_branch(parent, branch)) for branch in branches]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for branch in branches:
            if asyncio.iscoroutine(branch):
                branch.close()  # cancelled before its first step, it would be reported as never awaited


async def _branch(parent: Strand, branch: Awaitable[Any]) -> Any:
    task = asyncio.current_task()
    assert task is not None
    enter(parent.execution.add(task, detached=parent.detached))
    return await branch
