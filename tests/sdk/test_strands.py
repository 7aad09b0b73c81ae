"""DESIGN section 4 and WIRE sections 6 and 7, the client's half: who waits, and the facts about it."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import unknot
import unknot.sync
from tests.sdk.fake import Fake, Seen
from unknot import Agent, Context
from unknot._strands import facts
from unknot_schemas import bodies


@asynccontextmanager
async def handling(fake: Fake, body: Any, **options: Any) -> AsyncIterator[None]:
    """elm handles event e1 by *body*(ctx)."""
    elm = Agent("elm", blocking_waits="allow", **options)

    @elm.on("say")
    async def say(data: object, ctx: Context) -> Any:
        return await body(ctx)

    async with elm.running():
        await fake.deliver("elm", "say", id="e1", run="run_9104", traceparent="00-ab-cd-01")
        yield


def who(seen: Seen) -> tuple[str, bool, bool]:
    """Execution, whether it is the own task, whether it is detached."""
    return seen.body["execution"], "strand" not in seen.body, seen.body.get("detached", False)


async def test_what_a_handler_sends_names_the_event_it_handles(fake: Fake) -> None:
    async def body(ctx: Context) -> None:
        await ctx.send("oak", "tell")
        await ctx.send_and_wait("oak", "say")

    async with handling(fake, body):
        for verb in ("send", "request"):
            seen = await fake.next(verb)
            assert who(seen) == ("e1", True, False)
            assert (seen.body["run"], seen.body["traceparent"]) == ("run_9104", "00-ab-cd-01")
        await fake.answer(seen)
        await fake.next("reply")


async def test_plain_child_tasks_are_detached_strands_of_their_own(fake: Fake) -> None:
    async def body(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.send_and_wait("oak", "say"))
            group.create_task(ctx.send_and_wait("oak", "say"))

    async with handling(fake, body):
        one, two = await fake.next("request"), await fake.next("request")
        assert who(one) == who(two) == ("e1", False, True)
        assert one.body["strand"] != two.body["strand"]
        await fake.answer(one)
        await fake.answer(two)
        await fake.next("reply")


async def test_children_of_a_detached_strand_are_detached_also_when_gathered(fake: Fake) -> None:
    async def body(ctx: Context) -> None:
        async def child() -> None:
            await ctx.send_and_wait("oak", "first")
            await ctx.gather(ctx.send_and_wait("oak", "second"))

        await asyncio.create_task(child())

    async with handling(fake, body):
        first = await fake.next("request")
        await fake.answer(first)
        second = await fake.next("request")
        assert who(first) == who(second) == ("e1", False, True)
        assert first.body["strand"] != second.body["strand"]
        await fake.answer(second)
        await fake.next("reply")


async def test_ctx_gather_makes_joined_strands(fake: Fake) -> None:
    async def body(ctx: Context) -> list[Any]:
        return await ctx.gather(ctx.send_and_wait("oak", "say", 1), ctx.send_and_wait("ash", "say", 2))

    async with handling(fake, body):
        one, two = await fake.next("request"), await fake.next("request")
        assert who(one) == who(two) == ("e1", False, False)
        facts = await fake.facts(
            "elm", waits=[{"id": one.id, "generation": 0}, {"id": two.id, "generation": 0}], executions=["e1"]
        )
        assert facts["open"] == [one.id, two.id]
        assert facts["strands"] == {
            "e1": {}
        }  # nothing of it can go on: both strands wait, the own task for them
        await fake.answer(one, "a")
        await fake.settled()
        facts = await fake.facts("elm", executions=["e1"])
        assert facts["strands"] == {"e1": {}}  # it needs the other one, too
        await fake.answer(two, "b")
        assert (await fake.next("reply")).body["data"] == ["a", "b"]


async def test_a_failing_branch_cancels_its_siblings_requests(fake: Fake) -> None:
    async def body(ctx: Context) -> Any:
        return await ctx.gather(ctx.send_and_wait("oak", "say"), ctx.send_and_wait("ash", "say"))

    async with handling(fake, body):
        one, two = await fake.next("request"), await fake.next("request")
        await fake.outcome(
            "elm", one.id, "responder_lost", error={"code": "responder_lost", "message": "gone"}
        )
        assert (await fake.next("request.cancel")).body["id"] == two.id
        assert (await fake.next("reply")).body["error"]["detail"] == {"type": "ResponderLost"}


async def test_the_own_task_is_alive_while_it_runs_and_not_while_it_waits(fake: Fake) -> None:
    go_on = asyncio.Event()

    async def body(ctx: Context) -> None:
        await go_on.wait()
        await ctx.send_and_wait("oak", "say")

    async with handling(fake, body):
        await fake.settled()
        assert (await fake.facts("elm", executions=["e1"]))["strands"] == {"e1": {"alive": [""]}}
        go_on.set()
        request = await fake.next("request")
        assert (await fake.facts("elm", executions=["e1"]))["strands"] == {"e1": {}}
        await fake.answer(request)
        await fake.next("reply")


async def test_child_tasks_that_the_own_task_awaits_are_told(fake: Fake) -> None:
    """Plain asyncio.gather, read from the event loop: the own task cannot go on while they cannot."""

    async def body(ctx: Context) -> None:
        await asyncio.gather(ctx.send_and_wait("oak", "say"), ctx.send_and_wait("ash", "say"))

    async with handling(fake, body):
        requests = [await fake.next("request"), await fake.next("request")]
        strands = (await fake.facts("elm", executions=["e1"]))["strands"]["e1"]
        assert "alive" not in strands
        assert sorted(strands["awaited"]) == sorted(request.body["strand"] for request in requests)
        for request in requests:
            await fake.answer(request)
        await fake.next("reply")


async def test_an_awaited_task_is_followed_to_the_task_it_awaits(fake: Fake) -> None:
    async def body(ctx: Context) -> None:
        async def outer() -> None:
            await asyncio.create_task(ctx.send_and_wait("oak", "say"))

        await asyncio.create_task(outer())

    async with handling(fake, body):
        request = await fake.next("request")
        assert (await fake.facts("elm", executions=["e1"]))["strands"] == {
            "e1": {"awaited": [request.body["strand"]]}
        }
        await fake.answer(request)
        await fake.next("reply")


async def test_an_awaited_task_without_a_wait_may_free_the_execution(fake: Fake) -> None:
    async def body(ctx: Context) -> None:
        await asyncio.gather(ctx.send_and_wait("oak", "say"), asyncio.sleep(3600))

    async with handling(fake, body):
        request = await fake.next("request")
        strands = (await fake.facts("elm", executions=["e1"]))["strands"]["e1"]
        assert strands["alive"] == [""]
        assert strands["awaited"] == [request.body["strand"]]


@pytest.mark.parametrize("how", ["wait", "group", "race", "event"])
async def test_what_cannot_be_read_from_the_loop_counts_as_able_to_go_on(fake: Fake, how: str) -> None:
    children: list[asyncio.Task[Any]] = []

    async def body(ctx: Context) -> None:
        child, other = (
            asyncio.create_task(ctx.send_and_wait("oak", "say")),
            asyncio.create_task(asyncio.sleep(60)),
        )
        children.extend((child, other))
        if how == "wait":
            await asyncio.wait([child])
        elif how == "race":
            await asyncio.wait([child, other], return_when="FIRST_COMPLETED")
        elif how == "event":
            done = asyncio.Event()
            child.add_done_callback(lambda _child: done.set())
            await done.wait()
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(3600))

    async with handling(fake, body):
        await fake.next("request")
        assert (await fake.facts("elm", executions=["e1"]))["strands"] == {"e1": {"alive": [""]}}
        for child in children:
            child.cancel()
        await asyncio.gather(*children, return_exceptions=True)


async def test_background_tasks_do_not_keep_a_handler_from_answering(fake: Fake) -> None:
    background: list[asyncio.Task[Any]] = []

    async def body(ctx: Context) -> str:
        background.append(asyncio.create_task(ctx.send_and_wait("oak", "say")))
        await asyncio.sleep(0)
        return "answered"

    async with handling(fake, body):
        request = await fake.next("request")
        assert (await fake.next("reply")).body["data"] == "answered"
        facts = await fake.facts(
            "elm", waits=[{"id": request.id, "generation": 0}], requests=["e1"], executions=["e1"]
        )
        assert (facts["open"], facts["requests"]) == ([request.id], {"e1": "done"})
        assert facts["strands"] == {"e1": {"alive": [""]}}  # it is over: it keeps nobody waiting
        await fake.answer(request)
        await asyncio.gather(*background)


async def test_facts_leave_behind_everything_sent_before_them(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = [asyncio.ensure_future(me.send_and_wait("elm", "say", n)) for n in range(50)]
        await fake.next("request")
        await fake.facts("birch")
        verbs = [seen.verb for seen in fake.log if seen.verb in ("request", "facts")]
        assert verbs == ["request"] * 50 + ["facts"]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_facts_omit_a_wait_that_has_ended(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        await fake.answer(request)
        await waiting
        assert "open" not in await fake.facts("birch", waits=[{"id": request.id, "generation": 0}])


async def test_main_is_the_task_that_connected(fake: Fake) -> None:
    async with unknot.connect("birch", serves=False) as me:

        async def answer() -> Seen:
            seen = await fake.next("request")
            facts = await fake.facts("birch", executions=["main"])
            assert facts["strands"] == {"main": {}}
            await fake.answer(seen)
            return seen

        answering = asyncio.create_task(answer())
        await me.send_and_wait("elm", "say")
        assert who(await answering) == ("main", True, False)


@pytest.fixture
async def connected(fake: Fake) -> AsyncIterator[unknot.Connection]:
    async with unknot.connect("birch") as me:
        yield me


async def test_main_passes_to_who_uses_the_connection_when_its_task_is_gone(
    fake: Fake, connected: unknot.Connection
) -> None:
    """A fixture connects in a task of its own, which is over when the test runs."""

    async def answer() -> Seen:
        seen = await fake.next("request")
        await fake.answer(seen)
        return seen

    answering = asyncio.create_task(answer())
    await connected.send_and_wait("elm", "say")
    assert who(await answering) == ("main", True, False)


async def test_two_connections_in_one_task_have_a_main_each(fake: Fake) -> None:
    async with unknot.connect("birch") as birch, unknot.connect("elm") as elm:
        for me in (birch, elm, birch):
            answering = asyncio.create_task(fake.next("request"))
            waiting = asyncio.create_task(_answered(fake, answering))
            await me.send_and_wait("oak", "say")
            assert who(await waiting) == ("main", True, False)


async def _answered(fake: Fake, request: "asyncio.Task[Seen]") -> Seen:
    seen = await request
    await fake.answer(seen)
    return seen


async def test_other_threads_of_a_plain_handler_are_detached(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="allow")

    @elm.on("say")
    def say(data: object, ctx: unknot.ThreadContext) -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            branches = [pool.submit(ctx.send_and_wait, "oak", "say", n) for n in range(2)]
            return [branch.result() for branch in branches] + [ctx.send_and_wait("oak", "own")]

    async with elm.running():
        await fake.deliver("elm", "say", id="e1")
        for _ in range(2):
            request = await fake.next("request")
            assert who(request) == ("e1", False, True)
            await fake.answer(request, request.body["data"])
        own = await fake.next("request")
        assert who(own) == ("e1", True, False)
        await fake.answer(own, "own")
        assert (await fake.next("reply")).body["data"] == [0, 1, "own"]


async def test_a_synchronous_main_is_the_thread_that_connected(fake: Fake) -> None:
    def script() -> list[Any]:
        with unknot.sync.connect("birch") as me, ThreadPoolExecutor(1) as pool:
            return [pool.submit(me.send_and_wait, "elm", "say").result(), me.send_and_wait("elm", "say")]

    running = asyncio.create_task(asyncio.to_thread(script))
    for own in (False, True):
        request = await fake.next("request")
        assert who(request) == ("main", own, not own)
        await fake.answer(request, own)
    assert await running == [False, True]


async def test_a_gather_whose_branch_has_failed_can_go_on_before_it_knows(fake: Fake) -> None:
    """Between a child's end and gather's own notice of it nothing may say that the execution stands still."""
    seen: list[dict[str, Any]] = []

    async def body(ctx: Context) -> None:
        async def fails() -> None:
            await asyncio.sleep(0.05)
            raise ValueError

        child = asyncio.create_task(fails())
        child.add_done_callback(lambda _child: seen.append(msgspec.to_builtins(facts(ctx._execution))))
        await asyncio.gather(child, ctx.send_and_wait("oak", "say"))

    async with handling(fake, body):
        request = await fake.next("request")
        await fake.next("reply")
        assert seen[0]["alive"] == [""]
        await fake.answer(request)
        await fake.settled()


async def test_facts_omit_a_wait_that_was_given_up_this_very_moment(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        pending = me._links.session.pending
        one = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        any_of = asyncio.ensure_future(me.wait_any([me.request("elm", "say"), me.request("oak", "say")]))
        plain, first, second = [(await fake.next("request")).id for _ in range(3)]
        assert [pending.is_waited_for(id) for id in (plain, first, second)] == [True, True, True]
        one.cancel()
        pending.settle(bodies.Outcome(first, "reply", "yes", 1))
        # neither task has run yet: both are free all the same
        assert [pending.is_waited_for(id) for id in (plain, first, second)] == [False, False, False]
        assert len(pending) == 2
        await asyncio.gather(one, any_of, return_exceptions=True)
        assert len(pending) == 0
