"""Fault reports about liveness (tests/cases/reports.jsonl), peers that name no request, and agents asked back."""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import nats
import pytest

import unknot
from tests.sdk.test_reports_sdk import HANG_S, rows, running, script, slow_echo
from tests.support.gateway import Gateway
from unknot import Agent, Context

AT_ONCE_S = 5.0
"""Far from every timeout here, far from what a busy machine needs."""


def serving(house: Gateway, agent: Agent) -> Any:
    return agent.running(house.nats, network=house.network, main_runs=False)


async def tables(house: Gateway) -> dict[str, int]:
    client = await nats.connect(house.nats)
    answer = await client.request(f"unknot.{house.network}.api.stats", b"{}", timeout=5)
    await client.close()
    found: dict[str, int] = msgspec.json.decode(answer.data)["tables"]
    return found


# ---- liveness


@pytest.mark.parametrize("was_there", [False, True])
async def test_bug_015_who_asks_an_agent_that_is_not_there_is_told_at_once(
    house: Gateway, was_there: bool
) -> None:
    """By the server's word where it was never seen, by the session table where it has left. Nothing is left open."""
    async with running(house) as birch:
        if was_there:
            async with serving(house, slow_echo("elm", 0)):
                await birch.send_and_wait("elm", "echo", timeout=HANG_S)
        began = time.monotonic()
        with pytest.raises(unknot.Unreachable) as caught:
            await birch.send_and_wait("elm", "echo", timeout=30, wait_for_target=0)
        assert time.monotonic() - began < AT_ONCE_S
        assert caught.value.handled == "no"
        assert not await rows(house, "waits")
        left = await tables(house)
        assert (left["messages"], left["edges"], left["queued"]) == (0, 0, 0)


@pytest.mark.parametrize("was_there", [False, True])
async def test_bug_015_who_waits_for_an_agent_to_start_is_answered_when_it_has(
    house: Gateway, was_there: bool
) -> None:
    async with running(house) as birch, AsyncExitStack() as later:
        if was_there:
            async with serving(house, slow_echo("elm", 0)):
                await birch.send_and_wait("elm", "echo", timeout=HANG_S)
        asking = asyncio.create_task(
            birch.send_and_wait("elm", "echo", "early", timeout=30, wait_for_target=HANG_S)
        )
        await asyncio.sleep(0.5)
        assert not asking.done()
        await later.enter_async_context(serving(house, slow_echo("elm", 0)))
        assert await asyncio.wait_for(asking, AT_ONCE_S) == "early"


async def test_bug_017_a_handler_that_raises_is_an_error_of_its_own_task_and_of_no_other(
    house: Gateway,
) -> None:
    flint, asked = Agent("flint"), asyncio.Event()

    @flint.on("task")
    async def task(data: object) -> object:
        raise RuntimeError("internal error")

    elm = Agent("elm")

    @elm.on("task")
    async def good(data: object) -> object:
        await asked.wait()
        return data

    async with running(house, elm, flint) as birch:
        first = asyncio.create_task(birch.send_and_wait("elm", "task", "t1", timeout=30))
        began = time.monotonic()
        with pytest.raises(unknot.HandlerFailed, match="internal error") as caught:
            await birch.send_and_wait("flint", "task", "t2", timeout=30)
        assert time.monotonic() - began < AT_ONCE_S
        assert not first.done(), "the other task goes on"
        assert caught.value.type == "RuntimeError"
        assert caught.value.request_id
        assert caught.value.handled == "yes"
        asked.set()
        assert await first == "t1"


async def test_bug_017_a_gather_has_one_result_and_one_error(house: Gateway) -> None:
    birch, flint = Agent("birch", blocking_waits="allow"), Agent("flint")

    @flint.on("echo")
    async def fails(data: object) -> object:
        raise RuntimeError("internal error")

    @birch.on("plan")
    async def plan(data: object, ctx: Context) -> list[str]:
        tasks = (ctx.send_and_wait(name, "echo", name, timeout=30) for name in ("elm", "flint"))
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return [end if isinstance(end, str) else type(end).__name__ for end in ends]

    async with (
        serving(house, birch),
        serving(house, slow_echo("elm", 0.2)),
        serving(house, flint),
        script(house, "cli") as cli,
    ):
        assert await cli.send_and_wait("birch", "plan", timeout=HANG_S) == ["elm", "HandlerFailed"]


