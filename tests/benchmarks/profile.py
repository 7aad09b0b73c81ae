"""Where the gateway's CPU goes: it runs here under cProfile, the agents in another process.

    python -m tests.benchmarks.profile [--lanes 64] [--window 3] [--top 40]
    python -m tests.benchmarks.profile --deadlocks 100 --members 2

Microseconds of CPU per request, or per deadlock (from its start events to the last failure). The profiler makes them
several times as many: compare lines, not runs.
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

import uvloop

from tests.benchmarks import deadlocks, load
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


async def _profiled(arguments: list[str]) -> tuple[pstats.Stats, int]:
    """The profile, and how many requests or deadlocks it covers."""
    # CPU time: on a busy machine wall time blames whoever was preempted.
    profiler, done = cProfile.Profile(time.process_time), []

    async def agents(url: str) -> None:
        async with program(*python("tests.benchmarks.profile", *arguments, "--agents", url)) as process:
            assert process.stdout is not None
            profiler.enable()
            line = await process.stdout.readline()
            profiler.disable()
            done.append(int(line))
        os.kill(os.getpid(), signal.SIGTERM)  # what `serve` ends on

    logs.set_up("error")
    async with nats_server() as (url, _):
        started: list[asyncio.Task[None]] = []
        settings = Settings(nats=url, networks=[NETWORK], log_level="error")
        await serve(settings, lambda _: started.append(asyncio.create_task(agents(url))))
        await started[0]
    return pstats.Stats(profiler), done[0]


async def _agents(options: argparse.Namespace) -> None:
    """Warm up, say so, do it, say how often."""
    if options.deadlocks:
        for count, word in ((5, "warm"), (options.deadlocks, str(options.deadlocks))):
            await deadlocks.run(options.agents, NETWORK, os.getpid(), count, (options.members,))
            print(word, flush=True)
        return
    async with raw_pair(options.agents, NETWORK) as start:
        await load.run(start, options.lanes, 0.5, {})
        print("warm", flush=True)
        window = await load.run(start, options.lanes, options.window, {})
        # The profile covers the warm-up of the second run too.
        print(round(window.per_s * (options.window + load.WARM_UP_S)), flush=True)


def _show(stats: pstats.Stats, count: int, top: int) -> str:
    lines = [
        [f"{own / count * 1e6:.2f}", f"{whole / count * 1e6:.1f}", f"{calls / count:.2f}", _place(*where)]
        for where, (_, calls, own, whole, _) in sorted(_entries(stats), key=lambda entry: -entry[1][2])
    ]
    rooms: dict[str, float] = {}
    for (file, _, _), (_, _, own, _, _) in _entries(stats):
        room = next((room for room in ROOMS if f"/{room}" in file), "built-in and the rest")
        rooms[room] = rooms.get(room, 0.0) + own
    by_room = [
        [f"{own / count * 1e6:.1f}", room] for room, own in sorted(rooms.items(), key=lambda item: -item[1])
    ]
    heads = ("us own", "us with callees", "calls", "function")
    calls = sum(calls for _, (_, calls, _, _, _) in _entries(stats)) / count
    return f"{table(heads, lines[:top])}\n\n{table(('us own', 'room'), by_room)}\n\n{calls:.0f} calls"


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
    parser.add_argument("--deadlocks", type=int, default=0)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--agents", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.agents:
        uvloop.run(_agents(options))
        return 0
    stats, count = uvloop.run(_profiled(arguments))
    print(_show(stats, count, options.top))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
