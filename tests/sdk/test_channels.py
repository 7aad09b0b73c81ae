"""Channels through the SDK, against the real gateway: posts, replies, reactions, and who waits for whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import unknot
import unknot.sync
from tests.sdk.test_reports_sdk import HANG_S, rows
from tests.support.gateway import Gateway
from unknot import Agent, Connection, Context, Event, Post, ThreadContext

POLLS = 2_000
WAITS = ("post", "post_reply", "reaction")
QUIET_S = 0.2
"""How long nothing must come."""


def member(house: Gateway, name: str, **options: Any) -> Any:
    """A script in channel reviews."""
    options = {"channels": ["reviews"], "serves": False, **options}
    return unknot.connect(name, house.nats, network=house.network, **options)


@asynccontextmanager
async def team(house: Gateway, *agents: Agent) -> AsyncIterator[Connection]:
    """*agents* run here; gives a script birch in channel reviews."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent.running(house.nats, network=house.network, main_runs=False))
        yield await stack.enter_async_context(member(house, "birch"))


# ---- posts


async def test_a_post_reaches_all_members_but_its_sender(house: Gateway) -> None:
    got: list[tuple[str, str, object]] = []
    elm, oak = Agent("elm", channels=["reviews"]), Agent("oak", channels=["reviews"])

    def tells(agent: Agent) -> None:
        @agent.on("draft")
        async def draft(data: object, ctx: Context) -> None:
            got.append((agent.name, ctx.event.source, data))

    tells(elm)
    tells(oak)
    async with team(house, elm, oak) as birch, member(house, "ash") as ash:
        waiting = asyncio.create_task(ash.channel("@reviews").wait_for_post("draft", timeout=HANG_S))
        own = asyncio.create_task(birch.channel("reviews").wait_for_post("draft", timeout=QUIET_S))
        await until_waits(house, 2)
        post = await birch.channel("reviews").post("draft", {"topic": "knots"})
        event = await waiting
        assert (event.id, event.source, event.target) == (post.id, "birch", "@reviews")
        assert event.data == {"topic": "knots"}
        with pytest.raises(unknot.WaitExpired):
            await own
    assert sorted(got) == [("elm", "birch", {"topic": "knots"}), ("oak", "birch", {"topic": "knots"})]


