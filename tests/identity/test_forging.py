"""On a real server: no agent can be another, hear another, or speak as the gateway."""

import json
from typing import Any

import pytest

from tests.identity.rig import SUBJECTS, House, Party

ELSEWHERE = "unknot.other"
FORGED = [
    "unknot.default.in.birch.send.flint.work",
    "unknot.default.in.birch.request.flint.work",
    "unknot.default.in.birch.publish.news",
    "unknot.default.in.birch.reply.r1",
    "unknot.default.in.birch.hello",
    "unknot.default.in.birch.heartbeat",
    "unknot.default.in.agent:birch.send.flint.work",
    "unknot.default.in.*.send.flint.work",
    "unknot.default.in.>",
    "unknot.default.out.birch.s.event.work",
    "unknot.default.out.birch.s.outcome",
    "unknot.default.out.birch.s.control.confirm",
    "unknot.default.out.birch.s.control.agent.wait.deadlock_detected",
    "unknot.default.out.elm.s.control.session.replaced",
    "unknot.default.notice.agent.wait.deadlock_detected",
    "unknot.default.channel.reviews.news",
    "unknot.default.topic.news",
    "unknot.default.api.waits",
    f"{ELSEWHERE}.in.elm.send.flint.work",
    "_INBOX.birch.receipt",
    "_INBOX.gateway.answer",
    "_INBOX.elm.receipt",
    "$JS.API.STREAM.CREATE.mine",
    "$JS.API.INFO",
    "$JS.ACK.s.c.1.1.1.1.1",
    "$KV.bucket.key",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.USER.INFO",
    "$SRV.PING",
]
OVERHEARD = [
    ">",
    "unknot.>",
    "unknot.default.>",
    "unknot.default.in.>",
    "unknot.default.in.birch.>",
    "unknot.default.in.elm.>",
    "unknot.*.out.elm.>",
    "unknot.default.out.>",
    "unknot.default.out.*.>",
    "unknot.default.out.birch.>",
    "unknot.default.out.birch.s.control.>",
    "unknot.default.notice.>",
    "unknot.default.api.>",
    "unknot.default.channel.>",
    "unknot.default.channel.reviews.>",
    f"{ELSEWHERE}.out.elm.>",
    "_INBOX.>",
    "_INBOX.*",
    "_INBOX.*.>",
    "_INBOX.birch.>",
    "_INBOX.gateway.>",
    "$JS.>",
    "$JS.API.>",
    "$KV.>",
    "$SYS.>",
    "$SRV.>",
]


@pytest.mark.parametrize("subject", FORGED)
async def test_an_agent_publishes_only_as_itself(elm: Party, subject: str) -> None:
    assert not await elm.publishes(subject)


@pytest.mark.parametrize("queue", ["", "q"])
@pytest.mark.parametrize("subject", OVERHEARD)
async def test_an_agent_hears_only_itself(elm: Party, subject: str, queue: str) -> None:
    assert not await elm.subscribes(subject, queue)


@pytest.mark.parametrize(
    "subject",
    [
        "unknot.default.out.elm.>",
        "unknot.default.out.elm.s.>",
        "unknot.default.topic.news",
        "unknot.default.topic.>",
        "_INBOX.elm.>",
    ],
)
async def test_an_agent_hears_itself_and_all_topics(elm: Party, subject: str) -> None:
    assert await elm.subscribes(subject)


async def test_a_channel_is_heard_by_those_who_may(house: House) -> None:
    async with house.party("flint") as flint:
        assert await flint.subscribes(SUBJECTS.channel("reviews", ">"))
        assert not await flint.subscribes(SUBJECTS.channel("plans", ">"))


async def test_named_targets_are_all_that_may_be_asked(house: House) -> None:
    async with house.party("grove") as grove:
        for verb in ("send", "ask", "request"):
            assert await grove.publishes(f"unknot.default.in.grove.{verb}.flint.work")
            assert await grove.publishes(f"unknot.default.in.grove.{verb}.@reviews.work")
            assert not await grove.publishes(f"unknot.default.in.grove.{verb}.birch.work")
            assert not await grove.publishes(f"unknot.default.in.grove.{verb}.*.work")
        assert await grove.publishes("unknot.default.in.grove.reply.r1")
        assert await grove.publishes("unknot.default.in.grove.publish.news")
        assert await grove.publishes("unknot.default.in.grove.request.cancel", {"id": "r1"})
        await grove.greets()


async def test_a_member_of_a_channel_is_who_may_be_one(house: House) -> None:
    """What is asked of a channel comes on the member's own subject: there the gateway keeps the rule."""
    async with house.party("elm") as elm:
        refused = await elm.asks("hello", {"session": "a" * 22, "channels": ["reviews"]})
        assert (refused["ok"], refused["error"]["code"]) == (False, "not_permitted")
    async with house.party("flint") as flint:
        await flint.greets(channels=["reviews"])


async def test_a_monitor_hears_notices_and_asks_the_api_and_no_more(house: House) -> None:
    async with house.party("eye") as eye:
        assert await eye.subscribes("unknot.default.notice.>")
        for endpoint in ("waits", "agents", "stats"):
            answer = await eye.client.request(SUBJECTS.api(endpoint), b"", timeout=5)
            assert json.loads(answer.data)["network"] == "default"
        assert not await eye.publishes("unknot.default.api.cancel")
        assert not await eye.publishes("unknot.default.in.eye.send.birch.work")
        assert not await eye.publishes("unknot.default.notice.x")
        for subject in ("unknot.default.in.>", "unknot.default.out.>", "_INBOX.>", "unknot.default.topic.>"):
            assert not await eye.subscribes(subject)


