"""WIRE section 2: what bodies say, and how what is wrong is told."""

import json
import re
from typing import Any

import pytest

from tests.wire.raw import TIMEOUT_S, Net, Peer, new_id
from tests.wire.shapes import all_end_in_deadlock

BAD_IDS = ["", " ", "a b", "a.b", "a*", "a>", "é", "a\n", "a\u0000", "x" * 65]

# ---- bare data


@pytest.mark.parametrize(
    "body", [b'{"hi":1}', b"[1,2]", b'"text"', b"17", b"true", b"null", b'{"id":"x","data":1}']
)
async def test_json_without_the_key_unknot_is_bare_data(net: Net, body: bytes) -> None:
    birch, elm = await net.stranger("birch"), await net.worker("elm")
    receipt = await net.call(birch.subject("send", elm, "work.do"), body)
    event = await elm.event()
    assert event["data"] == json.loads(body)
    assert receipt["id"] == event["id"], "the gateway makes the id and returns it"


async def test_an_empty_body_is_null(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.worker("elm")
    assert (await net.call(birch.subject("send", elm, "work.do"), b""))["ok"] is True
    assert (await elm.event())["data"] is None


async def test_an_empty_answer_is_the_answer_null(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    await net.nc.publish(came.reply, b"")
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "reply"
    assert outcome["event"]["data"] is None


async def test_an_envelope_without_id_is_given_one(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    receipt = await net.call(birch.subject("send", elm, "work.do"), birch.envelope({"data": 1}))
    assert receipt["ok"] is True
    assert (await elm.event())["id"] == receipt["id"]


# ---- what is passed on


@pytest.mark.parametrize(
    "data",
    [
        b"1.50",
        b"1e5",
        b"123456789012345678901234567890",
        b'{ "b" : 1,\n "a" : [ ] }',
        b'"\\u00e9\\/\\ud83d\\ude00"',
        '"é😀"'.encode(),
        b'{"a":1,"a":2}',
    ],
)
async def test_data_is_passed_on_byte_by_byte(net: Net, data: bytes) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = new_id()
    head = f'{{"unknot":1,"id":"{request_id}","session":"{birch.session}","timeout_s":20,"data":'.encode()
    birch.open.add(request_id)
    await net.tell(birch.subject("request", elm, "work.do"), head + data + b"}")
    came = await elm.event_arrival()
    assert b'"data":' + data in came.raw.replace(b'"data": ', b'"data":')
    await net.nc.publish(came.reply, b'{"unknot":1,"data":' + data + b"}")
    arrival = await birch.inbox.take(lambda a: a.kind == "outcome", "outcome")
    assert data in arrival.raw


async def test_unknown_fields_are_ignored(net: Net) -> None:
    birch, elm = await net.peer("birch", colour="green"), await net.worker("elm", shoe_size=[43])
    outcome_id = await birch.request(elm, weather={"wind": 3}, priority=9)
    await elm.answer(await elm.event(), "fine", mood="good")
    assert (await birch.outcome(outcome_id))["event"]["data"] == "fine"


async def test_run_metadata_and_trace_context_ride_in_the_body(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 2)
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "rojo=00f0",
    }
    await birch.send(elm, run="run_9104", metadata={"colour": "green", "n": [1]}, **trace)
    event = await elm.event()
    assert event["run"] == "run_9104"
    assert event["metadata"]["colour"] == "green"
    assert event["metadata"]["n"] == [1]
    assert trace.items() <= event.items()


async def test_a_delivered_event_says_what_it_is(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, "review.wanted", {"n": 1}, timeout_s=12)
    event = await elm.event()
    assert event["unknot"] == 1
    assert event["id"] == request_id
    assert (event["type"], event["source"], event["target"]) == ("review.wanted", birch.agent, elm.agent)
    assert event["data"] == {"n": 1}
    assert event["requires_response"] is True
    assert 11 < event["deadline_in_s"] <= 12
    assert event["epoch"] == elm.welcome["epoch"]
    assert event["seq"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", event["time"])


async def test_an_outcome_says_who_answered_what(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, "review.wanted")
    await elm.answer(await elm.event(), {"verdict": "good"})
    outcome = await birch.outcome(request_id)
    assert outcome["handled"] == "yes"
    assert outcome["epoch"] == birch.welcome["epoch"]
    assert "error" not in outcome
    answer = outcome["event"]
    assert answer["response_to"] == request_id
    assert answer["type"] == "review.wanted"
    assert (answer["source"], answer["target"]) == (elm.agent, birch.agent)
    assert answer["requires_response"] is False
    assert answer["data"] == {"verdict": "good"}


async def test_an_answer_with_an_error_ends_the_request_failed_with_that_error(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    error = {"code": "handler_failed", "message": "ValueError: no such page", "detail": {"page": 7}}
    await elm.answer(await elm.event(), error=error)
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "failed"
    assert outcome["handled"] == "yes"
    assert outcome["error"] == error


async def test_delivered_copies_of_blocking_requests_carry_the_mark(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm", 3)
    await birch.request(elm, metadata={"colour": "green"})
    event = await elm.event()
    assert event["metadata"] == {"colour": "green", "blocking_wait": True}
    await birch.request(elm)
    assert (await elm.event())["metadata"] == {"blocking_wait": True}
    await birch.ask(elm)
    assert "blocking_wait" not in ((await elm.event()).get("metadata") or {})


# ---- ids and types of fields


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
@pytest.mark.parametrize("field", ["id", "session", "execution", "strand", "run", "group"])
async def test_ids_are_of_the_id_alphabet(net: Net, field: str, bad: str) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    envelope = birch.envelope({"id": new_id(), "timeout_s": 5})
    envelope[field] = {"id": bad, "n": 2, "need": 1} if field == "group" else bad
    answer = await net.call(birch.subject("request", elm, "work.do"), envelope)
    assert refusal(answer) == "bad_id"
    await net.settled()
    assert not elm.inbox.all


async def test_ids_of_64_characters_are_legal(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    assert (await birch.send_and_wait(elm, data=1, id=(new_id() + "a" * 64)[:64], run="r" * 64))[
        "outcome"
    ] == "reply"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_s", "5"),
        ("timeout_s", [5]),
        ("wait_for_target_s", "1"),
        ("detached", "true"),
        ("group", "g1"),
        ("group", {"id": "g1", "n": "2", "need": 1}),
        ("id", 7),
        ("run", {}),
        ("unknot", "1"),
        ("done", 1),
        ("traceparent", 5),
    ],
)
async def test_envelope_fields_are_typed(net: Net, field: str, value: object) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    envelope = {**birch.envelope({"id": new_id()}), field: value}
    receipt = await net.call(birch.subject("send", elm, "work.do"), envelope)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] in ("bad_request", "bad_id")
    assert field in receipt["error"]["message"]
    await net.settled()
    assert not elm.inbox.all


# ---- the card's marks, read leniently


@pytest.mark.parametrize("mark", [True, "True", "true"], ids=repr)
@pytest.mark.parametrize("verb", ["send", "ask"])
async def test_the_mark_makes_a_send_or_an_ask_a_blocking_request(net: Net, verb: str, mark: object) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = new_id()
    marks = {"blocking_wait": mark, "wait_timeout": "7.5"}
    await net.tell(birch.subject(verb, elm, "work.do"), birch.envelope({"id": request_id, "metadata": marks}))
    event = await elm.event()
    assert event["requires_response"] is True
    assert event["metadata"]["blocking_wait"] is True
    assert 6.5 < event["deadline_in_s"] <= 7.5
    await elm.answer(event, "there")
    assert (await birch.outcome(request_id))["event"]["data"] == "there"


@pytest.mark.parametrize("mark", [False, "False", "false", "0", "", "no", 0, None, [], {}], ids=repr)
async def test_a_mark_that_is_not_true_leaves_a_send_one_way(net: Net, mark: object) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    receipt = await birch.send(elm, metadata={"blocking_wait": mark})
    assert receipt["ok"] is True
    assert (await elm.event())["requires_response"] is False


async def test_a_marked_send_is_an_edge_like_any_blocking_request(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    marked = new_id()
    birch.open.add(marked)
    metadata = {"blocking_wait": "True", "wait_timeout": "30"}
    await net.tell(
        birch.subject("send", elm, "work.do"), birch.envelope({"id": marked, "metadata": metadata})
    )
    await all_end_in_deadlock((birch, marked), (elm, await elm.request(birch)))


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (None, 60),
        ("NaN", 60),
        ("inf", 60),
        ("-inf", 60),
        (0, 60),
        (-1, 60),
        ("soon", 60),
        ([], 60),
        (True, 60),
        (30, 30),
        ("30", 30),
        ("30.5", 30.5),
        (" 30 ", 30),
        (1e9, 3600),
        ("99999", 3600),
    ],
    ids=repr,
)
async def test_a_wait_timeout_that_cannot_be_is_60_s_and_above_the_cap_3600_s(
    net: Net, given: object, holds: float
) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    metadata: dict[str, Any] = {"blocking_wait": True}
    if given is not None:
        metadata["wait_timeout"] = given
    await net.tell(
        birch.subject("send", elm, "work.do"), birch.envelope({"id": new_id(), "metadata": metadata})
    )
    assert holds - 1 < (await elm.event())["deadline_in_s"] <= holds + 0.001


@pytest.mark.parametrize(("given", "holds"), [(None, 60), (0, 60), (-3, 60), (2.5, 2.5), (1e7, 3600)])
async def test_receipt_and_delivery_say_what_timeout_holds(
    net: Net, given: float | None, holds: float
) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    receipt = await birch.ask(elm, timeout_s=given)
    assert receipt["timeout_s"] == pytest.approx(holds)
    assert holds - 1 < (await elm.event())["deadline_in_s"] <= holds + 0.001


# ---- sessions and executions named in bodies


@pytest.mark.parametrize("verb", ["wait.open", "done", "defer", "facts", "heartbeat"])
async def test_what_needs_a_session_is_refused_without_one(net: Net, verb: str) -> None:
    birch = await net.peer("birch")
    body = {
        "wait.open": {"id": new_id(), "on": [{"kind": "human"}]},
        "facts": {"incident": "i", "open": []},
        "heartbeat": {"open": [], "held": []},
    }.get(verb, {"ids": ["x"]})
    receipt = await net.verb(birch.agent, verb, body)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] == "session_required"


async def test_a_blocking_request_without_session_of_an_agent_that_said_hello_is_refused(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = new_id()
    outcome = await net.call(birch.subject("request", elm, "work.do"), {"unknot": 1, "id": request_id})
    assert outcome["request_id"] == request_id
    assert outcome["outcome"] == "refused"
    assert outcome["handled"] == "no"
    assert outcome["error"]["code"] == "session_required"
    await net.settled()
    assert not elm.inbox.all


async def test_a_stale_session_is_refused_and_changes_nothing(net: Net) -> None:
    elm = await net.worker("elm")
    old = await net.peer("birch", instance="birch-1")
    event_id = (await elm.send(old))["id"]
    await old.event()
    young = Peer(net, old.agent, new_id())
    net.peers.append(young)
    await young.listen()
    await young.hello(instance="birch-1")
    stale = [
        await old.send_and_wait(elm, timeout_s=3),
        await old.wait_open({"kind": "human", "id": "h"}),
        await old.verb("done", ids=[event_id]),
        await old.verb("defer", ids=[event_id]),
        await old.heartbeat(),
    ]
    assert [receipt.get("error", {}).get("code") for receipt in stale] == ["stale_session"] * 5
    assert not any(receipt["ok"] for receipt in stale)
    await net.settled()
    assert not elm.inbox.all
    assert not await net.waits()


async def test_an_execution_that_the_gateway_never_saw_is_still_a_node(net: Net) -> None:
    """After a take-over it has seen none."""
    birch, elm = await net.worker("birch"), await net.worker("elm")
    request_id = await birch.request(elm, execution="before-the-take-over")
    await elm.answer(await elm.event(), 1)
    assert (await birch.outcome(request_id))["outcome"] == "reply"
    blocked = await birch.request(elm, execution="before-the-take-over")
    await elm.event()
    row = await net.wait_row(blocked)
    assert row is not None
    assert row["execution"] == "before-the-take-over"


async def test_the_executions_that_an_agent_without_hello_names_are_ignored(net: Net) -> None:
    birch, elm = await net.stranger("birch"), await net.stranger("elm")
    first = await birch.request(elm, execution="one")
    await elm.event()
    second = await elm.request(birch, execution="two")
    await all_end_in_deadlock((birch, first), (elm, second), evidence="assumed")


# ---- outcomes


async def test_expired_says_what_the_wait_really_hung_on(net: Net) -> None:
    birch, elm, flint = await net.peer("birch"), await net.worker("elm"), await net.worker("flint")
    request_id = await birch.request(elm, timeout_s=0.4)
    event = await elm.event()
    await elm.request(flint, execution=event["id"], timeout_s=TIMEOUT_S)
    await flint.event()
    outcome = await birch.outcome(request_id)
    assert outcome["outcome"] == "expired"
    assert outcome["error"]["code"] == "expired"
    chain = outcome["error"]["detail"]["chain"]
    assert elm.agent in chain[0]
    assert flint.agent in chain[-1]


async def test_handled_is_no_when_never_delivered_and_maybe_when_delivered(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    taken = await birch.request(elm, timeout_s=0.4)
    await elm.event()
    queued = await birch.request(elm, timeout_s=0.4)
    assert (await birch.outcome(taken))["handled"] == "maybe"
    assert (await birch.outcome(queued))["handled"] == "no"


async def test_handled_is_yes_when_reported_running(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm, timeout_s=0.5)
    await elm.event()
    await elm.heartbeat()
    assert (await birch.outcome(request_id))["handled"] == "yes"


@pytest.mark.parametrize("refused", ["receipt", "outcome"])
async def test_an_error_says_what_happened_to_whom_and_what_to_do_now(net: Net, refused: str) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    if refused == "receipt":
        error = (await net.call(birch.subject("send", elm, "work.do"), b"{"))["error"]
    else:
        error = (await birch.send_and_wait("nobody-here"))["error"]
        assert "nobody-here" in error["message"]
    assert re.fullmatch("[a-z_]+", error["code"])
    assert len(error["message"]) > 20


def refusal(answer: dict[str, Any]) -> str:
    """The error code of a Receipt or an Outcome that refuses."""
    assert answer.get("ok") is False or answer.get("outcome") == "refused", answer
    return answer["error"]["code"]