async def test_who_is_no_member_may_post_and_ask_but_not_wait(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"])

    @elm.on("draft")
    async def draft(data: object) -> object:
        return data

    async with team(house, elm), member(house, "ash", channels=[]) as ash:
        reviews = ash.channel("reviews")
        post = await reviews.post("draft")
        assert await reviews.post_and_wait("draft", 1, timeout=HANG_S) == 1
        for waiting in (
            reviews.wait_for_post("draft"),
            reviews.wait_for_reply(post),
            reviews.wait_for_reaction(post),
        ):
            with pytest.raises(unknot.Refused, match="no member") as caught:
                await waiting
            assert caught.value.code == "not_subscribed"


async def test_a_name_that_can_be_no_channel_is_refused_when_it_is_written_down(house: Gateway) -> None:
    async with member(house, "birch") as birch:
        for wrong in ("", "a b", "a.b", "@@x"):
            with pytest.raises(ValueError, match="cannot name"):
                birch.channel(wrong)
            with pytest.raises(ValueError, match="cannot name"):
                Agent("elm").channel(wrong)
        reviews = birch.channel("reviews")
        post = await reviews.post("draft")
        with pytest.raises(unknot.Refused):
            await reviews.post("No Type")
        with pytest.raises(unknot.Refused):
            await reviews.wait_for_post("No Type")
        with pytest.raises(unknot.Refused):
            await reviews.wait_for_reaction(post, "No Type")
        with pytest.raises(unknot.Refused):
            await reviews.wait_for_reply(post, source="no one")


async def test_a_wait_for_a_post_takes_the_type_and_source_that_it_names(house: Gateway) -> None:
    async with member(house, "birch") as birch, member(house, "ash") as ash, member(house, "oak") as oak:
        reviews = birch.channel("reviews")
        waiting = asyncio.create_task(reviews.wait_for_post("draft.*", source="oak", timeout=HANG_S))
        await until_waits(house, 1)
        await ash.channel("reviews").post("draft.new", "of ash")
        await oak.channel("reviews").post("note", "another type")
        first = await oak.channel("reviews").post("draft.new", "of oak")
        assert (await waiting).id == first.id


async def test_an_event_for_one_agent_is_no_post(house: Gateway) -> None:
    async with member(house, "birch", serves=True) as birch, member(house, "ash") as ash:
        waiting = asyncio.create_task(birch.channel("reviews").wait_for_post(timeout=HANG_S))
        await until_waits(house, 1)
        await ash.send("birch", "draft", "for birch alone")
        asked = await ash.ask("@reviews", "draft", "a question", timeout=HANG_S)
        post = await ash.channel("reviews").post("draft", "for all")
        assert (await waiting).id == post.id
        assert asked.is_open


# ---- replies and reactions


async def test_a_reply_names_its_post_and_reaches_who_waits_for_it(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"])

    @elm.on("draft")
    async def draft(data: object, ctx: Context) -> None:
        await ctx.channel("reviews").reply(ctx.event, ["fine", data])

    async with team(house, elm) as birch:
        reviews = birch.channel("reviews")
        posts = [await reviews.post("draft", n) for n in range(3)]
        for n in (2, 0, 1):
            reply = await reviews.wait_for_reply(posts[n], timeout=HANG_S)
            assert (reply.response_to, reply.type, reply.source) == (posts[n].id, "draft.reply", "elm")
            assert reply.data == ["fine", n]


async def test_a_reply_that_is_faster_than_the_wait_counts_once(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"])
    replied = asyncio.Event()

    @elm.on("draft")
    async def draft(data: object, ctx: Context) -> None:
        await ctx.channel("reviews").reply(ctx.event, "first")
        await ctx.channel("reviews").reply(ctx.event, "second")
        replied.set()

    async with team(house, elm) as birch:
        reviews = birch.channel("reviews")
        post = await reviews.post("draft")
        await asyncio.wait_for(replied.wait(), HANG_S)
        found = [(await reviews.wait_for_reply(post, timeout=HANG_S)).data for _ in range(2)]
        assert found == ["first", "second"]
        with pytest.raises(unknot.WaitExpired) as caught:
            await reviews.wait_for_reply(post, timeout=QUIET_S)
        assert caught.value.chain == (f"post_reply:@reviews {post.id}",)


async def test_answers_to_a_post_that_the_program_let_go_are_kept_no_longer(house: Gateway) -> None:
    async with member(house, "birch") as birch, member(house, "elm") as elm:
        reviews = elm.channel("reviews")
        waiting = asyncio.create_task(reviews.wait_for_post("draft", timeout=HANG_S))
        await until_waits(house, 1)
        post = await birch.channel("reviews").post("draft")
        event = await waiting
        await reviews.react(event, "seen")
        await birch.channel("reviews").wait_for_reaction(post, timeout=HANG_S)
        del post
        await reviews.react(event, "seen")
        assert len(birch._links.session.posts) == 0


async def test_more_answers_than_are_kept_are_dropped_and_counted(
    house: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unknot._posts.KEPT_MAX", 3)
    async with member(house, "birch") as birch, member(house, "elm") as elm:
        post = await birch.channel("reviews").post("draft")
        for n in range(5):
            await elm.channel("reviews").react(post, "seen", n)
        ended = asyncio.create_task(birch.channel("reviews").wait_for_post("end", timeout=HANG_S))
        await until_waits(house, 1)
        await elm.channel("reviews").post("end")
        await ended  # what came before it on the same way has come
        assert birch.counters["answers_dropped"] == 2
        reviews = birch.channel("reviews")
        assert [(await reviews.wait_for_reaction(post, timeout=HANG_S)).data for _ in range(3)] == [0, 1, 2]


async def test_a_reaction_is_taken_by_its_name_and_source(house: Gateway) -> None:
    async with member(house, "birch") as birch, member(house, "elm") as elm, member(house, "oak") as oak:
        reviews = birch.channel("reviews")
        post = await reviews.post("draft")
        await oak.channel("reviews").react(post, "seen")
        await oak.channel("reviews").react(post, "approved")
        await elm.channel("reviews").react(post, "approved", {"by": "elm"})
        approved = await reviews.wait_for_reaction(post, "approved", source="elm", timeout=HANG_S)
        assert (approved.type, approved.response_to) == ("reaction.approved", post.id)
        assert approved.data == {"by": "elm"}
        assert (await reviews.wait_for_reaction(post, timeout=HANG_S)).type == "reaction.seen"
        assert (await reviews.wait_for_reaction(post, timeout=HANG_S)).source == "oak"


async def test_posts_replies_and_reactions_are_three_things(house: Gateway) -> None:
    """None is taken for another: each wait gets its own, whatever comes before."""
    async with member(house, "birch") as birch, member(house, "elm") as elm:
        reviews, mine = elm.channel("reviews"), birch.channel("reviews")
        post = await mine.post("draft")
        waits = [
            asyncio.create_task(wait)
            for wait in (
                mine.wait_for_post(timeout=HANG_S),
                mine.wait_for_reply(post, timeout=HANG_S),
                mine.wait_for_reaction(post, timeout=HANG_S),
            )
        ]
        await until_waits(house, 3)
        sent = [await reviews.react(post, "seen"), await reviews.reply(post), await reviews.post("other")]
        assert [(await wait).id for wait in waits] == [event.id for event in reversed(sent)]


async def test_a_reply_to_a_reply_keeps_its_type(house: Gateway) -> None:
    async with member(house, "birch") as birch:
        reviews = birch.channel("reviews")
        first = await reviews.reply(await reviews.post("draft"))
        assert (first.type, (await reviews.reply(first)).type) == ("draft.reply", "draft.reply")


async def test_any_member_may_wait_for_answers_to_the_post_of_another(house: Gateway) -> None:
    async with member(house, "birch") as birch, member(house, "elm") as elm, member(house, "oak") as oak:
        heard = [
            asyncio.create_task(each.channel("reviews").wait_for_post("draft", timeout=HANG_S))
            for each in (elm, oak)
        ]
        await until_waits(house, 2)
        await birch.channel("reviews").post("draft")
        first, second = await heard[0], await heard[1]
        waiting = asyncio.create_task(elm.channel("reviews").wait_for_reaction(first, timeout=HANG_S))
        await until_waits(house, 1)
        await oak.channel("reviews").react(second, "seen")
        assert (await waiting).source == "oak"


async def test_a_post_that_awaits_an_answer_is_not_replied_to_beside_it(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"])

    @elm.on("draft")
    async def draft(data: object, ctx: Context) -> str:
        with pytest.raises(unknot.Refused, match="return it"):
            await ctx.channel("reviews").reply(ctx.event, "lost")
        await ctx.channel("reviews").react(ctx.event, "seen")
        return "returned"

    async with team(house, elm) as birch:
        assert await birch.channel("reviews").post_and_wait("draft", timeout=HANG_S) == "returned"


# ---- asking all members


@dataclass
class Verdict:
    ok: bool


async def test_the_first_answer_of_a_member_counts(house: Gateway) -> None:
    elm, oak = Agent("elm", channels=["reviews"]), Agent("oak", channels=["reviews"])
    told = asyncio.Event()

    @elm.on("draft")
    async def draft(data: object) -> Verdict:
        return Verdict(ok=True)

    @oak.on("draft")
    async def slow(data: object, ctx: Context) -> Verdict:
        await ctx.abandoned.wait()
        told.set()
        return Verdict(ok=False)

    async with team(house, elm, oak) as birch:
        reviews = birch.channel("reviews")
        assert await reviews.post_and_wait("draft", into=Verdict, timeout=HANG_S) == Verdict(ok=True)
        await asyncio.wait_for(told.wait(), HANG_S)


async def test_members_that_all_wait_for_the_asker_are_a_deadlock(house: Gateway) -> None:
    """A request to a channel rests on the executions of its members; one that is free would be a way out."""
    asked: list[str] = []
    birch = Agent("birch", channels=["reviews"], blocking_waits="allow")
    members = [Agent(name, channels=["reviews"], blocking_waits="allow") for name in ("elm", "oak")]

    @birch.on("go")
    async def go(data: object, ctx: Context) -> object:
        return await ctx.channel("reviews").post_and_wait("draft", timeout=HANG_S)

    @birch.on("say")
    async def say(data: object) -> object:
        return data

    def asks_back(agent: Agent) -> None:
        @agent.on("draft")
        async def draft(data: object, ctx: Context) -> object:
            asked.append(agent.name)
            return await ctx.send_and_wait("birch", "say", timeout=HANG_S)

    for each in members:
        asks_back(each)
    async with AsyncExitStack() as stack:
        for each in (birch, *members):
            await stack.enter_async_context(each.running(house.nats, network=house.network, main_runs=False))
        cli = await stack.enter_async_context(member(house, "cli", channels=[]))
        with pytest.raises(unknot.HandlerFailed) as caught:
            await cli.send_and_wait("birch", "go", timeout=HANG_S)
        assert caught.value.type in ("DeadlockDetected", "HandlerFailed")
        assert sorted(asked) == ["elm", "oak"]


async def test_a_wait_for_the_reply_to_an_ask_rests_on_the_members(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"], blocking_waits="allow")

    @elm.on("draft")
    async def draft(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("birch", "say", timeout=HANG_S) if data == "back" else "fine"

    async with (
        elm.running(house.nats, network=house.network, main_runs=False),
        member(house, "birch", serves=True) as birch,
    ):
        reviews = birch.channel("reviews")
        asked = await birch.ask("@reviews", "draft", timeout=HANG_S)
        reply = await reviews.wait_for_reply(asked, timeout=HANG_S)
        assert (reply.source, reply.response_to, reply.data) == ("elm", asked.id, "fine")
        with pytest.raises(TypeError):
            await reviews.wait_for_reply(asked, source="elm")
        back = await birch.ask("@reviews", "draft", "back", timeout=HANG_S)
        with pytest.raises(unknot.WaitFailed) as caught:
            await reviews.wait_for_reply(back, timeout=HANG_S)
        assert "DeadlockDetected" in (type(caught.value).__name__, getattr(caught.value, "type", ""))


async def test_handlers_that_wait_for_posts_of_each_other_are_no_deadlock(house: Gateway) -> None:
    """Anybody may post: such waits are listed, hold their slot, and are ended by the post."""
    agents = [Agent(name, channels=["reviews"], blocking_waits="allow") for name in ("elm", "oak")]

    def waits_for(agent: Agent, other: str) -> None:
        @agent.on("go")
        async def go(data: object, ctx: Context) -> object:
            return (await ctx.channel("reviews").wait_for_post("news", source=other, timeout=HANG_S)).data

        @agent.on("tell")
        async def tell(data: object, ctx: Context) -> None:
            await ctx.channel("reviews").post("news", f"of {agent.name}")

    waits_for(agents[0], "oak")
    waits_for(agents[1], "elm")
    async with team(house, *agents) as birch:
        asking = [
            asyncio.create_task(birch.send_and_wait(name, "go", timeout=HANG_S)) for name in ("elm", "oak")
        ]
        await until_waits(house, 2)
        await asyncio.sleep(1.2)  # longer than a sweep
        listed = [row for row in await rows(house, "waits") if row["kind"] == "post"]
        assert sorted((row["waiter"], row["target"]) for row in listed) == [
            ("elm", "@reviews news"),
            ("oak", "@reviews news"),
        ]
        assert not any(row["stuck"] for row in await rows(house, "waits"))
        for name in ("elm", "oak"):
            async with unknot.connect(name, house.nats, network=house.network, serves=False) as twin:
                await twin.channel("reviews").post("news", f"of {name}")
        assert sorted([await asking[0], await asking[1]]) == ["of elm", "of oak"]
        assert not [row for row in await rows(house, "waits") if row["kind"] == "post"]


async def test_a_wait_that_is_cancelled_is_closed(house: Gateway) -> None:
    async with member(house, "birch") as birch:
        waiting = asyncio.create_task(birch.channel("reviews").wait_for_post(timeout=HANG_S))
        await until_waits(house, 1)
        waiting.cancel()
        await until_waits(house, 0)
        assert len(birch._links.session.pending) == 0


async def test_a_wait_for_a_post_in_a_handler_obeys_forbid(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"], blocking_waits="forbid")

    @elm.on("go")
    async def go(data: object, ctx: Context) -> None:
        await ctx.channel("reviews").wait_for_post(timeout=HANG_S)

    async with team(house, elm) as birch:
        with pytest.raises(unknot.HandlerFailed, match="blocking_waits"):
            await birch.send_and_wait("elm", "go", timeout=HANG_S)


# ---- the channel of a declared agent, and code that blocks


async def test_an_agents_channel_makes_it_a_member_and_acts_for_what_runs(house: Gateway) -> None:
    elm = Agent("elm", concurrency=2, blocking_waits="allow")
    reviews = elm.channel("reviews")
    assert elm.channel("@reviews").name == "reviews"

    @elm.on("go")
    async def go(data: object) -> object:
        post = await reviews.post("draft", data)
        return (await reviews.wait_for_reply(post, timeout=HANG_S)).data

    async with (
        elm.running(house.nats, network=house.network) as me,
        member(house, "birch", serves=True) as birch,
    ):
        asking = asyncio.create_task(birch.send_and_wait("elm", "go", "knots", timeout=HANG_S))
        event = await birch.channel("reviews").wait_for_post("draft", timeout=HANG_S)
        listed = await waiting_rows(house, "post_reply")
        assert [row["execution"] != "main" for row in listed] == [True], "the handler waits, not main"
        await birch.channel("reviews").reply(event, ["fine", event.data])
        assert await asking == ["fine", "knots"]
        waiting = asyncio.create_task(reviews.wait_for_post("note", timeout=HANG_S))
        await waiting_rows(house, "post")
        await birch.channel("reviews").post("note", "to main")
        assert (await waiting).data == "to main"
        del me
    with pytest.raises(unknot.UnknotError, match="0 places"):
        await reviews.post("draft")


async def test_an_agents_channel_is_not_guessed_where_it_runs_twice(house: Gateway) -> None:
    elm = Agent("elm")
    reviews = elm.channel("reviews")
    async with (
        elm.running(house.nats, network=house.network),
        elm.running(house.nats, network=house.network),
    ):
        with pytest.raises(unknot.UnknotError, match="2 places"):
            await reviews.post("draft")


async def test_a_plain_function_uses_a_channel_from_its_thread(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"], blocking_waits="allow")

    @elm.on("go")
    def go(data: object, ctx: ThreadContext) -> object:
        reviews = ctx.channel("reviews")
        post = reviews.post("draft", data)
        reaction = reviews.wait_for_reaction(post, "approved", timeout=HANG_S)
        return [reaction.source, reviews.post_and_wait("sum", [1, 2], into=int, timeout=HANG_S)]

    oak = Agent("oak", channels=["reviews"])

    @oak.on("draft")
    async def draft(data: object, ctx: Context) -> None:
        await ctx.channel("reviews").react(ctx.event, "approved")

    @oak.on("sum")
    async def add(data: list[int]) -> int:
        return sum(data)

    async with team(house, elm, oak) as birch:
        assert await birch.send_and_wait("elm", "go", timeout=HANG_S) == ["oak", 3]


async def test_code_without_a_loop_uses_a_channel(house: Gateway) -> None:
    elm = Agent("elm", channels=["reviews"])

    @elm.on("draft")
    async def draft(data: object, ctx: Context) -> None:
        await ctx.channel("reviews").reply(ctx.event, data)
        await ctx.channel("reviews").post("note", data)

    def blocks() -> tuple[Post, Event]:
        with unknot.sync.connect(
            "cli", house.nats, network=house.network, serves=False, channels=["reviews"]
        ) as me:
            reviews = me.channel("reviews")
            assert reviews.name == "reviews"
            post = reviews.post("draft", "knots")
            reply = reviews.wait_for_reply(post, timeout=HANG_S)
            reviews.react(reply, "seen")
            reviews.reply(reply)
            with pytest.raises(unknot.WaitExpired):
                reviews.wait_for_post("never", timeout=QUIET_S)
            return post, reply

    async with team(house, elm):
        post, reply = await asyncio.to_thread(blocks)
    assert (reply.data, reply.response_to) == ("knots", post.id)


async def waiting_rows(house: Gateway, kind: str) -> list[dict[str, Any]]:
    """The open waits of this kind, as soon as there are any."""
    for _ in range(POLLS):
        if found := [row for row in await rows(house, "waits") if row["kind"] == kind]:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"nobody waits for a {kind}")


async def until_waits(house: Gateway, count: int) -> None:
    """Until that many waits for events of channels are open."""
    for _ in range(POLLS):
        if len([row for row in await rows(house, "waits") if row["kind"] in WAITS]) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"there are not {count} waits")
