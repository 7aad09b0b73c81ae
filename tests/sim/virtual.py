"""An event loop whose clock jumps to the next timer when nothing is left to do: no real time passes, no sockets."""

import asyncio
import secrets
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from unknot import _strands, _watchdog

START_AT = 1_000.0


class NothingLeft(Exception):
    """Everybody waits, and no timer is set: in the real world this would hang for ever."""


class _Jump(selectors.SelectSelector):
    """Where a loop sleeps: here the clock moves instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingLeft
        self.loop.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a virtual clock. Same program, same order of everything."""

    def __init__(self) -> None:
        self.now = START_AT
        selector = _Jump()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds, virtual."""
        return self.now


@contextmanager
def virtual_loop(seed: int) -> Iterator[VirtualLoop]:
    """A loop on which the client draws its tokens from *seed*, and no watchdog thread watches the real time."""
    draw = Random(f"tokens {seed}")
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    loop = VirtualLoop()
    before = secrets.token_urlsafe, _strands._TOKEN, _strands._numbers
    secrets.token_urlsafe = lambda nbytes=16: "".join(draw.choices(alphabet, k=nbytes or 16))
    _strands._TOKEN, _strands._numbers = "s", iter(range(1, 2**63))  # type: ignore[misc]
    _watchdog._watchdogs[loop] = (_watchdog.Watchdog(loop), 1)  # never started
    try:
        yield loop
    finally:
        del _watchdog._watchdogs[loop]
        secrets.token_urlsafe, _strands._TOKEN, _strands._numbers = before  # type: ignore[misc]
        loop.close()
