"""Waits of all kinds against a scripted gateway: what goes out, what each answer does, what is left behind."""

import asyncio
import json
import queue as queues
from typing import Any

import anyio
import pytest

import unknot
from tests.sdk.fake import HANG_S, Fake, Seen
from unknot import Agent, Connection, Context


async def fulfil(fake: Fake, wait: Seen, outcome: str, true: list[int], **more: Any) -> None:
    await fake.outcome("birch", wait.id, outcome, fulfilled={"true": true, **more})


async def cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ---------------------------------------------------------------------- reported waits


@pytest.mark.parametrize("kind", ["agent", "artifact", "lock", "permits", "task", "tool", "human"])
async def test_each_kind_is_reported_as_it_is(fake: Fake, kind: Any) -> None:
    async with unknot.connect("birch") as me:
        async with me.blocking_on(kind, "it", units=2, reason="why", cancel_mode="never"):
            wait = await fake.next("wait.open")
            assert wait.body["on"] == [{"kind": kind, "id": "it", "units": 2}]
            assert (wait.body["reason"], wait.body["cancel_mode"]) == ("why", "never")
        assert (await fake.next("wait.close")).id == wait.id


@pytest.mark.parametrize("outcome", ["produced", "granted", "approved"])
async def test_a_reported_wait_that_came_true_leaves_its_body_alone(fake: Fake, outcome: str) -> None:
    async with unknot.connect("birch") as me, me.blocking_on("artifact", "plan"):
        await fulfil(fake, await fake.next("wait.open"), outcome, [0])
        await fake.settled()


async def test_a_tool_is_outside(fake: Fake) -> None:
    async with unknot.connect("birch") as me, me.tool("ocr:b7"):
        assert (await fake.next("wait.open")).body["on"] == [{"kind": "tool", "id": "ocr:b7"}]


@pytest.mark.parametrize("detached", [False, True])
async def test_what_has_got_what_it_waits_for_is_not_said_to_stand(fake: Fake, detached: bool) -> None:
    """The item is there, the task has not run yet: the facts must not make a deadlock of it."""
    async with unknot.connect("birch") as me:
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def probe() -> tuple[dict[str, Any], dict[str, Any]]:
            wait = await fake.next("wait.open")
            asked = {"waits": [{"id": wait.id, "generation": 0}], "executions": ["main"]}
            before = await fake.facts("birch", **asked)
            session = me._links.session
            receive = session.transport._routes[session.subjects.out("birch", session.token)]
            queue.put_nowait(7)
            confirm = {"incident": "i2", "requests": [], **asked}
            receive(f"{session.out_prefix}control.confirm", json.dumps(confirm).encode())
            return before, (await fake.next("facts")).body

        probing = asyncio.create_task(probe())
        waiting = me.receive(queue, producer="elm")
        assert await (asyncio.create_task(waiting) if detached else waiting) == 7
        before, after = await probing
        assert len(before["open"]) == 1
        if detached:
            assert after.get("open", []) == []
        else:
            assert before["strands"] == {"main": {}}
            assert after["strands"] == {"main": {"alive": [""]}}


# ---------------------------------------------------------------------- receive


