"""WIRE section 5, the client's half: hello, heartbeats, reconciliation, bye."""

import asyncio
import logging

import msgspec
import pytest

import unknot
from tests.sdk.fake import Fake
from unknot import Agent, Context
from unknot_schemas import bodies
from unknot_schemas.limits import DATA_BYTES_MAX, NAMED_IDS_MAX

PULSE_S = 0.05
"""The gateway's word on the interval; 0.5 s at least on the real wire."""


async def test_a_session_has_a_token_that_nobody_guesses_and_nobody_else_had(fake: Fake) -> None:
    tokens = set()
    for _ in range(3):
        async with unknot.connect("birch"):
            tokens.add(fake.session("birch"))
    assert len(tokens) == 3
    assert all(len(token) * 6 >= 96 for token in tokens)


async def test_who_hears_hello_can_answer_at_once(fake: Fake) -> None:
    """Bug-001: everything is subscribed before hello leaves, on the same connection; nothing is lost after it."""
    for turn in range(50):
        async with unknot.connect("birch") as me:
            await fake.deliver("birch", "say", turn, id=f"e{turn}", seq=1)
            async with asyncio.timeout(5):
                async for event in me.events():
                    assert event.data == turn
                    break


async def test_a_heartbeat_names_what_is_older_than_one_interval(fake: Fake) -> None:
    fake.heartbeat_s = PULSE_S
    elm = Agent("elm", concurrency=2)
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        if data == "defer":
            ctx.defer()
        else:
            await go_on.wait()

    async with elm.running() as me:
        assert "open" not in (await fake.next("heartbeat")).body
        waiting = asyncio.ensure_future(me.send_and_wait("oak", "say"))
        request = await fake.next("request")
        await fake.deliver("elm", "say", id="e1")
        await fake.deliver("elm", "say", "defer", id="e2")
        await fake.next("defer")
        await asyncio.sleep(4 * PULSE_S)
        body = fake.seen("heartbeat")[-1].body
        assert body["open"] == [request.id]
        assert body["held"] == [{"id": "e1", "type": "say"}, {"id": "e2", "state": "deferred", "type": "say"}]
        assert body["seen"] == 2
        go_on.set()
        await fake.answer(request)
        await waiting
        await asyncio.sleep(3 * PULSE_S)
        body = fake.seen("heartbeat")[-1].body
        assert "open" not in body
        assert body["held"] == [{"id": "e2", "state": "deferred", "type": "say"}]


async def test_seen_counts_only_what_came_without_a_gap(fake: Fake) -> None:
    fake.heartbeat_s = PULSE_S
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> None: ...

    async with elm.running():
        for seq in (1, 2, 4, 5):
            await fake.deliver("elm", "say", id=f"e{seq}", seq=seq)
        await asyncio.sleep(3 * PULSE_S)
        assert fake.seen("heartbeat")[-1].body["seen"] == 2
        await fake.deliver("elm", "say", id="e3", seq=3, redelivered=True)
        await asyncio.sleep(3 * PULSE_S)
        assert fake.seen("heartbeat")[-1].body["seen"] == 5


async def test_what_the_gateway_does_not_know_is_sent_again_as_it_was(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        fake.answers["heartbeat"] = None
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", {"n": 1}))
        first = await fake.next("request")
        fake.answers["heartbeat"] = {"ok": True, "epoch": 2, "unknown": [first.id, "never-mine"]}
        me._links.session.transport.on_up()
        second = await fake.next("request")
        assert (second.subject, second.payload) == (first.subject, first.payload)
        await fake.answer(second, "once")
        assert await waiting == "once"
        assert me.counters["sent_again"] == 1


async def test_a_promise_that_the_gateway_does_not_know_is_forgotten(fake: Fake) -> None:
    elm = Agent("elm", concurrency=2)
    contexts: list[Context] = []
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object, ctx: Context) -> str:
        contexts.append(ctx)
        if data == "defer":
            ctx.defer()
        else:
            await go_on.wait()
        return ""

    async with elm.running() as me:
        await fake.deliver("elm", "say", id="e1")
        await fake.deliver("elm", "say", "defer", id="e2")
        await fake.next("defer")
        fake.answers["heartbeat"] = {"ok": True, "epoch": 1, "not_held": ["e1", "e2"]}
        me._links.session.transport.on_up()
        await fake.settled()
        assert [ctx.abandoned.is_set() for ctx in contexts] == [
            True,
            True,
        ]  # they may look; nothing is stopped
        assert (await fake.facts("elm", requests=["e1", "e2"]))["requests"] == {"e1": "running"}
        go_on.set()


