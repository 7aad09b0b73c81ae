"""Laws that a hostile reader found broken, through the public client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import unknot
from unknot import Agent, Context, testing


@pytest.fixture
async def gateway() -> AsyncIterator[testing.Gateway]:
    async with testing.gateway("--log-level", "error") as opened:
        yield opened


async def test_a_main_loop_that_hands_its_events_to_tasks_is_not_in_a_knot(gateway: testing.Gateway) -> None:
    """FALSE DEADLOCK. elm's loop gives each event to a task of its own, reads on, and asks birch itself."""
    birch = Agent("birch", concurrency=1, blocking_waits="allow")
    told: list[BaseException] = []

    @birch.on("start")
    async def start(data: Any, ctx: Context) -> Any:
        del data
        return await ctx.send_and_wait("elm", "slow", timeout=10)

    @birch.on("ping")
    async def ping(data: Any) -> str:
        del data
        return "pong"

    tasks: list[asyncio.Task[Any]] = []
    up = asyncio.Event()

    async def script() -> None:
        async with unknot.connect("elm", gateway.url, network="test0") as elm:
            up.set()
            async for event in elm.events():
                if event.type == "slow":
                    tasks.append(asyncio.create_task(answer_slowly(elm, event)))
                    continue
                try:
                    await elm.send_and_wait("birch", "ping", timeout=10)
                except unknot.DeadlockDetected as knot:
                    told.append(knot)

    async def answer_slowly(elm: Any, event: unknot.Event) -> None:
        await asyncio.sleep(1.0)
        await elm.reply("done", to=event)

    async with gateway.running(birch) as me:
        running = asyncio.create_task(script())
        try:
            await asyncio.wait_for(up.wait(), 10)
            started = asyncio.create_task(me.send_and_wait("birch", "start", timeout=10))
            await asyncio.sleep(0.3)
            await me.send("elm", "go")
            try:
                assert await started == "done"
            except unknot.WaitFailed as why:
                told.append(why)
            assert told == []
        finally:
            running.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(running, *tasks, return_exceptions=True)


async def test_a_serial_agent_runs_one_handler_also_after_an_expect(gateway: testing.Gateway) -> None:
    birch = Agent("birch", concurrency=1, blocking_waits="allow")
    running = 0
    most = 0

    @birch.on("start")
    async def start(data: Any, ctx: Context) -> str:
        del data
        nonlocal running, most
        running += 1
        most = max(most, running)
        first = await ctx.expect("news", timeout=5)
        await asyncio.sleep(0.5)
        running -= 1
        return str(first.data)

    @birch.on("news")
    async def news(data: Any) -> None:
        del data
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1

    async with gateway.running(birch) as me:
        started = asyncio.create_task(me.send_and_wait("birch", "start", timeout=10))
        await asyncio.sleep(0.2)
        await me.send("birch", "news", 1)
        await me.send("birch", "news", 2)
        assert await started == "1"
        await asyncio.sleep(0.2)
    assert most == 1


async def test_the_answer_to_an_expected_question_closes_no_knot_with_its_successor(
    gateway: testing.Gateway,
) -> None:
    """FALSE DEADLOCK. After an expect is over, the next such question is a free handler's, not the waiter's."""
    birch = Agent("birch", concurrency=2, blocking_waits="allow")
    elm = Agent("elm", concurrency=1, blocking_waits="allow")
    told: list[str] = []

    @birch.on("start")
    async def start(data: Any, ctx: Context) -> str:
        del data
        await ctx.expect("question", timeout=5)
        await asyncio.sleep(0.3)
        return str(await ctx.send_and_wait("elm", "check", timeout=10))

    @birch.on("question")
    async def question(data: Any) -> str:
        del data
        await asyncio.sleep(1.0)
        return "answer"

    @elm.on("ask")
    async def ask(data: Any, ctx: Context) -> str:
        del data
        return str(await ctx.send_and_wait("birch", "question", timeout=10))

    @elm.on("check")
    async def check(data: Any) -> str:
        del data
        return "checked"

    async with gateway.running(birch, elm) as me:
        started = asyncio.create_task(me.send_and_wait("birch", "start", timeout=10))
        await asyncio.sleep(0.2)
        await me.send("birch", "question")
        asked = asyncio.create_task(me.send_and_wait("elm", "ask", timeout=10))
        for task in (asked, started):
            try:
                told.append(await task)
            except unknot.WaitFailed as why:
                told.append(repr(why))
    assert told == ["answer", "checked"]


