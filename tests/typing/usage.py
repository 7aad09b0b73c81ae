"""How unknot is used, as the type checker sees it. `make lint` checks it; nobody runs it.

Where a line ends in `type: ignore[…]` the use is wrong and the checker must say so: an ignore that is not needed is an
error too.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, TypedDict, assert_type

import anyio
import msgspec

import unknot
import unknot.sync
from unknot import (
    Agent,
    Channel,
    Context,
    DeadlockDetected,
    Denied,
    Event,
    Lease,
    LeaseLost,
    Post,
    ThreadContext,
    WaitExpired,
    WaitFailed,
)


@dataclass
class Draft:
    topic: str
    text: str = ""


class Verdict(TypedDict):
    ok: bool
    why: str


class Mark(msgspec.Struct):
    points: int


reviewer = Agent("reviewer")
writer = Agent("writer", concurrency=4)
printer = Agent("printer", pools={"heavy": 1, "light": 8})
binder = Agent("binder", instance="binder-0", exclusive=True)


@reviewer.on("review")
async def review(draft: Draft, ctx: Context) -> Verdict:
    try:
        better = await ctx.send_and_wait("writer", "revise", draft, timeout=60, into=Draft)
    except DeadlockDetected as knot:
        assert_type(knot.cycle, tuple[str, ...])
        assert_type(knot.request_ids, tuple[str, ...])
        assert_type(knot.remedy, str)
        return {"ok": False, "why": str(knot)}
    except WaitExpired as late:
        assert_type(late.chain, tuple[str, ...])
        return {"ok": False, "why": "late"}
    assert_type(better, Draft)
    return {"ok": True, "why": better.text}


@writer.on("revise")
def revise(draft: Draft) -> Draft:
    return draft


@printer.on("print", pool="heavy")
async def print_it(mark: Mark, ctx: Context) -> None:
    await ctx.send("reviewer", "printed", {"points": mark.points})
    await ctx.publish("printed", mark)
    ctx.defer()


reviews = writer.channel("reviews")


@writer.on("draft")
async def draft(text: str, ctx: Context) -> None:
    await reviews.react(ctx.event, "seen")
    assert_type(await reviews.reply(ctx.event, {"ok": True}), Post)


@printer.on("prints")
def prints(data: object, ctx: ThreadContext) -> None:
    post = ctx.channel("reviews").post("draft", "knots")
    assert_type(post, Post)
    assert_type(ctx.channel("reviews").wait_for_reaction(post, "seen", timeout=5), Event)


async def in_a_channel() -> Mark:
    async with unknot.connect("cli", channels=["reviews"]) as me:
        channel = me.channel("reviews")
        assert_type(channel, Channel)
        post = await channel.post("draft", "knots")
        assert_type(await channel.wait_for_reply(post, source="writer", timeout=5), Event)
        assert_type(await channel.wait_for_reaction(post, "seen"), Event)
        assert_type(await channel.wait_for_post("draft.>", timeout=5), Event)
        asked = await me.ask("@reviews", "mark", "knots", into=Mark)
        assert_type(await channel.wait_for_reply(asked), Event)
        assert_type(await me.send_and_wait("old", "mark", into=Mark, accept_uncorrelated="mark.>"), Mark)
        return await channel.post_and_wait("mark", "knots", into=Mark, timeout=5)


async def from_a_script() -> Mark:
    async with unknot.connect("cli") as me:
        await me.send("printer", "print", Mark(3))
        try:
            return await me.send_and_wait("reviewer", "mark", Draft("knots"), timeout=5, into=Mark)
        except WaitFailed as failure:
            assert_type(failure.handled, Literal["no", "maybe", "yes"])
            raise


async def from_a_loop() -> AsyncIterator[str]:
    async with unknot.connect("loop", instance="loop-0", exclusive=True) as me:
        async for event in me.events():
            yield event.type


@reviewer.on_approval
async def decide(draft: Draft, ctx: Context) -> bool | None:
    if draft.text:
        return True
    await ctx.resolve_approval(ctx.event, False, reason="empty")
    return None


@printer.on("reprint")
async def reprint(mark: Mark, ctx: Context) -> Mark:
    async with ctx.lock("page", ctx.acquire("ink", units=2), lease=10, timeout=5) as lease:
        assert_type(lease, Lease)
        assert_type(lease.token, int)
        await ctx.publish_artifact("page:1", mark, under=lease)
    async with ctx.permits("ink", 3) as lease, ctx.tool("press", timeout=5):
        await lease.renew(60)
    async with ctx.blocking_on("task", "t1", reason="not mine"), ctx.holder("lock", "tray", capacity=2):
        pass
    try:
        assert_type(await ctx.approval("human:eva", mark, reason="colour"), Literal[True])
    except Denied as no:
        assert_type(no.reason, str)
    except LeaseLost as lost:
        assert_type(lost.token, int)
    return await ctx.wait_for_artifact("page:1", into=Mark, timeout=5)


async def of_other_kinds(ctx: Context) -> None:
    marks: asyncio.Queue[Mark] = asyncio.Queue()
    assert_type(await ctx.receive(marks, producer="printer", timeout=5), Mark)
    _, stream = anyio.create_memory_object_stream[Mark](1)
    assert_type(await ctx.receive(stream, "marks"), Mark)
    assert_type(await ctx.receive(asyncio.create_task(marks.get())), Mark)
    assert_type(await ctx.receive(marks.get), Mark)
    asked = await ctx.ask("reviewer", "mark", into=Mark)
    assert_type(await ctx.wait_all([asked, ctx.artifact("page:1", into=Mark)]), list[Mark])
    assert_type((await ctx.wait_any([ctx.acquire("a"), ctx.acquire("b")])).data, Lease)
    assert_type((await ctx.wait_quorum([ctx.decision("eva"), ctx.decision("human:jo")], 1))[0].data, bool)


def without_a_loop() -> Mark:
    with unknot.sync.connect("cli") as me, me.lock("page") as lease, me.tool("press"):
        me.publish_artifact("page:2", Mark(1), under=lease)
        return me.wait_for_artifact("page:2", into=Mark, timeout=5)


async def wrong() -> None:
    Agent("writer", concurrency="four")  # type: ignore[arg-type]
    async with unknot.connect("cli") as me:
        text: str = await me.send_and_wait("reviewer", "mark", None, timeout=5, into=Mark)  # type: ignore[arg-type]
        me.send_and_wait("reviewer", "mark", None, timout=5)  # type: ignore[call-overload]
        await me.send("reviewer", "marked", text)
        await me.channel("reviews").wait_for_reply("p1")  # type: ignore[arg-type]
        await me.wait_any(["page"])  # type: ignore[arg-type]
        me.blocking_on("door", "front")  # type: ignore[arg-type]
        await me.publish_artifact("page:1", under=7)  # type: ignore[arg-type]
        async with me.lock(7):  # type: ignore[arg-type]
            pass
