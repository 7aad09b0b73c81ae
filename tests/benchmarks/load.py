"""Closed-loop load: n lanes, each with one request in flight; rates, latencies and CPU of a window of time."""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable
from statistics import median

from msgspec import Struct

from tests.benchmarks.machine import cpu_s

WARM_UP_S = 0.3
Ask = Callable[[], Awaitable[None]]
"""One whole request; raises if the answer is not its own."""
Lane = Callable[[Ask], Awaitable[None]]
"""Asks again and again until the window is over."""
Start = Callable[[int, Lane], Awaitable[None]]
"""Runs lane *n* where this contender's requests come from, with its own way to ask."""


class Window(Struct):
    """What one contender did in one window; *cpu_us*: microseconds of CPU per request, by process."""

    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: dict[str, float]


class _Clock:
    """Latencies of the requests that ended while the window was open."""

    def __init__(self) -> None:
        self.latencies = array("d")
        self.open = False
        self.over = False


async def run(start: Start, lanes: int, window_s: float, pids: dict[str, int]) -> Window:
    """Keep *lanes* requests in flight, warm up, measure for *window_s*."""
    clock = _Clock()
    async with asyncio.TaskGroup() as group:
        for lane in range(lanes):
            group.create_task(_started(start, lane, clock))
        await asyncio.sleep(WARM_UP_S)
        used = {name: cpu_s(pid) for name, pid in pids.items()}
        began, clock.open = time.perf_counter(), True
        await asyncio.sleep(window_s)
        took, clock.open = time.perf_counter() - began, False
        used = {name: cpu_s(pid) - used[name] for name, pid in pids.items()}
        clock.over = True
    return _window(clock.latencies, took, used)


async def _started(start: Start, lane: int, clock: _Clock) -> None:
    async def ask_until_over(ask: Ask) -> None:
        while not clock.over:
            began = time.perf_counter()
            await ask()
            if clock.open:
                clock.latencies.append(time.perf_counter() - began)

    await start(lane, ask_until_over)


def _window(latencies: "array[float]", took: float, used: dict[str, float]) -> Window:
    count = len(latencies)
    ordered = sorted(latencies)
    return Window(
        requests=count,
        per_s=count / took,
        p50_ms=ordered[count // 2] * 1e3,
        p99_ms=ordered[count * 99 // 100] * 1e3,
        cpu_us={name: seconds / count * 1e6 for name, seconds in used.items()},
    )


def middle(windows: list[Window]) -> Window:
    """The median of each figure over several rounds."""
    return Window(
        requests=sum(window.requests for window in windows),
        per_s=median(window.per_s for window in windows),
        p50_ms=median(window.p50_ms for window in windows),
        p99_ms=median(window.p99_ms for window in windows),
        cpu_us={name: median(window.cpu_us[name] for window in windows) for name in windows[0].cpu_us},
    )
