"""Handlers: what is delivered starts at once, what they return is the answer, what they raise is outcome failed."""

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

import unknot
from tests.sdk.fake import Fake
from unknot import Agent, Context


@dataclass
class Draft:
    topic: str
    text: str = ""


class Page(msgspec.Struct):
    number: int


class Note(TypedDict):
    text: str


class Model:
    """What looks like a pydantic model."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def model_validate_json(cls, raw: bytes) -> "Model":
        return cls(**msgspec.json.decode(raw))

    def model_dump(self, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self.fields


async def test_hello_names_each_pool_and_the_types_it_serves(fake: Fake) -> None:
    elm = Agent("elm", concurrency=4, pools={"heavy": 1}, channels=["@team"], reentrant=True, heartbeat_s=2.0)

    @elm.on("say")
    @elm.on("thread.>")
    async def say(data: object) -> None: ...

    @elm.on("build", pool="heavy")
    async def build(data: object) -> None: ...

    async with elm.running():
        hello = fake.sessions["elm"]
        assert hello["pools"] == [
            {"slots": 4, "types": ["thread.>", "say"]},
            {"slots": 1, "types": ["build"]},
        ]
        assert (hello["channels"], hello["reentrant"], hello["heartbeat_s"]) == (["team"], True, 2.0)
        assert len(hello["session"]) >= 16


async def test_a_script_is_one_serial_main_and_one_that_never_reads_has_no_pool(fake: Fake) -> None:
    async with unknot.connect("birch"), unknot.connect("elm", serves=False):
        assert fake.sessions["birch"]["pools"] == [{"slots": 1, "main": True}]
        assert fake.sessions["elm"]["pools"] == []


@pytest.mark.parametrize(
    ("kind", "sent", "returned"),
    [
        (Draft, {"topic": "knots"}, {"topic": "knots", "text": ""}),
        (Page, {"number": 3}, {"number": 3}),
        (Note, {"text": "hi"}, {"text": "hi"}),
        (Model, {"a": [1, 2]}, {"a": [1, 2]}),
        (list[int], [1, 2], [1, 2]),
        (Any, None, None),
    ],
)
async def test_data_is_typed_in_and_out(fake: Fake, kind: Any, sent: object, returned: object) -> None:
    elm = Agent("elm")
    got = []

    async def say(data: Any, ctx: Context) -> Any:
        got.append(data)
        return data

    say.__annotations__["data"] = kind
    elm.on("say")(say)
    async with elm.running():
        await fake.deliver("elm", "say", sent)
        reply = await fake.next("reply")
        assert reply.request_id == "e1"
        assert reply.body.get("data") == returned
        assert "done" not in reply.body  # it ends the handling, too
        if kind not in (Any, Note, list[int]):
            assert isinstance(got[0], kind)


async def test_data_that_does_not_fit_is_outcome_failed_and_says_where(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(draft: Draft) -> None: ...

    async with elm.running():
        await fake.deliver("elm", "say", {"topic": 1})
        error = (await fake.next("reply")).body["error"]
        assert error["code"] == "bad_request"
        assert "$.topic" in error["message"]


async def test_an_exception_is_outcome_failed_with_its_type(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> None:
        raise KeyError("topic")

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("reply")).body["error"] == {
            "code": "handler_failed",
            "message": "KeyError: 'topic'",
            "detail": {"type": "KeyError"},
        }


async def test_a_result_that_has_no_json_is_outcome_failed(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> object:
        return object()

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("reply")).body["error"]["detail"] == {"type": "TypeError"}


async def test_a_one_way_event_frees_its_slot_by_done(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object) -> str:
        return "nobody asked"

    async with elm.running():
        await fake.deliver("elm", "say", asks=False, id="e9")
        assert (await fake.next("done")).body == {"session": fake.session("elm"), "ids": ["e9"]}
        assert fake.seen("reply") == []


async def test_a_plain_function_runs_in_a_thread_and_can_block_on_others(fake: Fake) -> None:
    elm = Agent("elm")
    threads = []

    @elm.on("say")
    def say(data: int, ctx: Any) -> object:
        threads.append(threading.current_thread())
        return ctx.send_and_wait("oak", "double", data)

    async with elm.running():
        await fake.deliver("elm", "say", 21)
        request = await fake.next("request")
        assert (request.body["execution"], request.body.get("strand")) == ("e1", None)
        assert (await fake.facts("elm", executions=["e1"]))["strands"] == {"e1": {}}
        await fake.answer(request, 42)
        assert (await fake.next("reply")).body["data"] == 42
    assert threads[0] is not threading.main_thread()


async def test_an_early_answer_keeps_the_slot_until_the_handler_has_returned(fake: Fake) -> None:
    elm = Agent("elm")
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        await ctx.reply("early")
        await go_on.wait()

    async with elm.running():
        await fake.deliver("elm", "say")
        reply = await fake.next("reply")
        assert (reply.body["data"], reply.body["done"]) == ("early", False)
        assert fake.seen("done") == []
        go_on.set()
        assert (await fake.next("done")).body["ids"] == ["e1"]


async def test_a_deferred_answer_comes_later_from_elsewhere(fake: Fake) -> None:
    elm = Agent("elm")
    later: list[Context] = []

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        ctx.defer(by="main")
        later.append(ctx)

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("defer")).body == {
            "session": fake.session("elm"),
            "ids": ["e1"],
            "by": "main",
        }
        assert (await fake.facts("elm", requests=["e1"]))["requests"] == {"e1": "deferred"}
        await later[0].reply("at last")
        assert (await fake.next("reply")).body["data"] == "at last"
        assert (await fake.facts("elm", requests=["e1"]))["requests"] == {"e1": "done"}
        with pytest.raises(unknot.Refused) as caught:
            await later[0].reply("again")
        assert caught.value.code == "duplicate_reply"


async def test_a_stray_task_may_not_answer_without_defer(fake: Fake) -> None:
    elm = Agent("elm")
    caught: list[unknot.Refused] = []

    @elm.on("say")
    async def say(data: object, ctx: Context) -> str:
        async def stray() -> None:
            try:
                await ctx.reply("mine")
            except unknot.Refused as refused:
                caught.append(refused)

        await asyncio.create_task(stray())
        return "own"

    async with elm.running():
        await fake.deliver("elm", "say")
        assert (await fake.next("reply")).body["data"] == "own"
    assert caught[0].code == "foreign_reply"


async def test_what_is_delivered_twice_runs_once_and_is_answered_again(fake: Fake) -> None:
    elm = Agent("elm")
    runs = []
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object) -> str:
        runs.append(data)
        await go_on.wait()
        return "once"

    async with elm.running() as me:
        await fake.deliver("elm", "say", 1, seq=1)
        await fake.deliver("elm", "say", 1, seq=1, redelivered=True)  # while it runs: ignored
        await fake.settled()
        go_on.set()
        first = await fake.next("reply")
        await fake.deliver("elm", "say", 1, seq=1, redelivered=True)
        second = await fake.next("reply")
        assert first.payload == second.payload
        assert runs == [1]
        assert (me.counters["delivered_twice"], me.counters["answered_again"]) == (1, 1)


async def test_an_abandoned_event_that_comes_late_is_dropped(fake: Fake) -> None:
    elm = Agent("elm")
    runs = []

    @elm.on("say")
    async def say(data: object) -> None:
        runs.append(data)

    async with elm.running():
        await fake.control("elm", "request.abandoned", {"request_id": "e1", "reason": "expired"})
        await fake.deliver("elm", "say", id="e1")
        assert (await fake.next("done")).body["ids"] == ["e1"]
        await fake.settled()
        assert runs == []


async def test_an_abandoned_handler_may_look_and_is_not_stopped(fake: Fake) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> str:
        await ctx.abandoned.wait()
        return ctx.abandoned.reason

    async with elm.running():
        await fake.deliver("elm", "say")
        await fake.settled()
        await fake.control("elm", "request.abandoned", {"request_id": "e1", "reason": "expired"})
        assert (await fake.next("reply")).body["data"] == "expired"


async def test_bug_094_a_handler_holds_up_neither_receipts_nor_facts_nor_other_handlers(fake: Fake) -> None:
    elm = Agent("elm", concurrency=3)
    go_on = asyncio.Event()

    @elm.on("say")
    async def say(data: object) -> None:
        await go_on.wait()

    async with elm.running() as me:
        for n in range(3):
            await fake.deliver("elm", "say", id=f"e{n}")
        facts = await fake.facts("elm", requests=["e0", "e1", "e2", "e3"])
        assert facts["requests"] == {"e0": "running", "e1": "running", "e2": "running"}
        waiting = asyncio.ensure_future(me.send_and_wait("oak", "say"))
        await fake.answer(await fake.next("request"), "meanwhile")
        assert await waiting == "meanwhile"
        go_on.set()
        assert len({(await fake.next("reply")).request_id for _ in range(3)}) == 3


async def test_a_main_loop_reads_one_event_at_a_time(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.deliver("birch", "say", "one", id="e1")
        await fake.deliver("birch", "tell", "two", id="e2", asks=False)
        await fake.deliver("birch", "say", "three", id="e3")
        read = []
        async for event in me.events():
            read.append(event.data)
            if event.id == "e1":
                await me.reply("answer", to=event)
                assert (await fake.next("reply")).body["done"] is False
            if event.id == "e2":
                assert (await fake.next("done")).body["ids"] == ["e1"]
            if event.id == "e3":
                assert (await fake.next("done")).body["ids"] == ["e2"]
                await fake.deliver("birch", "last", id="e4", asks=False)
            if event.id == "e4":
                # e3 was not answered before the loop read on: main owes it, or a task that it was handed to
                assert (await fake.next("defer")).body == {"session": fake.session("birch"), "ids": ["e3"]}
                await me.reply("late but kept", to="e3")
                assert (await fake.next("reply")).request_id == "e3"
                break
        assert read == ["one", "two", "three", None]


async def test_an_event_abandoned_before_it_was_read_is_not_read(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        await fake.deliver("birch", "say", id="e1")
        await fake.control("birch", "request.abandoned", {"request_id": "e1", "reason": "cancelled"})
        await fake.deliver("birch", "say", id="e2")
        async for event in me.events():
            assert event.id == "e2"
            break
        assert (await fake.next("done")).body["ids"] == ["e1"]


@pytest.mark.parametrize("mode", ["allow", "warn", "forbid"])
async def test_blocking_waits_in_handlers_are_allowed_warned_of_once_or_refused(
    fake: Fake, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    elm = Agent("elm", blocking_waits=mode)

    @elm.on("say")
    async def say(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("oak", "say")

    async with elm.running():
        for n in range(2):
            await fake.deliver("elm", "say", id=f"e{n}")
            if mode != "forbid":
                await fake.answer(await fake.next("request"))
            body = (await fake.next("reply")).body
            assert ("error" in body) == (mode == "forbid")
        assert len(fake.seen("request")) == (0 if mode == "forbid" else 2)
    warned = [record for record in caplog.records if "blocks on another agent" in record.message]
    assert len(warned) == (1 if mode == "warn" else 0)


async def test_a_task_spawned_in_a_handler_may_block_even_where_handlers_may_not(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="forbid")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> object:
        return await asyncio.create_task(ctx.send_and_wait("oak", "say"))

    async with elm.running():
        await fake.deliver("elm", "say")
        await fake.answer(await fake.next("request"), "fine")
        assert (await fake.next("reply")).body["data"] == "fine"


async def test_a_handler_of_several_slots_is_not_warned_of(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    elm = Agent("elm", concurrency=2)

    @elm.on("say")
    async def say(data: object, ctx: Context) -> object:
        return await ctx.send_and_wait("oak", "say")

    async with elm.running():
        await fake.deliver("elm", "say")
        await fake.answer(await fake.next("request"))
        await fake.next("reply")
    assert [record for record in caplog.records if "blocks" in record.message] == []


def test_the_environment_decides_where_the_agent_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNKNOT_BLOCKING_WAITS", "forbid")
    assert Agent("elm")._blocking_waits == "forbid"
    assert Agent("elm", blocking_waits="allow")._blocking_waits == "allow"
    monkeypatch.setenv("UNKNOT_BLOCKING_WAITS", "maybe")
    with pytest.raises(ValueError, match="maybe"):
        Agent("elm")


def test_an_agent_says_at_import_time_what_is_wrong_with_it() -> None:
    elm = Agent("elm")
    with pytest.raises(ValueError, match="no pool 'heavy'"):
        elm.on("say", pool="heavy")
    with pytest.raises(ValueError, match="Say"):
        elm.on("Say")
    with pytest.raises(ValueError, match="cannot name an agent"):
        Agent("el m")
    with pytest.raises(ValueError, match="slots"):
        Agent("elm", concurrency=0)
    with pytest.raises(TypeError, match="must take"):
        elm.on("say")(lambda: None)
    with pytest.raises(ValueError, match="pattern"):
        Agent("elm", topics=["Build"])
    with pytest.raises(ValueError, match="cannot name"):
        Agent("elm", channels=["#team"])
    elm.on("say")(lambda data: None)
    with pytest.raises(ValueError, match="already"):
        elm.on("say")


async def test_a_handler_still_running_at_the_end_is_ended(fake: Fake) -> None:
    elm = Agent("elm")
    ended = []

    @elm.on("say")
    async def say(data: object) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(time.monotonic())

    async with elm.running():
        await fake.deliver("elm", "say")
        await fake.settled()
    assert ended


async def test_a_script_is_told_at_once_what_cannot_be_its_name_or_network(nats_url: str) -> None:
    for options in (
        {"name": "bir ch"},
        {"name": "birch", "network": "my net"},
        {"name": "birch", "channels": ["a b"]},
    ):
        with pytest.raises(ValueError, match="cannot name"):
            async with unknot.connect(url=nats_url, **options):  # type: ignore[arg-type]
                raise AssertionError
