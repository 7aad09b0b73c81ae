"""Agents that take one job at a time out of an inbox of their own: a team without unknot in its messaging."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.adopt.rig import Network
from unknot import Connection

Job = tuple[Any, "asyncio.Future[Any]"]


class Desks:
    """The inboxes."""

    def __init__(self) -> None:
        self._inboxes: dict[str, asyncio.Queue[Job]] = {}

    def ask(self, name: str, job: Any) -> "asyncio.Future[Any]":
        """Put *job* into an inbox; what comes of it."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._inboxes.setdefault(name, asyncio.Queue()).put_nowait((job, answer))
        return answer

    @asynccontextmanager
    async def working(
        self, network: Network, **agents: Callable[[Connection, Any], Awaitable[Any]]
    ) -> AsyncIterator[dict[str, Connection]]:
        """Each of *agents* does its jobs, one after the other; gives their connections."""
        connections: dict[str, Connection] = {}
        async with asyncio.TaskGroup() as group:
            tasks = []
            for name, work in agents.items():
                connected: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
                tasks.append(group.create_task(self._serve(network, name, work, connected)))
                connections[name] = await connected
            yield connections
            for task in tasks:
                task.cancel()

    async def _serve(
        self,
        network: Network,
        name: str,
        work: Callable[[Connection, Any], Awaitable[Any]],
        connected: "asyncio.Future[Connection]",
    ) -> None:
        inbox = self._inboxes.setdefault(name, asyncio.Queue())
        async with network.connect(name) as me:
            connected.set_result(me)
            while True:
                job, answer = await inbox.get()
                try:
                    ended: tuple[Any, Exception | None] = (await work(me, job), None)
                except Exception as why:  # noqa: BLE001  whatever it is, it is the asker's
                    ended = (None, why)
                if answer.done():
                    continue  # who asked was told of a deadlock, and waits no more
                if ended[1] is not None:
                    answer.set_exception(ended[1])
                else:
                    answer.set_result(ended[0])
