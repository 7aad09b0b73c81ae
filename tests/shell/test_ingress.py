"""From bytes to facts: what is read, what is refused, and that nothing raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknot_gateway.core import facts
from unknot_gateway.shell.ingress import Ingress
from unknot_schemas import Subjects, bodies, errors, limits

SUBJECTS = Subjects("net")
REQUEST = SUBJECTS.event("birch", "request", "elm", "work.do")
INBOX = "_INBOX.birch.1"


def seen(
    payload: bytes, subject: str = REQUEST, reply: str = INBOX, headers: dict[str, str] | None = None
) -> facts.AnyFact:
    return Ingress(SUBJECTS).fact(subject, reply, payload, headers)


def refused(payload: bytes, subject: str = REQUEST) -> facts.InputRefused:
    fact = seen(payload, subject)
    assert isinstance(fact, facts.InputRefused), fact
    return fact


def wire(**fields: Any) -> bytes:
    return json.dumps({"unknot": 1, **fields}).encode()


def test_an_envelope_is_read() -> None:
    fact = seen(wire(id="r1", session="s1", data={"a": [1]}, timeout_s=5, execution="main"))
    assert isinstance(fact, facts.EventSeen)
    assert (fact.agent, fact.verb, fact.target, fact.type) == ("birch", "request", "elm", "work.do")
    assert (fact.envelope.id, fact.envelope.timeout_s, fact.reply_to) == ("r1", 5.0, INBOX)
    assert bytes(fact.envelope.data) == b'{"a": [1]}'


def test_data_keep_their_bytes() -> None:
    fact = seen(b'{"unknot":1,"data":{ "a" : 1.50,  "a":2 }}')
    assert isinstance(fact, facts.EventSeen)
    assert bytes(fact.envelope.data) == b'{ "a" : 1.50,  "a":2 }'


def test_metadata_are_kept_whatever_they_hold() -> None:
    fact = seen(b'{"unknot":1,"metadata":{"blocking_wait":"True","n":[1]}}')
    assert isinstance(fact, facts.EventSeen)
    assert fact.envelope.metadata is not None
    assert bytes(fact.envelope.metadata) == b'{"blocking_wait":"True","n":[1]}'


@pytest.mark.parametrize("body", [b'{"hi":1}', b'"hi"', b"[1,2]", b"0", b'{"id":5,"data":1}', b"null"])
def test_json_without_the_mark_is_bare_data(body: bytes) -> None:
    fact = seen(body)
    assert isinstance(fact, facts.EventSeen)
    assert not fact.envelope.unknot
    assert fact.envelope.id is None
    assert bytes(fact.envelope.data) == body


def test_an_empty_body_is_null() -> None:
    fact = seen(b"")
    assert isinstance(fact, facts.EventSeen)
    assert bytes(fact.envelope.data) == b"null"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", errors.BAD_REQUEST),
        (b"hello", errors.BAD_REQUEST),
        (b'{"unknot":1} {"unknot":1}', errors.BAD_REQUEST),
        (b'{"unknot":1,"data":NaN}', errors.BAD_REQUEST),
        (b'{"unknot":1,"data":"\xff"}', errors.BAD_REQUEST),
        (b'"\xff"', errors.BAD_REQUEST),
        (b'\xef\xbb\xbf{"unknot":1}', errors.BAD_REQUEST),
        (b"[" * 501 + b"]" * 501, errors.BAD_REQUEST),
        (b'{"unknot":1,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", errors.BAD_REQUEST),
        (b"[" * 100_000, errors.BAD_REQUEST),
        (b'"' + b"x" * limits.DATA_BYTES_MAX + b'"', errors.TOO_LARGE),
        (wire(metadata="x" * limits.METADATA_BYTES_MAX), errors.TOO_LARGE),
        (wire(id="a b"), errors.BAD_ID),
        (wire(id=""), errors.BAD_ID),
        (wire(id="a\n"), errors.BAD_ID),
        (wire(id="a\x00"), errors.BAD_ID),
        (wire(id="x" * 65), errors.BAD_ID),
        (wire(session="a.b"), errors.BAD_ID),
        (wire(execution="*"), errors.BAD_ID),
        (wire(strand=">"), errors.BAD_ID),
        (wire(run="ü"), errors.BAD_ID),
        (wire(group={"id": "a b", "n": 2, "need": 1}), errors.BAD_ID),
        (wire(group={"id": "g"}), errors.BAD_REQUEST),
        (wire(timeout_s="5"), errors.BAD_REQUEST),
        (wire(id=5), errors.BAD_REQUEST),
        (b'{"unknot":2,"id":"x"}', errors.PROTOCOL_UNKNOWN),
        (b'{"unknot":"1"}', errors.BAD_REQUEST),
        (b'{"unknot":true}', errors.BAD_REQUEST),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_reason(body: bytes, code: str) -> None:
    fact = refused(body)
    assert fact.error.code == code
    assert fact.error.message
    assert fact.verb == "request"
    assert fact.reply_to == INBOX


def test_brackets_inside_strings_are_no_nesting() -> None:
    fact = seen(wire(data='[[{{"\\' * 1_000))
    assert isinstance(fact, facts.EventSeen)


def test_wide_is_not_deep() -> None:
    assert isinstance(seen(wire(data=[[1]] * 5_000)), facts.EventSeen)


def test_the_deepest_legal_body_is_taken() -> None:
    assert isinstance(seen(b'{"unknot":1,"data":' + b"[" * 499 + b"]" * 499 + b"}"), facts.EventSeen)
    assert isinstance(seen(b"[" * 500 + b"]" * 500), facts.EventSeen)


def test_id_and_session_are_named_where_they_can_be_read() -> None:
    fact = refused(wire(id="r1", session="s1", timeout_s="soon"))
    assert (fact.event_id, fact.session) == ("r1", "s1")
    assert refused(b'{"unknot":1,"id":"r1"').event_id is None
    assert refused(wire(id="not an id", session=4)).event_id is None


@pytest.mark.parametrize(
    ("subject", "code", "verb"),
    [
        ("unknot.net.in.gateway.hello", errors.BAD_ID, ""),
        ("unknot.net.in.-elm.hello", errors.BAD_ID, ""),
        ("unknot.net.in.birch", errors.UNKNOWN_VERB, ""),
        ("unknot.net.in.birch.sing", errors.UNKNOWN_VERB, ""),
        ("unknot.net.in.birch.wait", errors.UNKNOWN_VERB, ""),
        ("unknot.net.in.birch.request.elm", errors.BAD_ID, "request"),
        ("unknot.net.in.birch.request.elm.Work", errors.BAD_ID, "request"),
        ("unknot.net.in.birch.ask.e*m.work", errors.BAD_ID, "ask"),
        ("unknot.net.in.birch.send.@agent:elm.work", errors.BAD_ID, "send"),
        ("unknot.net.in.birch.reply.a b", errors.BAD_ID, ""),
        ("unknot.net.in.birch.request.elm." + "x" * 129, errors.BAD_ID, "request"),
        ("unknot.net.in.birch.request.elm." + "x" * 2_000, errors.BAD_ID, "request"),
    ],
)
def test_a_subject_that_means_nothing_is_refused(subject: str, code: str, verb: str) -> None:
    fact = refused(wire(id="r1"), subject)
    assert (fact.error.code, fact.verb, fact.event_id) == (code, verb, "r1")


@pytest.mark.parametrize("subject", ["unknot.net.in.agent:birch.request.agent:elm.work.do", REQUEST])
def test_the_prefix_of_an_agent_is_stripped(subject: str) -> None:
    fact = seen(wire(), subject)
    assert isinstance(fact, facts.EventSeen)
    assert (fact.agent, fact.target) == ("birch", "elm")


def test_only_an_inbox_may_be_answered() -> None:
    for reply in (
        "",
        "work.queue",
        "unknot.net.in.elm.reply.r1",
        "_INBOX.*",
        "_INBOX.>",
        "_INBOX..x",
        "_INBOX.é",
    ):
        assert seen(wire(), reply=reply).reply_to is None, reply  # type: ignore[union-attr]
    assert seen(wire(), reply="_INBOX.anybody.1").reply_to == "_INBOX.anybody.1"  # type: ignore[union-attr]


def test_outside_development_only_the_agents_own_inbox_may_be_answered() -> None:
    strict = Ingress(SUBJECTS, any_inbox=False)
    for reply, legal in (("_INBOX.elm.1", False), ("_INBOX.birchwood.1", False), (INBOX, True)):
        fact = strict.fact(REQUEST, reply, wire(), None)
        assert isinstance(fact, facts.EventSeen)
        assert (fact.reply_to == reply) is legal
    assert strict.counters["reply_subjects_refused"] == 2


REPLY = SUBJECTS.reply("elm", "r1")


def test_an_answer_names_its_request_by_the_subject() -> None:
    for body in (wire(data=2, done=False), b'{"hi":1}', b""):
        fact = seen(body, REPLY)
        assert isinstance(fact, facts.ReplySeen)
        assert (fact.agent, fact.request_id) == ("elm", "r1")


def test_no_responders_is_a_hint_and_no_answer() -> None:
    assert seen(b"", REPLY, headers={"Status": "503"}) == facts.NobodyListened("elm", "r1")  # type: ignore[arg-type]
    assert isinstance(seen(b"{}", REPLY, headers={"Status": "503"}), facts.ReplySeen)


@pytest.mark.parametrize(
    "ack",
    [
        b'{"stream":"S","seq":4}',
        b'{"stream":"S","seq":4,"domain":"d","duplicate":true}',
        b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}',
    ],
)
def test_an_acknowledgement_of_jetstream_is_no_answer(ack: bytes) -> None:
    assert isinstance(seen(ack, REPLY), facts.PubAckSeen)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"stream":"S"}', b'{"stream":"S","seq":4,"more":1}', b'{"unknot":1,"stream":"S","seq":4}'],
)
def test_what_only_resembles_an_acknowledgement_is_an_answer(body: bytes) -> None:
    assert isinstance(seen(body, REPLY), facts.ReplySeen)


@pytest.mark.parametrize(
    ("verb", "body", "kind"),
    [
        ("hello", {"session": "s1", "pools": [{"slots": None, "types": ["thread.>"]}]}, bodies.Hello),
        ("heartbeat", {"session": "s1", "open": ["r1"], "held": [{"id": "e1"}]}, bodies.Heartbeat),
        ("bye", {"session": "s1"}, bodies.Bye),
        ("done", {"session": "s1", "ids": ["e1"]}, bodies.Done),
        ("defer", {"session": "s1", "ids": ["e1"], "by": "main"}, bodies.Defer),
        ("facts", {"session": "s1", "incident": "i1", "strands": {"e1": {"alive": [""]}}}, bodies.Facts),
        ("wait.open", {"id": "w1", "session": "s1", "on": [{"kind": "human", "id": "h 1"}]}, bodies.WaitOpen),
        ("wait.close", {"id": "w1"}, bodies.WaitClose),
        ("request.cancel", {"id": "r1"}, bodies.RequestCancel),
    ],
)
def test_every_verb_has_its_body(verb: str, body: dict[str, Any], kind: type) -> None:
    fact = seen(json.dumps(body).encode(), SUBJECTS.verb("birch", verb))
    assert isinstance(fact, facts.BodySeen)
    assert isinstance(fact.body, kind)
    if "session" in body:
        without = {name: value for name, value in body.items() if name != "session"}
        if verb not in ("wait.close", "request.cancel"):
            missing = refused(json.dumps(without).encode(), SUBJECTS.verb("birch", verb))
            assert missing.error.code == errors.SESSION_REQUIRED


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("hello", {"session": "a b"}, errors.BAD_ID),
        ("hello", {"session": "s", "instance": "a\n"}, errors.BAD_ID),
        ("hello", {"session": "s", "channels": ["@x"]}, errors.BAD_ID),
        ("hello", {"session": "s", "channels": ["c"] * (limits.CHANNELS_MAX + 1)}, errors.TOO_LARGE),
        ("hello", {"session": "s", "pools": [{"slots": 1, "types": ["a..b"]}]}, errors.BAD_ID),
        ("hello", {"session": "s", "pools": [{"slots": 1}] * (limits.POOLS_MAX + 1)}, errors.TOO_LARGE),
        ("hello", {"session": "s", "answered": ["a b"]}, errors.BAD_ID),
        ("heartbeat", {"session": "s", "open": ["a", "a b"]}, errors.BAD_ID),
        ("heartbeat", {"session": "s", "held": [{"id": "a b"}]}, errors.BAD_ID),
        ("heartbeat", {"session": "s", "held": [{"id": "a", "state": "lost"}]}, errors.BAD_REQUEST),
        ("done", {"session": "s", "ids": ["a"] * (limits.NAMED_IDS_MAX + 1)}, errors.TOO_LARGE),
        ("defer", {"session": "s", "ids": ["a"], "by": "a b"}, errors.BAD_ID),
        ("facts", {"session": "s", "incident": "a b"}, errors.BAD_ID),
        ("facts", {"session": "s", "incident": "i", "strands": {"e": {"alive": ["a b"]}}}, errors.BAD_ID),
        ("wait.open", {"id": "a b", "session": "s", "on": []}, errors.BAD_ID),
        ("wait.open", {"id": "w", "session": "s", "on": [{"kind": "reply", "id": "a b"}]}, errors.BAD_ID),
        ("wait.open", {"id": "w", "session": "s", "on": [{"kind": "event", "id": "A"}]}, errors.BAD_ID),
        ("wait.open", {"id": "w", "session": "s", "on": [{"kind": "agent", "id": "a.b"}]}, errors.BAD_ID),
        ("wait.open", {"id": "w", "session": "s", "on": [{"kind": "tool", "id": "a\x1b"}]}, errors.BAD_ID),
        (
            "wait.open",
            {"id": "w", "session": "s", "on": [{"kind": "human"}] * (limits.CONDITIONS_MAX + 1)},
            errors.TOO_LARGE,
        ),
        ("wait.close", {"id": "a b"}, errors.BAD_ID),
        ("request.cancel", {}, errors.BAD_REQUEST),
        ("bye", [], errors.BAD_REQUEST),
    ],
)
def test_a_body_that_breaks_its_bounds_is_refused(verb: str, body: Any, code: str) -> None:
    assert refused(json.dumps(body).encode(), SUBJECTS.verb("birch", verb)).error.code == code


WORDS = st.sampled_from(
    [
        "unknot",
        "net",
        "in",
        "birch",
        "elm",
        "request",
        "reply",
        "hello",
        "wait",
        "open",
        "facts",
        "publish",
        "r1",
        "",
    ]
)


@given(words=st.lists(WORDS, max_size=6), payload=st.binary(max_size=60), reply=st.text(max_size=8))
def test_no_bytes_on_any_subject_raise(words: list[str], payload: bytes, reply: str) -> None:
    for body in (payload, b'{"unknot":1,"data":' + payload + b"}", json.dumps({"id": reply}).encode()):
        seen(body, ".".join(("unknot", "net", "in", *words)), reply)
