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
_PLAIN: Final = "MSG"
_MESSAGES: Final = (_PLAIN, "HMSG")
_PLAIN_WORDS: Final = 4
"""Of a message without reply subject: MSG, the subject, the subscription's number, the size."""


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
        self.puts: dict[str, Put] = {}
        self._wanted = 0
        """Bytes that the first message kept will have, as far as is known: with fewer there is nothing to do."""
        super().__init__(connection)

    def reset(self) -> None:
        """The connection begins anew; nats-py calls it."""
        super().reset()
        self._wanted = 0

    async def parse(self, data: bytes = b"") -> None:
        """Take in what has come; what is not whole yet is kept. nats-py calls it from its one reading task."""
        buffer = self.buf
        if buffer:
            buffer += data
            if len(buffer) < self._wanted:
                return
            data = bytes(buffer)  # slices of bytes are bytes: one copy here for several of each message
        at, size, wanted, puts = 0, len(data), 0, self.puts
        while at < size:
            line_end = data.find(_END, at)
            if line_end < 0:
                break
            begin = line_end + _END_SIZE
            line = data[at:line_end]
            words = line.decode().split(" ") if line.isascii() else _words(line)
            if words[0] not in _MESSAGES:
                at = begin
                if not await self._by_nats_py(line + _END):
                    return
                continue
            end = begin + int(words[-1])
            if end + _END_SIZE > size:
                wanted = end + _END_SIZE - at
                break
            at = end + _END_SIZE
            put = puts.get(words[2])
            if put is None:
                await self._hand_to_nats_py(line.split(b" "), data[begin:end])
                if self.buf is not buffer:
                    return
            elif words[0] == _PLAIN:
                put(Incoming(words[1], words[3] if len(words) > _PLAIN_WORDS else "", data[begin:end]))
            else:
                body = begin + int(words[-2])
                reply = words[3] if len(words) > _PLAIN_WORDS + 1 else ""
                put(Incoming(words[1], reply, data[body:end], status(data[begin:body])))
        self._wanted = wanted
        buffer[:] = data[at:]

    async def _hand_to_nats_py(self, words: list[bytes], data: bytes) -> None:
        if not words[2].isdigit():
            return  # the last of a subscription that was not nats-py's, and is over
        head_size = int(words[-2]) if words[0] == b"HMSG" else 0
        reply = words[3] if len(words) - bool(head_size) > _PLAIN_WORDS else b""
        header, body = data[:head_size], data[head_size:]
        await self.nc._process_msg(int(words[2]), words[1], reply, body, _sound(header))

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


def _words(line: bytes) -> list[str]:
    """Of a line that is not ASCII. No two subjects look alike, and no reply subject becomes one that is legal."""
    return [
        word.decode("utf-8", "backslashreplace" if at == 1 else "replace")
        for at, word in enumerate(line.split(b" "))
    ]
