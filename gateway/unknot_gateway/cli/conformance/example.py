"""A client that plays the role, written with the SDK.

`unknot conformance -- python -m unknot_gateway.cli.conformance.example`
"""

import asyncio
import os
from collections import Counter
from typing import Any

from unknot import Agent, Context, DeadlockDetected, HandlerFailed, Refused, WaitExpired, WaitFailed, run

pupil = Agent(
    os.environ.get("UNKNOT_AGENT", "pupil"),
    concurrency=64,
    heartbeat_s=float(os.environ.get("UNKNOT_HEARTBEAT_S", "0.5")),
    blocking_waits="allow",
)
counted: Counter[str] = Counter()
_OUTCOMES = {
    DeadlockDetected: "deadlock",
    HandlerFailed: "failed",
    WaitExpired: "expired",
    Refused: "refused",
}


@pupil.on("conformance.echo")
async def echo(data: Any) -> Any:
    """Answer with what was asked."""
    return data


@pupil.on("conformance.count")
async def count(data: dict[str, Any]) -> int:
    """Count a run, work a while, answer with the count."""
    counted[data["key"]] += data.get("add", 1)
    ran = counted[data["key"]]
    await asyncio.sleep(data.get("s", 0))
    return ran


@pupil.on("conformance.fail")
async def fail(data: dict[str, Any]) -> None:
    """Fail."""
    raise ValueError(data["message"])


@pupil.on("conformance.early")
async def early(data: dict[str, Any], ctx: Context) -> None:
    """Answer at once, and work on."""
    await ctx.reply("early")
    await asyncio.sleep(data["s"])


@pupil.on("conformance.defer")
async def defer(data: dict[str, Any], ctx: Context) -> None:
    """Promise, and answer later from a task of its own."""
    ctx.defer()

    async def answer() -> None:
        await asyncio.sleep(data["s"])
        await ctx.reply(data["data"])

    later.add(task := asyncio.create_task(answer()))
    task.add_done_callback(later.discard)


later: set[asyncio.Task[None]] = set()


@pupil.on("conformance.ask")
async def ask(data: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Block on another agent, and report how that ended."""
    try:
        answer = await ctx.send_and_wait(
            data["target"], data["type"], data["data"], timeout=data["timeout_s"]
        )
    except WaitFailed as failed:
        return {"outcome": _OUTCOMES.get(type(failed), type(failed).__name__.lower()), "code": failed.code}
    return {"outcome": "reply", "data": answer}


if __name__ == "__main__":
    run(pupil, timeout=60)
