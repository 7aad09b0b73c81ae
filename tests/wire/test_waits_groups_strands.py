"""WIRE section 6: waits that are opened by hand, requests that are one wait together, tasks inside an execution."""

import asyncio

import pytest

from tests.wire.raw import Json, Net, new_id
from tests.wire.shapes import all_end_in_deadlock, in_hand, nobody_is_told

# ---- wait.open and wait.close


async def test_wait_open_gets_a_receipt_and_is_listed(net: Net) -> None:
    birch = await net.peer("birch")
    receipt = await birch.wait_open({"kind": "tool", "id": "ocr-job-17"}, timeout_s=12)
    assert receipt["ok"] is True
    assert receipt["timeout_s"] == 12
    row = await net.wait_row(receipt["id"])
    assert row is not None
    assert (row["kind"], row["waiter"], row["execution"]) == ("tool", birch.agent, "main")


async def test_wait_close_ends_it(net: Net) -> None:
    birch = await net.peer("birch")
    wait = await birch.wait_open({"kind": "human", "id": "h1"})
    assert (await birch.wait_close(wait["id"]))["ok"] is True
    assert await net.wait_row(wait["id"]) is None


async def test_a_wait_that_passes_its_deadline_ends_expired_with_its_chain(net: Net) -> None:
    birch = await net.peer("birch")
    wait = await birch.wait_open({"kind": "human", "id": "h1"}, timeout_s=0.4)
    outcome = await birch.outcome(wait["id"])
    assert outcome["outcome"] == "expired"
    assert "human:h1" in outcome["error"]["detail"]["chain"][-1]


async def test_an_older_generation_changes_nothing(net: Net) -> None:
    birch = await net.peer("birch")
    wait = await birch.wait_open({"kind": "human", "id": "h1"}, generation=5)
    receipt = await birch.wait_close(wait["id"], generation=4)
    assert receipt["error"]["code"] == "stale_generation"
    again = await birch.wait_open({"kind": "human", "id": "h2"}, id=wait["id"], generation=3)
    assert again["ok"] is False
    assert again["error"]["code"] == "stale_generation"
    assert await net.wait_row(wait["id"]) is not None
    assert (await birch.wait_close(wait["id"], generation=5))["ok"] is True
    assert await net.wait_row(wait["id"]) is None


async def test_a_close_that_overtakes_its_open_leaves_a_tombstone(net: Net) -> None:
    birch = await net.peer("birch")
    wait_id = new_id()
    await birch.wait_close(wait_id)
    await birch.wait_open({"kind": "human", "id": "h1"}, id=wait_id)
    assert await net.wait_row(wait_id) is None


async def test_a_wait_id_that_has_ended_never_opens_again(net: Net) -> None:
    birch = await net.peer("birch")
    wait = await birch.wait_open({"kind": "human", "id": "h1"})
    await birch.wait_close(wait["id"])
    await birch.wait_open({"kind": "human", "id": "h1"}, id=wait["id"])
    assert await net.wait_row(wait["id"]) is None


@pytest.mark.parametrize(("given", "holds"), [(None, 60), (0, 60), (-1, 60), (1e9, 3600), (2.5, 2.5)])
async def test_a_wait_has_a_deadline_whatever_it_asks_for(
    net: Net, given: float | None, holds: float
) -> None:
    birch = await net.peer("birch")
    receipt = await birch.wait_open({"kind": "tool", "id": "t"}, timeout_s=given)
    assert receipt["timeout_s"] == pytest.approx(holds)


async def test_a_wait_cannot_take_the_id_of_an_open_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event = await in_hand(birch, elm)
    receipt = await birch.wait_open({"kind": "human", "id": "h1"}, id=event["id"])
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "id_conflict"
    await elm.answer(event, 1)
    assert (await birch.outcome(event["id"]))["outcome"] == "reply"