async def test_who_expected_a_question_may_let_a_task_of_its_own_answer_it(gateway: testing.Gateway) -> None:
    """FALSE DEADLOCK. The handler takes elm's question, gives it to a task, and asks elm something itself."""
    birch = Agent("birch", concurrency=1, blocking_waits="allow")
    elm = Agent("elm", concurrency=1, blocking_waits="allow")
    told: list[str] = []
    tasks: list[asyncio.Task[Any]] = []

    @birch.on("start")
    async def start(data: Any, ctx: Context) -> str:
        del data
        asked = await ctx.expect("question", timeout=5)

        async def later() -> None:
            await asyncio.sleep(1.0)
            await ctx.reply("answer", to=asked)

        tasks.append(asyncio.create_task(later()))
        return str(await ctx.send_and_wait("elm", "check", timeout=10))

    @elm.on("ask")
    async def ask(data: Any, ctx: Context) -> str:
        del data
        return str(await ctx.send_and_wait("birch", "question", timeout=10))

    @elm.on("check")
    async def check(data: Any) -> str:
        del data
        return "checked"

    async with gateway.running(birch, elm) as me:
        started = asyncio.create_task(me.send_and_wait("birch", "start", timeout=10))
        await asyncio.sleep(0.2)
        asked = asyncio.create_task(me.send_and_wait("elm", "ask", timeout=10))
        for task in (asked, started):
            try:
                told.append(await task)
            except unknot.WaitFailed as why:
                told.append(repr(why))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert told == ["answer", "checked"]


async def test_a_script_may_expect_in_another_order_than_things_come(gateway: testing.Gateway) -> None:
    async with gateway.running(me="tester") as me, unknot.connect("elm", gateway.url, network="test0") as elm:

        async def tell() -> None:
            await asyncio.sleep(0.2)
            await me.send("elm", "second")
            await asyncio.sleep(0.2)
            await me.send("elm", "first")

        telling = asyncio.create_task(tell())
        await elm.expect("first", timeout=3)
        await telling
        assert (await elm.expect("second", timeout=3)).type == "second"


async def test_a_task_between_two_expects_is_somebody_who_can_go_on(gateway: testing.Gateway) -> None:
    """FALSE DEADLOCK. A script waits for elm's job while a task of it answers elm's questions, one after another."""
    elm = Agent("elm", concurrency=1, blocking_waits="allow")

    @elm.on("job")
    async def job(data: Any, ctx: Context) -> list[Any]:
        del data
        return [await ctx.send_and_wait("birch", "question", n, timeout=10) for n in range(2)]

    async with gateway.running(elm), unknot.connect("birch", gateway.url, network="test0") as birch:

        async def answer_questions() -> None:
            while True:
                question = await birch.expect("question", timeout=20)
                await birch.reply(question.data, to=question)
                await asyncio.sleep(0.3)  # writes it down somewhere

        answering = asyncio.create_task(answer_questions())
        await asyncio.sleep(0.2)
        try:
            assert await birch.send_and_wait("elm", "job", timeout=10) == [0, 1]
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


async def test_a_loop_that_reads_in_a_task_of_its_own_reads_on_while_main_waits(
    gateway: testing.Gateway,
) -> None:
    """FALSE DEADLOCK. A script serves its events in a background task, and waits for elm, who asks it something."""
    elm = Agent("elm", concurrency=1, blocking_waits="allow")

    @elm.on("job")
    async def job(data: Any, ctx: Context) -> Any:
        del data
        return await ctx.send_and_wait("birch", "question", 7, timeout=10)

    async with gateway.running(elm), unknot.connect("birch", gateway.url, network="test0") as birch:
        answers: list[asyncio.Task[Any]] = []

        async def answer(event: unknot.Event) -> None:
            await asyncio.sleep(0.1)
            await birch.reply(event.data, to=event)

        async def serve() -> None:
            async for event in birch.events():
                task = asyncio.create_task(answer(event))
                answers.append(task)

        serving = asyncio.create_task(serve())
        await asyncio.sleep(0.2)
        try:
            assert await birch.send_and_wait("elm", "job", timeout=10) == 7
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def test_a_task_that_writes_to_a_third_agent_between_two_expects_goes_on(
    gateway: testing.Gateway,
) -> None:
    """FALSE DEADLOCK. As above, but between its expects the task waits for `db`, which answers after 0.3 s."""
    elm, db = Agent("elm", concurrency=1, blocking_waits="allow"), Agent("db", concurrency=4)

    @elm.on("job")
    async def job(data: Any, ctx: Context) -> list[Any]:
        del data
        return [await ctx.send_and_wait("birch", "question", n, timeout=10) for n in range(2)]

    @db.on("write")
    async def write(data: Any) -> None:
        del data
        await asyncio.sleep(0.3)

    async with gateway.running(elm, db), unknot.connect("birch", gateway.url, network="test0") as birch:

        async def answer_questions() -> None:
            while True:
                question = await birch.expect("question", timeout=20)
                await birch.reply(question.data, to=question)
                await birch.send_and_wait("db", "write", question.data, timeout=10)

        answering = asyncio.create_task(answer_questions())
        await asyncio.sleep(0.2)
        try:
            assert await birch.send_and_wait("elm", "job", timeout=10) == [0, 1]
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
