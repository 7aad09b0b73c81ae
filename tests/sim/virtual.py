"""An event loop whose clock jumps to the next timer when nothing is left to do: no real time passes, no sockets.

Every callback belongs to a process (`PROCESS` of its context), and a process can be paused as SIGSTOP does it.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from unknot import _strands, _watchdog

START_AT = 1_000.0

PROCESS: Final[ContextVar[str]] = ContextVar("process", default="")
"""Which of the simulated processes the running code is part of; "" for the world around them."""


class NothingLeft(Exception):
    """Everybody waits, and no timer is set: in the real world this would hang for ever."""


class _Call(asyncio.TimerHandle):
    """What is to be called; asyncio's own handle without what only debugging needs."""

    __slots__ = ("at",)

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self._callback, self._args = callback, args
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._source_traceback = None
        self.at = 0.0

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]

    def when(self) -> float:
        return self.at


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop on a virtual clock. Same program, same order of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START_AT
        self._soon: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._number = 0
        self._paused: dict[str, list[_Call]] = {}

    def time(self) -> float:
        """Seconds, virtual."""
        return self.now

    def call_soon(  # type: ignore[override]  # typeshed: unpacked argument types
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's."""
        call = _Call(callback, args, context)
        self._soon.append(call)
        return call

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        call = _Call(callback, args, context)
        call.at = when
        self._number += 1
        heappush(self._timers, (when, self._number, call))
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def pause(self, process: str) -> None:
        """SIGSTOP: nothing of *process* runs; its clock goes on."""
        self._paused.setdefault(process, [])

    def go_on(self, process: str) -> None:
        """SIGCONT: everything that was due runs now, in order."""
        self._soon.extend(self._paused.pop(process, ()))

    def is_paused(self, process: str) -> bool:
        """Whether *process* stands still."""
        return process in self._paused

    def _run_once(self) -> None:
        soon, timers = self._soon, self._timers
        if not soon:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                if not self._stopping:  # type: ignore[attr-defined]
                    raise NothingLeft
                return
            self.now = max(self.now, timers[0][0])
        until = self.now + 1e-9
        while timers and timers[0][0] < until:
            soon.append(heappop(timers)[2])
        for _ in range(len(soon)):
            call = soon.popleft()
            if call._cancelled:
                continue
            if self._paused:
                held = self._paused.get(call._context.get(PROCESS, ""))
                if held is not None:
                    held.append(call)
                    continue
            try:
                call._context.run(call._callback, *call._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as why:  # noqa: BLE001  as asyncio does: the loop goes on
                self.call_exception_handler({"message": f"{call._callback} failed", "exception": why})

    def close(self) -> None:
        """Forget everything."""
        self._soon.clear()
        self._timers.clear()
        super().close()


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