async def test_a_gateway_that_has_forgotten_the_session_is_told_everything(fake: Fake) -> None:
    elm = Agent("elm", concurrency=2)
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object) -> str:
        if data == "stay":
            await go_on.wait()
        return "said"

    async with elm.running() as me:
        token = fake.session("elm")
        await fake.next("hello")
        waiting = asyncio.ensure_future(me.send_and_wait("oak", "say"))
        request = await fake.next("request")
        await fake.deliver("elm", "say", id="e1")
        await fake.deliver("elm", "say", "stay", id="e2")
        await fake.next("reply")
        fake.epoch, fake.unknown_session = 2, True
        me._links.session.transport.on_up()
        hello = (await fake.next("hello")).body
        assert (hello["session"], hello["resume"], hello["seen"]) == (token, True, 2)
        assert (hello["open"], hello["held"], hello["answered"]) == (
            [request.id],
            [{"id": "e2", "type": "say"}],
            ["e1"],
        )
        assert hello["pools"] == [{"slots": 2, "types": ["say"]}]
        assert request.id in (await fake.next("heartbeat")).body.get("open", [request.id])
        await fake.answer(request, "after all")
        assert await waiting == "after all"
        go_on.set()


async def test_a_session_that_cannot_go_on_begins_anew_and_leaves_nobody_waiting(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> str:
        return "new"

    async with elm.running() as me:
        await fake.next("hello")
        old = fake.session("elm")
        waiting = asyncio.ensure_future(me.send_and_wait("oak", "say"))
        await fake.next("request")
        fake.answers["hello"] = {"ok": False, "error": {"code": "session_used", "message": "used"}}
        fake.unknown_session = True
        me._links.session.transport.on_up()
        assert (await fake.next("hello")).body["resume"] is True
        del fake.answers["hello"]
        with pytest.raises(unknot.Cancelled):
            await waiting
        while fake.session("elm") == old:
            hello = (await fake.next("hello")).body
        assert "resume" not in hello
        await fake.deliver("elm", "say", id="e9", seq=1)
        assert (await fake.next("reply")).body["data"] == "new"


async def test_a_session_whose_place_was_taken_ends(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        token = fake.session("birch")
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.next("request")
        await fake.control("birch", "session.replaced", {"session": token, "by": "other"})
        with pytest.raises(unknot.Cancelled, match="other"):
            await waiting
        async with asyncio.timeout(5):
            await me.closed()
        with pytest.raises(unknot.Cancelled):
            await me.send_and_wait("elm", "say")
    await fake.settled()
    assert fake.seen("bye") == []  # it has nothing to say any more


async def test_a_session_whose_place_was_taken_while_it_came_back_does_not_take_it_again(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.next("hello")
        fake.answers["hello"], fake.unknown_session = None, True
        me._links.session.transport.on_up()
        hello = await fake.next("hello")
        assert hello.body["resume"] is True
        body = {"session": fake.session("birch"), "by": "other"}
        await fake.control("birch", "session.replaced", body)
        async with asyncio.timeout(5):
            await me.closed()
        refusal = b'{"ok": false, "error": {"code": "session_used", "message": "used"}}'
        await fake.client.publish(hello.reply, refusal)
        await fake.settled()
    assert len(fake.seen("hello")) == 2


async def test_hello_is_said_until_a_gateway_answers(fake: Fake) -> None:
    fake.answers["hello"] = None
    connecting = asyncio.create_task(_connected())
    await fake.next("hello")
    del fake.answers["hello"]
    assert await connecting == "birch"


async def _connected() -> str:
    async with unknot.connect("birch") as me:
        return me.agent


async def test_without_a_gateway_connecting_ends_and_says_what_to_do(nats_url: str) -> None:
    with pytest.raises(unknot.Unreachable, match="unknot serve"):
        async with unknot.connect("birch", nats_url, network="nobody", timeout=0.3):
            raise AssertionError


async def test_without_a_server_connecting_ends_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(unknot.Unreachable, match="unknot serve"):
        async with unknot.connect("birch", "nats://127.0.0.1:1", timeout=0.3):
            raise AssertionError


async def test_a_refused_hello_raises(fake: Fake) -> None:
    fake.answers["hello"] = {"ok": False, "error": {"code": "protocol_unknown", "message": "speak 2"}}
    with pytest.raises(unknot.Refused, match="speak 2"):
        async with unknot.connect("birch"):
            raise AssertionError


async def test_draining_finishes_what_is_held(fake: Fake) -> None:
    elm = Agent("elm")
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object) -> str:
        await go_on.wait()
        return "finished"

    async def serve() -> None:
        async with elm.running(drain_s=5):
            await fake.deliver("elm", "say")
            await fake.settled()

    serving = asyncio.create_task(serve())
    assert (await fake.next("bye")).body["drain_s"] == 5
    assert fake.seen("reply") == []
    go_on.set()
    assert (await fake.next("reply")).body["data"] == "finished"
    await serving
    assert "drain_s" not in (await fake.next("bye")).body


async def test_draining_ends(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> None:
        await asyncio.sleep(3600)

    async with elm.running(drain_s=0.1):
        await fake.deliver("elm", "say")
        await fake.settled()
    assert "1 events were not finished" in caplog.text


async def test_a_loop_that_has_ended_is_withdrawn_and_one_that_begins_again_is_served(fake: Fake) -> None:
    fake.heartbeat_s = PULSE_S
    async with unknot.connect("birch") as me:
        await fake.next("hello")
        await fake.deliver("birch", "say", id="e1")
        async for event in me.events():
            await me.reply("done", to=event)
            break
        hello = (await fake.next("hello")).body
        assert hello.get("pools") == []
        assert (await fake.next("bye")).body["session"] != hello["session"]
        waiting = asyncio.ensure_future(anext(aiter(me.events())))
        assert (await fake.next("hello")).body["pools"] == [{"slots": 1, "main": True}]
        await fake.settled()
        await fake.deliver("birch", "say", id="e2", seq=1)
        assert (await waiting).id == "e2"


async def test_a_loop_that_owes_an_answer_is_not_withdrawn(fake: Fake) -> None:
    fake.heartbeat_s = PULSE_S
    async with unknot.connect("birch") as me:
        await fake.next("hello")
        await fake.deliver("birch", "say", id="e1")
        async for _event in me.events():
            break
        await asyncio.sleep(6 * PULSE_S)
        assert len(fake.seen("hello")) == 1
        await me.reply("at last")
        assert (await fake.next("reply")).body["data"] == "at last"


async def test_control_events_are_logged(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "unknot")
    async with unknot.connect("birch") as me:
        await fake.control(
            "birch", "agent.wait.blocked_behind", {"incident": "i1", "cycle": ["a", "b", "a"], "waits": ["w"]}
        )
        await fake.control("birch", "what.is.this", {})
        await fake.settled()
        assert "a -> b -> a" in caplog.text
        assert me.counters["control_unknown"] == 1


def test_all_that_a_session_can_name_at_once_is_one_body() -> None:
    ids = [f"{'x' * 12}-{number:05x}" for number in range(NAMED_IDS_MAX)]
    held = [bodies.Held(id, "deferred", "research.paper.summary.of_all") for id in ids]
    hello = bodies.Hello("s" * 22, resume=True, open=ids, held=held, answered=ids)
    assert len(msgspec.json.encode(hello)) < DATA_BYTES_MAX
    facts = bodies.Facts("s" * 22, "i", open=ids, requests=dict.fromkeys(ids, "deferred"))
    assert len(msgspec.json.encode(facts)) < DATA_BYTES_MAX
