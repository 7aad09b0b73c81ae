"""The two networks that the contract holds for: a real NATS server, and the simulator's on its virtual clock.

An *end* has nats-py's face (`Client`, or the simulator's `Line`), a *bus* the shell's (`NatsBus`, or `MemoryBus`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import nats

from tests.sim.network import Line, MemoryBus
from tests.sim.server import Server
from tests.sim.virtual import VirtualLoop, virtual_loop
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.embedded import EmbeddedServer

HANG_S = 5.0
ARRIVED_S = 0.05
"""Longer than anything is on its way in the simulator when nothing is wrong; of virtual time."""


class Net(Protocol):
    """One network for the length of a test."""

    async def end(self) -> Any:
        """A further client's connection."""
        ...

    async def bus(self) -> Any:
        """A further gateway's connection."""
        ...

    async def sent(self, end: Any) -> None:
        """Return when the server has what *end* published, wherever it is on its way from there."""
        ...

    async def settled(self) -> None:
        """Return when all that was published has arrived."""
        ...


Law = Callable[[Net], Awaitable[None]]


class RealNet:
    """A nats-server of its own."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._ends: list[Any] = []
        self._buses: list[NatsBus] = []

    async def end(self) -> Any:
        client = await nats.connect(self._server.url)
        self._ends.append(client)
        return client

    async def bus(self) -> NatsBus:
        bus = NatsBus(self._server.url)
        await bus.open()
        self._buses.append(bus)
        return bus

    async def sent(self, end: Any) -> None:
        await asyncio.sleep(0)  # a PING alone would pass it
        await asyncio.sleep(0)
        await end.flush()

    async def settled(self) -> None:
        """The server has all of every connection, and every connection all of the server's, and has handed it over."""
        connections = [*self._ends, *(bus.connection for bus in self._buses)]
        for _ in range(2):
            for connection in connections:
                if connection.is_connected:
                    await self.sent(connection)
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for client in self._ends:
            await client.close()
        for bus in self._buses:
            await bus.close()


class MemoryNet:
    """The simulator's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._server = Server(1, loop, lambda _source, _subject, _payload: None)
        self._numbers = 0

    async def end(self) -> Any:
        self._numbers += 1
        line = Line(self._server, lambda _line: None)

        async def nothing() -> None:
            pass

        told = dict.fromkeys(("disconnected_cb", "reconnected_cb", "closed_cb"), nothing)
        await line.connect(["nats://memory"], name=f"unknot agent a{self._numbers}", **told)
        return line

    async def bus(self) -> MemoryBus:
        return MemoryBus(self._server)

    async def sent(self, end: Any) -> None:
        """At once."""

    async def settled(self) -> None:
        await asyncio.sleep(ARRIVED_S)


def on_nats(law: Law) -> None:
    """Show *law* on a real server."""

    async def shown() -> None:
        server = await EmbeddedServer.start()
        net = RealNet(server)
        try:
            async with asyncio.timeout(HANG_S):
                await law(net)
        finally:
            await net.close()
            await server.stop()

    asyncio.run(shown())


def in_memory(law: Law) -> None:
    """Show *law* in the simulator's network."""
    with virtual_loop(1) as loop:
        loop.run_until_complete(_on(loop, law))


async def _on(loop: VirtualLoop, law: Law) -> None:
    await law(MemoryNet(loop))
