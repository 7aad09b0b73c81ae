"""From what the server writes to messages: in one synchronous pass, and exactly as the protocol says.

nats-py's own parser takes any white space for a border between words. The server does not: a subject with a vertical
tab or a form feed passes it, moves the words that come after, and would let any agent choose the subscription that a
message is for, or end the gateway's connection. And a header that is no UTF-8 would end nats-py's reading for good.
This one splits at single spaces, believes no header, and hands what is listened for over at once, without a queue.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from nats.protocol.parser import Parser

_END: Final = b"\r\n"
_END_SIZE: Final = len(_END)
_STATUS_AT: Final = len(b"NATS/1.0 ")
_STATUS_SIZE: Final = 3


class Incoming(Struct, gc=False):
    """A message as it came. *reply*: the NATS reply subject, or ""; *headers*: the server's own status alone."""

    subject: str
    reply: str
    data: bytes
    headers: dict[str, str] | None = None


Put = Callable[[Incoming], None]
"""Takes a message at once, in the reading task; it must neither wait nor raise."""


class MessageParser(Parser):
    """Reads for one nats-py connection. *puts*: who takes the messages of a subscription, by its number."""

    def __init__(self, connection: Any) -> None:
        self.puts: dict[bytes, Put] = {}
        super().__init__(connection)

    async def parse(self, data: bytes = b"") -> None:
        """Take in what has come; what is not whole yet is kept. nats-py calls it from its one reading task."""
        buffer = self.buf
        buffer += data
        at, size, puts = 0, len(buffer), self.puts
        while at < size:
            line_end = buffer.find(_END, at)
            if line_end < 0:
                break
            if not buffer.startswith((b"MSG ", b"HMSG "), at):
                line, at = bytes(buffer[at : line_end + _END_SIZE]), line_end + _END_SIZE
                if not await self._by_nats_py(line):
                    return
                continue
            words = bytes(buffer[at:line_end]).split(b" ")
            begin = line_end + _END_SIZE
            end = begin + int(words[-1])
            if end + _END_SIZE > size:
                break
            at = end + _END_SIZE
            head_size = int(words[-2]) if words[0] == b"HMSG" else 0
            header, body = bytes(buffer[begin : begin + head_size]), bytes(buffer[begin + head_size : end])
            reply = words[3] if len(words) - bool(head_size) > 4 else b""
            put = puts.get(words[2])
            if put is not None:
                put(
                    Incoming(
                        _text(words[1]),
                        reply.decode("utf-8", "replace"),
                        body,
                        status(header) if header else None,
                    )
                )
            else:
                await self.nc._process_msg(int(words[2]), words[1], reply, body, _sound(header))
                if self.buf is not buffer:
                    return
        del buffer[:at]

    async def _by_nats_py(self, line: bytes) -> bool:
        """Have nats-py read one line that is no message; False if the connection began anew at that."""
        kept, one = self.buf, bytearray(line)
        self.buf = one
        await super().parse()
        if self.buf is not one:
            return False
        self.buf = kept
        return True


def status(header: bytes) -> dict[str, str] | None:
    """The server's status of a message, such as 503; what agents write into headers is not believed, or read."""
    code = header[_STATUS_AT : _STATUS_AT + _STATUS_SIZE]
    return (
        {"Status": code.decode()} if header[_STATUS_AT - 1 : _STATUS_AT] == b" " and code.isdigit() else None
    )


def _sound(header: bytes) -> bytes | None:
    """*header* where nats-py can read it without raising, else nothing."""
    is_sound = header.isascii() and len(header) > _STATUS_AT + _END_SIZE and header.endswith(_END + _END)
    return header if is_sound else None


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "backslashreplace")
