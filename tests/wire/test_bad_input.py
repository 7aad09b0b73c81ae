"""WIRE section 3, bad input: a clear error where it may go, counted, and nothing else touched."""

import json

import pytest

from tests.wire.raw import Json, Net, new_id
from unknot_schemas.limits import DATA_BYTES_MAX

DEEP = b"[" * 600 + b"]" * 600
BAD_BODIES = {
    "not JSON": b"{",
    "not UTF-8": b'{"unknot":1,"data":"\xff"}',
    "two documents": b"{} {}",
    "NaN": b'{"unknot":1,"data":NaN}',
    "a single quote": b"{'a':1}",
    "an array for an envelope field": b'{"unknot":1,"timeout_s":[]}',
    "deep data": b'{"unknot":1,"data":' + DEEP + b"}",
    "deep bare data": DEEP,
    "very deep": b"[" * 200_000 + b"]" * 200_000,
    "deep unknown field": b'{"unknot":1,"x":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "too much data": b'{"unknot":1,"data":"' + b"x" * (512 * 1024 + 1) + b'"}',
    "too much metadata": b'{"unknot":1,"metadata":{"a":"' + b"x" * (16 * 1024 + 1) + b'"}}',
    "a control character in an id": b'{"unknot":1,"id":"a\\u0007"}',
    "a line feed after an id": b'{"unknot":1,"id":"a\\n"}',
    "a raw control character": b'{"unknot":1,"data":"a\x01"}',
}


@pytest.mark.parametrize("verb", ["send", "request"])
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_bad_input_gets_a_clear_error_and_touches_nothing(net: Net, body: bytes, verb: str) -> None:
    birch, elm = await net.stranger("birch"), await net.worker("elm", 2)
    answer = await net.call(birch.subject(verb, elm, "work.do"), body)
    assert answer.get("ok") is False or answer.get("outcome") == "refused"
    assert answer["error"]["code"] in ("bad_request", "bad_id", "too_large")
    assert answer["error"]["message"]
    await net.settled()
    assert not elm.inbox.all
    assert await birch.send(elm)


@pytest.mark.parametrize("verb", ["hello", "heartbeat", "done", "defer", "facts", "wait.open", "bye"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b'{"session":7}', b"[" * 100_000], ids=range(5))
async def test_bad_verbs_get_a_clear_error(net: Net, verb: str, body: bytes) -> None:
    birch = await net.peer("birch")
    receipt = await net.call(birch.verb_subject(verb), body)
    assert receipt["ok"] is False
    assert receipt["error"]["code"] in ("bad_request", "session_required")


@pytest.mark.parametrize(
    "verb", ["dance", "wait", "wait.dance", "request", "send", "reply", "publish", "hello.now"]
)
async def test_an_unknown_verb_or_half_a_subject_gets_a_clear_error(net: Net, verb: str) -> None:
    receipt = await net.verb(net.name("birch"), verb, {})
    assert receipt["ok"] is False
    assert receipt["error"]["code"] in ("unknown_verb", "bad_id")


async def test_bad_input_without_a_reply_subject_is_only_counted(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    before = await net.counter("bad_request")
    for body in (b"{", b'{"unknot":"x"}', DEEP):
        await net.tell(birch.subject("request", elm, "work.do"), body)
        await net.tell(net.subjects.reply(birch.agent, "some-id"), body)
    assert (await birch.send_and_wait(elm, data=1))["outcome"] == "reply"
    assert await net.counter("bad_request") >= before + 6


async def test_a_bad_answer_leaves_the_request_open(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = await birch.request(elm)
    came = await elm.event_arrival()
    receipt = await net.call(came.reply, b"{")
    assert receipt["error"]["code"] == "bad_request"
    assert (await elm.answer(came.body, "better"))["ok"] is True
    assert (await birch.outcome(request_id))["event"]["data"] == "better"


async def test_the_largest_legal_body_arrives(net: Net) -> None:
    """What the gateway adds always fits; over the server's limit nats-py would close the connection for good."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request_id = new_id()
    rest = {"id": request_id, "timeout_s": 20, "metadata": {"m": "y" * 16_000}, "run": "r" * 64}
    largest = "x" * (DATA_BYTES_MAX - len(json.dumps(birch.envelope({**rest, "data": ""}))))
    await net.tell(birch.subject("request", elm, "t" * 128), birch.envelope({**rest, "data": largest}))
    event = await elm.event()
    assert event["data"] == largest
    await elm.answer(event, largest)
    assert (await birch.outcome(request_id))["event"]["data"] == largest


async def test_one_byte_more_is_refused_before_anything_is_published(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.echo("elm")
    receipt = await net.call(birch.subject("send", elm, "work.do"), b'"' + b"x" * (DATA_BYTES_MAX - 1) + b'"')
    assert code(receipt) == "too_large"
    assert (await birch.send_and_wait(elm, data=1))["outcome"] == "reply"


def code(receipt: Json) -> str | None:
    """The error code of a Receipt."""
    return receipt.get("error", {}).get("code")
