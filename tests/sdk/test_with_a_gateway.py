"""The client against the real gateway: what users do."""

import asyncio
import threading
import time
from typing import Any

import pytest

import unknot
import unknot.sync
from unknot import Agent, Context, testing


@pytest.fixture(scope="module")
def hosted() -> Any:
    """One gateway for this module, in a thread of its own loop: a network for each test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    opened = testing.gateway("--log-level", "error")
    gateway = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(30)
    yield gateway
    asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def gateway(hosted: testing.Gateway) -> testing.Gateway:
    return hosted


def echo_agent(name: str, **options: Any) -> Agent:
    agent = Agent(name, **options)

    @agent.on("echo")
    async def echo(data: Any) -> Any:
        return data

    return agent


async def test_a_request_is_answered(gateway: testing.Gateway) -> None:
    async with gateway.running(echo_agent("elm")) as me:
        assert await me.send_and_wait("elm", "echo", {"n": 1}) == {"n": 1}
        assert await me.send_and_wait("agent:elm", "echo") is None


async def test_bug_003_fifteen_waits_have_fifteen_echoes_of_their_own(gateway: testing.Gateway) -> None:
    async with gateway.running(echo_agent("elm", concurrency=5)) as me:
        for n in range(10):
            assert await me.send_and_wait("elm", "echo", n) == n
        together = await asyncio.gather(*(me.send_and_wait("elm", "echo", n) for n in range(5)))
        assert together == list(range(5))


async def test_two_handlers_that_block_on_each_other_are_both_told(gateway: testing.Gateway) -> None:
    elm, oak = Agent("elm", blocking_waits="allow"), Agent("oak", blocking_waits="allow")
    found: list[unknot.DeadlockDetected] = []

    def blocks_on(other: str) -> Any:
        async def handle(data: object, ctx: Context) -> str:
            try:
                await ctx.send_and_wait(other, "say", timeout=30)
            except unknot.DeadlockDetected as deadlock:
                found.append(deadlock)
                raise
            raise AssertionError

        return handle

    elm.on("say")(blocks_on("oak"))
    oak.on("say")(blocks_on("elm"))
    async with gateway.running(elm, oak) as me:
        began = time.monotonic()
        with pytest.raises(unknot.HandlerFailed) as caught:
            await me.send_and_wait("elm", "say", timeout=30)
        assert caught.value.type == "DeadlockDetected"
        assert found[0].cycle == ("elm", "oak", "elm")
        assert "concurrency=2" in found[0].remedy
        assert time.monotonic() - began < 10  # and not 30


async def test_with_a_second_slot_the_same_two_are_answered(gateway: testing.Gateway) -> None:
    elm = Agent("elm", concurrency=2)
    oak = Agent("oak", concurrency=2)

    @elm.on("say")
    async def say(depth: int, ctx: Context) -> int:
        return depth if depth == 0 else await ctx.send_and_wait("oak", "say", depth - 1)

    @oak.on("say")
    async def say_oak(depth: int, ctx: Context) -> int:
        return depth if depth == 0 else await ctx.send_and_wait("elm", "say", depth - 1)

    async with gateway.running(elm, oak) as me:
        assert await me.send_and_wait("elm", "say", 3) == 0


async def test_two_scripts_that_wait_for_each_other_are_both_told(gateway: testing.Gateway) -> None:
    network = next(gateway._free)
    async with unknot.connect("birch", gateway.url, network=network) as birch:

        async def elm_main() -> str:
            async with unknot.connect("elm", gateway.url, network=network) as elm:
                try:
                    await elm.send_and_wait("birch", "say", timeout=30)
                except unknot.DeadlockDetected as deadlock:
                    return str(deadlock.cycle)
                return "answered"

        other = asyncio.create_task(elm_main())
        with pytest.raises(unknot.DeadlockDetected) as caught:
            await birch.send_and_wait("elm", "say", timeout=30)
        assert caught.value.cycle == ("birch", "elm", "birch")
        assert await other == str(caught.value.cycle)


async def test_gathered_strands_that_block_in_a_cycle_are_found(gateway: testing.Gateway) -> None:
    """ctx.gather and plain asyncio.gather: the handler cannot go on while a branch cannot."""
    for gathers in ("joined", "plain"):
        elm, oak = Agent("elm", blocking_waits="allow"), echo_agent("oak", blocking_waits="allow")

        @elm.on("say")
        async def say(data: object, ctx: Context, gathers: str = gathers) -> object:
            branches = (ctx.send_and_wait("oak", "echo", 1), ctx.send_and_wait("oak", "back", timeout=20))
            if gathers == "joined":
                return await ctx.gather(*branches)
            return await asyncio.gather(*branches)

        @oak.on("back")
        async def back(data: object, ctx: Context) -> object:
            return await ctx.send_and_wait("elm", "say", timeout=20)

        async with gateway.running(elm, oak) as me:
            with pytest.raises(unknot.HandlerFailed) as caught:
                await me.send_and_wait("elm", "say", timeout=15)
            assert caught.value.type in ("DeadlockDetected", "HandlerFailed"), gathers


async def test_a_race_with_a_free_branch_is_no_deadlock(gateway: testing.Gateway) -> None:
    elm, oak, ash = Agent("elm"), Agent("oak", blocking_waits="allow"), Agent("ash")
    told: list[str] = []

    @elm.on("say")
    async def say(data: object, ctx: Context) -> object:
        answer = await ctx.wait_any([ctx.request("oak", "back"), ctx.request("ash", "slow")], timeout=20)
        return [answer.index, answer.data]

    @elm.on("tone")
    async def tone(data: object) -> str:
        return "low"

    @oak.on("back")
    async def back(data: object, ctx: Context) -> object:
        try:
            return await ctx.send_and_wait("elm", "tone", timeout=20)
        except unknot.DeadlockDetected:
            told.append("deadlock")
            raise

    @ash.on("slow")
    async def slow(data: object) -> str:
        await asyncio.sleep(0.3)
        return "free"

    async with gateway.running(elm, oak, ash) as me:
        assert await me.send_and_wait("elm", "say", timeout=15) == [1, "free"]
        assert told == []


async def test_all_of_several_answers_come_in_the_order_asked(gateway: testing.Gateway) -> None:
    async with gateway.running(echo_agent("elm"), echo_agent("oak")) as me:
        assert await me.wait_all([me.request("oak", "echo", n) for n in range(4)]) == [0, 1, 2, 3]
        two = await me.wait_quorum([me.request(name, "echo", name) for name in ("elm", "oak")], 1)
        assert [(answer.index, answer.data) for answer in two] in ([(0, "elm")], [(1, "oak")])
        with pytest.raises(unknot.Refused):
            await me.wait_quorum([me.request("elm", "echo")], 2)


async def test_the_first_failure_of_all_withdraws_the_others(gateway: testing.Gateway) -> None:
    elm = Agent("elm", concurrency=2)
    abandoned: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @elm.on("fail")
    async def fail(data: object) -> None:
        await asyncio.sleep(0.1)
        raise ValueError("no")

    @elm.on("wait")
    async def wait(data: object, ctx: Context) -> None:
        await ctx.abandoned.wait()
        abandoned.set_result(ctx.abandoned.reason)

    async with gateway.running(elm) as me:
        with pytest.raises(unknot.HandlerFailed, match="ValueError: no") as caught:
            await me.wait_all([me.request("elm", "wait"), me.request("elm", "fail")])
        assert "handler_failed" in [failure.code for failure in caught.value.failures]
        async with asyncio.timeout(5):
            assert await abandoned


async def test_nobody_of_that_name_is_unreachable_and_an_unknown_type_is_refused(
    gateway: testing.Gateway,
) -> None:
    async with gateway.running(echo_agent("elm")) as me:
        with pytest.raises(unknot.Unreachable):
            await me.send_and_wait("nobody", "echo", wait_for_target=0.2)
        with pytest.raises(unknot.Refused) as caught:
            await me.send_and_wait("elm", "sing")
        assert caught.value.code == "not_subscribed"


async def test_an_agent_that_starts_a_little_later_is_waited_for(gateway: testing.Gateway) -> None:
    network = next(gateway._free)
    async with unknot.connect("birch", gateway.url, network=network, serves=False) as me:
        waiting = asyncio.create_task(me.send_and_wait("elm", "echo", 1))
        await asyncio.sleep(0.3)
        async with echo_agent("elm").running(gateway.url, network=network):
            assert await waiting == 1


async def test_a_script_serves_from_its_own_loop(gateway: testing.Gateway) -> None:
    network = next(gateway._free)
    served = []

    async def serve() -> None:
        async with unknot.connect("elm", gateway.url, network=network) as elm:
            async for event in elm.events():
                served.append(event.source)
                await elm.reply(event.data * 2)

    serving = asyncio.create_task(serve())
    async with unknot.connect("birch", gateway.url, network=network, serves=False) as me:
        for n in range(5):
            assert await me.send_and_wait("elm", "double", n) == 2 * n
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert served == ["birch"] * 5


async def test_an_ask_is_waited_for_by_expect_or_goes_on_by_itself(gateway: testing.Gateway) -> None:
    async with gateway.running(echo_agent("elm")) as me:
        asked = await me.ask("elm", "echo", 7)
        assert await me.expect(asked, timeout=5) == 7
        assert not asked.is_open
        assert await me.expect(asked) == 7
        got: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def on_reply(data: int) -> None:
            got.set_result(data)

        await me.ask("elm", "echo", 8, on_reply=on_reply)
        async with asyncio.timeout(5):
            assert await got == 8


async def test_the_continuation_pattern_answers_after_the_handler_has_returned(
    gateway: testing.Gateway,
) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: int, ctx: Context) -> None:
        async def on_reply(answer: int) -> None:
            await ctx.reply(answer + 1)

        ctx.defer()
        await ctx.ask("oak", "echo", data, on_reply=on_reply)

    async with gateway.running(elm, echo_agent("oak")) as me:
        assert await me.send_and_wait("elm", "say", 41, timeout=5) == 42


async def test_an_expected_event_is_handed_to_who_waits_for_it(gateway: testing.Gateway) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        await ctx.send(ctx.event.source, "thread.done", "tied")

    async with gateway.running(elm) as me:
        waiting = asyncio.create_task(me.expect("thread.*", source="elm", timeout=5))
        await asyncio.sleep(0.1)
        await me.send("elm", "say")
        event = await waiting
        assert (event.type, event.data, event.source) == ("thread.done", "tied", "elm")


async def test_a_channel_reaches_its_members(gateway: testing.Gateway) -> None:
    heard: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
    agents = []
    for name in ("elm", "oak"):
        agent = Agent(name, channels=["team"])

        @agent.on("news")
        async def news(data: object, ctx: Context) -> str:
            await heard.put((ctx.agent, data))
            return ctx.agent

        agents.append(agent)
    async with gateway.running(*agents) as me:
        await me.send("@team", "news", "up")
        async with asyncio.timeout(5):
            assert {await heard.get(), await heard.get()} == {("elm", "up"), ("oak", "up")}
        assert await me.send_and_wait("@team", "news", timeout=5) in ("elm", "oak")


async def test_a_topic_reaches_whoever_listens(gateway: testing.Gateway) -> None:
    elm = Agent("elm", topics=["build.>"])
    heard: asyncio.Queue[object] = asyncio.Queue()

    @elm.on("build.done")
    async def done(data: object) -> None:
        await heard.put(data)

    async with gateway.running(elm) as me:
        await asyncio.sleep(0.1)
        await me.publish("build.done", 3)
        async with asyncio.timeout(5):
            assert await heard.get() == 3


async def test_a_synchronous_script_asks_and_is_told(gateway: testing.Gateway) -> None:
    network = next(gateway._free)

    def script() -> object:
        with unknot.sync.connect("cli", gateway.url, network=network, serves=False) as me:
            me.send("elm", "echo", 0)
            asked = me.ask("elm", "echo", 5)
            with pytest.raises(unknot.Refused):
                me.send_and_wait("elm", "sing")
            return [me.send_and_wait("elm", "echo", 4), me.expect(asked)]

    async with echo_agent("elm").running(gateway.url, network=network):
        assert await asyncio.to_thread(script) == [4, 5]


async def test_waiting_outside_is_no_deadlock_and_can_time_out(gateway: testing.Gateway) -> None:
    elm = Agent("elm")

    @elm.on("ocr")
    async def ocr(data: object, ctx: Context) -> str:
        async with ctx.blocking_on("tool", "ocr:b7"):
            await asyncio.sleep(0.05)
        try:
            async with ctx.blocking_on("human", "h1", timeout=0.2, reason="a signature"):
                await asyncio.sleep(30)
        except unknot.WaitExpired as expired:
            return " ".join(expired.chain)
        return "signed"

    async with gateway.running(elm) as me:
        assert "h1" in await me.send_and_wait("elm", "ocr", timeout=10)
