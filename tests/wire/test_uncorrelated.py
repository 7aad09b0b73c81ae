"""Peers that answer without naming the request, and posts of a channel that name another: as raw clients see them."""

import asyncio

import pytest

from tests.wire.raw import Net
from tests.wire.shapes import DEADLOCK, in_hand


@pytest.mark.parametrize("has_hello", [True, False])
async def test_an_event_of_the_accepted_type_settles_the_request(net: Net, has_hello: bool) -> None:
    birch = await net.peer("birch")
    elm = await (net.worker("elm", 4) if has_hello else net.stranger("elm"))
    request_id = await birch.request(elm, "review", accept_uncorrelated="review.reply")
    event = await elm.event()
    assert (await elm.send(birch, "review.reply", {"ok": 1}))["ok"] is True
    outcome = await birch.outcome(request_id)
    assert (outcome["outcome"], outcome["handled"]) == ("reply", "yes")
    answer = outcome["event"]
    assert (answer["type"], answer["source"]) == ("review.reply", elm.agent)
    assert (answer["response_to"], answer["data"]) == (request_id, {"ok": 1})
    assert (await elm.answer(event, "named, and too late"))["ok"] is False
    await net.settled()
    assert not birch.inbox.left("event", "outcome")


async def test_an_event_that_could_answer_two_requests_answers_none_and_is_counted(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    before = await net.counter("uncorrelated.ambiguous")
    ids = [await birch.request(elm, "review", accept_uncorrelated="review.reply") for _ in range(2)]
    await elm.event()
    second = await elm.event()
    await elm.send(birch, "review.reply", "for whom?")
    assert (await birch.event())["data"] == "for whom?", "it is delivered like any other event"
    assert await net.counter("uncorrelated.ambiguous") == before + 1
    assert not birch.inbox.left("outcome")
    await elm.answer(second, "named")
    await birch.outcome(ids[1])
    await elm.send(birch, "review.reply", "now it is clear")
    assert (await birch.outcome(ids[0]))["event"]["data"] == "now it is clear"


async def test_a_late_event_is_not_the_answer_to_the_next_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.stranger("elm")
    first = await birch.request(elm, "review", accept_uncorrelated="review.reply", timeout_s=0.3)
    assert (await birch.outcome(first))["outcome"] == "expired"
    second = await birch.request(elm, "review", accept_uncorrelated="review.reply")
    await elm.send(birch, "review.reply", "to the first")
    assert (await birch.event())["data"] == "to the first"
    await net.settled()
    assert not birch.inbox.left("outcome")
    await elm.answer_id(second, "named")
    assert (await birch.outcome(second))["event"]["data"] == "named"


async def test_a_request_that_does_not_say_so_is_not_settled_by_an_event(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, "review")
    event = await elm.event()
    await elm.send(birch, "review.reply", 1)
    assert (await birch.event())["data"] == 1
    await elm.answer(event, 2)
    assert (await birch.outcome(request_id))["event"]["data"] == 2


async def test_what_can_be_no_pattern_is_refused(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    outcome = await birch.send_and_wait(elm, "review", accept_uncorrelated="Review Reply")
    assert (outcome["outcome"], outcome["error"]["code"]) == ("refused", "bad_id")


# ---- posts


async def test_a_post_that_names_another_carries_its_id_to_all_members(net: Net) -> None:
    channel = net.name("team")
    birch = await net.peer("birch", channels=[channel])
    posts = await net.listen(net.subjects.channel(channel, ">"))
    await birch.send(f"@{channel}", "draft.reply", {"ok": 1}, response_to="p1")
    await birch.send(f"@{channel}", "draft")
    first = (await posts.take(lambda a: a.body["type"] == "draft.reply", "reply")).body
    assert (first["response_to"], first["source"], first["target"]) == ("p1", birch.agent, f"@{channel}")
    second = (await posts.take(lambda a: a.body["type"] == "draft", "post")).body
    assert second.get("response_to") is None
    refused = await birch.send(f"@{channel}", "draft.reply", response_to="no id")
    assert refused["error"]["code"] == "bad_id"


async def test_only_a_post_names_another_event_an_event_for_one_agent_does_not(net: Net) -> None:
    """An answer is sent to ``reply.<request id>``; an event that claims to be one is none."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    event = await elm.event()
    await elm.send(birch, "work.do", "claims", response_to=request_id)
    assert (await birch.event()).get("response_to") is None
    await elm.answer(event)
    await birch.outcome(request_id)


async def test_agents_that_wait_for_posts_are_no_deadlock(net: Net) -> None:
    """Who may post is known to nobody: such a wait is outside, and is listed as what it is."""
    cli, birch, elm = await net.peer("cli"), await net.worker("birch"), await net.worker("elm")
    for agent in (birch, elm):
        event = await in_hand(cli, agent)
        wait = {"kind": "post", "id": "@team draft"}
        await agent.wait_open(wait, execution=event["id"])
    await asyncio.sleep(0.5)
    listed = [w for w in await net.waits() if w["kind"] == "post"]
    assert [w["target"] for w in listed] == ["@team draft"] * 2
    assert not any(w["stuck"] for w in listed)
    assert not [a for agent in (birch, elm, cli) for a in agent.inbox.left(DEADLOCK, "confirm")]
