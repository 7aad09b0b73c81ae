"""WIRE section 1: who publishes where, and what comes where."""

import pytest
from nats.errors import NoRespondersError

from tests.wire.raw import Json, Net, new_id
from unknot_schemas import Subjects
from unknot_schemas.limits import TYPE_CHARS_MAX

# ---- what agents send


async def test_a_one_way_event_reaches_its_target_on_the_subject_of_its_session_and_type(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await birch.send(elm, "review.wanted", {"page": 7})
    came = await elm.event_arrival()
    assert came.subject == net.subjects.deliver(elm.agent, elm.session, "review.wanted")
    assert came.body["data"] == {"page": 7}
    assert came.body["source"] == birch.agent
    assert came.body["target"] == elm.agent
    assert came.body["type"] == "review.wanted"
    assert came.body["requires_response"] is False


async def test_a_one_way_event_with_a_legal_reply_subject_gets_a_receipt(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event_id = new_id()
    receipt = await birch.send(elm, id=event_id, timeout_s=7)
    assert receipt["ok"] is True
    assert receipt["id"] == event_id
    assert receipt["timeout_s"] == 7


async def test_a_one_way_event_without_a_reply_subject_is_delivered_and_gets_nothing(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await net.tell(birch.subject("send", elm, "work.do"), birch.envelope({"id": new_id()}))
    await elm.event()
    await net.settled()
    assert not birch.inbox.left()


async def test_an_ask_gets_a_receipt_at_once_and_its_outcome_on_the_outcome_subject(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    receipt = await birch.ask(elm, timeout_s=9)
    assert receipt["ok"] is True
    assert receipt["timeout_s"] == 9
    await elm.answer(await elm.event(), {"done": True})
    outcome = await birch.outcome(receipt["id"])
    assert outcome["outcome"] == "reply"
    assert outcome["event"]["data"] == {"done": True}


async def test_a_blocking_request_without_a_reply_subject_gets_its_outcome_on_the_outcome_subject(
    net: Net,
) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    request_id = await birch.request(elm, data=[1, 2])
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "reply"
    assert outcome["event"]["data"] == [1, 2]


async def test_a_blocking_request_with_a_legal_reply_subject_gets_its_outcome_there_and_only_there(
    net: Net,
) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    request_id = new_id()
    outcome = await birch.send_and_wait(elm, data="hi", id=request_id)
    assert outcome["request_id"] == request_id
    assert outcome["event"]["data"] == "hi"
    await net.settled()
    assert not birch.inbox.left("outcome")


async def test_nats_req_just_works(net: Net) -> None:
    """``nats req unknot.default.in.cli.request.echo.say '{"hi":1}'``: no hello, no envelope."""
    elm = await net.echo("elm")
    subject = net.subjects.event(net.name("cli"), "request", elm.agent, "say")
    outcome = await net.call(subject, b'{"hi":1}')
    assert outcome["outcome"] == "reply"
    assert outcome["event"]["data"] == {"hi": 1}


async def test_an_event_without_target_goes_to_the_shared_subject_of_its_type(net: Net) -> None:
    topic = f"page.read.{net.tag}"
    listener = await net.listen(net.subjects.topic(topic))
    birch = await net.peer("birch")
    receipt = await net.call(
        net.subjects.publish(birch.agent, topic), birch.envelope({"id": new_id(), "data": 4})
    )
    assert receipt["ok"] is True
    came = (await listener.take(lambda _: True, "topic event")).body
    assert came["data"] == 4
    assert came["source"] == birch.agent
    assert came["type"] == topic


async def test_a_reply_may_be_published_under_the_id_of_its_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await elm.event()
    receipt = await net.call(net.subjects.reply(elm.agent, request_id), elm.envelope({"data": "by hand"}))
    assert receipt["ok"] is True
    assert (await birch.outcome(request_id))["event"]["data"] == "by hand"


async def test_the_nats_reply_subject_of_a_delivered_request_points_to_its_reply_verb(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    assert came.reply == net.subjects.reply(elm.agent, request_id)
    await net.nc.publish(came.reply, b'{"hi":1}')  # what msg.respond does
    assert (await birch.outcome(request_id))["event"]["data"] == {"hi": 1}


async def test_verbs_get_a_receipt_as_nats_reply(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    request_id = await birch.request(elm)
    event = await elm.event()
    assert (await elm.heartbeat())["ok"] is True
    assert (await elm.defer(event))["ok"] is True
    assert (await elm.answer(event))["ok"] is True
    await birch.outcome(request_id)
    wait = await birch.wait_open({"kind": "human", "id": "h1"})
    assert wait["ok"] is True
    assert (await birch.wait_close(wait["id"]))["ok"] is True
    one_way = await birch.send(elm)
    assert (await elm.done(await elm.event()))["ok"] is True
    assert (await birch.cancel(one_way["id"]))["id"] == one_way["id"]
    assert (await elm.verb("facts", incident="none", open=[]))["ok"] in (True, False)
    assert (await elm.bye())["ok"] is True


# ---- what agents get


async def test_a_filter_is_a_nats_subscription_on_the_type(net: Net) -> None:
    elm = await net.worker("elm", 8)
    birch = await net.peer("birch")
    threads = await net.listen(net.subjects.deliver(elm.agent, elm.session, "thread.>"))
    for event_type in ("thread.opened", "page.read", "thread.closed.now"):
        await birch.send(elm, event_type)
    assert [(await threads.take(lambda _: True, "event")).body["type"] for _ in range(2)] == [
        "thread.opened",
        "thread.closed.now",
    ]
    await net.settled()
    assert not threads.left()


async def test_control_comes_beside_events_where_no_type_filter_reaches_it(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    await elm.event()
    await birch.cancel(request_id)
    arrival = await elm.inbox.take(lambda a: a.kind == "request.abandoned", "control")
    assert arrival.subject == net.subjects.control(elm.agent, elm.session, "request.abandoned")


async def test_a_channels_one_way_events_go_to_its_shared_subject_and_take_no_slot(net: Net) -> None:
    channel = net.name("newsroom")
    elm = await net.worker("elm", channels=[channel])
    flint = await net.worker("flint", channels=[channel])
    birch = await net.peer("birch")
    await birch.send(elm, "fill.slot")
    await elm.event("fill.slot")
    shared = await net.listen(net.subjects.channel(channel, ">"))
    receipt = await birch.send(f"@{channel}", "story.filed", {"n": 1})
    assert receipt["ok"] is True
    came = await shared.take(lambda _: True, "channel event")
    assert came.subject == net.subjects.channel(channel, "story.filed")
    assert came.body["data"] == {"n": 1}
    assert came.body["source"] == birch.agent
    await net.settled()
    assert len([a for a in shared.all if a.body["data"] == {"n": 1}]) == 1
    assert not elm.inbox.left("event")
    assert not flint.inbox.left("event")
    await birch.send(flint, "work.do")
    await flint.event("work.do")


async def test_every_control_fact_is_copied_to_the_notices(net: Net) -> None:
    notices = await net.listen(net.subjects.notice(">"))
    birch = await net.peer("birch")
    request_id = await birch.request(birch)
    control = await birch.control("agent.wait.deadlock_detected")
    notice = await notices.take(lambda a: a.body["request_ids"] == [request_id], "notice")
    assert notice.subject == net.subjects.notice("agent.wait.deadlock_detected")
    assert notice.body == control


async def test_agents_that_never_said_hello_have_session_0(net: Net) -> None:
    elm, birch = await net.stranger("elm"), await net.stranger("birch")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    assert came.subject == net.subjects.deliver(elm.agent, "0", "work.do")
    await elm.answer(came.body, "hello from nobody")
    arrival = await birch.inbox.take(lambda a: a.kind == "outcome", "outcome")
    assert arrival.subject == net.subjects.outcome(birch.agent, "0")
    assert arrival.body["request_id"] == request_id
    assert arrival.body["event"]["data"] == "hello from nobody"


async def test_messages_carry_no_nats_headers(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    await birch.outcome(await birch.request(elm))
    await net.settled()
    assert not [a for a in (*birch.inbox.all, *elm.inbox.all) if a.headers]


# ---- names


async def test_an_agent_prefix_of_the_target_is_stripped(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    await birch.send(f"agent:{elm.agent}")
    event = await elm.event()
    assert event["target"] == elm.agent


async def test_an_agent_prefix_of_the_source_is_stripped(net: Net) -> None:
    elm = await net.worker("elm")
    name = net.name("birch")
    await net.call(
        net.subjects.event(f"agent:{name}", "send", elm.agent, "work.do"), {"unknot": 1, "id": new_id()}
    )
    assert (await elm.event())["source"] == name


@pytest.mark.parametrize("event_type", ["Work", "work.Do", "wörk", "work!", "a" * (TYPE_CHARS_MAX + 1)])
async def test_a_type_is_lower_case_dotted_words_of_at_most_128_characters(net: Net, event_type: str) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    receipt = await birch.send(elm, event_type)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "bad_id"
    await net.settled()
    assert not elm.inbox.left("event")


async def test_a_type_of_128_characters_is_legal(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    event_type = "a" * (TYPE_CHARS_MAX - 2) + ".b"
    assert (await birch.send(elm, event_type))["ok"] is True
    assert (await elm.event())["type"] == event_type


@pytest.mark.parametrize(
    "target", ["gateway", "-elm", "_elm", "é", "e" * 65, "agent:", "@", "@@x", "@agent:x"]
)
async def test_a_target_that_can_name_no_agent_is_refused(net: Net, target: str) -> None:
    birch = await net.peer("birch")
    receipt = await birch.send(target)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "bad_id"


@pytest.mark.parametrize("agent", ["gateway", "-elm", "é", "e" * 65])
async def test_a_source_that_can_name_no_agent_is_refused(net: Net, agent: str) -> None:
    elm = await net.worker("elm")
    receipt = await net.call(net.subjects.event(agent, "send", elm.agent, "work.do"), b"1")
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "bad_id"
    await net.settled()
    assert not elm.inbox.left("event")


# ---- reply subjects


async def test_in_development_mode_any_inbox_gets_its_receipt(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    inbox = f"_INBOX.{net.name('anything')}.1"
    answers = await net.listen(inbox)
    await net.tell(birch.subject("send", elm, "work.do"), birch.envelope({"id": new_id()}), reply=inbox)
    assert (await answers.take(lambda _: True, "receipt")).body["ok"] is True


async def test_a_reply_subject_outside_of_the_inboxes_is_never_answered(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    victim = f"orders.{net.tag}.pay"
    watched = await net.listen(victim)
    request_id = new_id()
    await net.tell(
        birch.subject("request", elm, "work.do"),
        birch.envelope({"id": request_id, "timeout_s": 20}),
        reply=victim,
    )
    await net.tell(birch.subject("send", elm, "work.do"), b"not json", reply=victim)
    await elm.answer(await elm.event(), "answer")
    assert (await birch.outcome(request_id))["outcome"] == "reply"
    await net.settled()
    assert not watched.all


async def test_the_gateway_never_forwards_a_reply_subject(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 4)
    mine = f"_INBOX.{birch.agent}.{net.tag}"
    await net.listen(mine)
    for verb in ("send", "ask", "request"):
        await net.tell(birch.subject(verb, elm, "work.do"), birch.envelope({"id": new_id()}), reply=mine)
        came = await elm.event_arrival()
        assert came.reply in ("", net.subjects.reply(elm.agent, came.body["id"]))


async def test_a_reply_subject_is_legal_only_under_the_inbox_of_that_agent(strict: Net) -> None:
    """The server does not check what reply subject a client names."""
    net = strict
    birch, elm = await net.stranger("birch"), await net.stranger("elm")
    own, others = f"_INBOX.{birch.agent}.1", f"_INBOX.{elm.agent}.1"
    at_own, at_others = await net.listen(own), await net.listen(f"_INBOX.{elm.agent}.>")
    about = birch.envelope({"id": (first := new_id()), "timeout_s": 20})
    await net.tell(birch.subject("request", elm, "work.do"), about, reply=others)
    await net.tell(net.subjects.reply(elm.agent, (await elm.event())["id"]), b"1")
    assert (await birch.outcome(first))["outcome"] == "reply", "as if none had been given"
    about = birch.envelope({"id": (second := new_id()), "timeout_s": 20})
    await net.tell(birch.subject("request", elm, "work.do"), about, reply=own)
    await net.tell(net.subjects.reply(elm.agent, (await elm.event())["id"]), b"2")
    assert (await at_own.take(lambda _: True, "outcome")).body["request_id"] == second
    await net.tell(birch.subject("send", elm, "work.do"), b"not json", reply=others)
    await net.tell(birch.subject("send", elm, "work.do"), b"not json", reply=own)
    assert (await at_own.take(lambda _: True, "receipt")).body["ok"] is False
    assert not at_others.all


# ---- the api, networks, prefix


@pytest.mark.parametrize("verb", ["PING", "INFO", "STATS"])
async def test_the_api_is_a_nats_micro_service(net: Net, verb: str) -> None:
    inbox = f"_INBOX.{net.name('services')}.1"
    services = await net.listen(inbox)
    await net.tell(f"$SRV.{verb}", reply=inbox)
    if verb == "PING":
        found = await services.take(lambda a: a.body["name"] == "unknot", "service")
        assert found.body["type"] == "io.nats.micro.v1.ping_response"
        return
    await services.take(lambda a: is_api(net, a.body["endpoints"]), "service with the api's endpoints")


def is_api(net: Net, endpoints: list[Json]) -> bool:
    """Whether these are the queries of *net*; several gateways may share a server."""
    return {net.subjects.api(name) for name in ("waits", "agents", "stats")} <= {
        e["subject"] for e in endpoints
    }


async def test_the_api_lists_waits_and_agents(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", instance="elm-host-1")
    request_id = await birch.request(elm, "review.wanted")
    await elm.event()
    row = await net.wait_row(request_id)
    assert row is not None
    assert row["waiter"] == birch.agent
    assert row["target"] == elm.agent
    assert row["type"] == "review.wanted"
    assert row["state"] == "running"
    rows = {a["agent"]: a for a in await net.rows("agents")}
    assert rows[elm.agent]["session"] == elm.session
    assert rows[elm.agent]["busy"] == 1
    assert rows[elm.agent]["instance"] == "elm-host-1"


async def test_nothing_crosses_between_networks(net: Net, other_network: Net) -> None:
    elm = await net.echo("elm")
    there = Subjects(network=other_network.subjects.network, prefix=net.subjects.prefix)
    outcome = await other_network.call(
        there.event(net.name("birch"), "request", elm.agent, "work.do"),
        {"unknot": 1, "id": new_id(), "timeout_s": 1},
    )
    assert outcome["outcome"] == "unreachable"
    assert not elm.inbox.all


async def test_the_prefix_is_configurable(prefixed: Net) -> None:
    assert prefixed.subjects.prefix != "unknot"
    birch, elm = await prefixed.peer("birch"), await prefixed.echo("elm")
    assert (await birch.send_and_wait(elm, data=3))["event"]["data"] == 3
    with pytest.raises(NoRespondersError):
        await prefixed.nc.request("unknot.default.api.stats", b"", timeout=0.3)