async def test_bug_023_the_timeout_of_the_first_request_is_its_own(house: Gateway) -> None:
    elm = Agent("elm", concurrency=None)

    @elm.on("echo")
    async def echo(data: object) -> object:
        await asyncio.sleep(HANG_S if data == "first" else 0)
        return data

    async with running(house, elm) as birch:
        with pytest.raises(unknot.WaitExpired):
            await birch.send_and_wait("elm", "echo", "first", timeout=0.1)
        answers = await asyncio.gather(
            *(birch.send_and_wait("elm", "echo", n, timeout=HANG_S) for n in range(50))
        )
        assert answers == list(range(50))


# ---- timeouts


@pytest.mark.parametrize("total", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
async def test_bug_088_what_timed_out_a_thousand_at_a_time_is_in_no_table(house: Gateway, total: int) -> None:
    """The report's 100 000 requests in ``make soak``, a part of them in every run."""
    mute = Agent("mute", concurrency=None)

    @mute.on("say")
    async def say(data: object, ctx: Context) -> None:
        await ctx.abandoned.wait()

    async with running(house, mute) as birch:
        for _ in range(total // 1_000):
            asking = [birch.send_and_wait("mute", "say", timeout=0.01) for _ in range(1_000)]
            ends = await asyncio.gather(*asking, return_exceptions=True)
            assert {type(end) for end in ends} <= {unknot.WaitExpired, unknot.HandlerFailed}
        session = birch._links.session
        assert len(session.pending) == 0
        assert session.pending.deadlines <= 3_000, "a thousand, and two for each that was open at a time"
        assert not await rows(house, "waits")
        left = await tables(house)
        assert (left["messages"], left["waits"], left["edges"]) == (0, 0, 0)
        assert left["remembered"] <= 100_000


# ---- peers that answer without naming the request


async def peer(house: Gateway, name: str, *, says: str) -> Any:
    """A program that knows NATS alone: what it is asked it answers by an event of type *says* to who asked."""
    client = await nats.connect(house.nats)
    root = f"unknot.{house.network}"

    async def answer(message: Any) -> None:
        event = msgspec.json.decode(message.data)
        if event["requires_response"]:
            body = msgspec.json.encode({"to": event["data"]})
            await client.publish(f"{root}.in.{name}.send.{event['source']}.{says}", body)

    await client.subscribe(f"{root}.out.{name}.0.event.>", cb=answer)
    await client.flush()
    return client


@pytest.mark.parametrize(
    ("says", "accepts"), [("review.reply", True), ("done.now", "done.>"), ("review", "review")]
)
async def test_a_peer_that_names_no_request_answers_by_an_event(
    house: Gateway, says: str, accepts: bool | str
) -> None:
    old = await peer(house, "old", says=says)
    async with script(house, "birch", serves=False) as birch:
        for n in range(3):
            answer = await birch.send_and_wait(
                "old", "review", n, timeout=HANG_S, accept_uncorrelated=accepts, into=dict[str, int]
            )
            assert answer == {"to": n}
    await old.close()


async def test_two_requests_to_such_a_peer_are_never_mixed_up(house: Gateway) -> None:
    """Neither event can be told to answer one of them: both go on as events, and both waits end by their time."""
    old = await peer(house, "old", says="review.reply")
    async with script(house, "birch") as birch:
        asking = [
            birch.send_and_wait("old", "review", n, timeout=1, accept_uncorrelated=True) for n in range(2)
        ]
        ends = asyncio.gather(*asking, return_exceptions=True)
        found = []
        async for event in birch.events():
            found.append(event.data["to"])
            if len(found) == 2:
                break
        assert sorted(found) == [0, 1]
        assert {type(end) for end in await ends} == {unknot.WaitExpired}
    await old.close()


async def test_an_event_of_a_handler_may_be_the_answer_and_its_return_is_no_second_one(
    house: Gateway,
) -> None:
    elm = Agent("elm")

    @elm.on("review")
    async def review(data: object, ctx: Context) -> str:
        await ctx.send(ctx.event.source, "review.reply", "by an event")
        return "by name"

    async with running(house, elm) as birch:
        for _ in range(3):
            answer = await birch.send_and_wait("elm", "review", timeout=HANG_S, accept_uncorrelated=True)
            assert answer == "by an event"


async def test_a_pattern_that_can_be_none_is_refused_before_anything_is_sent(house: Gateway) -> None:
    async with running(house) as birch:
        with pytest.raises(unknot.Refused, match="pattern"):
            await birch.send_and_wait("elm", "review", accept_uncorrelated="No Type")


# ---- agents that are asked back


def asked_back(reentrant: bool) -> tuple[Agent, Agent, list[unknot.DeadlockDetected]]:
    """a with one slot asks b, which asks a back; what a was told."""
    a, b = Agent("a", reentrant=reentrant, blocking_waits="allow"), Agent("b", blocking_waits="allow")
    told: list[unknot.DeadlockDetected] = []

    @a.on("plan")
    async def plan(data: object, ctx: Context) -> object:
        try:
            return await ctx.send_and_wait("b", "work", data, timeout=HANG_S)
        except unknot.DeadlockDetected as knot:
            told.append(knot)
            raise

    @a.on("detail")
    async def detail(data: int) -> int:
        return data + 1

    @b.on("work")
    async def work(data: object, ctx: Context) -> object:
        return [await ctx.send_and_wait("a", "detail", data, timeout=HANG_S)]

    return a, b, told


async def test_a_reentrant_agent_is_asked_back_in_its_only_slot(house: Gateway) -> None:
    a, b, told = asked_back(reentrant=True)
    async with running(house, a, b) as birch:
        assert await birch.send_and_wait("a", "plan", 1, timeout=HANG_S) == [2]
        several = [birch.send_and_wait("a", "plan", n, timeout=HANG_S) for n in range(5)]
        assert await asyncio.gather(*several) == [[n + 1] for n in range(5)]
    assert told == []


async def test_without_it_the_same_two_are_a_deadlock(house: Gateway) -> None:
    a, b, told = asked_back(reentrant=False)
    async with running(house, a, b) as birch:
        began = time.monotonic()
        with pytest.raises(unknot.HandlerFailed):
            await birch.send_and_wait("a", "plan", 1, timeout=HANG_S)
        assert time.monotonic() - began < AT_ONCE_S
    assert [knot.cycle for knot in told] == [("a", "b", "a")]


async def test_a_chain_of_another_has_no_way_into_the_slot_of_a_reentrant_agent(house: Gateway) -> None:
    """a's slot is taken by birch's request; what flint asks of its own accord waits for it."""
    a, begun, go_on = Agent("a", reentrant=True), asyncio.Event(), asyncio.Event()

    @a.on("hold")
    async def hold(data: object) -> str:
        begun.set()
        await go_on.wait()
        return "held"

    @a.on("detail")
    async def detail(data: object) -> str:
        return "served"

    async with running(house, a) as birch, script(house, "flint", serves=False) as flint:
        holding = asyncio.create_task(birch.send_and_wait("a", "hold", timeout=HANG_S))
        await begun.wait()
        asking = asyncio.create_task(flint.send_and_wait("a", "detail", timeout=HANG_S))
        for _ in range(2_000):
            if [row for row in await rows(house, "waits") if row["waiter"] == "flint"]:
                break
            await asyncio.sleep(0.01)
        states = {row["waiter"]: row["state"] for row in await rows(house, "waits")}
        assert states == {"birch": "running", "flint": "queued"}
        go_on.set()
        assert (await holding, await asking) == ("held", "served")
