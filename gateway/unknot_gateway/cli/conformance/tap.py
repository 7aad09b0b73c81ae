"""A way to the NATS server on which all is seen, and something can get lost."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Final

from unknot_gateway.cli.conformance.frames import Frame, Parser

_CHUNK: Final = 65_536

See = Callable[[int, Frame], bool]
"""Told of each frame before it passes, with the number of its connection; False: it gets lost."""


class Tap:
    """Listens on the loopback, passes everything on to the server at *host* and *port*."""

    def __init__(self, host: str, port: int, sent: See, received: See) -> None:
        self._where = host, port
        self._sent = sent
        self._received = received
        self._numbers = itertools.count(1)
        self._listening: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> str:
        """Begin; the URL for the client."""
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        return f"nats://127.0.0.1:{port}"

    def cut(self) -> None:
        """All connections are gone at once; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        """Nothing passes any more."""
        if self._listening is not None:
            self._listening.close()
        self.cut()
        for _ in range(100):  # their tasks end by themselves
            if not self._writers:
                break
            await asyncio.sleep(0.01)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._where)
        except OSError:
            writer.close()
            return
        ends = {writer, server_writer}
        self._writers |= ends
        try:
            await asyncio.gather(
                _pass_on(reader, server_writer, lambda frame: self._sent(number, frame)),
                _pass_on(server_reader, writer, lambda frame: self._received(number, frame)),
            )
        finally:
            self._writers -= ends


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, see: Callable[[Frame], bool]
) -> None:
    parser = Parser()
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            passing = [frame.raw for frame in parser.feed(chunk) if see(frame)]
            writer.write(b"".join(passing))
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
