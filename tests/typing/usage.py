"""How unknot is used, as the type checker sees it. `make lint` checks it; nobody runs it.

Where a line ends in `type: ignore[…]` the use is wrong and the checker must say so: an ignore that is not needed is an
error too.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, TypedDict, assert_type

import msgspec

import unknot
from unknot import (
    Agent,
    Channel,
    Context,
    DeadlockDetected,
    Event,
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
    async with unknot.connect("loop") as me:
        async for event in me.events():
            yield event.type


async def wrong() -> None:
    Agent("writer", concurrency="four")  # type: ignore[arg-type]
    async with unknot.connect("cli") as me:
        text: str = await me.send_and_wait("reviewer", "mark", None, timeout=5, into=Mark)  # type: ignore[arg-type]
        me.send_and_wait("reviewer", "mark", None, timout=5)  # type: ignore[call-overload]
        await me.send("reviewer", "marked", text)
        await me.channel("reviews").wait_for_reply("p1")  # type: ignore[arg-type]
