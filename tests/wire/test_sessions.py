"""WIRE section 5: hello and bye, heartbeats, and what a gateway that lost everything learns from its clients."""

import asyncio

import pytest

from tests.wire.conftest import SOON_LOST_S, Mortal
from tests.wire.raw import Net, Peer, new_id, new_session
from tests.wire.shapes import DEADLOCK, all_end_in_deadlock, in_hand, nobody_is_told, untimed

# ---- hello


async def test_hello_is_answered_with_what_holds(net: Net) -> None:
    birch = await net.peer("birch")
    welcome = birch.welcome
    assert welcome["session"] == birch.session
    assert welcome["protocol"] == 1
    assert welcome["heartbeat_s"] == 5
    assert welcome["session_loss_s"] == 30
    assert welcome["epoch"] > 1_600_000_000_000
    assert welcome["limits"]
    assert all(isinstance(limit, int | float) for limit in welcome["limits"].values())


async def test_another_protocol_is_refused(net: Net) -> None:
    receipt = await net.verb(net.name("birch"), "hello", {"session": new_session(), "protocol": 2})
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "protocol_unknown"


async def test_a_token_once_used_is_refused(net: Net) -> None:
    birch = await net.peer("birch")
    await birch.bye()
    receipt = await net.verb(birch.agent, "hello", {"session": birch.session, "protocol": 1})
    assert receipt["error"]["code"] == "session_used"


async def test_the_token_of_one_agent_is_refused_to_another(net: Net) -> None:
    birch = await net.peer("birch")
    receipt = await net.verb(net.name("elm"), "hello", {"session": birch.session, "protocol": 1})
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "session_used"


async def test_the_same_hello_again_is_the_same_session(net: Net) -> None:
    """Its Welcome was lost."""
    birch, elm = await net.peer("birch"), await net.worker("elm", instance="elm-1")
    event = await in_hand(birch, elm)
    first = elm.welcome
    assert await elm.hello(concurrency=1, instance="elm-1") == first
    await elm.answer(event, "went on")
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"
    await net.settled()
    assert not elm.inbox.left("session.replaced")


async def test_session_0_belongs_to_those_who_say_no_hello(net: Net) -> None:
    receipt = await net.verb(net.name("birch"), "hello", {"session": "0", "protocol": 1})
    assert receipt["ok"] is False


@pytest.mark.parametrize(
    ("asked", "holds"), [(None, 5), (0.1, 0.5), (0.5, 0.5), (7.5, 7.5), (60, 60), (600, 60)]
)
async def test_heartbeat_s_is_between_half_a_second_and_a_minute(
    net: Net, asked: float | None, holds: float
) -> None:
    birch = await net.peer("birch", **({} if asked is None else {"heartbeat_s": asked}))
    assert birch.welcome["heartbeat_s"] == holds


async def test_concurrency_and_pools_exclude_each_other(net: Net) -> None:
    body = {"session": new_session(), "protocol": 1, "concurrency": 2, "pools": [{"slots": 1}]}
    receipt = await net.verb(net.name("birch"), "hello", body)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "bad_request"


@pytest.mark.parametrize(
    "pools",
    [
        [{"slots": -1}],
        [{"slots": 0}],
        [{"slots": 1, "types": ["a..b"]}],
        [{"slots": 1, "types": ["A"]}],
        [{"slots": 1, "types": [">.a"]}],
        [{"slots": "1"}],
        [{"slots": 1}] * 65,
    ],
    ids=range(7),
)
async def test_pools_that_mean_nothing_are_refused(net: Net, pools: list[object]) -> None:
    receipt = await net.verb(
        net.name("birch"), "hello", {"session": new_session(), "protocol": 1, "pools": pools}
    )
    assert receipt["ok"] is False
    assert receipt["error"]["code"] in ("bad_request", "bad_id", "too_large")


