"""WIRE section 6, the client's half: groups, asks, expected events, waits outside."""

import asyncio
import time
from typing import Any

import pytest

import unknot
from tests.sdk.fake import Fake, Seen
from unknot import Agent, Context


async def three(fake: Fake) -> list[Seen]:
    requests = [await fake.next("request") for _ in range(3)]
    return sorted(requests, key=lambda seen: seen.target)


def branches(me: unknot.Connection) -> list[unknot.Request[Any]]:
    return [me.request(target, "say", target) for target in ("a", "b", "c")]


# ---------------------------------------------------------------------- groups


@pytest.mark.parametrize(("how", "need"), [("all", 3), ("any", 1), ("quorum", 2)])
async def test_requests_of_one_wait_carry_one_group(fake: Fake, how: str, need: int) -> None:
    async with unknot.connect("birch") as me:
        call: Any = {"all": me.wait_all, "any": me.wait_any}.get(how)
        waiting = asyncio.ensure_future(call(branches(me)) if call else me.wait_quorum(branches(me), 2))
        groups = [request.body["group"] for request in await three(fake)]
        assert groups[0] == groups[1] == groups[2]
        assert (groups[0]["n"], groups[0]["need"]) == (3, need)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_group_of_one_is_a_plain_request(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_any([me.request("a", "say")]))
        request = await fake.next("request")
        assert "group" not in request.body
        await fake.answer(request, 1)
        assert (await waiting).data == 1
        assert await me.wait_all([]) == []


async def test_a_quorum_is_over_with_its_last_answer_and_names_who_answered(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_quorum(branches(me), 2))
        a, b, c = await three(fake)
        await fake.answer(c, "C")
        await fake.outcome("birch", b.id, "failed", error={"code": "handler_failed", "message": "no"})
        await fake.settled()
        assert not waiting.done()  # one spent, one more can still come
        await fake.answer(a, "A")
        assert [(answer.index, answer.data) for answer in await waiting] == [(0, "A"), (2, "C")]
        assert len(me._links.session.pending) == 0
        await fake.settled()
        assert fake.seen("request.cancel") == []  # the gateway closes the rest by itself


async def test_a_wait_any_ends_when_its_last_branch_has_failed(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_any(branches(me)))
        a, b, c = await three(fake)
        for request, outcome in ((a, "failed"), (b, "deadlock"), (c, "cancelled")):
            assert not waiting.done()
            error = {"code": outcome, "message": outcome, "detail": {"cycle": ["b", "birch", "b"]}}
            await fake.outcome("birch", request.id, outcome, error=error)
            await fake.settled()
        with pytest.raises(unknot.DeadlockDetected) as caught:  # of several reasons, the one that explains
            await waiting
        assert [failure.code for failure in caught.value.failures] == ["failed", "deadlock", "cancelled"]


async def test_when_the_need_can_no_longer_be_met_the_others_are_withdrawn(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_all(branches(me)))
        a, b, c = await three(fake)
        await fake.outcome("birch", b.id, "expired", error={"code": "expired", "message": "late"})
        with pytest.raises(unknot.WaitExpired):
            await waiting
        assert {(await fake.next("request.cancel")).id for _ in range(2)} == {a.id, c.id}


@pytest.mark.parametrize("need", [0, 4])
async def test_a_need_that_cannot_be_met_is_refused_before_anything_is_sent(fake: Fake, need: int) -> None:
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Refused):
            await me.wait_quorum(branches(me), need)
        with pytest.raises(unknot.Refused):
            await me.wait_any([*branches(me), me.request("not an agent", "say")])
        await fake.settled()
        assert fake.seen("request") == []


# ---------------------------------------------------------------------- asks


