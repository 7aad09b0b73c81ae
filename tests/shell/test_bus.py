"""NATS and nats-py's traps: each one a law of the bus, on a real server."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.msg import Msg

from tests.shell.rig import PATIENCE_S, until
from unknot_gateway.shell import bus as bus_module
from unknot_gateway.shell.bus import Message, NatsBus, NotReachable
from unknot_gateway.shell.embedded import EmbeddedServer


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    server = await EmbeddedServer.start()
    yield server
    await server.stop()


@pytest.fixture
async def bus(server: EmbeddedServer) -> AsyncIterator[NatsBus]:
    bus = NatsBus(server.url)
    await bus.open()
    supervisor = asyncio.create_task(bus.supervise())
    yield bus
    await bus.close()
    await asyncio.wait_for(supervisor, PATIENCE_S)


class Taken:
    """What a subscription took."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    async def take(self, message: Msg) -> None:
        self.data.append(message.data)


async def written(client: nats.NATS) -> None:
    """Return when the server has what *client* published: a PING alone would pass it."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await client.flush()


async def test_a_connection_closed_for_good_is_built_anew_with_its_subscriptions(bus: NatsBus) -> None:
    taken, rebuilt = Taken(), []

    async def on_rebuilt(connection: object) -> None:
        rebuilt.append(connection)

    bus.on_rebuilt = on_rebuilt
    await bus.subscribe("a.>", taken.take)
    closed = bus.connection
    await closed.close()
    await until(lambda: bus.counters["connections_rebuilt"] == 1)
    assert bus.connection is not closed
    assert rebuilt == [bus.connection]
    await bus.publish([Message("a.b", b"1")])
    await until(lambda: taken.data == [b"1"])


async def test_a_payload_over_the_limit_is_counted_and_closes_nothing(bus: NatsBus) -> None:
    taken = Taken()
    await bus.subscribe("a", taken.take)
    await bus.publish([Message("a", b"x" * (bus.max_payload + 1))])
    await bus.publish([Message("a", b"1")])
    await until(lambda: taken.data == [b"1"])
    assert bus.counters["unsent"] == 1
    assert bus.counters["connections_closed"] == 0


async def test_an_error_of_the_server_that_closes_for_good_is_survived(bus: NatsBus) -> None:
    """A control line over 4 KB: the server answers -ERR and nats-py closes, also with reconnection for ever."""
    taken = Taken()
    await bus.subscribe("a.>", taken.take)
    await bus.connection.publish("a." + "x" * 5_000, b"")
    await until(lambda: bus.counters["connections_rebuilt"] == 1)
    await bus.publish([Message("a.b", b"1")])
    await until(lambda: taken.data == [b"1"])


async def test_publishing_into_a_closed_connection_is_counted_and_does_not_raise(bus: NatsBus) -> None:
    await bus.connection.close()
    await bus.publish([Message("a", b"1")])
    assert bus.counters["unsent"] == 1


async def test_a_subject_that_is_no_utf8_does_not_end_the_reading(
    bus: NatsBus, server: EmbeddedServer
) -> None:
    taken = Taken()
    await bus.subscribe("a.>", taken.take)
    await bus.barrier()
    host, port = server.url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b'CONNECT {"verbose":false}\r\nPUB a.\xff\xfe 1\r\n1\r\nPUB a.b _INBOX.\xff 1\r\n2\r\nPING\r\n'
    )
    await writer.drain()
    await bus.barrier()
    await bus.publish([Message("a.c", b"3")])
    await until(lambda: len(taken.data) == 3)
    assert bus.counters["disconnects"] == 0
    writer.close()
    await writer.wait_closed()
    assert await reader.read()


async def test_a_taker_that_raises_ends_neither_the_subscription_nor_the_connection(bus: NatsBus) -> None:
    seen: list[bytes] = []

    async def take(message: Msg) -> None:
        seen.append(message.data)
        raise ValueError("this taker raises")

    await bus.subscribe("a", take)
    for number in (b"1", b"2"):
        await bus.publish([Message("a", number)])
    await until(lambda: seen == [b"1", b"2"])
    assert bus.counters["connection_errors"] == 2


async def test_what_comes_faster_than_it_is_taken_is_dropped_and_counted(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PENDING_MSGS_MAX", 10)
    go_on, seen = asyncio.Event(), []

    async def take(message: Msg) -> None:
        await go_on.wait()
        seen.append(message.data)

    await bus.subscribe("a", take)
    for number in range(20):
        await bus.publish([Message("a", b"%d" % number)])
    await until(lambda: bus.counters["dropped"] >= 9)
    go_on.set()
    await until(lambda: len(seen) + bus.counters["dropped"] == 20)
    assert seen == [b"%d" % number for number in range(len(seen))], "the newest are dropped"


async def test_more_bytes_than_may_wait_are_dropped_and_counted(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PENDING_BYTES_MAX", 1_000)
    go_on, seen = asyncio.Event(), []

    async def take(message: Msg) -> None:
        await go_on.wait()
        seen.append(len(message.data))

    await bus.subscribe("a", take)
    await bus.publish([Message("a", b"x" * 300) for _ in range(10)])
    await until(lambda: bus.counters["dropped"] >= 6)
    go_on.set()
    await until(lambda: len(seen) + bus.counters["dropped"] == 10)


async def test_a_stopped_intake_hands_over_what_had_come(bus: NatsBus, server: EmbeddedServer) -> None:
    taken = Taken()
    other = await nats.connect(server.url)
    await bus.subscribe("a", taken.take)
    await bus.barrier()
    for number in range(1_000):
        await other.publish("a", b"%d" % number)
    await written(other)
    await bus.stop_intake()
    await other.publish("a", b"late")
    await written(other)
    await bus.barrier()
    assert taken.data == [b"%d" % number for number in range(1_000)]
    await other.close()


async def test_a_server_that_comes_back_is_found_again_with_nothing_registered_twice(bus: NatsBus) -> None:
    taken = Taken()
    await bus.subscribe("a", taken.take)
    await bus.connection.force_reconnect()
    await until(lambda: bus.counters["reconnects"] == 1)
    await bus.publish([Message("a", b"1")])
    await bus.barrier()
    await until(lambda: taken.data == [b"1"])


async def test_a_frozen_server_is_noticed(
    bus: NatsBus, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(bus.connection.options, "ping_interval", 0.05)
    await bus.connection.force_reconnect()  # the interval is read at the connection's start
    await until(lambda: bus.counters["reconnects"] == 1)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await until(lambda: not bus.connection.is_connected)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await until(lambda: bus.connection.is_connected)


async def test_no_server_is_said_at_once() -> None:
    bus = NatsBus("nats://127.0.0.1:1")
    with pytest.raises(NotReachable, match=r"127\.0\.0\.1:1"):
        await bus.open(patience_s=0.3)


async def test_one_of_several_servers_is_enough(server: EmbeddedServer) -> None:
    bus = NatsBus(f"nats://127.0.0.1:1,{server.url}")
    await bus.open()
    assert bus.connection.is_connected
    await bus.close()
