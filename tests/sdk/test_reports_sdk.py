"""Fault reports of other systems (tests/cases/reports.jsonl) that show best in handlers, against the real gateway."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import nats
import pytest

import unknot
from tests.support import gateway as support
from tests.support.gateway import Gateway
from unknot import Agent, Connection, Context

HANG_S = 20
"""Of waits that must not end by their timeout."""


@asynccontextmanager
async def running(house: Gateway, *agents: Agent, serves: bool = False) -> AsyncIterator[Connection]:
    """*agents* run in this program; gives a script named birch beside them."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent.running(house.nats, network=house.network, main_runs=False))
        yield await stack.enter_async_context(script(house, "birch", serves=serves))


def script(house: Gateway, name: str, **options: Any) -> Any:
    return unknot.connect(name, house.nats, network=house.network, **options)


async def two_scripts(house: Gateway, **options: Any) -> list[unknot.DeadlockDetected]:
    """Two scripts, each with a main of its own, wait for each other; what they are told."""

    async def waits(name: str, other: str) -> unknot.DeadlockDetected:
        async with script(house, name) as me:
            with pytest.raises(unknot.DeadlockDetected) as caught:
                await me.send_and_wait(other, "say", **options)
            return caught.value

    async with asyncio.TaskGroup() as tasks:
        told = [tasks.create_task(waits("birch", "elm")), tasks.create_task(waits("elm", "birch"))]
    return [task.result() for task in told]


async def rows(house: Gateway, endpoint: str) -> list[dict[str, Any]]:
    """A table of the gateway, as ``unknot waits list`` reads it."""
    client = await nats.connect(house.nats)
    answer = await client.request(f"unknot.{house.network}.api.{endpoint}", b"{}", timeout=5)
    await client.close()
    return json.loads(answer.data)["rows"]


def slow_echo(name: str, seconds: float, concurrency: int = 1) -> Agent:
    agent = Agent(name, concurrency=concurrency)

    @agent.on("echo")
    async def echo(data: Any) -> Any:
        await asyncio.sleep(seconds)
        return data

    return agent


# ---- correlation


async def test_bug_005_an_answer_never_belongs_to_an_older_request(house: Gateway) -> None:
    async with running(house, slow_echo("elm", 0.25, concurrency=5)) as birch:
        for n in range(5):
            try:
                assert await birch.send_and_wait("elm", "echo", n, timeout=0.1) == n
            except unknot.WaitExpired:
                continue


async def test_bug_006_an_answer_sent_as_a_new_blocking_request_is_told_as_a_cycle(house: Gateway) -> None:
    elm, oak = Agent("elm", blocking_waits="allow"), Agent("oak", blocking_waits="allow")
    found: list[unknot.DeadlockDetected] = []

    @oak.on("begin")
    async def begin(data: object, ctx: Context) -> object:
        try:
            return await ctx.send_and_wait("elm", "review", timeout=HANG_S)
        except unknot.DeadlockDetected as deadlock:
            found.append(deadlock)
            return "told"

    @elm.on("review")
    async def review(data: object, ctx: Context) -> object:
        with pytest.raises(unknot.DeadlockDetected) as caught:
            await ctx.send_and_wait("oak", "begin", "here is your answer", timeout=HANG_S)
        found.append(caught.value)
        return "too late"

    async with running(house, elm, oak) as birch:
        assert await birch.send_and_wait("oak", "begin", timeout=HANG_S) == "told"
    assert [deadlock.cycle for deadlock in found] == [("elm", "oak", "elm")] * 2
    assert found[0].incident == found[1].incident
    assert len(set(found[0].request_ids)) == 2


async def test_bug_007_after_the_longest_wait_only_on_error_runs_and_only_once(house: Gateway) -> None:
    calls: list[object] = []
    errors = asyncio.Queue[unknot.WaitFailed]()

    async def on_reply(data: object) -> None:
        calls.append(data)

    async with running(house, slow_echo("elm", 0.5)) as birch:
        await birch.ask("elm", "echo", 1, timeout=0.2, on_reply=on_reply, on_error=errors.put)
        assert isinstance(await errors.get(), unknot.WaitExpired)
        assert len(birch._links.session.pending) == 0
        assert (
            await birch.send_and_wait("elm", "echo", 2) == 2
        )  # the late answer to the first has come and gone
    assert not calls
    assert errors.empty()


async def test_bug_009_a_late_answer_to_a_cancelled_request_hurts_no_other(house: Gateway) -> None:
    elm, oak = slow_echo("elm", 0.3), slow_echo("oak", 0.4, concurrency=32)
    async with running(house, elm, oak) as birch:
        cancelled = asyncio.create_task(birch.send_and_wait("elm", "echo", 1))
        others = [asyncio.create_task(birch.send_and_wait("oak", "echo", n)) for n in range(2, 21)]
        await asyncio.sleep(0.1)
        cancelled.cancel()
        assert await asyncio.gather(*others) == list(range(2, 21))
        assert cancelled.cancelled()
        assert await birch.send_and_wait("elm", "echo", "still there") == "still there"