async def test_an_ask_blocks_nobody_and_its_answer_is_kept_until_it_is_expected(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        asked = await me.ask("elm", "say", 1)
        seen = await fake.next("ask")
        assert (seen.id, seen.reply != "") == (asked.id, True)
        assert (await fake.facts("birch", executions=["main"]))["strands"] == {"main": {"alive": [""]}}
        await fake.answer(seen, "kept")
        await fake.settled()
        assert await me.expect(asked) == "kept"
        assert fake.seen("wait.open") == []


async def test_expecting_an_ask_is_a_wait_on_that_request(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        asked = await me.ask("elm", "say", into=list[int])
        waiting = asyncio.ensure_future(me.expect(asked, timeout=7))
        wait = await fake.next("wait.open")
        assert wait.body["on"] == [{"kind": "reply", "id": asked.id}]
        assert (wait.body["timeout_s"], wait.body["execution"]) == (7, "main")
        await fake.answer(await fake.next("ask"), [1, 2])
        assert await waiting == [1, 2]
        assert (await fake.next("wait.close")).id == wait.id


async def test_a_wait_for_an_ask_that_ends_alone_leaves_the_ask_open(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        asked = await me.ask("elm", "say")
        waiting = asyncio.ensure_future(me.expect(asked))
        wait = await fake.next("wait.open")
        await fake.outcome("birch", wait.id, "deadlock", error={"code": "deadlock", "message": "a -> a"})
        with pytest.raises(unknot.DeadlockDetected):
            await waiting
        assert asked.is_open
        await fake.answer(await fake.next("ask"), "still")
        await fake.settled()
        assert await me.expect(asked) == "still"


async def test_bug_007_on_error_runs_once_and_a_late_answer_runs_nothing(fake: Fake) -> None:
    ran: list[object] = []

    async def on_reply(data: object) -> None:
        ran.append(data)

    async def on_error(failure: unknot.WaitFailed) -> None:
        ran.append(type(failure))

    async with unknot.connect("birch") as me:
        await me.ask("elm", "say", on_reply=on_reply, on_error=on_error, timeout=1)
        seen = await fake.next("ask")
        await fake.outcome("birch", seen.id, "expired", error={"code": "expired", "message": "late"})
        await fake.answer(seen, "too late")
        await fake.settled()
        assert ran == [unknot.WaitExpired]
        assert len(me._links.session.pending) == 0


async def test_a_refused_ask_raises_and_is_not_open(fake: Fake) -> None:
    fake.answers["ask"] = {"ok": False, "error": {"code": "not_subscribed", "message": "no pool"}}
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Refused, match="no pool"):
            await me.ask("elm", "say")
        assert len(me._links.session.pending) == 0


async def test_a_continuation_answers_for_the_execution_that_asked(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        async def on_reply(answer: object) -> None:
            await ctx.send("oak", "log")
            await ctx.reply(answer)

        ctx.defer()
        await ctx.ask("oak", "say", on_reply=on_reply)

    async with elm.running():
        await fake.deliver("elm", "say", id="e1")
        asked = await fake.next("ask")
        assert asked.body["execution"] == "e1"
        assert (await fake.next("defer")).body["ids"] == ["e1"]
        await fake.answer(asked, "from oak")
        logged = await fake.next("send")
        assert (logged.body["execution"], logged.body["detached"]) == ("e1", True)
        assert (await fake.next("reply")).body["data"] == "from oak"


# ---------------------------------------------------------------------- expected events


async def expected(fake: Fake, agent: str, wait: Seen, event_type: str, **more: Any) -> None:
    await fake.deliver(agent, event_type, "it came", **({"asks": False, "for": wait.id} | more))


async def test_an_expected_event_ends_its_wait(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.expect("thread.*", source="agent:elm", timeout=9))
        wait = await fake.next("wait.open")
        assert wait.body["on"] == [{"kind": "event", "id": "thread.*", "source": "elm"}]
        assert wait.body["session"] == fake.session("birch")
        await expected(fake, "birch", wait, "thread.done", source="elm")
        event = await waiting
        assert (event.type, event.data) == ("thread.done", "it came")
        await fake.settled()
        assert fake.seen("done") == []  # it took no slot


async def test_one_event_may_satisfy_two_that_expect_it(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        one = asyncio.ensure_future(me.expect("thread.done"))
        two = asyncio.ensure_future(me.expect("thread.>"))
        other = asyncio.ensure_future(me.expect("thread.done", source="oak"))
        waits = [await fake.next("wait.open") for _ in range(3)]
        await expected(fake, "birch", waits[0], "thread.done", source="elm")
        assert (await one).id == (await two).id
        assert (await fake.next("wait.close")).id == waits[1].id
        assert not other.done()
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


async def test_a_refused_wait_raises(fake: Fake) -> None:
    fake.answers["wait.open"] = {"ok": False, "error": {"code": "over_limit", "message": "too many waits"}}
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.WaitFailed, match="too many waits"):
            await me.expect("thread.done")
        assert len(me._links.session.pending) == 0


async def test_an_expected_request_is_answered_by_who_expected_it(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.expect("question"))
        wait = await fake.next("wait.open")
        await expected(fake, "birch", wait, "question", asks=True, id="q1")
        event = await waiting
        assert event.requires_response
        await me.reply("42", to=event)
        reply = await fake.next("reply")
        assert (reply.request_id, reply.body["data"]) == ("q1", "42")


async def test_an_event_for_a_wait_that_is_gone_is_handled_like_any_other(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("question")
    async def question(data: object) -> str:
        return "by the handler"

    async with elm.running() as me:
        waiting = asyncio.ensure_future(me.expect("question"))
        wait = await fake.next("wait.open")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await expected(fake, "elm", wait, "question", asks=True, id="q1")
        assert (await fake.next("reply")).body["data"] == "by the handler"


async def test_what_a_script_has_in_hand_and_nobody_has_read_may_be_expected(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.deliver("birch", "other", 1, id="e1", asks=False)
        await fake.deliver("birch", "news.local", 2, id="e2", asks=False)
        await fake.deliver("birch", "question", 3, id="e3", source="elm")
        await fake.settled()
        assert (await me.expect("news.*", timeout=5)).id == "e2"
        assert (await fake.next("done")).body["ids"] == ["e2"]
        question = await me.expect("question", source="elm", timeout=5)
        assert (await fake.next("defer")).body["ids"] == ["e3"]
        await me.reply("yes", to=question)
        assert (await fake.next("reply")).body["data"] == "yes"
        assert fake.seen("wait.open") == []
        async for event in me.events():
            assert event.id == "e1", "the loop reads what is left"
            break


async def test_an_expect_from_another_source_leaves_what_is_in_hand(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.deliver("birch", "news", 1, source="oak", asks=False)
        await fake.settled()
        waiting = asyncio.ensure_future(me.expect("news", source="elm", timeout=5))
        await expected(fake, "birch", await fake.next("wait.open"), "news", id="e2", source="elm")
        assert (await waiting).source == "elm"


async def test_an_event_that_passes_its_expect_on_the_way_ends_it(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.expect("news", timeout=5))
        wait = await fake.next("wait.open")
        await fake.deliver("birch", "news", 1, id="e1", asks=False)
        assert (await waiting).id == "e1"
        assert (await fake.next("done")).body["ids"] == ["e1"]
        assert (await fake.next("wait.close")).id == wait.id
        await expected(fake, "birch", wait, "news", id="e2", asks=False)
        await fake.settled()
        assert (await me.expect("news", timeout=5)).id == "e2", "given to a wait that was over: not lost"


async def test_expecting_blocks_where_handlers_may_not(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="forbid")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        await ctx.expect("thread.done")

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("reply")).body["error"]["detail"] == {"type": "Refused"}
        assert fake.seen("wait.open") == []


@pytest.mark.parametrize("bad", ["Thread", "a..b", "", ">.a", "x" * 200])
async def test_a_pattern_that_cannot_be_is_refused(fake: Fake, bad: str) -> None:
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Refused):
            await me.expect(bad)


# ---------------------------------------------------------------------- waits outside


async def test_while_inside_the_execution_counts_as_waiting(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        async with me.blocking_on("tool", "ocr:b7", reason="the scan"):
            wait = await fake.next("wait.open")
            assert wait.body["on"] == [{"kind": "tool", "id": "ocr:b7"}]
            assert (wait.body["reason"], wait.body["timeout_s"]) == ("the scan", 3600)
            facts = await fake.facts("birch", waits=[{"id": wait.id, "generation": 0}], executions=["main"])
            assert (facts["open"], facts["strands"]) == ([wait.id], {"main": {}})
        assert (await fake.next("wait.close")).id == wait.id
        assert (await fake.facts("birch", executions=["main"]))["strands"] == {"main": {"alive": [""]}}


async def test_a_deadlock_cancels_what_it_blocks_and_raises(fake: Fake) -> None:
    async with unknot.connect("birch") as me:

        async def body() -> None:
            async with me.blocking_on("agent", "elm"):
                await asyncio.sleep(3600)

        waiting = asyncio.ensure_future(body())
        wait = await fake.next("wait.open")
        await fake.outcome("birch", wait.id, "deadlock", error={"code": "deadlock", "message": "a -> b -> a"})
        with pytest.raises(unknot.DeadlockDetected):
            await waiting


async def test_a_cancellation_from_elsewhere_stays_one(fake: Fake) -> None:
    async with unknot.connect("birch") as me:

        async def body() -> None:
            async with me.blocking_on("agent", "elm"):
                await asyncio.sleep(3600)

        waiting = asyncio.ensure_future(body())
        wait = await fake.next("wait.open")
        waiting.cancel()
        await fake.outcome("birch", wait.id, "deadlock", error={"code": "deadlock", "message": "a -> b -> a"})
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_without_a_timeout_a_wait_outside_has_no_end(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        async with me.blocking_on("human", "h1"):
            wait = await fake.next("wait.open")
            await fake.outcome("birch", wait.id, "expired", error={"code": "expired", "message": "an hour"})
            await fake.settled()

        async def body() -> None:
            async with me.blocking_on("human", "h1", timeout=5):
                await asyncio.sleep(3600)

        waiting = asyncio.ensure_future(body())
        error = {"code": "expired", "message": "5 s", "detail": {"chain": ["human:h1"]}}
        await fake.outcome("birch", (await fake.next("wait.open")).id, "expired", error=error)
        with pytest.raises(unknot.WaitExpired) as caught:
            await waiting
        assert caught.value.chain == ("human:h1",)


async def test_bug_091_no_clock_of_anybody_is_on_the_wire(fake: Fake) -> None:
    """Durations only: whatever the hosts' clocks say, 5 s are 5 s."""
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=5))
        request = await fake.next("request")
        numbers = [value for value in request.body.values() if isinstance(value, int | float)]
        assert all(abs(number - time.time()) > 1e6 for number in numbers)
        assert "time" not in request.body
        await fake.answer(request)
        await waiting


async def test_bug_097_ids_and_marks_come_back_byte_for_byte(fake: Fake) -> None:
    elm = Agent("elm")
    seen: list[tuple[str, dict[str, Any]]] = []

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        seen.append((ctx.event.id, ctx.event.metadata))

    id, marks = "Z" * 32 + "_-" * 16, {"blocking_wait": "True", "wait_timeout": " 30.5 ", "ü": [1, None]}
    async with elm.running() as me:
        await fake.deliver("elm", "say", id=id, metadata=marks)
        assert (await fake.next("reply")).request_id == id
        assert seen == [(id, marks)]
        await me.send("oak", "say", metadata=marks)
        assert (await fake.next("send")).body["metadata"] == marks


async def test_an_expected_event_delivered_twice_is_handled_once(fake: Fake) -> None:
    elm = Agent("elm")
    handled = []

    @elm.on("thread.done")
    async def done(data: object) -> None:
        handled.append(data)

    async with elm.running() as me:
        waiting = asyncio.ensure_future(me.expect("thread.done"))
        wait = await fake.next("wait.open")
        await expected(fake, "elm", wait, "thread.done", seq=1)
        await waiting
        await expected(fake, "elm", wait, "thread.done", seq=1, redelivered=True)
        await fake.settled()
        assert handled == []


async def test_misuse_is_an_unknot_error_that_says_what_to_do(fake: Fake) -> None:
    elm = Agent("elm")
    async with elm.running() as me:
        with pytest.raises(unknot.UnknotError, match=r"unknot\.connect"):
            await anext(me.events())
        with pytest.raises(unknot.UnknotError, match="no event in hand"):
            await me.reply()
