"""NATS's client protocol, as far as one has to read it to see what passes."""

from collections.abc import Iterator
from typing import Final, NamedTuple

_LINE_END: Final = b"\r\n"
_SIZED: Final = frozenset({b"PUB", b"HPUB", b"MSG", b"HMSG"})
_WITH_HEADERS: Final = frozenset({b"HPUB", b"HMSG"})


class Frame(NamedTuple):
    """One protocol message, and its bytes as they came. *queue*: of a subscription, "" for none."""

    verb: str
    raw: bytes
    subject: str = ""
    reply: str = ""
    queue: str = ""
    payload: bytes = b""


class Parser:
    """Cuts one direction of a connection into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """All frames that *chunk* completes."""
        self._buffer += chunk
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        end = self._buffer.find(_LINE_END)
        if end < 0:
            return None
        words = bytes(self._buffer[:end]).split()
        verb = words[0].upper() if words else b""
        body_at = end + len(_LINE_END)
        whole = body_at
        if verb in _SIZED and words[-1].isdigit():
            whole += int(words[-1]) + len(_LINE_END)
        if len(self._buffer) < whole:
            return None
        raw = bytes(self._buffer[:whole])
        del self._buffer[:whole]
        return _read(verb, words, raw, raw[body_at : -len(_LINE_END)])


def _read(verb: bytes, words: list[bytes], raw: bytes, body: bytes) -> Frame:
    name = verb.decode("ascii", "replace")
    told = [word.decode("utf-8", "replace") for word in words]
    if verb == b"SUB" and len(told) >= 3:
        return Frame(name, raw, told[1], queue=told[2] if len(told) > 3 else "")
    if verb not in _SIZED:
        return Frame(name, raw)
    sizes = 2 if verb in _WITH_HEADERS else 1
    between = told[2:-sizes]  # a subscription's number in what comes from the server, then the reply subject
    if verb in (b"MSG", b"HMSG"):
        between = between[1:]
    if verb in _WITH_HEADERS and told[-2].isdigit():
        body = body[int(told[-2]) :]
    return Frame(name, raw, told[1], reply=between[0] if between else "", payload=body)
