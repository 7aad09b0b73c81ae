"""How fast a deadlock is found: from the closing request to the last member's failure, in plain round trips.

Each member handles one event at a time, on a connection of its own, and blocks on the next one; the probe (every
member is asked before the verdict) is included. Plain NATS round trips take turns with the deadlocks, one for one, each
after the same pause: on an idle machine what comes after a pause finds sleeping processes and cold caches, both of them
alike. Round trips without any pause between them, several times as fast, are shown beside.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

import nats
from nats.aio.msg import Msg

from tests.benchmarks.machine import cpu_s
from tests.benchmarks.raw_agent import RawAgent, raw_agent
from tests.benchmarks.report import Bar, at_most, table
from unknot_schemas.bodies import Outcome

MEMBERS = (2, 3, 4, 5, 6)
BUSY_TRIPS = 20
"""Plain round trips without a pause, for each deadlock."""
SETTLE_S = 0.02
"""The pause before each deadlock, and before each plain round trip that it is compared with."""
HANG_S = 20.0


Trip = Callable[[], Awaitable[object]]


async def run(
    url: str, network: str, gateway: int, samples: int, members: Sequence[int] = MEMBERS
) -> list[dict[str, Any]]:
    """One row for each number of members; *samples* deadlocks each. *gateway*: its pid."""
    trip, close = await _round_trips(url)
    rows = []
    for count in members:
        ring = [await raw_agent(url, network, f"ring{count}-{at}", 1) for at in range(count)]
        starter = await raw_agent(url, network, f"starter{count}", None)
        trips: list[float] = []
        busy: list[float] = []
        took: list[float] = []
        used: list[float] = []
        for _ in range(samples):
            busy += [await _timed(trip) for _ in range(BUSY_TRIPS)]
            await asyncio.sleep(SETTLE_S)
            trips.append(await _timed(trip))
            seconds, cpu = await _deadlock(ring, starter, gateway)
            took.append(seconds)
            used.append(cpu)
        rows.append(_row(count, trips, busy, took, used))
        for agent in (*ring, starter):
            await agent.stop()
    await close()
    return rows


def _row(
    count: int, trips: list[float], busy: list[float], took: list[float], used: list[float]
) -> dict[str, Any]:
    return {
        "members": count,
        "samples": len(took),
        "round_trip_ms": round(median(trips) * 1e3, 3),
        "busy_round_trip_ms": round(median(busy) * 1e3, 3),
        "p50_ms": round(median(took) * 1e3, 3),
        "p90_ms": round(sorted(took)[len(took) * 9 // 10] * 1e3, 3),
        "gateway_cpu_ms": round(median(used) * 1e3, 3),
        "round_trips": round(median(took) / median(trips), 2),
        "busy_round_trips": round(median(took) / median(busy), 2),
    }


async def _round_trips(url: str) -> tuple[Trip, Callable[[], Awaitable[None]]]:
    asker, answerer = await nats.connect(url), await nats.connect(url)

    async def echo(msg: Msg) -> None:
        await msg.respond(msg.data)

    async def close() -> None:
        await asker.close()
        await answerer.close()

    await answerer.subscribe("bench.trip", cb=echo)
    await answerer.flush()
    return (lambda: asker.request("bench.trip", b"{}", timeout=HANG_S)), close


async def _timed(trip: Trip) -> float:
    began = time.perf_counter()
    await trip()
    return time.perf_counter() - began


async def _deadlock(ring: list[RawAgent], starter: RawAgent, gateway: int) -> tuple[float, float]:
    """Let every member block on the next; seconds and gateway CPU from the closing request to the last failure."""
    executions = [await _started(agent, starter) for agent in ring]
    waits: list[asyncio.Future[Outcome]] = []
    for at, agent in enumerate(ring[:-1]):
        waits.append(await agent.request(ring[at + 1].name, "bench.knot", b"{}", executions[at]))
    for agent in ring:
        await agent.pulse()  # answered after the request before it: taken in
    await asyncio.sleep(SETTLE_S)
    began, cpu = time.perf_counter(), cpu_s(gateway)
    waits.append(await ring[-1].request(ring[0].name, "bench.knot", b"{}", executions[-1]))
    async with asyncio.timeout(HANG_S):
        outcomes = await asyncio.gather(*waits)
    took, cpu = time.perf_counter() - began, cpu_s(gateway) - cpu
    assert {outcome.outcome for outcome in outcomes} == {"deadlock"}, outcomes
    for agent, execution in zip(ring, executions, strict=True):
        await agent.done([execution])
    return took, cpu


async def _started(agent: RawAgent, starter: RawAgent) -> str:
    execution = await starter.send(agent.name, "bench.start", None)
    while execution not in agent.held:
        agent.held_came.clear()
        await agent.held_came.wait()
    return execution


def bars(rows: list[dict[str, Any]]) -> list[Bar]:
    """For two members, and for each further one (least squares over the rows)."""
    xs, ys = [row["members"] for row in rows], [row["round_trips"] for row in rows]
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    steep = sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum((x - x0) ** 2 for x in xs)
    return [
        at_most("round trips until both of two members failed", ys[0], 5.0),
        at_most("round trips for each further member", steep, 1.5),
    ]


def show(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    heads = (
        "members",
        "deadlock p50 ms",
        "p90 ms",
        "gateway CPU ms",
        "plain round trip ms",
        "round trips",
        "of a busy loop",
    )
    names = (
        "members",
        "p50_ms",
        "p90_ms",
        "gateway_cpu_ms",
        "round_trip_ms",
        "round_trips",
        "busy_round_trips",
    )
    return table(heads, [[str(row[name]) for name in names] for row in rows])
