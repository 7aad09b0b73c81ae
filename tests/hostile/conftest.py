"""A gateway that is only here to be attacked, and a socket that says to the server whatever it likes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.support import gateway as support
from tests.support.gateway import Gateway
from tests.wire.raw import PATIENCE_S, Net, connect, new_id
from unknot_schemas import Subjects

NETWORK = "hostile"
INBOX = "_INBOX.raw"


@pytest.fixture(scope="session")
def house() -> Iterator[Gateway]:
    """The gateway that all attack; in the end it has failed at nothing and was never disconnected."""
    environment = {"UNKNOT_SESSION_LOSS_S": "3000"}  # nobody sends heartbeats here
    with support.running(networks=[NETWORK], environment=environment) as gateway:
        yield gateway
        said = [line for line in gateway.logged if line["level"] not in ("info", "debug")]
        assert said == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def net(house: Gateway) -> AsyncIterator[Net]:
    """A well-behaved connection, one for all tests of a module."""
    net = await connect(house.nats, Subjects(NETWORK))
    yield net
    await net.close()


class Socket:
    """A connection without a client library: nothing is checked on this side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def begin(self) -> None:
        """Say what every connection says first, and listen on INBOX."""
        self._writer.write(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
        )
        self._writer.write(f"SUB {INBOX}.> 1\r\n".encode())

    async def send(
        self, subject: bytes, payload: bytes = b"", reply: bytes = b"", header: bytes | None = None
    ) -> None:
        """Publish, as it is."""
        words = b"%b %b" % (subject, reply) if reply else subject
        if header is None:
            self._writer.write(b"PUB %b %d\r\n%b\r\n" % (words, len(payload), payload))
        else:
            size = len(header) + len(payload)
            self._writer.write(b"HPUB %b %d %d\r\n%b%b\r\n" % (words, len(header), size, header, payload))
        await self._writer.drain()

    async def answers(self, fence: str) -> list[Any]:
        """What came to INBOX before the gateway had handled all that was sent here so far."""
        body = json.dumps({"id": new_id()}).encode()
        await self.send(fence.encode(), body, f"{INBOX}.fence".encode())
        found: list[Any] = []
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self._reader.readuntil(b"\r\n")
                if not line.startswith(b"MSG "):
                    assert not line.startswith(b"-ERR"), line
                    continue
                words = line.split()
                data = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
                if words[1].endswith(b".fence"):
                    return found
                found.append(json.loads(data))

    async def is_closed(self) -> bool:
        """Whether the server has closed it."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return b"-ERR" in await self._reader.read()
            except ConnectionResetError:
                return True

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@pytest_asyncio.fixture(loop_scope="module")
async def socket(house: Gateway) -> AsyncIterator[Socket]:
    """A connection that listens on INBOX."""
    at = urlsplit(house.nats)
    reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=8 * 1024 * 1024)
    raw = Socket(reader, writer)
    raw.begin()
    yield raw
    await raw.close()