async def test_an_operator_may_use_the_whole_api(house: House) -> None:
    async with house.party("ops") as ops:
        assert await ops.publishes("unknot.default.api.cancel")
        assert not await ops.publishes("unknot.default.out.birch.s.control.x")
        assert not await ops.publishes("unknot.other.api.waits")


async def test_bug_102_the_source_is_the_connection_and_only_the_addressed_agent_answers(
    house: House, elm: Party, birch: Party
) -> None:
    """bug-102 (Dicklesworthstone/mcp_agent_mail#99): elm says it is birch; grove answers what flint was asked."""
    session = await birch.greets()
    async with house.party("flint") as flint, house.party("grove") as grove:
        await flint.greets()
        forged = {"unknot": 1, "source": "birch", "source_id": "birch", "data": 1}
        assert await elm.publishes(SUBJECTS.event("elm", "send", "flint", "note"), forged)
        note = json.loads((await flint.hears("unknot.default.out.flint")).data)
        assert note["source"] == "elm"
        assert not await elm.publishes(SUBJECTS.event("birch", "send", "flint", "note"), forged)

        await request(birch, session, "r102", "flint")
        assert json.loads((await flint.hears("unknot.default.out.flint")).data)["id"] == "r102"
        said = await grove.asks("reply.r102", {"unknot": 1, "data": "wrong"})
        assert said["error"]["code"] == "foreign_reply"
        assert not await grove.publishes(SUBJECTS.reply("flint", "r102"), {"unknot": 1, "data": "wrong"})
        await flint.publishes(SUBJECTS.reply("flint", "r102"), {"unknot": 1, "data": "right"})
        outcome = json.loads((await birch.hears(SUBJECTS.outcome("birch", session))).data)
    assert (outcome["outcome"], outcome["event"]["data"]) == ("reply", "right")


async def test_a_forged_no_responders_message_ends_nobody_elses_request(
    house: House, elm: Party, birch: Party
) -> None:
    session = await birch.greets()
    async with house.party("flint") as flint:
        await flint.greets()
        await request(birch, session, "r503", "flint")
        await flint.hears("unknot.default.out.flint")
        gone = {"Status": "503"}
        assert not await elm.publishes(SUBJECTS.reply("flint", "r503"), b"", headers=gone)
        assert await elm.publishes(SUBJECTS.reply("elm", "r503"), b"", headers=gone)
        await elm.settled()
        await flint.publishes(SUBJECTS.reply("flint", "r503"), {"unknot": 1, "data": "here"})
        outcome = json.loads((await birch.hears(SUBJECTS.outcome("birch", session))).data)
    assert outcome["outcome"] == "reply"


@pytest.mark.parametrize(
    "reply",
    [
        "unknot.default.in.birch.send.flint.work",
        "unknot.default.in.elm.send.flint.work",
        "unknot.default.out.birch.s.control.confirm",
        "unknot.default.notice.agent.wait.deadlock_detected",
        "unknot.default.topic.news",
        "_INBOX.birch.x",
        "_INBOX.elmx.x",
        "_INBOX.elm",
        "_INBOX.elm.",
        "_INBOX.elm.*",
        "_INBOX.elm.>",
        "$JS.API.STREAM.DELETE.all",
        "$SYS.REQ.SERVER.PING",
    ],
)
@pytest.mark.parametrize("verb", ["send.flint.work", "request.flint.work", "hello", "sing", "reply.r1"])
async def test_the_gateway_writes_only_into_the_askers_own_inbox(
    elm: Party, birch: Party, spy: Party, reply: str, verb: str
) -> None:
    own = f"unknot.default.in.elm.{verb}"
    assert await spy.subscribes("unknot.>")
    assert await birch.subscribes("_INBOX.birch.>")
    assert await elm.subscribes("_INBOX.elm.>")
    assert await elm.publishes(own, {"unknot": 1, "data": 1, "timeout_s": 1}, reply=reply)
    await elm.settled()
    await spy.client.flush()
    await birch.client.flush()
    heard = [
        message
        for message in (*spy.heard, *birch.heard, *elm.heard)
        if (message.subject, message.reply) != (own, reply)
    ]
    assert not [message for message in heard if reply in (message.subject, message.reply)]


@pytest.mark.parametrize("asked", ["unknot.default.api.stats", "unknot.default.api.waits"])
async def test_who_may_ask_the_api_cannot_make_it_write_elsewhere(
    house: House, birch: Party, spy: Party, asked: str
) -> None:
    await birch.greets()
    assert await spy.subscribes("unknot.default.out.>")
    async with house.party("eye") as eye:
        assert await eye.publishes(asked, b"", reply="unknot.default.out.birch.s.control.confirm")
        await eye.client.request(asked, b"", timeout=5)  # the api answers in order
    await spy.client.flush()
    assert spy.heard == []


async def test_the_services_own_answers_go_to_inboxes_alone(spy: Party) -> None:
    assert await spy.subscribes("unknot.default.out.>")
    for verb in ("PING", "INFO", "STATS"):
        assert await spy.publishes(f"$SRV.{verb}.unknot", b"", reply="unknot.default.out.birch.s.control.x")
    inbox = await spy.client.subscribe("_INBOX.gateway.spy")
    await spy.client.publish("$SRV.PING.unknot", b"", reply="_INBOX.gateway.spy")
    await inbox.next_msg(timeout=5)
    await spy.client.flush()
    assert spy.heard == []


async def request(asker: Party, session: str, id: str, target: str) -> None:
    body: dict[str, Any] = {"unknot": 1, "id": id, "session": session, "execution": "main", "timeout_s": 20}
    assert await asker.publishes(SUBJECTS.event(asker.name, "request", target, "work"), body)
