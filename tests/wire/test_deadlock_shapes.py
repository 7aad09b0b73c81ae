"""WIRE section 7: which shapes of waiting are deadlocks, and who exactly is in them."""

import asyncio

import pytest

from tests.wire.raw import Net, Peer, new_id
from tests.wire.shapes import BLOCKED_BEHIND, DEADLOCK, End, all_end_in_deadlock, in_hand, nobody_is_told


async def scripts(net: Net, *names: str) -> list[Peer]:
    """Agents whose own loop reads their events: each is one serial main."""
    return list(await asyncio.gather(*(net.peer(name) for name in names)))


async def busy_workers(net: Net, *names: str, concurrency: int = 1) -> list[tuple[Peer, str]]:
    """Workers that each handle an event of somebody outside; with the execution."""
    cli = await net.peer("cli")
    found = []
    for name in names:
        worker = await net.worker(name, concurrency)
        found.append((worker, (await in_hand(cli, worker))["id"]))
    return found


# ---- two


async def test_two_scripts_that_wait_for_each_other_both_fail(net: Net) -> None:
    birch, elm = await scripts(net, "birch", "elm")
    first = await birch.request(elm, "review.wanted", run="run_9104")
    second = await elm.request(birch, "help.wanted")
    report = await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])
    assert sorted(report["request_ids"]) == sorted([first, second])
    assert report["members_total"] == 2
    assert report["policy"] == "fail_all"
    assert report["network"] == net.subjects.network
    assert report["blocked_behind"] == []
    wait = next(w for w in report["waits"] if w["id"] == first)
    assert (wait["waiter"], wait["session"], wait["execution"]) == (birch.agent, birch.session, "main")
    assert (wait["target"], wait["type"], wait["kind"]) == (elm.agent, "review.wanted", "reply")
    assert wait["run"] == "run_9104"
    assert 0 <= wait["since_s"] < 10
    assert 20 < wait["deadline_in_s"] <= 30


async def test_two_handlers_at_concurrency_1_that_block_on_each_other_both_fail(net: Net) -> None:
    (birch, e1), (elm, e2) = await busy_workers(net, "birch", "elm")
    first = await birch.request(elm, execution=e1)
    second = await elm.request(birch, execution=e2)
    report = await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])
    assert {w["execution"] for w in report["waits"]} == {e1, e2}
    assert "concurrency" in report["remedy"] or "defer" in report["remedy"]


async def test_the_same_two_at_concurrency_2_are_both_answered(net: Net) -> None:
    (birch, e1), (elm, e2) = await busy_workers(net, "birch", "elm", concurrency=2)
    first = await birch.request(elm, execution=e1)
    second = await elm.request(birch, execution=e2)
    await elm.answer(await elm.event(), 1)
    await birch.answer(await birch.event(), 2)
    assert (await birch.outcome(first))["outcome"] == "reply"
    assert (await elm.outcome(second))["outcome"] == "reply"
    await nobody_is_told(net, birch, elm)


async def test_a_call_back_out_of_the_handler_of_ones_own_request_is_a_deadlock(net: Net) -> None:
    (birch, e1), elm = (await busy_workers(net, "birch"))[0], await net.worker("elm")
    first = await birch.request(elm, execution=e1)
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])


async def test_a_reentrant_agent_serves_the_call_back_of_its_own_chain(net: Net) -> None:
    cli, birch, elm = (
        await net.peer("cli"),
        await net.worker("birch", reentrant=True),
        await net.worker("elm"),
    )
    event = await in_hand(cli, birch)
    first = await birch.request(elm, execution=event["id"])
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    back = await birch.event()
    assert back["id"] == second
    await birch.answer(back, "help")
    assert (await elm.outcome(second))["outcome"] == "reply"
    await elm.answer(inner, "thanks")
    assert (await birch.outcome(first))["outcome"] == "reply"


async def test_an_agent_without_code_outside_of_handlers_is_no_party_by_its_main(net: Net) -> None:
    """``main_runs: false`` (unknot run): only its handlers can wait; a free slot serves."""
    birch, elm = await net.worker("birch", main_runs=False), await net.peer("elm")
    event = await in_hand(elm, birch)
    await birch.answer(event, "fine")
    assert (await elm.outcome(event["id"]))["outcome"] == "reply"


