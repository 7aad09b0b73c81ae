"""Where the gateway's CPU goes: it runs here under cProfile, the agents in another process.

    python -m tests.benchmarks.profile [--lanes 64] [--window 3] [--top 40]

Microseconds of CPU per request, which the profiler makes several times as many; compare lines, not runs.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tests.benchmarks import load
from tests.benchmarks.contenders import raw_pair
from tests.benchmarks.machine import nats_server, program, python
from tests.benchmarks.report import table
from unknot_gateway.shell import logs
from unknot_gateway.shell.serving import serve
from unknot_gateway.shell.settings import Settings

NETWORK = "profile"
ROOMS = (
    "unknot_gateway/core/graph",
    "unknot_gateway/core",
    "unknot_gateway/shell",
    "unknot_schemas",
    "nats",
    "asyncio",
)


async def _profiled(lanes: int, window_s: float) -> tuple[pstats.Stats, load.Window]:
    # CPU time: on a busy machine wall time blames whoever was preempted.
    profiler, windows = cProfile.Profile(time.process_time), []

    async def agents(url: str) -> None:
        command = python(
            "tests.benchmarks.profile", "--agents", url, "--lanes", str(lanes), "--window", str(window_s)
        )
        async with program(*command) as process:
            assert process.stdout is not None
            profiler.enable()
            line = await process.stdout.readline()
            profiler.disable()
            windows.append(msgspec.json.decode(line, type=load.Window))
        os.kill(os.getpid(), signal.SIGTERM)  # what `serve` ends on

    logs.set_up("error")
    async with nats_server() as (url, _):
        started: list[asyncio.Task[None]] = []
        settings = Settings(nats=url, networks=[NETWORK], log_level="error")
        await serve(settings, lambda _: started.append(asyncio.create_task(agents(url))))
        await started[0]
    return pstats.Stats(profiler), windows[0]


async def _agents(url: str, lanes: int, window_s: float) -> None:
    async with raw_pair(url, NETWORK) as start:
        await load.run(start, lanes, 0.5, {})
        print("warm", flush=True)
        print(msgspec.json.encode(await load.run(start, lanes, window_s, {})).decode(), flush=True)


def _show(stats: pstats.Stats, requests: int, top: int) -> str:
    lines = [
        [f"{own / requests * 1e6:.2f}", f"{calls / requests:.2f}", _place(*where)]
        for where, (_, calls, own, _, _) in sorted(_entries(stats), key=lambda entry: -entry[1][2])
    ]
    rooms: dict[str, float] = {}
    for (file, _, _), (_, _, own, _, _) in _entries(stats):
        room = next((room for room in ROOMS if f"/{room}" in file), "built-in and the rest")
        rooms[room] = rooms.get(room, 0.0) + own
    by_room = [
        [f"{own / requests * 1e6:.1f}", room]
        for room, own in sorted(rooms.items(), key=lambda item: -item[1])
    ]
    heads = ("us/request", "calls/request", "function")
    calls = sum(calls for _, (_, calls, _, _, _) in _entries(stats)) / requests
    return f"{table(heads, lines[:top])}\n\n{table(('us/request', 'room'), by_room)}\n\n{calls:.0f} calls per request"


def _entries(stats: pstats.Stats) -> list[tuple[tuple[str, int, str], tuple[int, int, float, float, Any]]]:
    return list(stats.stats.items())  # type: ignore[attr-defined]  # not in the stubs; documented in Lib/pstats.py


def _place(file: str, line: int, name: str) -> str:
    return name if file == "~" else f"{Path(file).parent.name}/{Path(file).name}:{line} {name}"


def main(arguments: list[str]) -> int:
    """Profile once, or be the agents."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile", description=__doc__)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--window", type=float, default=3.0)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--agents", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.agents:
        uvloop.run(_agents(options.agents, options.lanes, options.window))
        return 0
    stats, window = uvloop.run(_profiled(options.lanes, options.window))
    # The profile covers the warm-up too: all that were carried, not only those of the window.
    requests = round(window.per_s * (options.window + load.WARM_UP_S))
    print(f"{window.per_s:,.0f} requests/s under the profiler, p50 {window.p50_ms:.2f} ms\n")
    print(_show(stats, requests, options.top))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