# ---- deadlock


async def test_bug_024_both_get_the_cycle_as_data_that_can_be_planned_with(house: Gateway) -> None:
    for failure in await two_scripts(house, timeout=45):
        assert failure.cycle == ("birch", "elm", "birch")
        assert len(failure.request_ids) == 2
        assert failure.remedy
        assert "birch -> elm -> birch" in str(failure)


async def test_bug_025_a_child_that_waits_for_its_delegating_parent_is_told(house: Gateway) -> None:
    elm = Agent("elm", blocking_waits="allow", heartbeat_s=0.5)

    @elm.on("delegate")
    async def delegate(data: object, ctx: Context) -> object:
        try:
            async with ctx.blocking_on("agent", "birch", timeout=HANG_S):
                await ctx.expect("message", source="birch", timeout=HANG_S)
        except unknot.DeadlockDetected as deadlock:
            return list(deadlock.cycle)
        return "never"

    async with (
        elm.running(house.nats, network=house.network, main_runs=False),
        script(house, "birch", heartbeat_s=0.5) as birch,
    ):
        with pytest.raises(unknot.DeadlockDetected) as caught:
            await birch.send_and_wait("elm", "delegate", timeout=HANG_S)
    assert caught.value.cycle == ("birch", "elm", "birch")


async def test_bug_028_a_script_that_asks_itself_is_told_at_once(house: Gateway) -> None:
    async with script(house, "birch") as birch:
        for name in ("birch", "agent:birch"):
            with pytest.raises(unknot.DeadlockDetected) as caught:
                await birch.send_and_wait(name, "say", timeout=HANG_S)
            assert caught.value.cycle == ("birch", "birch")


