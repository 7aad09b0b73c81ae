"""Fault reports of other systems (tests/cases/reports.jsonl), each retold for raw clients of the wire."""

import asyncio

import pytest

from tests.wire.raw import Json, Net, Peer, connect, new_id, new_session
from tests.wire.shapes import BLOCKED_BEHIND, DEADLOCK, all_end_in_deadlock, in_hand, nobody_is_told

# ---- correlation


async def test_bug_001_no_answer_is_lost_however_fast_it_comes(net: Net) -> None:
    """One inbox, confirmed at connect, instead of a fresh subscription for each request."""
    other = await connect(net.nc.connected_url.geturl(), net.subjects)
    other.tag = net.tag
    elm = await other.echo("elm", 200)
    birch = await net.peer("birch")
    for start in range(0, 1_000, 200):
        ids = [await birch.request(elm, data=n) for n in range(start, start + 200)]
        answers = [(await birch.outcome(i))["event"]["data"] for i in ids]
        assert answers == list(range(start, start + 200))
    await other.close()


async def test_bug_003_no_wait_leaks_into_the_next_one(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    for n in range(10):
        assert (await birch.send_and_wait(elm, data=["one by one", n]))["event"]["data"] == ["one by one", n]
    together = await asyncio.gather(*(birch.send_and_wait(elm, data=n) for n in range(5)))
    assert [o["event"]["data"] for o in together] == list(range(5))


async def test_bug_004_a_late_answer_is_not_the_answer_to_the_next_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 2)
    late = await net.counter("late_reply")
    first = await birch.request(elm, timeout_s=0.4)
    event = await elm.event()
    assert (await birch.outcome(first))["outcome"] == "expired"
    second = await birch.request(elm)
    next_event = await elm.event()
    await elm.answer(event, "to the first")
    await elm.answer(next_event, "to the second")
    assert (await birch.outcome(second))["event"]["data"] == "to the second"
    assert await net.counter("late_reply") == late + 1
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_bug_005_an_answer_never_belongs_to_an_older_request(net: Net) -> None:
    """elm is slower than every timeout and answers them all."""
    birch, elm = await net.peer("birch"), await net.worker("elm", 5)

    async def slowly(event: Json) -> None:
        await asyncio.sleep(0.35)
        await elm.answer(event, event["data"])

    elm.on_event = slowly
    for n in range(5):
        outcome = await birch.send_and_wait(elm, data=n, timeout_s=0.15)
        assert outcome["outcome"] == "expired" or outcome["event"]["data"] == n


async def test_bug_006_an_answer_sent_as_a_new_blocking_request_closes_a_cycle(net: Net) -> None:
    birch, elm, cli = await net.worker("birch"), await net.worker("elm"), await net.peer("cli")
    busy = await in_hand(cli, birch)
    r1 = await birch.request(elm, execution=busy["id"])
    event = await elm.event()
    r2 = await elm.request(birch, data="here is your answer", execution=event["id"])
    report = await all_end_in_deadlock((birch, r1), (elm, r2), cycle=[birch, elm])
    assert sorted(report["request_ids"]) == sorted([r1, r2])


async def test_bug_007_an_expired_wait_is_told_once_and_leaves_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s=0.4)
    event = await elm.event()
    assert (await birch.outcome(request_id))["outcome"] == "expired"
    assert not await net.waits()
    await elm.answer(event, "at 1.5 s")
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_bug_009_a_late_answer_to_a_cancelled_request_hurts_no_other(net: Net) -> None:
    birch, elm, flint = await net.peer("birch"), await net.worker("elm"), await net.worker("flint", 32)
    late = await net.counter("late_reply")
    r1 = await birch.request(elm)
    event = await elm.event()
    others = [await birch.request(flint, data=n) for n in range(2, 21)]
    await birch.cancel(r1)
    assert (await birch.outcome(r1))["outcome"] == "cancelled"
    await elm.answer(event, "late")
    for _ in others:
        got = await flint.event()
        await flint.answer(got, got["data"])
    assert [(await birch.outcome(i))["event"]["data"] for i in others] == list(range(2, 21))
    assert await net.counter("late_reply") == late + 1


