"""One agent floods: what that does to another's requests, at half of what the gateway can take and far beyond.

What it can take is counted in CPU time, since wall time on a shared machine is noise: a second of one core, divided by
what one message of the flood costs.
"""

import asyncio
from typing import Any

import msgspec
import nats
from nats.aio.msg import Msg

from tests.benchmarks import load
from tests.benchmarks.contenders import raw_pair
from tests.benchmarks.machine import cpu_s, gateway, nats_server, program, python
from tests.benchmarks.report import Bar, at_least, at_most, table
from unknot_schemas import Subjects
from unknot_schemas.subjects import NOTICE_OVER_LIMIT

NETWORK = "floods"
LANES = 1
TRICKLE_PER_S = 1_000.0
SETTLE_S = 1.0


async def run(window_s: float) -> dict[str, Any]:
    """A row for each flood, and what one of its messages costs."""
    async with nats_server() as (url, _), gateway(url, NETWORK) as pid, raw_pair(url, NETWORK) as start:
        asked = await nats.connect(url)
        notices: list[bytes] = []

        async def on_notice(message: Msg) -> None:
            notices.append(message.data)

        await asked.subscribe(Subjects(NETWORK).notice(NOTICE_OVER_LIMIT), cb=on_notice)
        cost_us = await _cost_us(url, pid, window_s)
        capacity = 1e6 / cost_us
        rows = []
        for name, rate in (
            ("none", -1.0),
            ("half", capacity / 2),
            ("three times", 3 * capacity),
            ("no end", 0.0),
        ):
            before = await _counters(asked)
            window = await _window(url, rate, start, window_s, pid)
            await asyncio.sleep(SETTLE_S)
            rows.append(_row(name, rate, window, before, await _counters(asked)))
        told = [msgspec.json.decode(notice)["agent"] for notice in notices]
        await asked.close()
        return {"cost_us": round(cost_us, 1), "capacity_per_s": round(capacity), "rows": rows, "told": told}


async def _cost_us(url: str, pid: int, window_s: float) -> float:
    """CPU of the gateway for one message of a flood that hurts nobody."""
    async with program(*_flooder(url, TRICKLE_PER_S)):
        await asyncio.sleep(SETTLE_S)
        used = cpu_s(pid)
        await asyncio.sleep(window_s)
        return (cpu_s(pid) - used) / (window_s * TRICKLE_PER_S) * 1e6


async def _window(url: str, rate: float, start: load.Start, window_s: float, pid: int) -> load.Window:
    if rate < 0:
        return await load.run(start, LANES, window_s, {"middle": pid})
    async with program(*_flooder(url, rate)):
        await asyncio.sleep(SETTLE_S)
        return await load.run(start, LANES, window_s, {"middle": pid})


def _flooder(url: str, rate: float) -> tuple[str, ...]:
    return python("tests.benchmarks.flooder", url, NETWORK, str(rate))


async def _counters(asked: nats.NATS) -> dict[str, int]:
    answer = await asked.request(Subjects(NETWORK).api("stats"), b"", timeout=30)
    counters: dict[str, int] = msgspec.json.decode(answer.data)["counters"]
    return counters


def _row(
    name: str, rate: float, window: load.Window, before: dict[str, int], after: dict[str, int]
) -> dict[str, Any]:
    taken = after.get("broadcast", 0) - before.get("broadcast", 0)
    shed = after.get("shell.shed.flood", 0) - before.get("shell.shed.flood", 0)
    return {
        "flood": name,
        "per_s": round(rate) if rate > 0 else None,
        "requests": window.requests,
        "p50_ms": round(window.p50_ms, 3),
        "p99_ms": round(window.p99_ms, 3),
        "taken": taken,
        "shed": shed,
    }


def show(found: dict[str, Any]) -> str:
    """The rows as a table."""
    heads = ("flood", "messages/s", "others' requests", "p50 ms", "p99 ms", "taken", "shed")
    rows = [
        [
            row["flood"],
            f"{row['per_s']:,}" if row["per_s"] else "-",
            f"{row['requests']:,}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            f"{row['taken']:,}",
            f"{row['shed']:,}",
        ]
        for row in found["rows"]
    ]
    return f"one message of the flood costs {found['cost_us']} us of CPU\n\n{table(heads, rows)}"


def bars(found: dict[str, Any]) -> list[Bar]:
    """Others' p99 at half of the capacity; beyond it the excess is shed, and its agent named."""
    rows = {row["flood"]: row for row in found["rows"]}
    quiet = rows["none"]["p99_ms"]
    return [
        at_most(
            "another's p99 under half of the capacity / without a flood", rows["half"]["p99_ms"] / quiet, 2
        ),
        at_most("shed under half of the capacity", rows["half"]["shed"], 0),
        at_least("shed beyond the capacity", rows["three times"]["shed"], 1),
        at_least("notices that name the agent, and nobody else", found["told"].count("flood"), 1),
        at_least("another's requests answered under a flood without end", rows["no end"]["requests"], 1),
    ]