async def test_concurrency_n_is_one_pool_of_all_types(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    for event_type in ("a", "b.c", "d", "e"):
        await birch.send(elm, event_type)
    await net.settled()
    assert [e["type"] for e in elm.inbox.left("event")] == ["a", "b.c", "d"]


async def test_neither_concurrency_nor_pools_is_one_main_pool_of_one_slot(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    for event_type in ("a", "b.c"):
        await birch.send(elm, event_type)
    await net.settled()
    assert [e["type"] for e in elm.inbox.left("event")] == ["a"]


async def test_pool_types_are_nats_patterns(net: Net) -> None:
    birch = await net.peer("birch")
    elm = await net.peer("elm", pools=[{"slots": 9, "types": ["thread.>", "*.done", "exact"]}])
    served = ["thread.x", "thread.x.y", "page.done", "exact"]
    for event_type in served:
        assert (await birch.send(elm, event_type))["ok"] is True
    await net.settled()
    assert [e["type"] for e in elm.inbox.left("event")] == served
    for event_type in ("thread", "a.b.done", "exactly", "exact.ly"):
        assert (await birch.send_and_wait(elm, event_type))["error"]["code"] == "not_subscribed"


async def test_what_waited_for_an_agents_hello_is_delivered_after_it(net: Net) -> None:
    birch = await net.peer("birch")
    ids = [await birch.request(net.name("elm"), wait_for_target_s=10) for _ in range(3)]
    await net.settled()
    elm = await net.worker("elm", 3)
    assert [(await elm.event())["id"] for _ in ids] == ids


# ---- another session takes the place


async def successor(old: Peer, **hello: object) -> Peer:
    """A new session of the same agent."""
    young = Peer(old.net, old.agent, new_session())
    old.net.peers.append(young)
    await young.listen()
    await young.hello(**hello)
    return young


async def test_the_same_instance_again_ends_the_old_session(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    old = await net.worker("flint", instance="flint-1")
    held = await in_hand(birch, old)
    own = await old.request(elm, execution=held["id"])
    await elm.event()
    young = await successor(old, instance="flint-1", concurrency=1)
    outcome = await birch.outcome(held["id"])
    assert outcome["outcome"] == "responder_lost"
    assert outcome["handled"] == "maybe"
    replaced = await old.control("session.replaced")
    assert replaced == {"session": old.session, "by": young.session}
    assert await net.wait_row(own) is None, "the old one's waits are closed"
    await elm.control("request.abandoned", request_id=own)


async def test_a_replaced_session_gets_nothing_more(net: Net) -> None:
    birch = await net.peer("birch")
    old = await net.worker("flint", instance="flint-1")
    young = await successor(old, instance="flint-1", concurrency=1)
    await old.control("session.replaced")
    came = len(old.inbox.all)
    request_id = await birch.request("agent:" + old.agent)
    assert (await young.event())["id"] == request_id
    await net.settled()
    assert len(old.inbox.all) == came


async def test_exclusive_ends_all_other_sessions_of_the_agent(net: Net) -> None:
    old = await net.worker("flint", instance="one")
    young = await successor(old, instance="two", exclusive=True, concurrency=1)
    assert (await old.control("session.replaced"))["by"] == young.session
    assert (await old.heartbeat())["error"]["code"] == "stale_session"


# ---- bye


async def test_bye_ends_the_sessions_own_waits_and_what_it_holds(net: Net) -> None:
    birch, elm, flint = await net.peer("birch"), await net.worker("elm"), await net.worker("flint")
    event = await in_hand(birch, elm)
    own = await elm.request(flint, execution=event["id"])
    await flint.event()
    assert (await elm.bye())["ok"] is True
    assert (await birch.outcome(event["id"]))["outcome"] == "responder_lost"
    await flint.control("request.abandoned", request_id=own)
    assert await net.wait_row(own) is None


async def test_a_session_that_drains_gets_no_new_work_and_ends_what_it_holds(net: Net) -> None:
    birch, elm, flint = await net.peer("birch"), await net.worker("elm", 4), await net.echo("flint")
    event = await in_hand(birch, elm)
    await elm.bye(drain_s=20)
    assert (await birch.send_and_wait(elm))["outcome"] == "unreachable"
    assert not elm.inbox.left("event")
    helped = await elm.send_and_wait(flint, data="for the last one", execution=event["id"])
    assert helped["outcome"] == "reply"
    assert (await elm.answer(event, "finished"))["ok"] is True
    assert (await birch.outcome(event["id"]))["event"]["data"] == "finished"
    await net.settled()
    assert elm.agent not in {row["agent"] for row in await net.rows("agents")}


async def test_a_session_that_drains_ends_after_drain_s_at_the_latest(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    await elm.bye(drain_s=0.4)
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert (await birch.outcome(event["id"]))["outcome"] == "responder_lost"


async def test_a_main_pool_that_is_withdrawn_has_no_reader(net: Net) -> None:
    """The program's loop has ended: what is held or queued for it alone ends at once, the session lives on."""
    birch, elm, flint = await net.peer("birch"), await net.peer("elm"), await net.worker("flint")
    held = await in_hand(birch, elm)
    queued = await birch.request(elm)
    own = await in_hand(elm, flint)
    await elm.hello(resume=True, pools=[], **elm.state())
    for request_id in (held["id"], queued):
        outcome = await birch.outcome(request_id)
        assert outcome["outcome"] == "refused"
        assert outcome["error"]["code"] == "no_reader"
    await net.settled()
    assert not elm.inbox.left("event")
    await flint.answer(own, "for the script")
    assert (await elm.outcome(own["id"]))["outcome"] == "reply"


async def test_what_another_pool_serves_goes_on_when_the_main_pool_is_withdrawn(net: Net) -> None:
    birch = await net.peer("birch")
    handlers = {"slots": 1, "types": ["handled.>"]}
    elm = await net.peer("elm", pools=[{"slots": 1, "main": True}, handlers])
    request_id = await birch.request(elm, "handled.here")
    event = await elm.event()
    await elm.hello(resume=True, pools=[handlers], **elm.state())
    await elm.answer(event, "yes")
    assert (await birch.outcome(request_id))["outcome"] == "reply"


async def test_one_way_events_in_the_hands_of_a_session_that_ends_concern_nobody(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await birch.send(elm)
    await elm.event()
    await elm.bye()
    await net.settled()
    assert not birch.inbox.left()


# ---- heartbeats


async def test_a_heartbeat_is_answered_with_what_the_gateway_does_not_know(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    lost, strange = new_id(), new_id()
    pulse = await birch.heartbeat(open=[event["id"], lost], held=[{"id": strange, "state": "running"}])
    assert pulse["ok"] is True
    assert pulse["epoch"] == birch.welcome["epoch"]
    assert pulse["unknown"] == [lost]
    assert pulse["not_held"] == [strange]


async def test_what_the_gateway_does_not_know_is_sent_again_under_the_same_id(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = new_id()  # sent while the connection was down
    assert (await birch.heartbeat(open=[request_id]))["unknown"] == [request_id]
    await birch.request(elm, id=request_id)
    await elm.answer(await elm.event(), "then")
    assert (await birch.outcome(request_id))["event"]["data"] == "then"


async def test_a_heartbeat_of_an_unknown_session_is_told_so(net: Net) -> None:
    receipt = await net.verb(net.name("birch"), "heartbeat", {"session": new_session()})
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "unknown_session"


async def test_a_wait_that_heartbeats_omit_is_dropped_only_after_two_of_them_and_two_intervals(
    net: Net,
) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=1), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s=20)
    await elm.event()
    for _ in range(5):
        await birch.heartbeat(open=[])  # young: the heartbeat may have passed it on the way
    assert await net.wait_row(request_id) is not None
    await asyncio.sleep(2.1)
    assert await net.wait_row(request_id) is not None
    await birch.heartbeat(open=[])
    await birch.heartbeat(open=[])
    await elm.control("request.abandoned", request_id=request_id)
    assert await net.wait_row(request_id) is None


async def test_a_wait_that_heartbeats_name_stays(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.worker("elm")
    event = await in_hand(birch, elm)
    async with birch.beating(0.25):
        await asyncio.sleep(1.6)
    await elm.answer(event, "at last")
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"


async def test_settled_outcomes_are_repeated_until_a_heartbeat_no_longer_names_them(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    request_id = await birch.request(elm, data=1)
    first = await birch.outcome(request_id)
    for _ in range(2):
        await birch.heartbeat(open=[request_id])
        assert untimed(await birch.outcome(request_id)) == untimed(first)
    await birch.heartbeat(open=[])
    await net.settled()
    assert not birch.inbox.left("outcome")


# ---- freshness and loss


async def test_an_edge_whose_session_has_not_been_heard_for_two_intervals_does_not_count(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    await asyncio.sleep(1.3)
    birch.silent = True
    second = await elm.request(birch)
    await birch.event()
    await nobody_is_told(net, birch, elm)
    birch.silent = False
    await birch.heartbeat()  # heard again: its edge counts again
    await birch.heartbeat()
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_any_message_that_carries_the_session_is_a_sign_of_life(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm")
    first = await birch.request(elm)
    await elm.event()
    other = await net.peer("flint", pools=[{"slots": None}])
    for _ in range(5):
        await asyncio.sleep(0.3)
        await birch.send(other)
    second = await elm.request(birch)
    await all_end_in_deadlock((birch, first), (elm, second))


async def test_silence_shorter_than_session_loss_s_fails_nobody(net: Net) -> None:
    """A handler that blocks its event loop for ten seconds costs nobody anything."""
    birch, elm = await net.peer("birch"), await net.worker("elm", heartbeat_s=0.5)
    event = await in_hand(birch, elm)
    await asyncio.sleep(3)
    await elm.answer(event, "sorry, I was thinking")
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"


async def test_a_session_silent_for_session_loss_s_is_lost(hasty: Net) -> None:
    birch, elm, flint = (
        await hasty.peer("birch", heartbeat_s=0.5),
        await hasty.worker("elm", heartbeat_s=0.5),
        await hasty.peer("flint"),
    )
    assert elm.welcome["session_loss_s"] == SOON_LOST_S
    event = await in_hand(birch, elm)
    own = await elm.request(flint, execution=event["id"])
    await flint.event()
    async with birch.beating(), flint.beating():
        outcome = await birch.outcome(event["id"])
        assert outcome["outcome"] == "responder_lost"
        assert outcome["handled"] == "maybe"
        await flint.control("request.abandoned", request_id=own)
    assert (await elm.heartbeat())["ok"] is False


async def test_edges_of_agents_without_hello_need_an_explicit_timeout_to_count(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.stranger("elm")
    await birch.request(elm, timeout_s=None)
    await elm.event()
    await elm.request(birch, timeout_s=None)
    await birch.event()
    await nobody_is_told(net, birch, elm)


# ---- a gateway that lost everything


async def resume(peer: Peer, **fields: object) -> None:
    """What a client does when its heartbeat is answered with another epoch or ``unknown_session``."""
    pulse = await peer.heartbeat()
    assert pulse["error"]["code"] == "unknown_session"
    before = peer.welcome["epoch"]
    await peer.hello(resume=True, **peer.state(), **fields)
    assert peer.welcome["epoch"] > before
    assert peer.welcome["session"] == peer.session


async def test_resume_keeps_the_session_and_an_answer_finds_its_way(mortal: Mortal, mortal_net: Net) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.worker("elm")
    event = await in_hand(birch, elm, data="long work")
    await asyncio.to_thread(mortal.restart)
    await resume(birch)
    await resume(elm, concurrency=1)
    assert event["id"] in (await birch.heartbeat())["unknown"]
    await birch.request(elm, id=event["id"], data="long work")
    await elm.heartbeat()
    await mortal_net.settled()
    assert not elm.inbox.left("event"), "it holds it: it is not delivered again"
    await elm.answer(event, "done at last")
    outcome = await birch.outcome(event["id"])
    assert outcome["event"]["data"] == "done at last"
    assert outcome["epoch"] == birch.welcome["epoch"]


async def test_a_reply_that_comes_before_its_request_is_known_again_is_parked(
    mortal: Mortal, mortal_net: Net
) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.worker("elm")
    event = await in_hand(birch, elm, data=1)
    await asyncio.to_thread(mortal.restart)
    await resume(elm, concurrency=1)
    await elm.answer(event, "parked")
    await resume(birch)
    await birch.request(elm, id=event["id"], data=1)
    await elm.heartbeat()
    await birch.heartbeat()
    assert (await birch.outcome(event["id"]))["event"]["data"] == "parked"


async def test_until_reconciliation_is_over_nothing_is_delivered_and_no_verdict_given(
    mortal: Mortal, mortal_net: Net
) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.peer("elm")
    heath = await mortal_net.peer("heath")
    first = await in_hand(birch, elm)
    await asyncio.to_thread(mortal.restart)
    await resume(birch)
    await resume(elm)
    await birch.request(elm, id=first["id"])
    second = await elm.request(birch)
    other = await heath_request(heath, elm)
    await mortal_net.settled()
    await nobody_is_told(mortal_net, birch, elm)
    assert not birch.inbox.left("event")
    assert not elm.inbox.left("event")
    for peer in (birch, elm, heath):
        await peer.heartbeat()
    await all_end_in_deadlock((birch, first["id"]), (elm, second))
    assert not heath.inbox.left(DEADLOCK)
    assert await mortal_net.wait_row(other) is not None


async def heath_request(heath: Peer, elm: Peer) -> str:
    """A third session resumes late, and waits too."""
    await resume(heath)
    return await heath.request(elm)


async def test_a_resent_request_goes_to_the_session_that_answered_it_and_is_answered_again(
    mortal: Mortal, mortal_net: Net
) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.worker("elm")
    event = await in_hand(birch, elm, data=1)
    await asyncio.to_thread(mortal.restart)
    elm.held.clear()  # its answer went to the gateway that died
    await resume(elm, concurrency=1, answered=[event["id"]])
    await resume(birch)
    await birch.request(elm, id=event["id"], data=1)
    for peer in (birch, elm):
        await peer.heartbeat()
    again = await elm.event()
    assert again["id"] == event["id"]
    assert again["redelivered"] is True
    await elm.answer(again, "kept answer")
    assert (await birch.outcome(event["id"]))["event"]["data"] == "kept answer"


async def test_a_resent_request_that_nobody_held_is_delivered(mortal: Mortal, mortal_net: Net) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.worker("elm")
    busy = await in_hand(birch, elm)
    queued = await birch.request(elm, data=2)
    await mortal_net.settled()
    await asyncio.to_thread(mortal.restart)
    await resume(birch)
    await resume(elm, concurrency=1)
    for request_id, data in ((busy["id"], None), (queued, 2)):
        await birch.request(elm, id=request_id, data=data)
    for peer in (birch, elm):
        await peer.heartbeat()
    await elm.answer(busy, 1)
    event = await elm.event()
    assert event["id"] == queued


async def test_a_held_request_whose_session_is_gone_too_is_responder_lost(
    mortal: Mortal, mortal_net: Net
) -> None:
    """Nobody can know whether it ran: never a silent second run."""
    birch, elm = await mortal_net.peer("birch"), await mortal_net.worker("elm", instance="elm-1")
    event = await in_hand(birch, elm, data=1)
    await asyncio.to_thread(mortal.restart)
    young = Peer(mortal_net, elm.agent, new_session())
    mortal_net.peers.append(young)
    await young.listen()
    await young.hello(concurrency=1, instance="elm-1")
    await resume(birch)
    await birch.request(elm, id=event["id"], data=1)
    for peer in (birch, young):
        await peer.heartbeat()
    first = asyncio.create_task(birch.outcome(event["id"]))
    second = asyncio.create_task(young.event())
    done, late = await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    if first in done:
        assert (first.result()["outcome"], first.result()["handled"]) == ("responder_lost", "maybe")
    else:
        assert second.result()["redelivered"] is True