async def test_two_asks_are_no_deadlock(net: Net) -> None:
    birch, elm = await scripts(net, "birch", "elm")
    asked = [await birch.ask(elm), await elm.ask(birch)]
    await birch.answer(await birch.event(), 1)
    await elm.answer(await elm.event(), 2)
    for peer, receipt in zip((birch, elm), asked, strict=True):
        assert (await peer.outcome(receipt["id"]))["outcome"] == "reply"


async def test_handlers_that_one_way_events_started_count_alike(net: Net) -> None:
    cli, birch, elm = await net.peer("cli"), await net.worker("birch"), await net.worker("elm")
    begun = []
    for worker in (birch, elm):
        await cli.send(worker)
        begun.append((await worker.event())["id"])
    first = await birch.request(elm, execution=begun[0])
    second = await elm.request(birch, execution=begun[1])
    await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])


async def test_the_main_of_an_agent_with_handlers_may_wait_while_they_serve(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.worker("elm")
    first = await birch.request(elm)
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    await birch.answer(await birch.event(), "a handler has time")
    assert (await elm.outcome(second))["outcome"] == "reply"
    await elm.answer(inner, 1)
    assert (await birch.outcome(first))["outcome"] == "reply"


async def test_both_slots_of_an_agent_must_be_stuck(net: Net) -> None:
    """birch queues for elm, whose two handlers wait for birch: with one of them it is none."""
    (birch, e0), cli = (await busy_workers(net, "birch"))[0], await net.peer("cli2")
    elm = await net.worker("elm", 2)
    e1, e2 = await in_hand(cli, elm), await in_hand(cli, elm)
    first = await elm.request(birch, execution=e1["id"])
    queued = await birch.request(elm, execution=e0)
    await nobody_is_told(net, birch, elm)
    second = await elm.request(birch, execution=e2["id"])
    await all_end_in_deadlock((birch, queued), (elm, first), (elm, second), cycle=[birch, elm])


async def test_who_queues_behind_a_stuck_slot_is_a_tail(net: Net) -> None:
    heath = await net.peer("heath")
    (birch, e1), (elm, e2) = await busy_workers(net, "birch", "elm")
    tail = await heath.request(elm)
    first = await birch.request(elm, execution=e1)
    second = await elm.request(birch, execution=e2)
    report = await all_end_in_deadlock((birch, first), (elm, second))
    assert heath.agent in report["blocked_behind"]
    assert tail in (await heath.control(BLOCKED_BEHIND))["waits"]
    await nobody_is_told(net, heath)


async def test_a_ring_through_a_queue_a_handler_and_a_script(net: Net) -> None:
    """birch (script) -> elm's queue; elm's handler -> flint (no hello); flint -> birch."""
    cli, birch, flint = await net.peer("cli"), await net.peer("birch"), await net.stranger("flint")
    elm = await net.worker("elm")
    event = await in_hand(cli, elm)
    ends = [
        (birch, await birch.request(elm)),
        (elm, await elm.request(flint, execution=event["id"])),
        (flint, await flint.request(birch)),
    ]
    await all_end_in_deadlock(*ends, cycle=[birch, elm, flint], evidence="assumed")


async def test_a_reentrant_chain_through_three_agents_is_served(net: Net) -> None:
    cli, birch = await net.peer("cli"), await net.worker("birch", reentrant=True)
    elm, flint = await net.worker("elm"), await net.worker("flint")
    event = await in_hand(cli, birch)
    await birch.request(elm, execution=event["id"])
    to_flint = await elm.request(flint, execution=(await elm.event())["id"])
    back = await flint.request(birch, execution=(await flint.event())["id"])
    served = await birch.event()
    assert served["id"] == back
    stranger = await cli.request(birch)
    await net.settled()
    assert not birch.inbox.left("event"), "another chain has to wait for the slot"
    await birch.answer(served, "help")
    assert (await flint.outcome(back))["outcome"] == "reply"
    assert await net.wait_row(to_flint) is not None
    assert await net.wait_row(stranger) is not None


async def test_a_reported_wait_for_an_agent_with_a_free_slot_is_none(net: Net) -> None:
    birch, elm = await net.worker("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    await birch.request(elm)
    await elm.event()
    await elm.wait_open({"kind": "agent", "id": birch.agent})
    async with birch.beating(), elm.beating():
        await asyncio.sleep(1.2)
    await nobody_is_told(net, birch, elm)


# ---- one


async def test_a_script_that_waits_for_itself_is_told_at_once(net: Net) -> None:
    (birch,) = await scripts(net, "birch")
    request_id = await birch.request(birch)
    await all_end_in_deadlock((birch, request_id), cycle=[birch])
    await net.settled()
    assert not birch.inbox.left("event"), "it was never sent"


async def test_the_same_under_its_alias(net: Net) -> None:
    (birch,) = await scripts(net, "birch")
    await all_end_in_deadlock((birch, await birch.request(f"agent:{birch.agent}")), cycle=[birch])


async def test_a_handler_that_waits_for_its_own_agent_at_concurrency_1(net: Net) -> None:
    ((birch, e1),) = await busy_workers(net, "birch")
    await all_end_in_deadlock((birch, await birch.request(birch, execution=e1)), cycle=[birch])


async def test_a_pool_saturated_by_its_own_sub_requests(net: Net) -> None:
    cli, worker = await net.peer("cli"), await net.worker("worker", 2)
    e1, e2 = await in_hand(cli, worker), await in_hand(cli, worker)
    first = await worker.request(worker, "sub.task", execution=e1["id"])
    await nobody_is_told(net, worker)
    second = await worker.request(worker, "sub.task", execution=e2["id"])
    await all_end_in_deadlock((worker, first), (worker, second), cycle=[worker])


async def test_a_pool_with_one_slot_that_may_still_be_freed_is_none(net: Net) -> None:
    cli, worker = await net.peer("cli"), await net.worker("worker", 3)
    busy = [await in_hand(cli, worker) for _ in range(3)]
    subs = [await worker.request(worker, "sub.task", execution=e["id"]) for e in busy[:2]]
    await nobody_is_told(net, worker)
    await worker.answer(busy[2])
    for request_id in subs:
        event = await worker.event()
        assert event["id"] == request_id
        await worker.answer(event)
        assert (await worker.outcome(request_id))["outcome"] == "reply"


async def test_a_pool_of_its_own_for_sub_tasks_prevents_it(net: Net) -> None:
    cli = await net.peer("cli")
    worker = await net.peer("worker", pools=[{"slots": 1, "types": ["sub.>"]}, {"slots": 1}])
    event = await in_hand(cli, worker)
    request_id = await worker.request(worker, "sub.task", execution=event["id"])
    await worker.answer(await worker.event("sub.task"), 1)
    assert (await worker.outcome(request_id))["outcome"] == "reply"


# ---- rings


async def ring(net: Net, size: int) -> list[End]:
    peers = await scripts(net, *(f"a{n:04}" for n in range(size)))
    return [(peer, await peer.request(peers[(n + 1) % size])) for n, peer in enumerate(peers)]


async def test_a_ring_of_3(net: Net) -> None:
    ends = await ring(net, 3)
    await all_end_in_deadlock(*ends, cycle=[peer for peer, _ in ends])


async def test_a_ring_of_3_handlers(net: Net) -> None:
    members = await busy_workers(net, "birch", "elm", "flint")
    ends = [
        (peer, await peer.request(members[(n + 1) % 3][0], execution=e))
        for n, (peer, e) in enumerate(members)
    ]
    await all_end_in_deadlock(*ends, cycle=[peer for peer, _ in members])


async def test_the_cycle_starts_at_the_least_agent_whoever_closes_it(net: Net) -> None:
    for closing in range(3):
        peers = await scripts(net, *(f"{name}{closing}" for name in ("birch", "elm", "flint")))
        order = [*range(closing + 1, 3), *range(closing + 1)]
        ends = [(peers[n], await peers[n].request(peers[(n + 1) % 3])) for n in order]
        await all_end_in_deadlock(*ends, cycle=peers)


async def test_a_ring_of_1000(net: Net) -> None:
    ends = await ring(net, 1_000)
    outcomes = await asyncio.gather(*(peer.outcome(request_id, 30) for peer, request_id in ends))
    assert {o["outcome"] for o in outcomes} == {"deadlock"}
    events = [await peer.control(DEADLOCK) for peer, _ in ends]
    assert all(event == events[0] for event in events)
    assert events[0]["members_total"] == 1_000
    assert events[0]["waits_total"] == 1_000
    assert len(events[0]["waits"]) == 64, "lists have at most 64 entries, full counts beside them"
    assert len(events[0]["request_ids"]) <= 64
    assert len(events[0]["cycle"]) <= 65


# ---- tails, figure-eights


async def test_who_only_waits_behind_a_deadlock_is_told_so_and_waits_on(net: Net) -> None:
    heath, elm, flint = await scripts(net, "heath", "elm", "flint")
    tail = await heath.request(elm)
    question = await elm.event()
    first = await elm.request(flint)
    second = await flint.request(elm)
    report = await all_end_in_deadlock((elm, first), (flint, second), cycle=[elm, flint])
    assert report["blocked_behind"] == [heath.agent]
    assert report["blocked_behind_total"] == 1
    behind = await heath.control(BLOCKED_BEHIND)
    assert behind["incident"] == report["incident"]
    assert behind["cycle"] == report["cycle"]
    assert behind["waits"] == [tail]
    await nobody_is_told(net, heath)
    await elm.answer(question, "elm is free again")
    assert (await heath.outcome(tail))["outcome"] == "reply"


async def test_a_tail_of_a_tail_is_behind_it_too(net: Net) -> None:
    grove, heath, elm, flint = await scripts(net, "grove", "heath", "elm", "flint")
    tails = {heath: await heath.request(elm), grove: await grove.request(heath)}
    ends = (elm, await elm.request(flint)), (flint, await flint.request(elm))
    report = await all_end_in_deadlock(*ends)
    assert sorted(report["blocked_behind"]) == sorted([heath.agent, grove.agent])
    for peer, request_id in tails.items():
        assert request_id in (await peer.control(BLOCKED_BEHIND))["waits"]


async def test_a_figure_eight_is_one_core_with_its_shortest_least_cycle(net: Net) -> None:
    """grove needs one of two; both need grove: neither loop alone is a deadlock, together they are."""
    elm, flint, grove = await scripts(net, "elm", "flint", "grove")
    into = [(elm, await elm.request(grove)), (flint, await flint.request(grove))]
    group = {"id": new_id(), "n": 2, "need": 1}
    out = [(grove, await grove.request(peer, group=group)) for peer in (elm, flint)]
    report = await all_end_in_deadlock(*into, *out, cycle=[elm, grove])
    assert report["members_total"] == 3


async def test_two_deadlocks_at_once_are_two_incidents(net: Net) -> None:
    a, b, c, d = await scripts(net, "a", "b", "c", "d")
    one = (a, await a.request(b)), (b, await b.request(a))
    two = (c, await c.request(d)), (d, await d.request(c))
    reports = [await all_end_in_deadlock(*ends) for ends in (one, two)]
    assert reports[0]["incident"] != reports[1]["incident"]
    assert reports[0]["digest"] != reports[1]["digest"]


# ---- any of, k of


async def test_any_of_with_one_free_branch_is_no_deadlock(net: Net) -> None:
    birch, elm, flint = await scripts(net, "birch", "elm", "flint")
    blocked = await elm.request(birch)
    group = {"id": new_id(), "n": 2, "need": 1}
    ids = [await birch.request(peer, group=group) for peer in (elm, flint)]
    await nobody_is_told(net, birch, elm, flint)
    await flint.answer(await flint.event(), "free")
    ends = [(await birch.outcome(i))["outcome"] for i in ids]
    assert ends == ["cancelled", "reply"]
    await birch.answer(await birch.event(), "after that")
    assert (await elm.outcome(blocked))["outcome"] == "reply"


async def test_any_of_with_no_free_branch_is_one(net: Net) -> None:
    birch, elm, flint = await scripts(net, "birch", "elm", "flint")
    group = {"id": new_id(), "n": 2, "need": 1}
    ids = [await birch.request(peer, group=group) for peer in (elm, flint)]
    first = await elm.request(birch)
    await nobody_is_told(net, birch, elm, flint)
    second = await flint.request(birch)
    await all_end_in_deadlock(
        (birch, ids[0]), (birch, ids[1]), (elm, first), (flint, second), cycle=[birch, elm]
    )


async def test_two_of_three_with_two_free_branches_is_none_with_one_it_is(net: Net) -> None:
    birch, elm, flint, grove = await scripts(net, "birch", "elm", "flint", "grove")
    group = {"id": new_id(), "n": 3, "need": 2}
    ids = [await birch.request(peer, group=group) for peer in (elm, flint, grove)]
    first = await elm.request(birch)
    await nobody_is_told(net, birch, elm, flint, grove)
    second = await flint.request(birch)
    outcomes = {i: (await birch.outcome(i))["outcome"] for i in ids[:2]}
    assert set(outcomes.values()) == {"deadlock"}
    report = await birch.control(DEADLOCK)
    listed = sorted(w["id"] for w in report["waits"])
    assert listed == sorted([*ids[:2], first, second]), "of a group only the conditions that are false"
    assert grove.agent not in report["cycle"]
    for peer, request_id in ((elm, first), (flint, second)):
        assert (await peer.outcome(request_id))["outcome"] == "deadlock"
    assert (await birch.outcome(ids[2]))["outcome"] == "cancelled", "need can no longer be reached"


async def test_several_waits_under_one_execution_mean_all_of_them(net: Net) -> None:
    birch, elm, flint = await scripts(net, "birch", "elm", "flint")
    free = await birch.request(flint)
    blocked = await birch.request(elm)
    closing = await elm.request(birch)
    await all_end_in_deadlock((birch, blocked), (elm, closing), cycle=[birch, elm])
    await flint.answer(await flint.event(), "was never in it")
    assert (await birch.outcome(free))["outcome"] == "reply"


# ---- channels


async def test_a_channel_request_hangs_on_all_members_only_when_all_wait(net: Net) -> None:
    channel = net.name("pool")
    birch = await net.peer("birch")
    elm, flint = [await net.peer(name, channels=[channel]) for name in ("elm", "flint")]
    asked = await birch.request(f"@{channel}")
    first = await elm.request(birch)
    await nobody_is_told(net, birch, elm, flint)
    second = await flint.request(birch)
    await all_end_in_deadlock((birch, asked), (elm, first), (flint, second), cycle=[birch, elm])


async def test_a_channel_with_one_free_member_is_no_deadlock(net: Net) -> None:
    channel = net.name("pool")
    birch = await net.peer("birch")
    elm, flint = [await net.peer(name, channels=[channel]) for name in ("elm", "flint")]
    blocked = await elm.request(birch)
    asked = await birch.request(f"@{channel}")
    await nobody_is_told(net, birch, elm, flint)
    await flint.answer(await flint.event(), "I can")
    assert (await birch.outcome(asked))["outcome"] == "reply"
    await birch.answer(await birch.event(), "now")
    assert (await elm.outcome(blocked))["outcome"] == "reply"


# ---- agents without hello


async def test_two_agents_without_hello_are_assumed_to_be_serial(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.stranger("elm")
    first = await birch.request(elm, timeout_s=30)
    await elm.event()
    second = await elm.request(birch, timeout_s=30)
    await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm], evidence="assumed")


async def test_one_agent_without_hello_makes_the_evidence_assumed(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.peer("elm")
    first = await birch.request(elm, timeout_s=30)
    second = await elm.request(birch, timeout_s=30)
    await all_end_in_deadlock((birch, first), (elm, second), evidence="assumed")


async def test_with_assume_serial_off_assumed_edges_only_make_notices(concurrent: Net) -> None:
    net = concurrent
    notices = await net.listen(net.subjects.notice(">"))
    birch, elm = await net.stranger("birch"), await net.stranger("elm")
    first = await birch.request(elm, timeout_s=30)
    question = await elm.event()
    second = await elm.request(birch, timeout_s=30)
    notice = await notices.take(lambda a: first in a.body.get("request_ids", ()), "notice")
    assert notice.body["evidence"] == "assumed"
    await birch.answer(await birch.event(), 1)
    assert (await elm.outcome(second))["outcome"] == "reply"
    await elm.answer(question, 2)
    assert (await birch.outcome(first))["outcome"] == "reply"


# ---- deferred


async def test_what_is_deferred_is_answered_from_outside_and_holds_nobody(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.defer(event)
    counter = await elm.request(birch, execution="later")
    await birch.event()
    await nobody_is_told(net, birch, elm)
    await elm.answer(event, "timer fired")
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"
    await elm.cancel(counter)


async def test_defer_by_names_the_execution_that_will_answer(net: Net) -> None:
    birch, elm, cli = await net.peer("birch"), await net.worker("elm", 2), await net.peer("cli")
    event = await in_hand(birch, elm)
    other = await in_hand(cli, elm)
    await elm.defer(event, by=other["id"])
    closing = await elm.request(birch, execution=other["id"])
    await all_end_in_deadlock((birch, event["id"]), (elm, closing), cycle=[birch, elm])


async def test_a_wait_may_come_before_the_defer_that_makes_it_a_deadlock(net: Net) -> None:
    birch, elm, cli = await net.peer("birch"), await net.worker("elm", 2), await net.peer("cli")
    event = await in_hand(birch, elm)
    other = await in_hand(cli, elm)
    waiting = await elm.request(birch, execution=other["id"])
    await net.settled()
    await elm.defer(event, by=other["id"])
    await all_end_in_deadlock((birch, event["id"]), (elm, waiting), cycle=[birch, elm])


async def test_a_loop_that_reads_on_still_owes_the_answer(net: Net) -> None:
    """``defer by main``: the main program will answer, when it goes on."""
    birch, elm = await scripts(net, "birch", "elm")
    event = await in_hand(birch, elm)
    await elm.defer(event, by="main")
    closing = await elm.request(birch)
    await all_end_in_deadlock((birch, event["id"]), (elm, closing), cycle=[birch, elm])


# ---- never a false one


async def test_an_execution_that_the_gateway_never_saw_can_be_a_member(net: Net) -> None:
    """After a take-over it has seen none."""
    birch, elm = await net.worker("birch"), await net.peer("elm")
    event = await in_hand(elm, birch)
    await birch.defer(event, by="begun-before")
    closing = await birch.request(elm, execution="begun-before")
    await all_end_in_deadlock((elm, event["id"]), (birch, closing), cycle=[birch, elm])


async def test_an_answer_on_its_way_is_no_deadlock(net: Net) -> None:
    """Per sender in order: elm's answer comes before the wait that it opens next."""
    birch, elm = await scripts(net, "birch", "elm")
    for _ in range(50):
        first = await birch.request(elm)
        event = await elm.event()
        await net.tell(net.subjects.reply(elm.agent, event["id"]), elm.envelope({"data": 1}))
        elm.held.clear()
        second = await elm.request(birch)
        assert (await birch.outcome(first))["outcome"] == "reply"
        await birch.answer(await birch.event(), 2)
        assert (await elm.outcome(second))["outcome"] == "reply"


async def test_an_early_answer_ends_the_edge_though_the_handler_runs_on(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.answer(event, "early", done=False)
    await birch.outcome(event["id"])
    counter = await elm.request(birch, execution=event["id"])
    await birch.answer(await birch.event(), 1)
    assert (await elm.outcome(counter))["outcome"] == "reply"


async def test_a_deadline_that_passes_removes_the_edge(net: Net) -> None:
    birch, elm = await scripts(net, "birch", "elm")
    first = await birch.request(elm, timeout_s=0.4)
    assert (await birch.outcome(first))["outcome"] == "expired"
    second = await elm.request(birch)
    await birch.answer(await birch.event(), "late but alive")
    assert (await elm.outcome(second))["outcome"] == "reply"


@pytest.mark.parametrize("way", ["cancel", "wait.close"])
async def test_a_wait_given_up_in_time_is_no_edge(net: Net, way: str) -> None:
    birch, elm = await scripts(net, "birch", "elm")
    if way == "cancel":
        await birch.cancel(await birch.request(elm))
    else:
        ask = await birch.ask(elm)
        await birch.wait_close((await birch.wait_open({"kind": "reply", "id": ask["id"]}))["id"])
    second = await elm.request(birch)
    await birch.answer(await birch.event(), "free")
    assert (await elm.outcome(second))["outcome"] == "reply"
