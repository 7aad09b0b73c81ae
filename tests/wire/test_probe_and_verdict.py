"""WIRE section 7: the members are asked before anybody fails, and then told before they fail."""

import asyncio

from tests.wire.raw import Json, Net, Peer, new_id
from tests.wire.shapes import DEADLOCK, all_end_in_deadlock, in_hand, nobody_is_told, notice_of

# ---- the question


async def test_the_members_are_asked_about_exactly_their_waits(net: Net) -> None:
    birch, elm, cli = await net.worker("birch"), await net.worker("elm"), await net.peer("cli")
    e1 = await in_hand(cli, birch)
    first = await birch.request(elm, execution=e1["id"])
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    asked = {peer: await peer.control("confirm") for peer in (birch, elm)}
    assert [w["id"] for w in asked[birch]["waits"]] == [first]
    assert [w["id"] for w in asked[elm]["waits"]] == [second]
    assert asked[birch]["incident"] == asked[elm]["incident"]
    assert first in asked[elm]["requests"], "elm says how far it is with it"
    assert e1["id"] in asked[birch]["executions"]
    assert inner["id"] in asked[elm]["executions"]
    report = await all_end_in_deadlock((birch, first), (elm, second))
    assert report["incident"] == asked[elm]["incident"]
    assert not [a for a in cli.inbox.all if a.kind == "confirm"], "cli only waits behind them"


