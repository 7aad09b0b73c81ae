"""WIRE section 4: the gateway keeps the queue of each agent; delivered means started."""

import asyncio

import pytest

from tests.wire.raw import Net, Peer, new_id
from tests.wire.shapes import in_hand


async def test_what_was_delivered_has_a_slot_what_has_none_waits(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 2)
    ids = [await birch.request(elm) for _ in range(3)]
    assert [(await elm.event())["id"] for _ in range(2)] == ids[:2]
    await net.settled()
    assert not elm.inbox.left("event")


async def test_the_queue_is_first_in_first_out(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    ids = [await birch.request(elm) for _ in range(6)]
    for request_id in ids:
        event = await elm.event()
        assert event["id"] == request_id
        await net.settled()
        assert not elm.inbox.left("event")
        await elm.answer(event)


async def test_what_no_slot_can_take_now_is_passed_over(net: Net) -> None:
    birch = await net.peer("birch")
    elm = await net.peer("elm", pools=[{"slots": 1, "types": ["heavy.>"]}, {"slots": 1}])
    for _ in range(3):
        await birch.request(elm, "heavy.render")
    await elm.event("heavy.render")
    await birch.request(elm, "light.peek")
    await elm.event("light.peek")
    await net.settled()
    assert not elm.inbox.left("event")


async def test_pools_share_nothing_and_types_none_takes_what_no_other_pool_names(net: Net) -> None:
    birch = await net.peer("birch")
    elm = await net.peer(
        "elm", pools=[{"slots": 1, "types": ["a.*"]}, {"slots": 1, "types": ["b.>"]}, {"slots": 1}]
    )
    for event_type in ("a.x", "a.y", "b.x.y", "b.z", "c", "a"):
        await birch.send(elm, event_type)
    await net.settled()
    assert [e["type"] for e in elm.inbox.left("event")] == ["a.x", "b.x.y", "c"]


async def test_the_queue_is_visible_with_positions(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    ids = [await birch.request(elm) for _ in range(4)]
    await elm.event()
    rows = {w["id"]: w for w in await net.waits()}
    assert [rows[i]["state"] for i in ids] == ["running", "queued", "queued", "queued"]
    assert [rows[i].get("position") for i in ids] == [None, 1, 2, 3]


async def test_slots_null_and_agents_without_hello_get_all_at_once(net: Net) -> None:
    birch = await net.peer("birch")
    for elm in (await net.peer("elm", pools=[{"slots": None}]), await net.stranger("flint")):
        for _ in range(50):
            await birch.request(elm)
        for _ in range(50):
            await elm.event()


async def test_a_reply_to_a_queued_request_takes_it_out(net: Net) -> None:
    """Its responder had it before a restart."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    busy = await in_hand(birch, elm)
    queued = await birch.request(elm)
    await net.settled()
    assert (await elm.answer_id(queued, "known already"))["ok"] is True
    assert (await birch.outcome(queued))["event"]["data"] == "known already"
    await elm.answer(busy)
    await net.settled()
    assert not elm.inbox.left("event")


async def test_a_one_way_event_waits_at_most_its_timeout_then_it_is_dropped(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    busy = await in_hand(birch, elm)
    dropped = await net.counter("dropped.expired")
    await birch.send(elm, "too.late", timeout_s=0.4)
    await birch.send(elm, "in.time", timeout_s=20)
    await asyncio.sleep(0.5)
    await elm.answer(busy)
    await elm.event("in.time")
    await net.settled()
    assert not elm.inbox.left("event")
    assert await net.counter("dropped.expired") == dropped + 1


async def test_a_one_way_event_holds_a_slot_until_done(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await birch.send(elm, data=1)
    await birch.send(elm, data=2)
    first = await elm.event()
    await net.settled()
    assert not elm.inbox.left("event")
    await elm.done(first)
    assert (await elm.event())["data"] == 2


# ---- what frees a slot


async def freed(birch: Peer, elm: Peer) -> None:
    """A request sent now is started at once."""
    request_id = await birch.request(elm, "next.one")
    assert (await elm.event("next.one"))["id"] == request_id


async def held(birch: Peer, elm: Peer) -> None:
    """A request sent now is not started."""
    await birch.request(elm, "next.one")
    await birch.net.settled()
    assert not elm.inbox.left("event")


async def test_a_slot_is_freed_by_the_answer_that_ends_it(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.answer(await in_hand(birch, elm))
    await freed(birch, elm)


async def test_an_early_answer_answers_and_keeps_the_slot_until_done(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.answer(event, "early", done=False)
    assert (await birch.outcome(event["id"]))["event"]["data"] == "early"
    await held(birch, elm)
    await elm.done(event)
    await elm.event("next.one")


async def test_defer_frees_the_slot_and_the_answer_comes_later(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.defer(event)
    await freed(birch, elm)
    await elm.answer(event, "from a webhook")
    assert (await birch.outcome(event["id"]))["event"]["data"] == "from a webhook"


async def test_done_for_a_request_neither_answered_nor_deferred_ends_it_failed_no_answer(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.done(event)
    outcome = await birch.outcome(event["id"])
    assert outcome["outcome"] == "failed"
    assert outcome["error"]["code"] == "no_answer"
    await freed(birch, elm)


async def test_a_late_answer_of_the_session_that_took_it_frees_the_slot(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm, timeout_s=0.4)
    await birch.outcome(event["id"])
    await held(birch, elm)
    await elm.answer(event, "late")
    await elm.event("next.one")


async def test_an_expired_request_keeps_its_slot_until_its_handler_has_ended(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm, timeout_s=0.4)
    await birch.outcome(event["id"])
    await elm.control("request.abandoned")
    await held(birch, elm)
    await elm.done(event)
    await elm.event("next.one")


async def test_two_heartbeats_that_omit_a_held_event_free_its_slot(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", heartbeat_s=0.5)
    await birch.send(elm)
    event = await elm.event()
    await birch.request(elm, "next.one")
    elm.held.pop(event["id"])
    async with elm.beating(0.4):
        await elm.event("next.one")


async def test_an_open_request_that_two_heartbeats_omit_is_delivered_once_more_then_it_has_no_answer(
    net: Net,
) -> None:
    """Its answer may have been lost: a client that kept it gives it again."""
    birch, elm = await net.peer("birch"), await net.worker("elm", heartbeat_s=0.5)
    event = await in_hand(birch, elm)
    await birch.request(elm, "next.one")
    elm.keeps = False
    elm.held.clear()
    async with elm.beating(0.4):
        again = await elm.event("work.do")
        assert (again["id"], again["seq"], again["redelivered"]) == (event["id"], event["seq"], True)
        outcome = await birch.outcome(event["id"])
        assert (outcome["outcome"], outcome["error"]["code"]) == ("failed", "no_answer")
        await elm.event("next.one")


async def test_the_answer_that_was_lost_is_given_again_to_the_repeated_delivery(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", heartbeat_s=0.5)
    event = await in_hand(birch, elm)
    elm.held.clear()  # it has answered; the answer never arrived
    async with elm.beating(0.4):
        await elm.answer(await elm.event(), "kept")
        assert (await birch.outcome(event["id"]))["event"]["data"] == "kept"


async def test_a_held_event_that_heartbeats_name_keeps_its_slot(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", heartbeat_s=0.5)
    await in_hand(birch, elm)
    async with elm.beating(0.3):
        await asyncio.sleep(1.6)
    await held(birch, elm)


async def test_a_lost_defer_is_cured_by_the_heartbeat(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await birch.request(elm, "next.one")
    elm.held[event["id"]] = "deferred"
    await elm.heartbeat()
    await elm.event("next.one")
    await elm.answer(event, "as promised")
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"


async def test_the_end_of_the_session_frees_its_slots_for_the_next_one(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    first = await in_hand(birch, elm)
    second = await birch.request(elm, wait_for_target_s=10)
    await elm.bye()
    assert (await birch.outcome(first["id"]))["outcome"] == "responder_lost"
    again = await net.worker("elm")
    assert (await again.event())["id"] == second


async def test_a_main_pools_slot_is_freed_when_the_loop_reads_the_next_event(net: Net) -> None:
    """Reading on without having answered says ``defer`` by main; after a one-way event, ``done``."""
    birch, elm = await net.peer("birch"), await net.peer("elm")
    one_way = await birch.send(elm, "tell.it")
    asked = await birch.request(elm, "ask.it")
    event = await elm.event()
    assert event["id"] == one_way["id"]
    await net.settled()
    assert not elm.inbox.left("event")
    await elm.done(event)
    question = await elm.event("ask.it")
    await held(birch, elm)
    await elm.defer(question, by="main")
    await elm.event("next.one")
    await elm.answer(question, "after all")
    assert (await birch.outcome(asked))["event"]["data"] == "after all"


async def test_an_abandoned_event_still_in_the_clients_hands_frees_the_main_pools_slot_at_once(
    net: Net,
) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    event = await in_hand(birch, elm)
    await birch.request(elm, "next.one")
    await birch.cancel(event["id"])
    await elm.control("request.abandoned")
    await elm.done(event)  # the loop never read it: the client drops it and says so
    await elm.event("next.one")


@pytest.mark.parametrize(
    "ways", [("answer", "done"), ("done", "done"), ("defer", "answer"), ("answer", "answer")]
)
async def test_one_event_frees_one_slot_however_often_it_is_said(net: Net, ways: tuple[str, str]) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    for _ in range(3):
        await birch.request(elm, "next.one")
    for way in ways:
        await getattr(elm, way)(event)
    await elm.event("next.one")
    await net.settled()
    assert not elm.inbox.left("event")


async def test_the_done_of_an_expired_request_and_its_late_answer_free_one_slot(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm, timeout_s=0.4)
    for _ in range(3):
        await birch.request(elm, "next.one")
    await birch.outcome(event["id"])
    await elm.answer(event, "late")
    await elm.done(event)
    await elm.event("next.one")
    await net.settled()
    assert not elm.inbox.left("event")


async def test_positions_close_up_when_a_queued_request_is_withdrawn(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await in_hand(birch, elm)
    first, second = await birch.request(elm), await birch.request(elm)
    await birch.cancel(first)
    row = await net.wait_row(second)
    assert row is not None
    assert row["position"] == 1


# ---- numbered deliveries


async def test_deliveries_to_a_session_are_numbered_from_1(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 5)
    for _ in range(5):
        await birch.send(elm)
    assert [(await elm.event())["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_a_lost_delivery_is_delivered_again_to_the_same_session_and_says_so(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3, heartbeat_s=0.5)
    spy = await net.listen(net.subjects.out(elm.agent, elm.session))  # no 503: the loss goes unnoticed
    await elm.deafen()
    request_id = await birch.request(elm)
    await spy.take(lambda a: a.kind == "event", "the delivery that is lost")
    await elm.listen()
    async with elm.beating(0.4):
        event = await elm.event()
    assert event["id"] == request_id
    assert event["seq"] == 1
    assert event["redelivered"] is True


async def test_what_arrived_is_not_delivered_again(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3, heartbeat_s=0.5)
    for _ in range(3):
        await birch.request(elm)
        await elm.event()
    async with elm.beating(0.3):
        await asyncio.sleep(1.5)
    await net.settled()
    assert not elm.inbox.left("event")


async def test_an_answer_given_again_to_a_repeated_delivery_is_harmless(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.answer(event, "same")
    await birch.outcome(event["id"])
    assert (await elm.answer(event, "same"))["error"]["code"] == "duplicate_reply"
    await net.settled()
    assert not birch.inbox.left("outcome")


# ---- channels


async def test_a_channel_request_reaches_each_member_on_its_own_subject_with_its_own_reply_subject(
    net: Net,
) -> None:
    channel = net.name("pool")
    members = [await net.worker(name, channels=[channel]) for name in ("elm", "flint", "grove")]
    birch = await net.peer("birch")
    request_id = await birch.request(f"@{channel}", "pick.me")
    for member in members:
        came = await member.event_arrival()
        assert came.subject == net.subjects.deliver(member.agent, member.session, "pick.me")
        assert came.reply == net.subjects.reply(member.agent, request_id)
        assert came.body["id"] == request_id


async def test_the_first_answer_to_a_channel_request_wins_and_the_rest_are_withdrawn(net: Net) -> None:
    channel = net.name("pool")
    elm, flint, grove = [await net.worker(name, channels=[channel]) for name in ("elm", "flint", "grove")]
    birch = await net.peer("birch")
    busy = await in_hand(birch, grove)
    request_id = await birch.request(f"@{channel}")
    for member in (elm, flint):
        await member.event()
    answer = await flint.answer_id(request_id, "I")
    assert answer["ok"] is True
    outcome = await birch.outcome(request_id)
    assert outcome["event"]["source"] == flint.agent
    await elm.control("request.abandoned", request_id=request_id)
    await grove.answer(busy)
    await net.settled()
    assert not grove.inbox.left("event"), "still queued there: never delivered"
    assert not flint.inbox.left("request.abandoned")
    assert (await elm.answer_id(request_id, "me too"))["ok"] is False
    await birch.outcome(busy["id"])
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_a_channel_request_is_admitted_per_member(net: Net) -> None:
    channel = net.name("pool")
    elm, flint = [await net.worker(name, channels=[channel]) for name in ("elm", "flint")]
    birch = await net.peer("birch")
    busy = await in_hand(birch, elm)
    request_id = await birch.request(f"@{channel}")
    await flint.event()
    await net.settled()
    assert not elm.inbox.left("event")
    await elm.answer(busy)
    assert (await elm.event())["id"] == request_id


async def test_a_channel_request_does_not_come_back_to_the_member_that_sent_it(net: Net) -> None:
    channel = net.name("pool")
    elm, flint = [await net.worker(name, 4, channels=[channel]) for name in ("elm", "flint")]
    request_id = await elm.request(f"@{channel}", execution="x")
    await flint.answer(await flint.event(), 1)
    assert (await elm.outcome(request_id))["event"]["source"] == flint.agent
    await net.settled()
    assert not elm.inbox.left("event")


async def test_a_channel_without_members_is_unreachable(net: Net) -> None:
    birch = await net.peer("birch")
    assert (await birch.send_and_wait(f"@{net.name('void')}"))["outcome"] == "unreachable"


async def test_who_joins_while_a_channel_request_waits_for_its_target_gets_it(net: Net) -> None:
    channel = net.name("pool")
    birch = await net.peer("birch")
    request_id = await birch.request(f"@{channel}", wait_for_target_s=10)
    await net.settled()
    elm = await net.worker("elm", channels=[channel])
    assert (await elm.event())["id"] == request_id


# ---- what takes no slot


async def test_what_answers_an_agents_own_ask_takes_no_slot(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.worker("elm")
    await in_hand(elm, birch)
    asked = await birch.ask(elm)
    await elm.answer(await elm.event(), "here")
    assert (await birch.outcome(asked["id"]))["event"]["data"] == "here"


async def test_what_answers_an_open_expect_takes_no_slot_and_names_the_wait(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.peer("elm")
    await in_hand(elm, birch)
    wait = await birch.wait_open({"kind": "event", "id": "page.*"})
    await elm.send(birch, "page.read", {"n": 1})
    event = await birch.event("page.read")
    assert event["for"] == wait["id"]
    await elm.send(birch, "other.type")
    await net.settled()
    assert not birch.inbox.left("event")


async def test_an_expect_takes_only_what_its_source_sends(net: Net) -> None:
    birch, elm, flint = await net.worker("birch"), await net.peer("elm"), await net.peer("flint")
    await in_hand(elm, birch)
    wait = await birch.wait_open({"kind": "event", "id": "page.*", "source": elm.agent})
    await flint.send(birch, "page.read", "not this")
    await elm.send(birch, "page.read", "this")
    event = await birch.event("page.read")
    assert (event["data"], event["for"]) == ("this", wait["id"])
    await net.settled()
    assert not birch.inbox.left("event")


# ---- bounds


async def test_a_full_queue_answers_over_limit_and_when_to_come_again(net: Net, queue_max: int) -> None:
    birch, elm, flint = await net.peer("birch"), await net.worker("elm"), await net.echo("flint")
    await in_hand(birch, elm)
    for _ in range(queue_max):
        await net.tell(birch.subject("send", elm, "work.do"), birch.envelope({"id": new_id()}))
    receipt = await birch.send(elm)
    assert receipt["ok"] is False
    outcome = await birch.send_and_wait(elm)
    assert outcome["outcome"] == "over_limit"
    assert outcome["handled"] == "no"
    for refused in (receipt, outcome):
        assert refused["error"]["code"] == "over_limit"
        assert refused["error"]["detail"]["retry_after_s"] > 0
    assert (await birch.send_and_wait(flint, data=1))["outcome"] == "reply", "nobody else is concerned"
