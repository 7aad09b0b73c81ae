"""Agents that keep their own messaging, and what a monitor sees of their network."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import nats

import unknot
from tests.support.gateway import Gateway
from unknot import Connection

T = TypeVar("T")

BEAT_S = 0.5
"""The shortest: what is only reported is looked at again after one."""
HANG_S = 20.0


class Network:
    """The network of one test."""

    def __init__(self, gateway: Gateway, monitor: nats.NATS) -> None:
        self._gateway = gateway
        self._monitor = monitor
        self.notices: list[dict[str, Any]] = []
        """All deadlocks that were found."""
        self._found = asyncio.Event()

    def hear(self, notice: dict[str, Any]) -> None:
        """One more deadlock was found."""
        self.notices.append(notice)
        self._found.set()

    def connect(self, name: str) -> AbstractAsyncContextManager[Connection]:
        """A connection that only reports."""
        gateway = self._gateway
        return unknot.connect(name, gateway.nats, network=gateway.network, serves=False, heartbeat_s=BEAT_S)

    async def waits(self) -> list[dict[str, Any]]:
        """All that is waited for now, as `unknot waits list` reads it."""
        subject = f"unknot.{self._gateway.network}.api.waits"
        answer = await self._monitor.request(subject, b"{}", timeout=HANG_S)
        found: list[dict[str, Any]] = json.loads(answer.data)["rows"]
        return found

    async def until(self, fits: Callable[[list[dict[str, Any]]], T]) -> T:
        """The first true answer of *fits* about all waits."""
        async with asyncio.timeout(HANG_S):
            while True:
                found = fits(await self.waits())
                if found:
                    return found
                await asyncio.sleep(0.02)

    async def for_beats(self, number: int = 3) -> None:
        """So long that whatever is only reported would have been looked at twice."""
        await asyncio.sleep(number * BEAT_S)

    async def found(self) -> dict[str, Any]:
        """The one deadlock that was found."""
        async with asyncio.timeout(HANG_S):
            await self._found.wait()
        [notice] = self.notices
        return notice


@asynccontextmanager
async def network_of(gateway: Gateway) -> AsyncIterator[Network]:
    """Its monitor listens from the beginning."""
    monitor = await nats.connect(gateway.nats)
    network = Network(gateway, monitor)

    async def heard(message: Any) -> None:
        body = json.loads(message.data)
        network.hear(body.get("data", body))

    await monitor.subscribe(f"unknot.{gateway.network}.notice.agent.wait.deadlock_detected", cb=heard)
    await monitor.flush()
    try:
        yield network
    finally:
        await monitor.close()


async def ends(*agents: Awaitable[Any]) -> list[Any]:
    """What each of *agents* returned or raised, when all have ended."""
    async with asyncio.timeout(HANG_S):
        return await asyncio.gather(*agents, return_exceptions=True)