async def test_while_they_are_asked_the_closing_request_is_parked(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    birch.silent = elm.silent = True
    await birch.request(elm)
    await elm.event()
    closing = await elm.request(birch)
    await birch.control("confirm")
    row = await net.wait_row(closing)
    assert row is not None
    assert row["state"] == "parked"
    assert not birch.inbox.left("event")


async def test_agents_without_hello_are_not_asked(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.peer("elm")
    first = await birch.request(elm)
    second = await elm.request(birch)
    await all_end_in_deadlock((birch, first), (elm, second), evidence="assumed")
    assert not [a for a in birch.inbox.all if a.kind == "confirm"]
    assert [a for a in elm.inbox.all if a.kind == "confirm"]


# ---- the facts


async def test_a_wait_that_the_facts_omit_is_no_edge_any_more_and_the_request_is_delivered(net: Net) -> None:
    """birch gave up locally; its request.cancel is still on the way."""
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    birch.given_up.add(first)
    second = await elm.request(birch)
    event = await birch.event()
    assert event["id"] == second
    await nobody_is_told(net, birch, elm)
    await birch.answer(event, "I was free")
    assert (await elm.outcome(second))["outcome"] == "reply"


async def test_an_edge_that_facts_ended_never_comes_back_but_its_request_stays(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    question = await elm.event()
    birch.given_up.add(first)
    second = await elm.request(birch)
    await birch.event()
    birch.given_up.clear()
    birch.open.add(first)
    await elm.cancel(second)
    await elm.outcome(second)
    third = await elm.request(birch)
    await net.settled()
    await asyncio.sleep(0.4)
    await nobody_is_told(net, birch, elm)
    await elm.answer(question, "still wanted")
    assert (await birch.outcome(first))["outcome"] == "reply"
    assert await net.wait_row(third) is not None


async def test_a_retracted_suspicion_is_counted(net: Net) -> None:
    before = await net.counter("retracted")
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    birch.given_up.add(first)
    await elm.request(birch)
    for asked in (birch, elm):
        await asked.control("confirm")
    await net.settled()
    assert await net.counter("retracted") == before + 1


async def test_what_arrived_before_the_facts_counts(net: Net) -> None:
    """The answer was on its way when the question came; the facts follow it on the same connection."""
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    event = await elm.event()
    elm.silent = True
    second = await elm.request(birch)
    confirm = await elm.control("confirm")
    await net.tell(net.subjects.reply(elm.agent, event["id"]), elm.envelope({"data": "just in time"}))
    elm.held.pop(event["id"])
    await elm.give_facts(confirm)
    assert (await birch.outcome(first))["outcome"] == "reply"
    assert (await birch.event())["id"] == second
    await nobody_is_told(net, birch, elm)


async def test_a_request_that_the_facts_call_deferred_is_outside(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    elm.held[event["id"]] = "deferred"  # its defer was lost
    second = await elm.request(birch, execution=event["id"])
    assert (await birch.event())["id"] == second
    await nobody_is_told(net, birch, elm)


async def test_requests_that_omit_a_delivered_one_say_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    elm.had.clear()
    second = await elm.request(birch)
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_facts_about_another_incident_change_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    await net.tell(birch.verb_subject("facts"), {"session": birch.session, "incident": new_id(), "open": []})
    second = await elm.request(birch)
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_a_parked_request_may_be_cancelled(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    question = await elm.event()
    birch.silent = elm.silent = True
    closing = await elm.request(birch)
    await birch.control("confirm")
    await elm.cancel(closing)
    assert (await elm.outcome(closing))["outcome"] == "cancelled"
    await asyncio.sleep(0.4)
    await nobody_is_told(net, birch, elm)
    assert not birch.inbox.left("event", "request.abandoned"), "it was never sent"
    await elm.answer(question, 1)
    assert (await birch.outcome(first))["outcome"] == "reply"


async def test_a_parked_request_may_expire(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    await birch.request(elm)
    await elm.event()
    birch.silent = elm.silent = True
    closing = await elm.request(birch, timeout_s=0.1)
    outcome = await elm.outcome(closing)
    assert (outcome["outcome"], outcome["handled"]) == ("expired", "no")
    await asyncio.sleep(0.4)
    await nobody_is_told(net, birch, elm)
    assert not birch.inbox.left("event")


async def test_a_member_that_leaves_while_it_is_asked_ends_the_suspicion(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    await birch.request(elm)
    await elm.event()
    birch.silent = True
    closing = await elm.request(birch)
    await birch.control("confirm")
    await birch.bye()
    assert (await elm.outcome(closing))["outcome"] in ("unreachable", "responder_lost")
    await nobody_is_told(net, birch, elm)


async def test_the_facts_of_who_was_not_asked_change_nothing(net: Net) -> None:
    birch, elm, heath = await net.peer("birch"), await net.peer("elm"), await net.peer("heath")
    first = await birch.request(elm)
    await elm.event()
    birch.silent = True
    second = await elm.request(birch)
    confirm = await birch.control("confirm")
    for session in (heath.session, birch.session):
        forged = {"session": session, "incident": confirm["incident"], "open": []}
        await net.tell(heath.verb_subject("facts"), forged)
    await net.settled()
    await birch.give_facts(confirm)
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_a_resent_closing_request_changes_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    second = await elm.request(birch, data=1)
    await elm.request(birch, data=1, id=second)
    await all_end_in_deadlock((birch, first), (elm, second))
    await net.settled()
    assert not elm.inbox.left("outcome")
    assert not birch.inbox.left("event")


# ---- no facts in time


async def test_without_facts_the_parked_request_is_delivered_after_250_ms(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    birch.silent = True
    second = await elm.request(birch)
    await birch.control("confirm")
    started = asyncio.get_running_loop().time()
    event = await birch.event()
    assert event["id"] == second
    assert asyncio.get_running_loop().time() - started > 0.15
    await nobody_is_told(net, birch, elm)
    await birch.answer(event, "I can still help")
    assert (await elm.outcome(second))["outcome"] == "reply"
    assert await net.wait_row(first) is not None


async def test_then_the_second_read_comes_on_heartbeats_sent_after_the_first(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    first = await birch.request(elm)
    await elm.event()
    birch.silent = elm.silent = True
    second = await elm.request(birch)
    await birch.event()
    await nobody_is_told(net, birch, elm)
    async with birch.beating(), elm.beating():
        await all_end_in_deadlock((birch, first), (elm, second))


async def test_or_on_facts_that_come_late(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    birch.silent = True
    second = await elm.request(birch)
    confirm = await birch.control("confirm")
    await birch.event()
    await birch.give_facts(confirm)
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_a_session_that_gives_neither_facts_nor_heartbeats_counts_as_able_to_go_on(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm", heartbeat_s=0.5)
    await birch.request(elm)
    await elm.event()
    birch.silent = True
    await elm.request(birch)
    await birch.event()
    async with elm.beating():
        await asyncio.sleep(1.5)
        await nobody_is_told(net, birch, elm)


async def test_a_heartbeat_that_no_longer_names_the_wait_does_not_confirm_it(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    first = await birch.request(elm)
    await elm.event()
    birch.silent = elm.silent = True
    await elm.request(birch)
    await birch.event()
    birch.given_up.add(first)
    async with birch.beating(), elm.beating():
        await asyncio.sleep(1.5)
        await nobody_is_told(net, birch, elm)


# ---- what agents only told


async def two_reported(net: Net, **second: Json) -> tuple[tuple[Peer, str], tuple[Peer, str]]:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    first = await birch.wait_open({"kind": "agent", "id": elm.agent})
    closing = await elm.wait_open({"kind": "agent", "id": birch.agent})
    return (birch, first["id"]), (elm, closing["id"])


async def test_what_agents_only_told_takes_a_second_read_one_heartbeat_later(net: Net) -> None:
    ends = await two_reported(net)
    await net.settled()
    await asyncio.sleep(0.4)
    await nobody_is_told(net, *(peer for peer, _ in ends))
    async with ends[0][0].beating(), ends[1][0].beating():
        await all_end_in_deadlock(*ends, evidence="reported", cycle=[ends[0][0], ends[1][0]])


async def test_a_reported_wait_that_is_closed_before_the_second_read_fails_nobody(net: Net) -> None:
    (birch, first), (elm, _) = await two_reported(net)
    await birch.wait_close(first)
    async with birch.beating(), elm.beating():
        await asyncio.sleep(1.3)
        await nobody_is_told(net, birch, elm)


async def test_one_reported_wait_makes_the_evidence_reported(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    wait = await birch.wait_open({"kind": "agent", "id": elm.agent})
    request_id = await elm.request(birch)
    async with birch.beating(), elm.beating():
        await all_end_in_deadlock((birch, wait["id"]), (elm, request_id), evidence="reported")


# ---- the verdict is told


async def test_control_goes_out_before_the_outcome(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    ends = (birch, await birch.request(elm)), (elm, await elm.request(birch))
    await all_end_in_deadlock(*ends)
    for peer, _ in ends:
        kinds = [a.kind for a in peer.inbox.all]
        assert kinds.index(DEADLOCK) < kinds.index("outcome")


async def test_the_requests_are_withdrawn_before_the_outcome(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    ends = (birch, first), (elm, await elm.request(birch))
    await all_end_in_deadlock(*ends)
    assert (await elm.control("request.abandoned", request_id=first))["reason"] == "deadlock"
    kinds = [a.kind for a in elm.inbox.all]
    assert kinds.index("request.abandoned") < kinds.index("outcome")


async def test_under_fail_all_the_closing_request_was_never_delivered(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    ends = (birch, await birch.request(elm)), (elm, await elm.request(birch))
    await all_end_in_deadlock(*ends)
    await net.settled()
    assert not birch.inbox.left("event")


async def test_an_outcome_on_a_reply_subject_says_deadlock_too(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    waiting = asyncio.create_task(birch.send_and_wait(elm))
    await elm.event()
    closing = await elm.send_and_wait(birch)
    outcome = await waiting
    assert [o["outcome"] for o in (outcome, closing)] == ["deadlock", "deadlock"]
    assert outcome["error"]["detail"]["incident"] == closing["error"]["detail"]["incident"]


async def test_after_a_deadlock_all_members_are_free_again(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    question = await elm.event()
    await all_end_in_deadlock((birch, first), (elm, await elm.request(birch)))
    await elm.done(question)
    again = await birch.request(elm)
    await elm.answer(await elm.event(), "works")
    assert (await birch.outcome(again))["outcome"] == "reply"
    assert not await net.waits()


async def test_a_deadlock_says_who_waits_for_whom_and_what_to_do(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    report = await all_end_in_deadlock((birch, await birch.request(elm)), (elm, await elm.request(birch)))
    assert birch.agent in report["message"]
    assert elm.agent in report["message"]
    assert len(report["remedy"]) > 20


# ---- one decision


async def test_a_retry_that_deadlocks_again_is_a_new_incident(net: Net) -> None:
    notices = await net.listen(net.subjects.notice(">"))
    birch, elm = await net.peer("birch"), await net.peer("elm")
    digests, incidents = set(), set()
    for _ in range(3):
        ends = (birch, await birch.request(elm)), (elm, await elm.request(birch))
        report = await all_end_in_deadlock(*ends)
        digests.add(report["digest"])
        incidents.add(report["incident"])
        await notice_of(notices, ends[0][1])
        for peer in (birch, elm):
            await peer.done(
                *(a.body for a in peer.inbox.all if a.kind == "event" and a.body["id"] in peer.held)
            )
    assert len(digests) == len(incidents) == 3


async def test_one_digest_is_decided_once(shadow: Net) -> None:
    """Under shadow the deadlock stays; neither sweep nor heartbeat repeats the notice."""
    net = shadow
    notices = await net.listen(net.subjects.notice(">"))
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    first = await birch.request(elm)
    await elm.request(birch)
    await notice_of(notices, first)
    async with birch.beating(), elm.beating():
        await asyncio.sleep(2.2)
    assert not [n for n in notices.left() if first in n.get("request_ids", ())]


async def test_a_cycle_whose_edges_come_in_one_burst_is_found_without_further_events(net: Net) -> None:
    peers = [await net.peer(name) for name in ("a", "b", "c", "d")]
    ids = await asyncio.gather(*(p.request(peers[(n + 1) % 4]) for n, p in enumerate(peers)))
    await all_end_in_deadlock(*zip(peers, ids, strict=True), cycle=peers)


async def test_a_suspicion_that_came_to_nothing_is_taken_up_again_by_the_sweep(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    first = await birch.request(elm)
    await elm.event()
    birch.silent = elm.silent = True
    second = await elm.request(birch)
    retracted = await net.counter("retracted")
    await birch.event()
    await asyncio.sleep(2.5)  # the time for a second read passes without a word of anybody
    assert await net.counter("retracted") > retracted
    birch.silent = elm.silent = False
    async with birch.beating(), elm.beating():
        await all_end_in_deadlock((birch, first), (elm, second))


# ---- policies


async def test_under_shadow_there_are_only_notices(shadow: Net) -> None:
    net = shadow
    notices = await net.listen(net.subjects.notice(">"))
    birch, elm = await net.worker("birch", 1), await net.peer("elm")
    cli = await net.peer("cli")
    busy = await in_hand(cli, birch)
    first = await birch.request(elm, execution=busy["id"])
    question = await elm.event()
    second = await elm.request(birch)
    notice = await notice_of(notices, first)
    assert notice["policy"] == "shadow"
    assert sorted(notice["request_ids"]) == sorted([first, second])
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert not elm.inbox.left("outcome")
    await elm.answer(question, "a human stepped in")
    assert (await birch.outcome(first))["outcome"] == "reply"
    await birch.answer(busy, 1)
    await birch.answer(await birch.event(), 2)
    assert (await elm.outcome(second))["outcome"] == "reply"


async def test_under_shadow_the_parked_request_is_delivered(shadow: Net) -> None:
    birch, elm = await shadow.peer("birch"), await shadow.peer("elm")
    await birch.request(elm)
    closing = await elm.request(birch)
    assert (await birch.event())["id"] == closing


async def test_a_figure_eight_of_all_of_is_one_core(shadow: Net) -> None:
    """Three all wait: grove for both others, both for grove."""
    net = shadow
    notices = await net.listen(net.subjects.notice(">"))
    elm, flint, grove = [await net.peer(name) for name in ("elm", "flint", "grove")]
    await elm.request(grove)
    second = await flint.request(grove)
    await grove.request(elm)
    closing = await grove.request(flint)
    notice = await notice_of(notices, closing)
    assert second in [w["id"] for w in notice["waits"]]
    assert notice["members_total"] == 3
    assert notice["cycle"] == [elm.agent, grove.agent, elm.agent]


async def test_under_refuse_only_the_closing_wait_fails_and_the_others_go_on(refuse: Net) -> None:
    net = refuse
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    question = await elm.event()
    closing = await elm.request(birch)
    outcome = await elm.outcome(closing)
    assert outcome["outcome"] == "deadlock"
    assert outcome["handled"] == "no", "it fails before its request is delivered"
    await net.settled()
    assert not birch.inbox.left("event", "outcome")
    await elm.answer(question, "then without help")
    assert (await birch.outcome(first))["outcome"] == "reply"


async def test_under_refuse_a_ring_loses_one_wait(refuse: Net) -> None:
    net = refuse
    peers = [await net.peer(name) for name in ("a", "b", "c")]
    ids = [await peer.request(peers[(n + 1) % 3]) for n, peer in enumerate(peers)]
    assert (await peers[2].outcome(ids[2]))["outcome"] == "deadlock"
    for at in (2, 1):
        await peers[at].answer(await peers[at].event(), at)
        assert (await peers[at - 1].outcome(ids[at - 1]))["outcome"] == "reply"


async def test_under_refuse_the_whole_closing_wait_fails_group_and_all(refuse: Net) -> None:
    net = refuse
    birch, elm, flint = [await net.peer(name) for name in ("birch", "elm", "flint")]
    first, second = await elm.request(birch), await flint.request(birch)
    group = {"id": new_id(), "n": 2, "need": 1}
    ids = [await birch.request(peer, group=group) for peer in (elm, flint)]
    assert {(await birch.outcome(i))["outcome"] for i in ids} <= {"deadlock", "cancelled"}
    await net.settled()
    assert not elm.inbox.left("outcome")
    assert not flint.inbox.left("outcome")
    for peer, request_id in ((elm, first), (flint, second)):
        event = await birch.event()
        assert event["id"] == request_id
        await birch.answer(event, 1)
        assert (await peer.outcome(request_id))["outcome"] == "reply"


async def test_under_refuse_a_parked_request_stays_parked_without_facts(refuse: Net) -> None:
    net = refuse
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    await birch.request(elm)
    await elm.event()
    birch.silent = elm.silent = True
    closing = await elm.request(birch)
    await birch.control("confirm")
    await asyncio.sleep(0.5)
    await net.settled()
    assert not birch.inbox.left("event")
    async with birch.beating(), elm.beating():
        assert (await elm.outcome(closing))["outcome"] == "deadlock"


async def test_under_refuse_the_others_hear_of_it_without_losing_their_wait(refuse: Net) -> None:
    net = refuse
    notices = await net.listen(net.subjects.notice(">"))
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await birch.request(elm)
    closing = await elm.request(birch)
    notice = await notice_of(notices, closing)
    assert notice["policy"] == "refuse"
    assert (await elm.control(DEADLOCK))["incident"] == notice["incident"]
    assert (await birch.control(DEADLOCK))["incident"] == notice["incident"]
    assert await net.wait_row(first) is not None
