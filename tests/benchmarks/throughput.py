"""Requests per second, latency and CPU per request: all contenders in one run, taking turns."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks import contenders, load
from tests.benchmarks.contenders import Contender
from tests.benchmarks.machine import nats_server
from tests.benchmarks.report import Bar, at_least, at_most, table

IN_FLIGHT = (1, 64, 512)
ENTRANTS = (contenders.plain, contenders.relay, contenders.unknot, contenders.unknot_sdk)


Entrant = Callable[[str], contextlib.AbstractAsyncContextManager[Contender]]


async def run(
    rounds: int, window_s: float, entrants: Sequence[Entrant] = ENTRANTS, in_flight: Sequence[int] = IN_FLIGHT
) -> list[dict[str, Any]]:
    """One row for each contender and number in flight: the medians of all rounds."""
    windows: dict[tuple[int, str], list[load.Window]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(nats_server())
        field = [await stack.enter_async_context(entrant(url)) for entrant in entrants]
        for turn in range(rounds):
            for lanes in in_flight:
                for contender in _rotated(field, turn):
                    pids = {"server": server, "agents": contenders.own_pid()}
                    if contender.middle is not None:
                        pids["middle"] = contender.middle
                    windows[lanes, contender.name].append(
                        await load.run(contender.start, lanes, window_s, pids)
                    )
    return [
        _row(lanes, one.name, load.middle(windows[lanes, one.name])) for lanes in in_flight for one in field
    ]


def _rotated(field: list[Contender], turn: int) -> list[Contender]:
    first = turn % len(field)
    return field[first:] + field[:first]


def _row(lanes: int, name: str, figures: load.Window) -> dict[str, Any]:
    return {
        "in_flight": lanes,
        "contender": name,
        "requests": figures.requests,
        "per_s": round(figures.per_s),
        "p50_ms": round(figures.p50_ms, 3),
        "p99_ms": round(figures.p99_ms, 3),
        "cpu_us": {process: round(used, 1) for process, used in figures.cpu_us.items()},
    }


def show(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    heads = ("in flight", "", "requests/s", "p50 ms", "p99 ms", "CPU us/request: between", "server", "agents")
    return table(heads, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    cpu = row["cpu_us"]
    used = [f"{cpu[process]:.1f}" if process in cpu else "-" for process in ("middle", "server", "agents")]
    figures = [f"{row['per_s']:,}", f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"]
    return [str(row["in_flight"]), row["contender"], *figures, *used]


def bars(rows: list[dict[str, Any]]) -> list[Bar]:
    """CPU between the agents and throughput, against the relay at 64 in flight."""
    at_64 = {row["contender"]: row for row in rows if row["in_flight"] == 64}
    relay, ours = at_64["bare relay"], at_64["unknot"]
    return [
        at_most(
            "gateway CPU per request / relay CPU", ours["cpu_us"]["middle"] / relay["cpu_us"]["middle"], 2.5
        ),
        at_least("gateway requests per s / relay requests per s", ours["per_s"] / relay["per_s"], 0.5),
    ]
