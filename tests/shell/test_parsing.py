"""From what the server writes to messages: split anywhere, whatever agents put into subjects and headers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.msg import Msg

from tests.shell.rig import PATIENCE_S, until
from unknot_gateway.shell.bus import Message, NatsBus
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_gateway.shell.parsing import Incoming, MessageParser, status


class Connection:
    """What a parser tells of what nobody listens for directly."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes, bytes, bytes, bytes | None]] = []
        self.others: list[str] = []

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, header: bytes | None
    ) -> None:
        self.messages.append((sid, subject, reply, data, header))

    async def _process_ping(self) -> None:
        self.others.append("ping")

    async def _process_pong(self) -> None:
        self.others.append("pong")

    async def _process_err(self, text: str) -> None:
        self.others.append(text)


STREAM = (
    b"MSG a.b 7 5\r\nhello\r\n"
    b"PING\r\n"
    b"MSG a.c 7 _INBOX.x.1 0\r\n\r\n"
    b"HMSG a.d 7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    b"-ERR 'Permissions Violation'\r\n"
    b"HMSG a.e 7 _INBOX.y 22 26\r\nNATS/1.0\r\nfoo: bar\r\n\r\nMSG \r\n"
    b"MSG other 8 _INBOX.z 2\r\n\r\n\r\n"
    b"PONG\r\n"
    b"MSG a.f\x0b7\x0c9 7 3\r\n\r\n!\r\n"
    b"MSG \xff\xfe 7 1\r\n1\r\n"
)
DIRECT = [
    Incoming("a.b", "", b"hello"),
    Incoming("a.c", "_INBOX.x.1", b""),
    Incoming("a.d", "", b"", {"Status": "503"}),
    Incoming("a.e", "_INBOX.y", b"MSG "),
    Incoming("a.f\x0b7\x0c9", "", b"\r\n!"),
    Incoming("\\xff\\xfe", "", b"1"),
]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_the_same_messages_come_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    async def read() -> None:
        connection, taken = Connection(), list[Incoming]()
        parser = MessageParser(connection)
        parser.puts["7"] = taken.append
        at = 0
        for cut in [*sorted(cuts), len(STREAM)]:
            await parser.parse(STREAM[at:cut])
            at = cut
        assert taken == DIRECT
        assert connection.messages == [(8, b"other", b"_INBOX.z", b"\r\n", None)]
        assert connection.others == ["ping", "'permissions violation'", "pong"]

    asyncio.run(read())


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 503 No Responders\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0\r\nStatus: 503\r\n\r\n", None),
        (b"NATS/1.0", None),
        (b"NATS/1.0 ", None),
        (b"NATS/1.0 \xff\xff\xff", None),
        (b"NATS/1.0 5\xb2", None),
        (b"", None),
    ],
)
def test_of_headers_the_servers_status_alone_is_read(header: bytes, said: dict[str, str] | None) -> None:
    assert status(header) == said


HEADERS = (b"NATS/1.0 \xff\xff\xff\r\n\r\n", b"NATS/1.0 503 \xff\r\n\r\n", b"NATS/1.0\r\n\xff: \xff\r\n\r\n")


@pytest.fixture
async def bus() -> AsyncIterator[NatsBus]:
    server = await EmbeddedServer.start()
    bus = NatsBus(server.url)
    await bus.open()
    supervisor = asyncio.create_task(bus.supervise())
    yield bus
    await bus.close()
    await asyncio.wait_for(supervisor, PATIENCE_S)
    await server.stop()


async def test_what_is_listened_for_comes_in_order_also_after_a_rebuilding(bus: NatsBus) -> None:
    taken: list[Incoming] = []
    await bus.listen("a.>", taken.append)
    await bus.publish([Message("a.b", b"%d" % number, "_INBOX.r") for number in range(5_000)])
    await until(lambda: len(taken) == 5_000)
    assert [int(one.data) for one in taken] == list(range(5_000))
    assert taken[0] == Incoming("a.b", "_INBOX.r", b"0")
    await bus.connection.close()
    await until(lambda: bus.counters["connections_rebuilt"] == 1)
    await bus.publish([Message("a.c", b"x" * 900_000)])
    await until(lambda: len(taken) == 5_001)
    assert len(taken[-1].data) == 900_000


async def test_what_is_listened_for_comes_also_when_nats_py_reads_by_itself(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a later nats-py have no place for another parser, its own path carries the same messages."""
    taken: list[Incoming] = []
    await bus.listen("a.>", taken.append)
    bus.connection.parser.puts.clear()
    await bus.publish([Message("a.b", b"1", "_INBOX.r")])
    await until(lambda: taken == [Incoming("a.b", "_INBOX.r", b"1")])


async def test_the_connection_stays_whatever_an_agent_writes_to_the_server(bus: NatsBus) -> None:
    """Each of these ends, or misleads, the reading of a connection that nats-py reads by itself."""
    taken: list[Incoming] = []
    await bus.listen("a.>", taken.append)
    await bus.subscribe("b.>", _take_nothing)
    await bus.barrier()
    host, port = bus.url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
    for subject in (b"a.x", b"b.x", b"a.x\x0b1", b"b.x\x0b1", b"a.x\x0c2\x0b3", b"b.x\x0c2\x0b3", b"a.\xff"):
        writer.write(b"PUB " + subject + b" 1\r\n1\r\n")
        writer.write(b"PUB " + subject + b" _INBOX.y\x0b9 1\r\n1\r\n")
        for header in (
            b"NATS/1.0 \xff\xff\xff\r\n\r\n",
            b"NATS/1.0 503 \xff\r\n\r\n",
            b"NATS/1.0\r\n\xff: \xff\r\n\r\n",
        ):
            writer.write(b"HPUB %b %d %d\r\n%b1\r\n" % (subject, len(header), len(header) + 1, header))
    writer.write(b"PUB a.last 1\r\n1\r\nPING\r\n")
    await writer.drain()
    await until(lambda: bool(taken) and taken[-1].subject == "a.last")
    assert bus.counters["disconnects"] == bus.counters["connections_closed"] == 0
    assert len(taken) == 4 * 5 + 1
    writer.close()
    await writer.wait_closed()
    assert b"PONG" in await reader.read()


async def _take_nothing(message: Msg) -> None:
    pass