async def test_bug_031_a_tool_that_asks_its_caller_back_is_served_where_the_caller_is_reentrant(
    house: Gateway,
) -> None:
    oak, elm = Agent("oak", reentrant=True, blocking_waits="allow"), Agent("elm", blocking_waits="allow")

    @oak.on("plan")
    async def plan(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("elm", "tool", timeout=HANG_S)

    @oak.on("sample")
    async def sample(data: object) -> object:
        return "a completion"

    @elm.on("tool")
    async def tool(data: object, ctx: Context) -> object:
        return [await ctx.send_and_wait("oak", "sample", timeout=HANG_S)]

    async with running(house, oak, elm) as birch:
        assert await birch.send_and_wait("oak", "plan", timeout=HANG_S) == ["a completion"]


async def test_bug_032_a_question_to_a_human_inside_of_a_handler_is_seen_at_once(house: Gateway) -> None:
    elm, begun, answered = Agent("elm"), asyncio.Event(), asyncio.Event()

    @elm.on("tool")
    async def tool(data: object, ctx: Context) -> object:
        async with ctx.blocking_on("human", "h1", reason="may I delete it?"):
            await ctx.publish("seen")  # its Receipt follows the wait on the same connection
            begun.set()
            await answered.wait()
        return "deleted"

    async with running(house, elm) as birch:
        asking = asyncio.create_task(birch.send_and_wait("elm", "tool", timeout=HANG_S))
        await begun.wait()
        found = [row for row in await rows(house, "waits") if row["kind"] == "human"]
        assert found[0]["waiter"] == "elm"
        answered.set()
        assert await asking == "deleted"


async def test_bug_033_a_serial_handler_may_wait_for_an_agent_of_its_own_process(house: Gateway) -> None:
    elm, flint = Agent("elm", blocking_waits="allow"), slow_echo("flint", 0)

    @elm.on("work")
    async def work(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("flint", "echo", data)

    async with running(house, elm, flint) as birch:
        assert await birch.send_and_wait("elm", "work", 7) == 7


async def test_bug_033_in_strict_mode_it_raises_before_anything_is_sent(house: Gateway) -> None:
    elm = Agent("elm", blocking_waits="forbid")

    @elm.on("work")
    async def work(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("flint", "echo", data)

    async with running(house, elm) as birch:
        with pytest.raises(unknot.HandlerFailed):
            await birch.send_and_wait("elm", "work", 7)


async def test_bug_034_a_turn_that_a_timer_started_has_the_same_verdict(house: Gateway) -> None:
    elm = Agent("elm", blocking_waits="allow")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("birch", "say", timeout=HANG_S)

    async with running(house, elm, serves=True) as birch:
        await asyncio.sleep(0.05)  # the tick
        with pytest.raises((unknot.DeadlockDetected, unknot.HandlerFailed)) as caught:
            await birch.send_and_wait("elm", "say", timeout=HANG_S)
    assert isinstance(caught.value, unknot.DeadlockDetected) or caught.value.type == "DeadlockDetected"


async def test_bug_035_a_restarted_responder_that_calls_its_old_caller_is_served(house: Gateway) -> None:
    begun = asyncio.Event()
    elm = Agent("elm")

    @elm.on("work")
    async def work(data: object) -> object:
        begun.set()
        await asyncio.sleep(HANG_S)
        return None

    async with script(house, "birch") as birch:
        async with elm.running(house.nats, network=house.network):
            waiting = asyncio.create_task(birch.send_and_wait("elm", "work", timeout=HANG_S))
            await begun.wait()
        with pytest.raises(unknot.ResponderLost):
            await waiting
        async with script(house, "elm") as again:
            recovering = asyncio.create_task(again.send_and_wait("birch", "recover", timeout=HANG_S))
            async for _ in birch.events():
                await birch.reply("welcome back")
                break
            assert await recovering == "welcome back"


# ---- timeouts


async def test_bug_088_timed_out_requests_leave_no_waiter_behind(house: Gateway) -> None:
    mute = Agent("mute", concurrency=None)

    @mute.on("say")
    async def say(data: object, ctx: Context) -> None:
        await ctx.abandoned.wait()

    async with running(house, mute) as birch:
        for _ in range(5):
            asking = [birch.send_and_wait("mute", "say", timeout=0.05) for _ in range(100)]
            ends = await asyncio.gather(*asking, return_exceptions=True)
            assert {type(end) for end in ends} <= {unknot.WaitExpired, unknot.HandlerFailed}
        assert len(birch._links.session.pending) == 0
        assert not await rows(house, "waits")


async def test_bug_090_the_own_clock_ends_a_wait_though_the_gateway_stands_still() -> None:
    with support.running() as own:
        async with running(own, slow_echo("elm", HANG_S)) as birch:
            waiting = asyncio.create_task(birch.send_and_wait("elm", "echo", timeout=0.5))
            await asyncio.sleep(0.2)
            os.kill(own.pid, signal.SIGSTOP)
            try:
                with pytest.raises(unknot.WaitExpired):
                    await asyncio.wait_for(waiting, 5)
            finally:
                os.kill(own.pid, signal.SIGCONT)


async def test_bug_093_an_agent_that_is_alive_does_not_extend_a_wait(house: Gateway) -> None:
    elm = Agent("elm", heartbeat_s=0.5)

    @elm.on("work")
    async def work(data: object) -> None:
        await asyncio.sleep(HANG_S)

    async with running(house, elm) as birch:
        with pytest.raises(unknot.WaitExpired) as caught:
            await birch.send_and_wait("elm", "work", timeout=1.2)
    assert "elm" in caught.value.chain[0]


# ---- transport


async def test_bug_094_three_slots_serve_three_at_once(house: Gateway) -> None:
    elm, together = Agent("elm", concurrency=3), asyncio.Barrier(3)

    @elm.on("work")
    async def work(data: object) -> object:
        async with asyncio.timeout(10):
            await together.wait()
        return data

    async with running(house, elm) as birch:
        answers = await asyncio.gather(*(birch.send_and_wait("elm", "work", n) for n in range(3)))
    assert answers == [0, 1, 2]


async def test_bug_094_one_slot_serves_one_after_another(house: Gateway) -> None:
    elm, at_once, most = Agent("elm"), 0, 0

    @elm.on("work")
    async def work(data: object) -> object:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return data

    async with running(house, elm) as birch:
        answers = await asyncio.gather(*(birch.send_and_wait("elm", "work", n) for n in range(5)))
    assert answers == list(range(5))
    assert most == 1


async def test_bug_095_handlers_answer_and_ask_while_their_agents_queue_is_full(house: Gateway) -> None:
    elm, flint = Agent("elm", blocking_waits="allow"), slow_echo("flint", 0)

    @elm.on("work")
    async def work(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("flint", "echo", data, timeout=HANG_S)

    async with running(house, elm, flint) as birch:
        asking = (birch.send_and_wait("elm", "work", n, timeout=HANG_S) for n in range(50))
        assert await asyncio.gather(*asking) == list(range(50))


async def test_bug_096_a_loop_that_stops_reading_does_not_hold_up_its_own_requests(house: Gateway) -> None:
    async with running(house, slow_echo("elm", 0)) as birch, script(house, "flint") as flint:
        for n in range(200):
            await birch.send("flint", "news", n)
        assert [await flint.send_and_wait("elm", "echo", n) for n in range(5)] == list(range(5))


async def test_bug_099_metadata_cannot_switch_the_edge_of_a_blocking_wait_off(house: Gateway) -> None:
    await two_scripts(house, timeout=HANG_S, metadata={"blocking_wait": False, "wait_timeout": "none"})


# ---- handlers


async def test_bug_109_polling_for_an_answer_is_no_fault_and_expect_is_the_way_to_wait(
    house: Gateway,
) -> None:
    elm = Agent("elm", blocking_waits="allow")

    @elm.on("work")
    async def work(data: object, ctx: Context) -> object:
        asked = await ctx.ask("flint", "echo", "found")
        polls = 0
        while asked.is_open and polls < 5:
            polls += 1
            await asyncio.sleep(0.01)
        return [polls, await ctx.expect(asked, timeout=HANG_S)]

    async with running(house, elm, slow_echo("flint", 0.4)) as birch:
        assert await birch.send_and_wait("elm", "work", timeout=HANG_S) == [5, "found"]