async def test_bug_011_cancelling_an_unknown_id_suppresses_no_later_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    r77 = f"r77-{net.tag}"
    await birch.cancel(r77)
    await net.settled()
    assert (await birch.send_and_wait(elm, data="wanted", id=r77))["event"]["data"] == "wanted"


# ---- deadlock


async def test_bug_024_two_that_wait_on_each_other_are_told_in_milliseconds(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    r1 = await birch.request(elm, timeout_s=45)
    await asyncio.sleep(0.2)
    r2 = await elm.request(birch, timeout_s=45)
    report = await all_end_in_deadlock((birch, r1), (elm, r2), within=2, cycle=[birch, elm])
    assert {w["id"]: (w["waiter"], w["target"], w["kind"]) for w in report["waits"]} == {
        r1: (birch.agent, elm.agent, "reply"),
        r2: (elm.agent, birch.agent, "reply"),
    }


async def test_bug_025_a_child_that_waits_for_a_message_of_its_delegating_parent(net: Net) -> None:
    """A delegation edge, and a wait that only the child tells of: so it is read twice."""
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.worker("elm", heartbeat_s=0.5)
    t1 = await birch.request(elm, "delegate", timeout_s=45)
    event = await elm.event()
    waiting = await elm.wait_open({"kind": "agent", "id": birch.agent}, execution=event["id"], timeout_s=45)
    async with birch.beating(), elm.beating():
        report = await all_end_in_deadlock((birch, t1), (elm, waiting["id"]), evidence="reported")
    assert birch.agent in report["message"]


async def test_bug_027_an_awaited_publish_is_one_edge_per_subscriber(net: Net) -> None:
    """publish and wait for all acknowledgements: a group over the subscribers, all of them needed."""
    birch, elm, flint, grove = [await net.peer(name) for name in ("birch", "elm", "flint", "grove")]
    group = {"id": new_id(), "n": 2, "need": 2}
    to_elm = await birch.request(elm, "page.read", group=group)
    to_grove = await birch.request(grove, "page.read", group=group)
    middle = await elm.request(flint)
    closing = await flint.request(birch)
    await all_end_in_deadlock((birch, to_elm), (elm, middle), (flint, closing), cycle=[birch, elm, flint])
    assert (await birch.outcome(to_grove))["outcome"] == "cancelled", "its group has failed"


async def test_bug_027_a_publish_that_nobody_awaits_is_no_edge(net: Net) -> None:
    birch, elm, flint = [await net.peer(name) for name in ("birch", "elm", "flint")]
    await birch.send(elm, "page.read")
    await elm.request(flint)
    await flint.request(birch)
    await birch.event()
    await nobody_is_told(net, birch, elm, flint)


async def test_bug_028_a_request_to_oneself_is_told_at_once_and_never_sent(net: Net) -> None:
    birch = await net.peer("birch")
    before = await net.counter("deadlocks.fail_all")
    await all_end_in_deadlock((birch, await birch.request(birch)), cycle=[birch])
    await net.settled()
    assert not birch.inbox.left("event")
    assert await net.counter("deadlocks.fail_all") == before + 1


@pytest.mark.parametrize("reentrant", [True, False])
async def test_bug_031_a_tool_that_asks_its_caller_back_is_served_or_told_at_once(
    net: Net, reentrant: bool
) -> None:
    birch, elm, cli = (
        await net.worker("birch", reentrant=reentrant),
        await net.worker("elm"),
        await net.peer("cli"),
    )
    busy = await in_hand(cli, birch)
    r1 = await birch.request(elm, "tool.call", execution=busy["id"])
    event = await elm.event()
    r2 = await elm.request(birch, "sample", execution=event["id"])
    if reentrant:
        await birch.answer(await birch.event("sample"), "a completion")
        assert (await elm.outcome(r2))["event"]["data"] == "a completion"
        await elm.answer(event, "tool result")
        assert (await birch.outcome(r1))["outcome"] == "reply"
    else:
        await all_end_in_deadlock((birch, r1), (elm, r2), cycle=[birch, elm])


async def test_bug_032_a_human_wait_is_seen_at_once_though_its_handler_is_busy(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await birch.send(elm, "queued.behind")
    wait = await elm.wait_open(
        {"kind": "human", "id": "h1"}, execution=event["id"], reason="may I delete it?"
    )
    row = await net.wait_row(wait["id"])
    assert row is not None
    assert (row["kind"], row["waiter"], row["execution"]) == ("human", elm.agent, event["id"])


async def test_bug_033_two_agents_on_one_connection_serve_each_other(net: Net) -> None:
    """elm's handler waits for flint, which is hosted by the same process and connection."""
    birch, elm, flint = await net.peer("birch"), await net.worker("elm"), await net.worker("flint")
    r1 = await birch.request(elm)
    event = await elm.event()
    r2 = await elm.request(flint, execution=event["id"])
    assert (await elm.heartbeat())["ok"] is True
    await flint.answer(await flint.event(), 1)
    assert (await elm.outcome(r2))["outcome"] == "reply"
    await elm.answer(event, 2)
    assert (await birch.outcome(r1))["outcome"] == "reply"


async def test_bug_034_a_turn_that_a_timer_started_has_the_same_verdict(net: Net) -> None:
    """The execution is one that no event of the gateway started; the pool of one slot is main's."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    r1 = await birch.request(elm, execution="main")
    event = await elm.event()
    r2 = await elm.request(birch, execution=event["id"])
    await all_end_in_deadlock((birch, r1), (elm, r2), cycle=[birch, elm])


async def test_bug_035_a_restarted_responder_that_calls_its_old_caller_is_no_cycle(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.worker("elm", instance="elm-1")
    busy = await in_hand(await net.peer("cli"), birch)
    r1 = await birch.request(elm, execution=busy["id"])
    await elm.event()
    young = Peer(net, elm.agent, new_session())
    net.peers.append(young)
    await young.listen()
    await young.hello(concurrency=1, instance="elm-1")
    recovering = await young.request(birch)
    assert (await birch.outcome(r1))["outcome"] == "responder_lost"
    await birch.answer(busy, "free now")
    await birch.answer(await birch.event(), "welcome back")
    assert (await young.outcome(recovering))["outcome"] == "reply"
    await nobody_is_told(net, birch, young)


async def test_bug_036_a_waiter_outside_of_the_loop_is_a_tail_and_all_is_withdrawn_after_the_answer(
    shadow: Net,
) -> None:
    net = shadow
    notices = await net.listen(net.subjects.notice(">"))
    heath, elm, flint = [await net.peer(name) for name in ("heath", "elm", "flint")]
    tail = await heath.request(elm)
    row = await net.wait_row(tail)
    assert row is not None
    assert row["stuck"] is False
    first = await elm.request(flint)
    closing = await flint.request(elm)
    notice = await notices.take(lambda a: closing in a.body.get("request_ids", ()), "notice")
    assert notice.body["cycle"] == [elm.agent, flint.agent, elm.agent]
    assert notice.body["blocked_behind"] == [heath.agent]
    stuck = {w["id"] for w in await net.waits() if w["stuck"]}
    assert stuck == {tail, first, closing}
    await flint.answer(await flint.event(), "answered after all")
    assert (await elm.outcome(first))["outcome"] == "reply"
    assert not [w for w in await net.waits() if w["stuck"]]


async def test_bug_037_four_edges_in_one_burst_and_silence_afterwards(net: Net) -> None:
    peers = [await net.peer(name) for name in ("a", "b", "c", "d")]
    for peer in peers:
        peer.silent = True  # the first round of the detector comes to nothing
    ids = [await p.request(peers[(n + 1) % 4]) for n, p in enumerate(peers)]
    await peers[0].control("confirm")
    await peers[0].event()
    for peer in peers:
        peer.silent = False
    for peer in peers:
        await peer.heartbeat()
        await peer.heartbeat()
    await all_end_in_deadlock(*zip(peers, ids, strict=True), cycle=peers)


async def test_bug_038_an_answered_waiter_is_no_edge(net: Net) -> None:
    """elm's answer is on its way when elm starts to wait for birch."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    for _ in range(20):
        r1 = await birch.request(elm)
        event = await elm.event()
        await net.tell(net.subjects.reply(elm.agent, r1), elm.envelope({"data": 1, "done": False}))
        r2 = await elm.request(birch, execution=event["id"])
        assert (await birch.outcome(r1))["outcome"] == "reply"
        await birch.answer(await birch.event(), 2)
        assert (await elm.outcome(r2))["outcome"] == "reply"
        await elm.done(event)


async def test_bug_040_one_saturated_pool_does_not_hide_the_next(net: Net) -> None:
    """No global rate limit: each digest is told."""
    cli = await net.peer("cli")
    for name in ("grove", "heath"):
        pool = await net.worker(name, 2)
        busy = [await in_hand(cli, pool) for _ in range(2)]
        ids = [await pool.request(pool, "child", execution=event["id"]) for event in busy]
        await all_end_in_deadlock(*((pool, i) for i in ids), cycle=[pool])


async def test_bug_040_no_report_while_a_slot_will_be_free(net: Net) -> None:
    cli, pool = await net.peer("cli"), await net.worker("pool", 3)
    busy = [await in_hand(cli, pool) for _ in range(3)]
    for event in busy[:2]:
        await pool.request(pool, "child", execution=event["id"])
    await asyncio.sleep(0.3)
    await nobody_is_told(net, pool)


# ---- timeouts


async def test_bug_088_timed_out_requests_leave_nothing_behind(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm", pools=[{"slots": None}])
    tables = (await net.api("stats"))["tables"]
    for _ in range(5):
        ids = [await birch.request(elm, timeout_s=0.05) for _ in range(200)]
        ends = [(await birch.outcome(i))["outcome"] for i in ids]
        assert set(ends) == {"expired"}
    elm.held.clear()
    await elm.done(*({"id": i} for i in list(elm.had)))
    await birch.heartbeat(open=[])
    await net.settled()
    assert not await net.waits()
    after = (await net.api("stats"))["tables"]
    grown = {name: n - tables.get(name, 0) for name, n in after.items() if n - tables.get(name, 0) > 100}
    assert set(grown) <= {"remembered", "kept_bytes"}, "only the bounded memory of closed ids grows"


async def test_bug_091_no_clock_of_another_host_decides_anything(net: Net) -> None:
    """The wire carries remaining time; the one instant on it, ``time``, is for people."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s=0.5, time="2001-01-01T00:00:00Z", deadline_in_s=0.001)
    started = asyncio.get_running_loop().time()
    event = await elm.event()
    assert 0.2 < event["deadline_in_s"] <= 0.5
    assert event["time"] > "2020"
    assert (await birch.outcome(request_id))["outcome"] == "expired"
    assert asyncio.get_running_loop().time() - started > 0.4


async def test_bug_093_keep_alives_do_not_extend_a_wait(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.worker("elm", heartbeat_s=0.5)
    request_id = await birch.request(elm, timeout_s=1)
    await elm.event()
    async with birch.beating(0.1), elm.beating(0.1):
        assert (await birch.outcome(request_id, within=3))["outcome"] == "expired"


# ---- transport


async def test_bug_094_three_slots_serve_three_at_once_one_slot_one_after_another(net: Net) -> None:
    askers = [await net.peer(name) for name in ("birch", "flint", "grove")]
    wide, narrow = await net.worker("wide", 3), await net.worker("narrow")
    for asker in askers:
        await asker.request(wide)
        await asker.request(narrow)
    for _ in askers:
        await wide.event()
    first = await narrow.event()
    rows = {w["waiter"]: w for w in await net.waits() if w["target"] == narrow.agent}
    assert [rows[a.agent].get("position") for a in askers] == [None, 1, 2]
    assert (await narrow.heartbeat())["ok"] is True, "the receive loop never waits for a handler"
    await narrow.answer(first)
    assert (await narrow.event())["source"] == askers[1].agent


async def test_bug_095_answers_and_heartbeats_flow_while_the_queue_is_full(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    ids = [await birch.request(elm, data=n) for n in range(50)]
    assert (await elm.heartbeat())["ok"] is True
    for n in range(50):
        event = await elm.event()
        assert event["data"] == n
        await elm.answer(event, n)
    assert [(await birch.outcome(i))["event"]["data"] for i in ids] == list(range(50))


async def test_bug_096_a_client_that_stops_reading_delays_nobody_else(net: Net) -> None:
    """The gateway delivers only into free slots: to a reader that stands still, no more than it has slots."""
    slow = await connect(net.nc.connected_url.geturl(), net.subjects)
    slow.tag = net.tag
    flint = await slow.worker("flint", 4)
    birch, elm = await net.peer("birch"), await net.echo("elm")
    for _ in range(500):
        await net.tell(
            birch.subject("send", flint, "work.do"), birch.envelope({"id": new_id(), "data": "x" * 2_000})
        )
    for n in range(20):
        assert (await birch.send_and_wait(elm, data=n))["event"]["data"] == n
    await net.settled()
    assert len(flint.inbox.left("event")) == 4
    await slow.close()


@pytest.mark.parametrize("request_id", ["a", "A-_9" * 16, "0", "-", "_", "NaN", "null", "true"])
async def test_bug_097_ids_make_the_round_trip_unchanged(net: Net, request_id: str) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    metadata = {"note": 'é😀 \\ " ', "n": "007", "b": "True"}
    await net.tell(
        birch.subject("request", elm, "work.do"),
        birch.envelope({"id": request_id, "metadata": metadata, "timeout_s": 20, "run": request_id}),
    )
    event = await elm.event()
    assert (event["id"], event["run"]) == (request_id, request_id)
    assert metadata.items() <= event["metadata"].items()
    await elm.answer(event, 1)
    assert (await birch.outcome(request_id))["event"]["response_to"] == request_id


@pytest.mark.parametrize(
    ("mark", "blocks"),
    [
        (True, True),
        ("True", True),
        ("true", True),
        (False, False),
        ("False", False),
        ("false", False),
        ("0", False),
        (0, False),
        ("", False),
        ("no", False),
        (None, False),
        (1, True),
        ("1", True),
        (" yes ", True),
        ([True], False),
        ({"blocking_wait": True}, False),
    ],
    ids=repr,
)
async def test_bug_099_only_true_like_marks_make_an_edge(net: Net, mark: object, blocks: bool) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event_id = new_id()
    await net.tell(
        birch.subject("send", elm, "work.do"),
        birch.envelope({"id": event_id, "metadata": {"blocking_wait": mark}}),
    )
    await elm.event()
    assert (await net.wait_row(event_id) is not None) is blocks


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(30, 30), ("30", 30), ("30.5", 30.5), (" 30 ", 30)], ids=repr
)
async def test_bug_099_numeric_strings_keep_their_value(net: Net, timeout: object, seconds: float) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    metadata = {"blocking_wait": True, "wait_timeout": timeout}
    await net.tell(
        birch.subject("send", elm, "work.do"), birch.envelope({"id": new_id(), "metadata": metadata})
    )
    assert seconds - 1 < (await elm.event())["deadline_in_s"] <= seconds + 0.001


async def test_bug_100_nothing_is_prefetched_what_was_delivered_has_started(net: Net) -> None:
    """What waits in the gateway's queue has no clock running in a client; expired, it is never started."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    busy = await in_hand(birch, elm)
    soon_over = await birch.request(elm, timeout_s=0.4)
    patient = await birch.request(elm)
    await net.settled()
    assert not elm.inbox.left("event")
    assert (await birch.outcome(soon_over))["outcome"] == "expired"
    await elm.answer(busy)
    assert (await elm.event())["id"] == patient
    assert not elm.inbox.left("event", "request.abandoned", DEADLOCK, BLOCKED_BEHIND)