async def test_what_is_there_is_received_without_a_wait(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        queue: asyncio.Queue[int] = asyncio.Queue()
        queue.put_nowait(1)
        assert await me.receive(queue) == 1
        send, stream = anyio.create_memory_object_stream[int](1)
        with send, stream:
            send.send_nowait(2)
            assert await me.receive(stream) == 2
        await fake.settled()
        assert fake.seen("wait.open") == []


async def test_receiving_waits_for_a_tool_or_for_who_is_named(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        queue: asyncio.Queue[str] = asyncio.Queue()
        for options, on in (
            ({"name": "inbox"}, {"kind": "tool", "id": "inbox"}),
            ({}, {"kind": "tool", "id": "Queue"}),
            ({"producer": "elm"}, {"kind": "agent", "id": "elm"}),
        ):
            waiting = asyncio.ensure_future(me.receive(queue, **options))
            wait = await fake.next("wait.open")
            assert wait.body["on"] == [on]
            await queue.put("item")
            assert await waiting == "item"
            assert (await fake.next("wait.close")).id == wait.id


async def test_anything_that_can_be_awaited_is_a_source(fake: Fake) -> None:
    async def give() -> int:
        await asyncio.sleep(0)
        return 3

    async with unknot.connect("birch") as me:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, future.set_result, 4)
        assert await me.receive(give) == 3
        assert await me.receive(give()) == 3
        assert await me.receive(future) == 4
        send, stream = anyio.create_memory_object_stream[int](1)
        with send, stream:
            asyncio.get_running_loop().call_later(0.01, send.send_nowait, 5)
            assert await me.receive(stream) == 5


async def test_an_item_is_not_lost_when_its_wait_is_ended_in_the_same_moment(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        send, stream = anyio.create_memory_object_stream[int](1)
        with send, stream:
            waiting = asyncio.ensure_future(me.receive(stream, producer="elm"))
            wait = await fake.next("wait.open")
            pending = me._links.session.pending
            send.send_nowait(7)
            error = unknot.errors.bodies.Error("deadlock", "a -> b -> a")
            pending.settle(unknot.errors.bodies.Outcome(wait.id, "deadlock", "no", 1, error=error))
            assert await waiting == 7
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()


async def test_a_deadlock_ends_a_receive_and_the_queue_keeps_what_comes(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        queue: asyncio.Queue[int] = asyncio.Queue()
        waiting = asyncio.ensure_future(me.receive(queue, producer="elm"))
        wait = await fake.next("wait.open")
        await fake.outcome("birch", wait.id, "deadlock", error={"code": "deadlock", "message": "a -> b -> a"})
        with pytest.raises(unknot.DeadlockDetected):
            await waiting
        queue.put_nowait(1)
        assert await me.receive(queue) == 1


async def test_a_source_that_would_block_the_loop_is_refused(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        with pytest.raises(TypeError, match=r"asyncio\.Queue"):
            await me.receive(queues.SimpleQueue())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="cannot receive"):
            await me.receive(lambda: 1)  # type: ignore[arg-type,return-value]
        assert len(me._links.session.pending) == 0


# ---------------------------------------------------------------------- artifacts, decisions


async def test_an_artifact_is_waited_for_and_read(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_for_artifact("plan:7", timeout=9, into=list[int]))
        wait = await fake.next("wait.open")
        assert wait.body["on"] == [{"kind": "artifact", "id": "plan:7"}]
        assert (wait.body["timeout_s"], wait.body["execution"]) == (9, "main")
        await fulfil(fake, wait, "produced", [0], artifacts={"plan:7": [1, 2]})
        assert await waiting == [1, 2]
        await fake.settled()
        assert fake.seen("wait.close") == []


async def test_artifacts_are_declared_published_and_withdrawn_by_who_says_so(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("make")
    async def make(data: object, ctx: Context) -> None:
        await ctx.declare_artifact("a")
        assert await ctx.publish_artifact("a", {"n": 1})
        await ctx.withdraw_artifact("b")

    async with elm.running():
        await fake.deliver("elm", "make", id="e1")
        declared = (await fake.next("artifact.declare")).body
        assert (declared["id"], declared["execution"]) == ("a", "e1")
        published = (await fake.next("artifact.publish")).body
        assert (published["id"], published["data"], "token" in published) == ("a", {"n": 1}, False)
        withdrawn = (await fake.next("artifact.withdraw")).body
        assert (withdrawn["id"], withdrawn["execution"]) == ("b", "e1")


async def test_a_second_publisher_is_told(fake: Fake) -> None:
    fake.answers["artifact.publish"] = {"ok": True, "id": "a", "duplicate": True}
    async with unknot.connect("birch") as me:
        assert not await me.publish_artifact("a", 1)


async def test_an_approval_is_true_or_raises(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        asking = asyncio.ensure_future(me.approval("human:eva", {"sum": 9}, reason="over budget"))
        wait = await fake.next("wait.open")
        assert wait.body["on"] == [{"kind": "approval", "id": "human:eva"}]
        assert (wait.body["data"], wait.body["reason"], wait.body["timeout_s"]) == (
            {"sum": 9},
            "over budget",
            3600,
        )
        await fulfil(fake, wait, "approved", [0], decision="approved")
        assert await asking is True

        asking = asyncio.ensure_future(me.approval("elm", timeout=5))
        wait = await fake.next("wait.open")
        assert (wait.body["on"], wait.body["timeout_s"]) == ([{"kind": "approval", "id": "elm"}], 5)
        error = {"code": "denied", "message": "elm has denied it: too much", "detail": {"reason": "too much"}}
        await fake.outcome("birch", wait.id, "denied", error=error)
        with pytest.raises(unknot.Denied) as caught:
            await asking
        assert caught.value.reason == "too much"


@pytest.mark.parametrize("answer", [True, False])
async def test_who_is_asked_decides_by_what_it_returns(fake: Fake, answer: bool) -> None:
    elm = Agent("elm")
    seen: list[Any] = []

    @elm.on_approval
    async def decide(order: dict[str, int], ctx: Context) -> bool:
        seen.append((order, ctx.event.source, ctx.event.metadata))
        return answer

    async with elm.running():
        asked = {
            "id": "w1",
            "by": "birch",
            "from": "elm",
            "deadline_in_s": 9.0,
            "data": {"sum": 9},
            "reason": "why",
        }
        await fake.control("elm", "approval.requested", asked)
        await fake.control("elm", "approval.requested", asked)
        resolved = (await fake.next("approval.resolve")).body
        assert (resolved["id"], resolved["decision"]) == ("w1", "approved" if answer else "denied")
        await fake.settled()
        assert seen == [({"sum": 9}, "birch", {"reason": "why"})]  # asked once, however often it is said
        assert len(fake.seen("approval.resolve")) == 1


async def test_a_decision_may_come_later_and_from_a_script(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.control(
            "birch", "approval.requested", {"id": "w1", "by": "elm", "from": "birch", "deadline_in_s": 9}
        )
        async for event in me.events():
            assert (event.type, event.data) == ("approval.requested", None)
            await me.resolve_approval(event, approved=False, reason="no")
            break
        resolved = (await fake.next("approval.resolve")).body
        assert (resolved["id"], resolved["decision"], resolved["reason"]) == ("w1", "denied", "no")


# ---------------------------------------------------------------------- what is reported of things outside


async def test_a_holder_is_set_inside_and_cleared_at_the_end(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        async with me.holder("lock", "page", units=1, capacity=3, until=60):
            said = (await fake.next("holder.set")).body
            assert (said["kind"], said["id"], said["capacity"], said["execution"]) == (
                "lock",
                "page",
                3,
                "main",
            )
            assert 59 < said["until_s"] <= 60
        assert (await fake.next("holder.clear")).body["id"] == "page"
        holder = me.holder("task", "t1", agent="elm", execution="e7")
        await holder.set()
        assert (await fake.next("holder.set")).body["holder"] == {"agent": "elm", "execution": "e7"}
        await holder.clear()
        assert (await fake.next("holder.clear")).body["holder"] == {"agent": "elm", "execution": "e7"}
        assert len(me._links.session.standing) == 0


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\nb"])
async def test_a_name_that_can_be_none_is_refused_before_anything_is_sent(fake: Fake, bad: str) -> None:
    async with unknot.connect("birch") as me:
        calls: list[Any] = [
            lambda: me.wait_for_artifact(bad),
            lambda: me.declare_permits(bad, 1),
            lambda: me.publish_artifact(bad),
            lambda: me.permits(bad).__aenter__(),
        ]
        for call in calls:
            with pytest.raises(unknot.Refused):
                await call()
        with pytest.raises(unknot.Refused):
            me.holder("lock", bad)
        await fake.settled()
        assert {seen.verb for seen in fake.log} == {"hello"}


async def test_what_holds_on_is_said_again_to_a_gateway_that_knows_nothing(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await me.declare_permits("gpu", 3)
        await me.declare_permits("gpu", 4)
        await me.declare_artifact("a")
        await me.declare_artifact("b")
        await me.withdraw_artifact("b")
        await me.publish_artifact("c", [1])
        async with me.holder("task", "t"):
            for verb in (
                "pool.declare",
                "pool.declare",
                "artifact.declare",
                "artifact.declare",
                "holder.set",
            ):
                await fake.next(verb)
            await fake.next("artifact.publish")
            fake.unknown_session, fake.epoch = True, 2
            me._links.session.transport.on_up()
            assert (await fake.next("pool.declare")).body["capacity"] == 4
            assert (await fake.next("artifact.declare")).body["id"] == "a"
            assert (await fake.next("artifact.publish")).body["data"] == [1]
            assert (await fake.next("holder.set")).body["id"] == "t"
            await fake.settled()
            assert len(fake.seen("artifact.declare")) == 3


async def test_a_gateway_that_does_not_know_a_wait_is_told_since_when_it_is_open_and_what_is_left(
    fake: Fake,
) -> None:
    fake.heartbeat_s = 0.1
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_for_artifact("plan", timeout=600))
        first = await fake.next("wait.open")
        assert "since_s" not in first.body
        await asyncio.sleep(0.3)
        fake.answers["heartbeat"] = {"ok": True, "epoch": 1, "unknown": [first.body["id"]]}
        again = await fake.next("wait.open")
        assert again.body["id"] == first.body["id"]
        assert 0.3 <= again.body["since_s"] < HANG_S
        assert abs(again.body["since_s"] + again.body["timeout_s"] - 600) < 0.01
        waiting.cancel()


# ---------------------------------------------------------------------- mixes


def mix(me: Connection) -> list[unknot.Waitable[Any]]:
    return [
        me.request("elm", "say", 1),
        me.artifact("plan"),
        me.acquire("page", lease=9),
        me.decision("human:eva", 2),
    ]


async def test_a_mix_is_one_wait_that_names_its_asks(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_quorum(mix(me), 3, timeout=7))
        ask, wait = await fake.next("ask"), await fake.next("wait.open")
        assert wait.body["on"] == [
            {"kind": "reply", "id": ask.id},
            {"kind": "artifact", "id": "plan"},
            {"kind": "lock", "id": "page", "lease_s": 9},
            {"kind": "approval", "id": "human:eva"},
        ]
        assert (wait.body["need"], wait.body["data"], wait.body["timeout_s"], ask.body["timeout_s"]) == (
            3,
            2,
            7,
            7,
        )
        await fake.answer(ask, "said")
        await fulfil(
            fake,
            wait,
            "granted",
            [0, 1, 2],
            fencing_token=5,
            lease_s=9,
            artifacts={"plan": "p"},
            decision=None,
        )
        answers = await waiting
        assert [answer.index for answer in answers] == [0, 1, 2]
        assert [answer.data for answer in answers[:2]] == ["said", "p"]
        lease: Any = answers[2].data
        async with lease:
            assert (lease.ids, lease.token, lease.is_held) == (("page",), 5, True)
        assert (await fake.next("lock.release")).body["token"] == 5
        await fake.settled()
        assert len(me._links.session.pending) == 0


async def test_what_is_not_needed_any_more_is_withdrawn(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_any(mix(me)))
        ask, wait = await fake.next("ask"), await fake.next("wait.open")
        await fulfil(fake, wait, "produced", [1], artifacts={"plan": "p"})
        assert (await waiting).index == 1
        assert (await fake.next("request.cancel")).id == ask.id


async def test_the_answer_that_the_grant_speaks_of_is_waited_for(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_all([me.acquire("page"), me.request("elm", "say")]))
        ask, wait = await fake.next("ask"), await fake.next("wait.open")
        assert wait.body.get("need", "all") == "all"
        await fulfil(fake, wait, "granted", [0, 1], fencing_token=5, lease_s=9)
        await fake.settled()
        assert not waiting.done()
        await fake.answer(ask, "late")
        lease, text = await waiting
        assert text == "late"
        assert isinstance(lease, unknot.Lease)
        lease.release()


async def test_a_gateway_that_does_not_know_the_wait_is_told_what_is_left_of_it(fake: Fake) -> None:
    """It knows nothing of an answer that came before its time, and would count it as missing for ever."""
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_quorum(mix(me), 3))
        ask, wait = await fake.next("ask"), await fake.next("wait.open")
        await fake.answer(ask, "said")
        await fake.settled()
        entry = me._links.session.pending.get(wait.id)
        assert entry is not None
        again = json.loads(entry.again(asyncio.get_running_loop().time()))
        assert [on["kind"] for on in again["on"]] == ["artifact", "lock", "approval"]
        assert (again["id"], again["need"], again["data"]) == (wait.id, 2, 2)
        await fulfil(fake, wait, "granted", [0, 1], fencing_token=5, lease_s=9, artifacts={"plan": "p"})
        answers = await waiting
        assert [(answer.index, answer.data) for answer in answers[:2]] == [(0, "said"), (1, "p")]
        answers[2].data.release()


async def test_asks_that_have_ended_are_no_conditions_any_more(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        done, failed = await me.ask("elm", "say"), await me.ask("elm", "say")
        await fake.answer(await fake.next("ask"), "done")
        await fake.outcome("birch", failed.id, "failed", error={"code": "handler_failed", "message": "no"})
        await fake.settled()
        assert (await me.wait_any([failed, me.artifact("a"), done])).data == "done"
        assert fake.seen("wait.open") == []
        waiting = asyncio.ensure_future(me.wait_quorum([done, failed, me.artifact("a"), me.acquire("b")], 2))
        wait = await fake.next("wait.open")
        assert [on["kind"] for on in wait.body["on"]] == ["artifact", "lock"]
        assert wait.body["need"] == 1
        await fulfil(fake, wait, "produced", [0], artifacts={"a": 1})
        assert [answer.index for answer in await waiting] == [0, 2]


async def test_a_mix_that_can_be_reached_no_more_raises_and_is_withdrawn(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.wait_all([me.request("elm", "say"), me.artifact("a")]))
        ask, wait = await fake.next("ask"), await fake.next("wait.open")
        await fake.outcome("birch", ask.id, "failed", error={"code": "handler_failed", "message": "no"})
        with pytest.raises(unknot.HandlerFailed):
            await waiting
        assert (await fake.next("wait.close")).id == wait.id


async def test_what_the_gateway_refuses_of_a_mix_raises(fake: Fake) -> None:
    fake.answers["wait.open"] = {"ok": False, "error": {"code": "unknown_pool", "message": "no pool gpu"}}
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Refused, match="no pool gpu"):
            await me.permits("gpu", 2).__aenter__()
        with pytest.raises(unknot.Refused, match="one piece of data"):
            await me.wait_any([me.decision("a", 1), me.decision("b", 2)])
        with pytest.raises(TypeError):
            await me.wait_any(["page"])  # type: ignore[list-item]
        assert len(me._links.session.pending) == 0


async def test_blocking_on_things_is_refused_where_handlers_may_not(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="forbid")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        async with ctx.lock("page"):
            pass

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("reply")).body["error"]["detail"] == {"type": "Refused"}
        assert fake.seen("wait.open") == []
