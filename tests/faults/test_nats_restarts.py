"""The NATS server dies and comes back on its port: what is open stays open, and is answered once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import unknot
from tests.faults.rig import BEAT_S, House, Server, Stable, asking
from tests.faults.stories import Stage

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]


@pytest.fixture
def rebuilt(stable: Stable, server: Server, tmp_path: Path) -> Iterator[House]:
    """A house on a server that may die."""
    house = House(stable, server, tmp_path, "rebuilt")
    house.begin()
    yield house
    house.end()


@pytest.mark.parametrize("away_s", [0.1, 2.0])
async def test_requests_outlive_the_server(rebuilt: House, away_s: float) -> None:
    async with Stage(rebuilt).open() as stage:
        await stage.ask("elm", "say", "warm")
        deferred = stage.ask("elm", "defer", "deferred")
        await stage.has_run("deferred")
        running, queued = stage.ask("elm", "say.later", "running"), stage.ask("elm", "say", "queued")
        await stage.spy.waits(3, rebuilt)
        rebuilt.server.kill()
        asked_meanwhile = stage.ask("elm", "say", "asked meanwhile")
        await asyncio.sleep(away_s / 2)
        stage.go.set()  # two answers go out to nobody
        await asyncio.sleep(away_s / 2)
        rebuilt.server.start_again()
        for waiting, name in (
            (deferred, "deferred"),
            (running, "running"),
            (queued, "queued"),
            (asked_meanwhile, "asked meanwhile"),
        ):
            end = await waiting
            assert (end.outcome, end.value) == ("reply", name), end
        await stage.over()
        assert set(stage.runs.values()) == {1}
        assert not rebuilt.is_dead
        assert all(me.counters.get("resumed", 0) == 0 for me in stage.me.values()), (
            "the gateway knew them all"
        )


async def test_a_deadlock_of_before_is_found_when_the_server_is_back(rebuilt: House) -> None:
    async with Stage(rebuilt).open() as stage:
        oak = stage.ask("oak", "begin")
        await stage.has_run("oak begins")
        rebuilt.server.kill()
        ash = stage.ask("ash", "begin")
        await asyncio.sleep(0.5)
        rebuilt.server.start_again()
        ends = [await oak, await ash]
        assert [end.value for end in ends] == [["deadlock", None]] * 2, ends
        await stage.over()


async def test_server_and_gateway_die_together(rebuilt: House) -> None:
    async with Stage(rebuilt).open() as stage:
        running, queued = stage.ask("elm", "say.later", "running"), stage.ask("elm", "say", "queued")
        await stage.spy.waits(2, rebuilt)
        rebuilt.server.kill()
        await rebuilt.kill()
        stage.go.set()
        await asyncio.sleep(0.3)
        rebuilt.server.start_again()
        await rebuilt.open()
        ends = [await running, await queued]
        assert [(end.outcome, end.value) for end in ends] == [("reply", "running"), ("reply", "queued")]
        await stage.over()
        assert stage.runs == {"running": 1, "queued": 1}


class Wire:
    """A way of TCP to the server that can be cut."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections, and take no new ones."""
        assert self._server is not None
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        self._ends.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(self._to.hostname, self._to.port)
        self._ends |= {writer, to}
        for source, sink in ((reader, to), (there, writer)):
            pipe = asyncio.create_task(_pipe(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    sink.close()


@pytest.fixture
async def wire(shared_server: Server) -> AsyncIterator[Wire]:
    """A way to the server that can be cut."""
    wire = Wire(shared_server.url)
    await wire.mend()
    yield wire
    await wire.cut()


async def test_bug_021_after_a_disconnect_nothing_waits_out_its_timeout(house: House, wire: Wire) -> None:
    """One request was on the wire and is answered in the gap, one is only in the buffer when the connection drops."""
    async with (
        Stage(house).open() as stage,
        unknot.connect(
            "birch", f"nats://127.0.0.1:{wire.port}", network=house.network, heartbeat_s=BEAT_S, serves=False
        ) as birch,
    ):
        first = asking(birch, "elm", "say.later", "on the wire")
        await stage.has_run("on the wire")
        await wire.cut()
        second = asking(birch, "elm", "say", "in the buffer")
        stage.go.set()
        await asyncio.sleep(1.5)
        assert not first.done()
        await wire.mend()
        ends = [await first, await second]
        assert [(end.outcome, end.value) for end in ends] == [
            ("reply", "on the wire"),
            ("reply", "in the buffer"),
        ]
        assert all(end.took_s < 8 for end in ends), ends
        stage.me["birch"] = birch
        await stage.over()
        assert stage.runs == {"on the wire": 1, "in the buffer": 1}