async def test_nobody_can_close_the_wait_of_another(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    wait = await birch.wait_open({"kind": "human", "id": "h1"})
    await elm.wait_close(wait["id"])
    assert await net.wait_row(wait["id"]) is not None


@pytest.mark.parametrize(
    "body",
    [
        {"on": []},
        {"on": [{"id": "x"}]},
        {"on": [{"kind": "human"}], "need": 2},
        {"on": [{"kind": "human"}], "need": 0},
        {"on": [{"kind": "human"}], "need": "most"},
        {"on": [{"kind": "reply", "id": "not an id"}]},
        {"on": [{"kind": "human"}], "execution": "a b"},
        {"on": [{"kind": "human"}], "cancel_mode": "perhaps"},
        {"on": "human"},
    ],
    ids=range(9),
)
async def test_a_wait_that_means_nothing_is_refused(net: Net, body: Json) -> None:
    birch = await net.peer("birch")
    receipt = await birch.verb("wait.open", **{"id": new_id(), "timeout_s": 5, **body})
    assert receipt["ok"] is False
    assert not await net.waits()


async def test_tools_and_humans_are_outside_never_an_edge_back(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    await birch.request(elm)
    await elm.event()
    await elm.wait_open({"kind": "tool", "id": birch.agent})
    await elm.wait_open({"kind": "human", "id": birch.agent})
    await nobody_is_told(net, birch, elm)


async def test_a_wait_on_the_reply_to_an_own_ask_is_an_edge(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    asks = [await birch.ask(elm), await elm.ask(birch)]
    await nobody_is_told(net, birch, elm)
    first = await birch.wait_open({"kind": "reply", "id": asks[0]["id"]})
    await nobody_is_told(net, birch, elm)
    second = await elm.wait_open({"kind": "reply", "id": asks[1]["id"]})
    await all_end_in_deadlock((birch, first["id"]), (elm, second["id"]))


async def test_a_wait_on_the_request_of_another_is_no_edge(net: Net) -> None:
    """What cannot be resolved counts as outside."""
    birch, elm = await net.peer("birch"), await net.peer("elm")
    request_id = await birch.request(elm)
    await elm.event()
    await elm.wait_open({"kind": "reply", "id": request_id})
    await elm.wait_open({"kind": "reply", "id": new_id()})
    await nobody_is_told(net, birch, elm)


async def test_a_wait_on_a_reply_ends_with_it(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    ask = await birch.ask(elm)
    await birch.wait_open({"kind": "reply", "id": ask["id"]})
    await elm.answer(await elm.event(), 1)
    await birch.outcome(ask["id"])
    closing = await elm.request(birch, execution="x")
    await birch.event()
    await nobody_is_told(net, birch, elm)
    await elm.cancel(closing)


async def test_a_wait_on_a_reply_that_has_come_can_go_on_whatever_its_queue_does(net: Net) -> None:
    """The ask was queued when the wait opened; it has been answered; the waiter has not closed its wait yet."""
    birch, elm, cli = await net.peer("birch"), await net.worker("elm"), await net.peer("cli")
    busy = await in_hand(cli, elm)
    ask = await birch.ask(elm)
    await birch.wait_open({"kind": "reply", "id": ask["id"]})
    await elm.answer(busy)
    await elm.answer(await elm.event(), "the answer")
    await birch.outcome(ask["id"])
    other = await in_hand(cli, elm)
    closing = await elm.request(birch, execution=other["id"])
    assert (await birch.event())["id"] == closing
    await nobody_is_told(net, birch, elm)


async def test_a_wait_on_a_reply_follows_its_ask_from_the_queue_into_its_execution(net: Net) -> None:
    """A slot that is free by now helps nobody: the ask runs, and waits for its waiter."""
    birch, elm, cli = await net.peer("birch"), await net.worker("elm", 2), await net.peer("cli")
    busy = [await in_hand(cli, elm), await in_hand(cli, elm)]
    ask = await birch.ask(elm)
    wait = await birch.wait_open({"kind": "reply", "id": ask["id"]})
    for event in busy:
        await elm.answer(event)
    inner = await elm.event()
    assert inner["id"] == ask["id"]
    closing = await elm.request(birch, execution=inner["id"])
    await all_end_in_deadlock((birch, wait["id"]), (elm, closing), cycle=[birch, elm])


async def test_a_wait_on_a_reply_that_is_deferred_is_outside(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    ask = await birch.ask(elm)
    event = await elm.event()
    await birch.wait_open({"kind": "reply", "id": ask["id"]})
    await elm.defer(event)
    counter = await elm.request(birch, execution="later")
    assert (await birch.event())["id"] == counter
    await nobody_is_told(net, birch, elm)


async def test_a_wait_needs_all_any_or_k_of_its_conditions(net: Net) -> None:
    """birch can go on as soon as *need* of what it waits for can be true."""
    for need, ends in (("all", True), (2, True), (1, False), ("any", False)):
        birch, elm = await net.peer(f"birch{need}"), await net.peer(f"elm{need}")
        first = await elm.request(birch)
        await birch.event()
        ask = await birch.ask(elm)
        wait = await birch.wait_open(
            {"kind": "reply", "id": ask["id"]}, {"kind": "human", "id": "h"}, need=need
        )
        if ends:
            await all_end_in_deadlock((elm, first), (birch, wait["id"]))
        else:
            await nobody_is_told(net, birch, elm)


# ---- groups


async def test_requests_of_one_group_with_need_all_are_answered_each(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    group = {"id": new_id(), "n": 3, "need": 3}
    ids = [await birch.request(elm, data=n, group=group) for n in range(3)]
    assert [(await birch.outcome(i))["event"]["data"] for i in ids] == [0, 1, 2]


@pytest.mark.parametrize(("n", "need"), [(3, 1), (3, 2)])
async def test_at_need_answers_the_gateway_closes_the_rest(net: Net, n: int, need: int) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", n)
    group = {"id": new_id(), "n": n, "need": need}
    ids = [await birch.request(elm, data=k, group=group) for k in range(n)]
    events = [await elm.event() for _ in ids]
    for event in events[:need]:
        await elm.answer(event, event["data"])
    ends = [(await birch.outcome(i))["outcome"] for i in ids]
    assert ends == ["reply"] * need + ["cancelled"] * (n - need)
    for late in ids[need:]:
        await elm.control("request.abandoned", request_id=late)


async def test_a_member_that_ends_otherwise_is_spent_and_the_group_goes_on(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    group = {"id": new_id(), "n": 3, "need": 1}
    failed, refused, good = [
        await birch.request(elm, data=n, group=group, timeout_s=t) for n, t in enumerate((20, 0.3, 20))
    ]
    events = [await elm.event() for _ in range(3)]
    await elm.answer(events[0], error={"code": "handler_failed", "message": "no"})
    assert (await birch.outcome(failed))["outcome"] == "failed"
    assert (await birch.outcome(refused))["outcome"] == "expired"
    await elm.answer(events[2], "yes")
    assert (await birch.outcome(good))["outcome"] == "reply"


async def test_when_need_can_no_longer_be_reached_the_open_members_end_cancelled(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    group = {"id": new_id(), "n": 3, "need": 2}
    ids = [await birch.request(elm, group=group) for _ in range(3)]
    events = [await elm.event() for _ in ids]
    for event in events[:2]:
        await elm.answer(event, error={"code": "handler_failed", "message": "no"})
    assert [(await birch.outcome(i))["outcome"] for i in ids] == ["failed", "failed", "cancelled"]
    await elm.control("request.abandoned", request_id=ids[2])


async def test_a_member_that_arrives_when_its_group_is_over_ends_cancelled(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    group = {"id": new_id(), "n": 2, "need": 1}
    first = await birch.request(elm, group=group)
    await elm.answer(await elm.event(), "enough")
    await birch.outcome(first)
    late = await birch.request(elm, group=group)
    assert (await birch.outcome(late))["outcome"] == "cancelled"
    await net.settled()
    assert not elm.inbox.left("event")


@pytest.mark.parametrize("other", [{"n": 3}, {"need": 2}, {"execution": "x"}])
async def test_members_of_a_group_agree_on_n_need_and_execution(net: Net, other: Json) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    group = {"id": new_id(), "n": 2, "need": 1}
    first = await birch.request(elm, group=group)
    await elm.event()
    changed = {"group": {**group, **{k: v for k, v in other.items() if k != "execution"}}}
    outcome = await birch.send_and_wait(elm, **changed, execution=other.get("execution"))
    assert outcome["outcome"] == "refused"
    assert outcome["error"]["code"] == "group_conflict"
    await net.settled()
    assert not birch.inbox.left("outcome")
    assert await net.wait_row(first) is not None


@pytest.mark.parametrize(
    "group", [{"n": 0, "need": 0}, {"n": 2, "need": 3}, {"n": 2, "need": 0}, {"n": 99_999, "need": 1}]
)
async def test_a_group_that_cannot_be_is_refused(net: Net, group: Json) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    outcome = await birch.send_and_wait(elm, group={"id": new_id(), **group})
    assert outcome["outcome"] == "refused"


async def test_a_group_of_n_ends_at_its_nth_member(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    group = {"id": new_id(), "n": 2, "need": 2}
    for _ in range(2):
        await birch.request(elm, group=group)
        await elm.event()
    outcome = await birch.send_and_wait(elm, group=group)
    assert outcome["outcome"] == "refused"
    assert outcome["error"]["code"] == "group_conflict"


async def test_members_not_yet_arrived_count_as_true(net: Net) -> None:
    """An any-of group of two is no deadlock by its first member; the second may be free."""
    birch, elm, flint = await net.peer("birch"), await net.peer("elm"), await net.peer("flint")
    into = [await elm.request(birch), await flint.request(birch)]
    await birch.event()
    group = {"id": new_id(), "n": 2, "need": 1}
    first = await birch.request(elm, group=group)
    await elm.event()
    await nobody_is_told(net, birch, elm)
    second = await birch.request(flint, group=group)
    await all_end_in_deadlock((elm, into[0]), (flint, into[1]), (birch, first), (birch, second))


async def test_waits_opened_with_one_group_are_one_wait(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    first = await elm.request(birch)
    await birch.event()
    ask = await birch.ask(elm)
    wait = await birch.wait_open({"kind": "reply", "id": ask["id"]}, group=new_id())
    await all_end_in_deadlock((elm, first), (birch, wait["id"]))


# ---- strands


async def test_a_joined_strand_is_a_node_of_its_own_and_the_execution_waits_for_it(net: Net) -> None:
    birch, elm = await net.worker("birch"), await net.worker("elm")
    heath = await net.peer("heath")
    event = await in_hand(heath, birch)
    first = await birch.request(elm, execution=event["id"], strand="s1")
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    report = await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])
    assert [w.get("strand") for w in report["waits"] if w["id"] == first] == ["s1"]


async def test_a_joined_strand_that_still_runs_can_free_its_execution(net: Net) -> None:
    """gather(a, b): a waits, b computes; b may fail, and the handler return."""
    birch, elm = await net.worker("birch"), await net.worker("elm")
    heath = await net.peer("heath")
    event = await in_hand(heath, birch)
    birch.strands[event["id"]] = {"alive": ["s2"], "awaited": []}
    await birch.request(elm, execution=event["id"], strand="s1")
    inner = await elm.event()
    await elm.request(birch, execution=inner["id"])
    for asked in (birch, elm):
        await asked.control("confirm")
    await nobody_is_told(net, birch, elm)


async def test_two_joined_strands_are_two_edges(net: Net) -> None:
    birch, elm, flint = await net.worker("birch"), await net.worker("elm"), await net.worker("flint")
    event = await in_hand(await net.peer("heath"), birch)
    await birch.request(elm, execution=event["id"], strand="s1")
    free = await elm.event()
    blocked = await birch.request(flint, execution=event["id"], strand="s2")
    inner = await flint.event()
    closing = await flint.request(birch, execution=inner["id"])
    await all_end_in_deadlock((birch, blocked), (flint, closing))
    assert (await elm.answer(free, "the other strand's wait goes on"))["ok"] is True


async def test_a_detached_strand_blocks_nobody(net: Net) -> None:
    """A background task waits; the handler's own task runs on, and may answer."""
    birch, elm = await net.worker("birch"), await net.worker("elm")
    heath = await net.peer("heath")
    event = await in_hand(heath, birch)
    birch.strands[event["id"]] = {"alive": [""], "awaited": []}
    first = await birch.request(elm, execution=event["id"], strand="s1", detached=True)
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    await asyncio.sleep(0.4)
    await nobody_is_told(net, birch, elm)
    await birch.answer(event, "own task returned")
    assert (await heath.outcome(event["id"]))["outcome"] == "reply"
    queued = await birch.event()
    assert queued["id"] == second
    await birch.answer(queued, 1)
    await elm.outcome(second)
    await elm.answer(inner, 2)
    assert (await birch.outcome(first))["outcome"] == "reply"


async def test_a_detached_strand_that_the_own_task_awaits_is_found_by_the_facts(net: Net) -> None:
    """Plain asyncio.gather: read from the event loop."""
    birch, elm = await net.worker("birch"), await net.worker("elm")
    event = await in_hand(await net.peer("heath"), birch)
    birch.strands[event["id"]] = {"alive": [], "awaited": ["s1"]}
    first = await birch.request(elm, execution=event["id"], strand="s1", detached=True)
    inner = await elm.event()
    second = await elm.request(birch, execution=inner["id"])
    await all_end_in_deadlock((birch, first), (elm, second), cycle=[birch, elm])


async def test_a_detached_strand_that_nobody_awaits_is_no_deadlock_even_when_the_own_task_waits_elsewhere(
    net: Net,
) -> None:
    birch, elm, flint = await net.worker("birch"), await net.worker("elm"), await net.worker("flint")
    event = await in_hand(await net.peer("heath"), birch)
    birch.strands[event["id"]] = {"alive": [], "awaited": []}
    await birch.request(elm, execution=event["id"], strand="s1", detached=True)
    inner = await elm.event()
    own = await birch.request(flint, execution=event["id"])
    helping = await flint.event()
    await elm.request(birch, execution=inner["id"])
    await asyncio.sleep(0.4)
    await nobody_is_told(net, birch, elm)
    await flint.answer(helping, "go on")
    assert (await birch.outcome(own))["outcome"] == "reply"
