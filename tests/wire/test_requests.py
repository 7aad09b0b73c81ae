"""WIRE section 3: every blocking request ends in exactly one Outcome, and only what may end it does."""

import asyncio
import json

import pytest

from tests.wire.raw import Inbox, Json, Net, Peer, new_id
from tests.wire.shapes import in_hand, untimed

NOBODY = "nobody-ever"


async def spy_on_outcomes(net: Net, *peers: Peer) -> list[Inbox]:
    return [await net.listen(net.subjects.outcome(p.agent, p.session)) for p in peers]


# ---- waiter first, one Outcome


async def test_the_waiter_is_registered_before_anything_is_sent(net: Net) -> None:
    """The answer may be faster than anything the asker does next."""
    birch, elm = await net.peer("birch"), await net.echo("elm")
    ids = [await birch.request(elm, data=n) for n in range(300)]
    answers = [(await birch.outcome(i))["event"]["data"] for i in ids]
    assert answers == list(range(300))


async def test_a_request_has_one_outcome_whatever_comes_later(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s=0.4)
    event = await elm.event()
    await elm.answer(event, "first")
    await birch.outcome(request_id)
    await elm.answer(event, "second")
    await elm.done(event)
    await birch.cancel(request_id)
    await asyncio.sleep(0.4)  # its deadline passes
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_an_outcome_is_repeated_on_reconciliation_and_never_contradicted(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await elm.answer(await elm.event(), "said once")
    first = await birch.outcome(request_id)
    await birch.heartbeat(open=[request_id])
    assert untimed(await birch.outcome(request_id)) == untimed(first)


async def test_request_cancel_ends_a_request_cancelled(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await elm.event()
    assert (await birch.cancel(request_id))["ok"] is True
    assert (await birch.outcome(request_id))["outcome"] == "cancelled"
    assert (await elm.control("request.abandoned", request_id=request_id))["reason"] == "cancelled"


async def test_nobody_can_cancel_the_request_of_another(net: Net) -> None:
    birch, elm, heath = await net.peer("birch"), await net.worker("elm"), await net.peer("heath")
    request_id = await birch.request(elm)
    event = await elm.event()
    await heath.cancel(request_id)
    await elm.answer(event, "still wanted")
    assert (await birch.outcome(request_id))["outcome"] == "reply"


async def test_cancelling_an_unknown_id_does_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    never = new_id()
    await birch.cancel(never)
    assert (await birch.send_and_wait(elm, data=1, id=never))["outcome"] == "reply"


# ---- replies


async def test_a_reply_ends_exactly_the_request_it_names(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    ids = [await birch.request(elm, data=n) for n in range(3)]
    events = [await elm.event() for _ in ids]
    await elm.answer(events[1], "one")
    assert (await birch.outcome(ids[1]))["event"]["data"] == "one"
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert {w["id"] for w in await net.waits()} == {ids[0], ids[2]}


async def test_a_reply_from_anybody_but_the_target_changes_nothing(net: Net) -> None:
    birch, elm, heath = await net.peer("birch"), await net.worker("elm"), await net.peer("heath")
    before = await net.counter("foreign_reply")
    request_id = await birch.request(elm)
    event = await elm.event()
    assert code(await heath.answer_id(request_id, "mine")) == "foreign_reply"
    assert await net.counter("foreign_reply") == before + 1
    await elm.answer(event, "right")
    assert (await birch.outcome(request_id))["event"]["data"] == "right"


async def test_a_channel_request_is_answered_only_by_a_member(net: Net) -> None:
    channel = net.name("pool")
    birch, elm = await net.peer("birch"), await net.worker("elm", channels=[channel])
    heath = await net.worker("heath")
    request_id = await birch.request(f"@{channel}")
    event = await elm.event()
    assert code(await heath.answer_id(request_id, "no member")) == "foreign_reply"
    await elm.answer(event, "a member")
    assert (await birch.outcome(request_id))["event"]["source"] == elm.agent


async def test_a_counter_request_is_no_reply(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.worker("elm")
    request_id = await birch.request(elm, execution="x1")
    event = await elm.event()
    await elm.request(birch, data="my answer", execution=event["id"], metadata={"response_to": request_id})
    counter = await birch.event()
    await net.settled()
    assert not birch.inbox.left("outcome")
    await birch.answer(counter, "ok")
    await elm.answer(event, "the reply")
    assert (await birch.outcome(request_id))["event"]["data"] == "the reply"


async def test_an_unknown_reply_changes_nothing_and_is_counted(net: Net) -> None:
    elm = await net.worker("elm")
    before = await net.counter("unknown_reply")
    assert code(await elm.answer_id(new_id(), 1)) == "unknown_reply"
    assert await net.counter("unknown_reply") == before + 1


async def test_a_late_reply_changes_nothing_and_is_counted(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    before = await net.counter("late_reply")
    request_id = await birch.request(elm, timeout_s=0.4)
    event = await elm.event()
    assert (await birch.outcome(request_id))["outcome"] == "expired"
    assert code(await elm.answer(event, "too late")) == "late_reply"
    assert await net.counter("late_reply") == before + 1
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_a_second_reply_is_told_that_it_is_one(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    event = await elm.event()
    assert (await elm.answer(event, 1))["ok"] is True
    await birch.outcome(request_id)
    assert code(await elm.answer(event, 2)) == "duplicate_reply"


@pytest.mark.parametrize(
    "ack",
    [
        {"stream": "ORDERS", "seq": 7},
        {"stream": "ORDERS", "seq": 7, "duplicate": True},
        {"stream": "ORDERS", "domain": "hub", "seq": 7},
    ],
)
async def test_a_jetstream_acknowledgement_is_never_a_reply(net: Net, ack: Json) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    before = await net.counter("pub_ack")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    await net.tell(came.reply, ack)
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert await net.counter("pub_ack") == before + 1
    await elm.answer(came.body, "real")
    assert (await birch.outcome(request_id))["event"]["data"] == "real"


@pytest.mark.parametrize("data", [{"stream": "x", "seq": 1, "more": 1}, {"rows": []}, {}])
async def test_bare_data_that_only_resembles_an_acknowledgement_is_a_reply(net: Net, data: Json) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await net.tell((await elm.event_arrival()).reply, data)
    assert (await birch.outcome(request_id))["event"]["data"] == data


# ---- withdraw first


@pytest.mark.parametrize("ending", ["expired", "cancelled"])
async def test_a_started_request_is_abandoned_before_its_outcome_is_told(net: Net, ending: str) -> None:
    """One session is asker and responder, so that one subscription shows the order."""
    birch = await net.worker("birch", 2)
    request_id = await birch.request(birch, timeout_s=0.4 if ending == "expired" else 20, execution="x")
    await birch.event()
    if ending == "cancelled":
        await birch.cancel(request_id)
    assert (await birch.outcome(request_id))["outcome"] == ending
    order = [a.kind for a in birch.inbox.all]
    assert order == ["event", "request.abandoned", "outcome"]
    assert (await birch.control("request.abandoned"))["reason"] == ending


@pytest.mark.parametrize("ending", ["expired", "cancelled"])
async def test_a_queued_request_is_dropped_before_its_outcome_and_never_delivered(
    net: Net, ending: str
) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    busy = await in_hand(birch, elm)
    queued = await birch.request(elm, timeout_s=0.4 if ending == "expired" else 20)
    if ending == "cancelled":
        await birch.cancel(queued)
    assert (await birch.outcome(queued))["outcome"] == ending
    await elm.answer(busy)
    await net.settled()
    assert not elm.inbox.left("event", "request.abandoned")


async def test_reply_and_failed_abandon_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    for fields in ({"data": 1}, {"error": {"code": "handler_failed", "message": "no"}}):
        request_id = await birch.request(elm)
        await elm.answer(await elm.event(), **fields)
        await birch.outcome(request_id)
    await net.settled()
    assert not elm.inbox.left("request.abandoned")


# ---- refused


async def test_what_is_refused_after_its_id_could_be_read_ends_with_outcome_refused(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s="soon")
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "refused"
    assert outcome["handled"] == "no"
    assert outcome["error"]["code"] == "bad_request"


async def test_an_id_conflict_settles_nobodys_request(net: Net) -> None:
    birch, elm, heath = await net.peer("birch"), await net.worker("elm", 2), await net.peer("heath")
    request_id = await birch.request(elm, data="mine")
    event = await elm.event()
    receipt = await heath.send_and_wait(elm, data="theirs", id=request_id, timeout_s=3)
    assert receipt["ok"] is False
    assert code(receipt) == "id_conflict"
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert not elm.inbox.left("event")
    await elm.answer(event, "good")
    assert (await birch.outcome(request_id))["event"]["data"] == "good"


# ---- idempotent


async def test_the_same_request_again_is_delivered_once_and_answered_alike(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    request_id = await birch.request(elm, data={"n": 1})
    await birch.request(elm, data={"n": 1}, id=request_id)
    event = await elm.event()
    await elm.answer(event, "once")
    first = await birch.outcome(request_id)
    again = await birch.send_and_wait(elm, data={"n": 1}, id=request_id)
    assert untimed(again) == untimed(first)
    await net.settled()
    assert not elm.inbox.left("event")


async def test_a_resend_is_the_same_whatever_its_times_and_trace(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    receipts = [
        await birch.ask(elm, data=[1], id=f"same-{net.tag}", timeout_s=timeout, traceparent=trace)
        for timeout, trace in ((20, "00-a-b-01"), (30, "00-c-d-00"))
    ]
    assert [r["ok"] for r in receipts] == [True, True]
    assert [r.get("duplicate", False) for r in receipts] == [False, True]
    await elm.event()
    await net.settled()
    assert not elm.inbox.left("event")


async def test_a_one_way_event_sent_again_is_delivered_once(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    first = await birch.send(elm, data=1, id=f"once-{net.tag}")
    again = await birch.send(elm, data=1, id=f"once-{net.tag}")
    assert (first["ok"], again["ok"]) == (True, True)
    assert again["duplicate"] is True
    await elm.done(await elm.event())
    third = await birch.send(elm, data=1, id=f"once-{net.tag}")
    assert third["duplicate"] is True
    await net.settled()
    assert not elm.inbox.left("event")


@pytest.mark.parametrize("what", ["source", "type", "target", "data", "the spelling of data"])
async def test_the_same_id_with_other_content_is_a_conflict(net: Net, what: str) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    heath = await net.worker("heath", 4)
    await birch.ask(elm, "work.do", {"n": 1}, id=(same := new_id()))
    await elm.event()
    if what == "source":
        receipt = await heath.ask(elm, "work.do", {"n": 1}, id=same)
    elif what == "type":
        receipt = await birch.ask(elm, "work.undo", {"n": 1}, id=same)
    elif what == "target":
        receipt = await birch.ask(heath, "work.do", {"n": 1}, id=same)
    elif what == "data":
        receipt = await birch.ask(elm, "work.do", {"n": 2}, id=same)
    else:
        body = json.dumps(birch.envelope({"id": same, "data": {"n": 1}})).replace('{"n": 1}', '{"n":1}')
        receipt = await net.call(birch.subject("ask", elm, "work.do"), body.encode())
    assert code(receipt) == "id_conflict"
    await net.settled()
    assert not elm.inbox.left("event")
    assert not heath.inbox.left("event")


async def test_a_closed_id_is_remembered_after_its_body_is_forgotten(net: Net) -> None:
    """A heartbeat that no longer names it lets the Outcome's body go; the id stays for 30 s."""
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    request_id = await birch.request(elm, data=1)
    await elm.answer(await elm.event(), "x")
    await birch.outcome(request_id)
    await birch.heartbeat(open=[])
    again = await birch.send_and_wait(elm, data=1, id=request_id, timeout_s=3)
    assert again.get("error", {}).get("code") == "outcome_forgotten" or again["outcome"] == "reply"
    await net.settled()
    assert not elm.inbox.left("event"), "no second delivery"


async def test_without_hello_the_body_of_an_outcome_is_kept_2_s(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.worker("elm", 4)
    request_id = await birch.request(elm, data=1)
    await elm.answer(await elm.event(), "x")
    await birch.outcome(request_id)
    again = await birch.send_and_wait(elm, data=1, id=request_id, timeout_s=3)
    assert again["event"]["data"] == "x"


# ---- absent targets


async def test_an_agent_that_left_is_unreachable_at_once(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.bye()
    outcome = await birch.send_and_wait(elm)
    assert outcome["outcome"] == "unreachable"
    assert outcome["handled"] == "no"
    assert outcome["error"]["code"] == "unreachable"


async def test_or_it_is_unreachable_after_wait_for_target_s(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.bye()
    started = now()
    outcome = await birch.send_and_wait(elm, wait_for_target_s=0.5)
    assert outcome["outcome"] == "unreachable"
    assert now() - started >= 0.5


async def test_start_order_does_not_matter_within_wait_for_target_s(net: Net) -> None:
    birch = await net.peer("birch")
    elm = await net.worker("elm")
    await elm.bye()
    request_id = await birch.request(elm, data=5, wait_for_target_s=10)
    await net.settled()
    row = await net.wait_row(request_id)
    assert row is not None
    assert row["state"] == "absent"
    late = await net.worker("elm")
    assert (await late.event())["id"] == request_id


async def test_who_never_said_hello_and_does_not_listen_is_unreachable_at_once(net: Net) -> None:
    birch = await net.peer("birch")
    outcome = await birch.send_and_wait(net.name(NOBODY))
    assert outcome["outcome"] == "unreachable"
    assert outcome["handled"] == "no"


async def test_who_never_said_hello_is_tried_again_until_wait_for_target_s(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.stranger("elm", listens=False)
    request_id = await birch.request(elm, wait_for_target_s=10)
    await asyncio.sleep(0.4)
    await elm.listen()
    assert (await elm.event())["id"] == request_id
    gone = await birch.send_and_wait(net.name(NOBODY), wait_for_target_s=0.6)
    assert gone["outcome"] == "unreachable"


async def test_who_never_said_hello_may_say_it_while_a_request_waits_for_it(net: Net) -> None:
    birch = await net.peer("birch")
    request_id = await birch.request(net.name("elm"), wait_for_target_s=10)
    await net.settled()
    elm = await net.worker("elm")
    assert (await elm.event())["id"] == request_id


async def test_a_spy_silences_the_servers_hint_and_the_deadline_decides(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.stranger("elm", listens=False)
    await net.listen(net.subjects.out(elm.agent, "*"))
    outcome = await birch.send_and_wait(elm, timeout_s=0.4)
    assert outcome["outcome"] in ("expired", "unreachable")


async def test_the_session_table_is_the_truth_a_spy_does_not_make_an_absent_agent_present(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await net.listen(net.subjects.out(elm.agent, "*"))
    await elm.bye()
    assert (await birch.send_and_wait(elm))["outcome"] == "unreachable"


async def test_a_type_that_no_pool_of_a_live_session_names_is_refused(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm", pools=[{"slots": 1, "types": ["review.>"]}])
    outcome = await birch.send_and_wait(elm, "cook.soup", wait_for_target_s=5)
    assert outcome["outcome"] == "refused"
    assert outcome["handled"] == "no"
    assert outcome["error"]["code"] == "not_subscribed"


async def test_a_503_for_a_live_session_only_delays_its_delivery(net: Net) -> None:
    """A client in its NATS reconnect has no subscriptions for a moment."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.deafen()
    request_id = await birch.request(elm)
    await net.settled()
    await asyncio.sleep(0.3)
    await elm.listen()
    event = await elm.event()
    assert event["id"] == request_id
    assert event["seq"] == 1
    await elm.answer(event, "here")
    assert (await birch.outcome(request_id))["outcome"] == "reply"


async def test_what_cannot_be_delivered_to_a_live_session_ends_at_its_deadline(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.deafen()
    outcome = await birch.send_and_wait(elm, timeout_s=0.5)
    assert outcome["outcome"] == "expired"


async def test_a_one_way_event_for_nobody_is_told_in_its_receipt(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await elm.bye()
    for target in (elm, net.name(NOBODY)):
        receipt = await birch.send(target)
        assert receipt["ok"] is False
        assert code(receipt) == "unreachable"


async def test_a_one_way_event_of_a_type_that_nobody_serves_is_told_in_its_receipt(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm", pools=[{"slots": 1, "types": ["review.>"]}])
    assert code(await birch.send(elm, "cook.soup")) == "not_subscribed"


async def test_the_session_of_another_agent_is_worth_nothing(net: Net) -> None:
    """Identity is the subject."""
    birch, elm, heath = await net.peer("birch"), await net.worker("elm"), await net.peer("heath")
    event = await in_hand(birch, elm)
    about = {"session": elm.session, "ids": [event["id"]], "incident": "i", "open": []}
    for verb in ("done", "defer", "facts", "bye", "heartbeat"):
        assert (await net.verb(heath.agent, verb, about))["ok"] is False
    stolen = {"unknot": 1, "id": new_id(), "session": elm.session, "timeout_s": 3}
    refused = await net.call(heath.subject("request", birch, "work.do"), stolen)
    assert code(refused) == "stale_session"
    await elm.answer(event, "undisturbed")
    assert (await birch.outcome(event["id"]))["event"]["data"] == "undisturbed"


# ---- lost responders, deadlines


async def test_the_end_of_the_session_that_took_a_request_is_responder_lost_at_once(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await elm.event()
    await elm.bye()
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "responder_lost"
    assert outcome["handled"] in ("maybe", "yes")


async def test_a_passed_deadline_expires_the_waiter_and_abandons_the_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    started = now()
    request_id = await birch.request(elm, timeout_s=0.4)
    await elm.event()
    assert (await birch.outcome(request_id))["outcome"] == "expired"
    assert now() - started >= 0.39
    assert (await elm.control("request.abandoned", request_id=request_id))["reason"] == "expired"
    assert await net.wait_row(request_id) is None, "the edge is gone"


async def test_a_channel_request_is_lost_only_with_its_last_member(net: Net) -> None:
    channel = net.name("pool")
    birch = await net.peer("birch")
    elm, flint = [await net.worker(name, channels=[channel]) for name in ("elm", "flint")]
    answered, lost = await birch.request(f"@{channel}"), None
    await elm.event()
    event = await flint.event()
    await elm.bye()
    await net.settled()
    assert not birch.inbox.left("outcome")
    await flint.answer(event, "I am still here")
    assert (await birch.outcome(answered))["event"]["source"] == flint.agent
    lost = await birch.request(f"@{channel}")
    await flint.event()
    await flint.bye()
    assert (await birch.outcome(lost))["outcome"] == "responder_lost"


async def test_a_deferred_request_is_lost_with_its_session_too(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.defer(event)
    await elm.bye()
    assert (await birch.outcome(event["id"]))["outcome"] == "responder_lost"


async def test_a_deferred_request_that_nobody_waits_for_any_more_is_abandoned(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.defer(event)
    await birch.cancel(event["id"])
    await elm.control("request.abandoned", request_id=event["id"])


# ---- depth and turns, order


async def test_64_nested_open_requests_of_one_chain_are_legal_and_the_next_is_refused(net: Net) -> None:
    pair = [await net.peer("birch", pools=[{"slots": None}]), await net.peer("elm", pools=[{"slots": None}])]
    execution = "main"
    for depth in range(64):
        await pair[depth % 2].request(pair[(depth + 1) % 2], execution=execution)
        execution = (await pair[(depth + 1) % 2].event())["id"]
    outcome = await pair[0].send_and_wait(pair[1], execution=execution)
    assert outcome["outcome"] == "refused"
    assert outcome["error"]["code"] == "depth_limit"


async def test_turns_are_not_depth_a_conversation_of_1000_turns_is_fine(net: Net) -> None:
    """Each turn is an ask out of the handling of the turn before, whose handler then returns."""
    pair = [await net.worker("birch"), await net.worker("elm")]
    over = asyncio.get_running_loop().create_future()

    def speaks(me: Peer, other: Peer) -> None:
        async def turn(event: Json) -> None:
            if event["data"] == 1000:
                over.set_result(None)
                return
            said = {"id": new_id(), "data": event["data"] + 1, "execution": event["id"], "timeout_s": 20}
            await net.tell(me.subject("ask", other, "talk"), me.envelope(said))
            await net.tell(net.subjects.reply(me.agent, event["id"]), me.envelope({"data": "heard"}))

        me.on_event = turn

    speaks(pair[0], pair[1])
    speaks(pair[1], pair[0])
    await pair[0].ask(pair[1], "talk", 1)
    await asyncio.wait_for(over, 30)


async def test_what_one_connection_sent_is_handled_in_that_order(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm", pools=[{"slots": None}])
    for n in range(200):
        await net.tell(birch.subject("send", elm, "count"), birch.envelope({"id": new_id(), "data": n}))
    assert [(await elm.event())["data"] for _ in range(200)] == list(range(200))


async def test_an_answer_is_handled_before_the_wait_that_its_sender_opens_next(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    await net.tell(came.reply, elm.envelope({"data": "first"}))
    counter = await elm.request(birch)
    assert (await birch.outcome(request_id))["outcome"] == "reply"
    await birch.answer(await birch.event(), "second")
    assert (await elm.outcome(counter))["outcome"] == "reply"


def code(receipt: Json) -> str | None:
    """The error code of a Receipt."""
    return receipt.get("error", {}).get("code")


def now() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()
