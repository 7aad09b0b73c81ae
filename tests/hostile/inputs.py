"""Hostile inputs, as a table: what is sent, and the answer that it must have.

In subjects ``{me}`` is the sender, ``{elm}`` a worker that answers everything. In bodies ``%SESSION%`` is the sender's
session, ``%OPEN%`` a request of its own that is open at elm, ``%OTHER%`` and ``%THEIRS%`` the session and an open
request of a third agent.
"""

import json
from typing import Any, Final, NamedTuple

OK: Final = "ok"
"""Taken, as the page says."""
SILENCE: Final = "nothing"
"""No answer goes anywhere."""


class Hostile(NamedTuple):
    """One input. *after*: what comes behind ``in.<me>.`` in the subject, or all of it where *whole*."""

    name: str
    after: str | bytes
    body: bytes
    said: str
    reply: bytes | None = None
    header: bytes | None = None
    whole: bool = False


def j(**fields: Any) -> bytes:
    """A body."""
    return json.dumps(fields).encode()


def env(**fields: Any) -> bytes:
    """An envelope of the sender's session."""
    return j(unknot=1, session="%SESSION%", **fields)


def own(**fields: Any) -> bytes:
    """A body of the sender's session."""
    return j(session="%SESSION%", **fields)


def subject(name: str, after: str | bytes, said: str = "bad_id", *, whole: bool = False) -> Hostile:
    """A subject that means nothing."""
    return Hostile(name, after, b"1", said, whole=whole)


SUBJECTS: Final = [
    subject("a wildcard for a target", "send.*.x"),
    subject("all for a target", "send.>.x"),
    subject("a wildcard for a type", "send.{elm}.*"),
    subject("all for a type", "send.{elm}.>"),
    subject("a hundred words", "send.{elm}." + ".".join("a" * 100)),
    subject("over the length of subjects", "send.{elm}." + "x" * 1_100),
    subject("close to the control line", "send.{elm}." + "x" * 3_800),
    subject("an upper-case type", "send.{elm}.Work"),
    subject("a type of 129", "send.{elm}." + "x" * 129),
    subject("no type", "send.{elm}"),
    subject("no target", "request"),
    subject("no id to a reply", "reply"),
    subject("two words for a reply's id", "reply.a.b"),
    subject("a reply's id of 65", "reply." + "x" * 65),
    subject("a wildcard for a reply's id", "reply.*"),
    subject("publish without a type", "publish"),
    subject("publish in upper case", "publish.News"),
    subject("the gateway as a target", "send.gateway.x"),
    subject("the gateway by its alias", "send.agent:gateway.x"),
    subject("an alias of an alias", "send.agent:agent:{elm}.x"),
    subject("an alias of nobody", "send.agent:.x"),
    subject("a channel of an alias", "send.@agent:{elm}.x"),
    subject("a channel of a channel", "send.@@news.x"),
    subject("a channel without a name", "send.@.x"),
    subject("a target of 65", "send." + "x" * 65 + ".x"),
    subject("a target that begins with a dash", "send.-elm.x"),
    subject("a look-alike target", "send.\u0435lm.x".encode()),
    subject("a target with a space of no width", "send.elm\u200b.x".encode()),
    subject("a target written backwards", "send.\u202emle.x".encode()),
    subject("full-width digits", "send.elm\uff11.x".encode()),
    subject("a null byte in a target", b"send.elm\x00.x"),
    subject("a delete character in a target", b"send.elm\x7f.x"),
    subject("no UTF-8 in a target", b"send.elm\xff\xfe.x"),
    subject("a vertical tab in a target", b"send.elm\x0b1.x"),
    subject("a form feed in a type", b"send.elm.x\x0c1\x0c2"),
    subject("a mark of byte order in a target", "send.\ufeffelm.x".encode()),
    subject("an unknown verb", "dance", "unknown_verb"),
    subject("a verb in upper case", "HELLO", "unknown_verb"),
    subject("a verb with more behind it", "heartbeat.now", "unknown_verb"),
    subject("a verb of the other direction", "control.confirm", "unknown_verb"),
    subject("an outcome from an agent", "outcome", "unknown_verb"),
    subject("the gateway as a sender", "{root}.in.gateway.send.{elm}.x", whole=True),
    subject("an alias of an alias as a sender", "{root}.in.agent:agent:{me}.send.{elm}.x", whole=True),
    subject("a channel as a sender", "{root}.in.@news.send.{elm}.x", whole=True),
    subject("a sender of 65", "{root}.in." + "x" * 65 + ".hello", whole=True),
    subject("a sender and no more", "{root}.in.{me}", "unknown_verb", whole=True),
    subject("a look-alike sender", "{root}.in.b\u0456rch.hello".encode(), whole=True),
]


def event(name: str, body: bytes, said: str = "bad_request", after: str = "send.{elm}.x") -> Hostile:
    """A body for one-way events."""
    return Hostile(name, after, body, said)


NO_JSON: Final = {
    "a mark of byte order": b"\xef\xbb\xbf1",
    "UTF-16": '{"unknot":1}'.encode("utf-16"),
    "white space alone": b" \n\t ",
    "a sign alone": b"-",
    "a plus": b"+1",
    "a leading zero": b"01",
    "a point at the end": b"1.",
    "a point at the start": b".5",
    "hexadecimal": b"0x10",
    "half a word": b"tru",
    "an open string": b'"abc',
    "a comment": b"/* x */ 1",
    "a comma too many": b"[1,]",
    "a key without a value": b'{"unknot":1,"data"}',
    "Infinity": b'{"unknot":1,"data":Infinity}',
    "minus Infinity": b"-Infinity",
    "null bytes": b"\x00\x00\x00",
    "a null byte behind": b"1\x00",
    "half a character": b'{"unknot":1,"data":"\xe2\x82"}',
    "an overlong slash": b'"\xc0\xaf"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "half an escape": b'{"unknot":1,"data":"\\u12"}',
    "an unknown escape": b'{"unknot":1,"data":"\\x41"}',
    "a line feed in a string": b'{"unknot":1,"data":"a\nb"}',
    "brackets that do not match": b'{"unknot":1,"data":[}]',
}
WRONG_TYPES: Final[dict[str, list[Any]]] = {
    "unknot": ["1", [1], {}, True, 1.5],
    "id": [7, True, [], {}, ["a"]],
    "session": [7, {}, False],
    "execution": [0, [], {}],
    "strand": [1, [], True],
    "detached": ["yes", 1, []],
    "group": ["g", 7, [], {}, {"id": "g"}, {"id": 1, "n": 2, "need": 1}, {"id": "g", "n": 1.5, "need": 1}],
    "run": [7, {}],
    "timeout_s": ["5", [], {}, True],
    "wait_for_target_s": ["5", {}],
    "error": ["no", 7, {"code": 7, "message": "m"}, {"code": "c"}],
    "done": ["no", 0, None],
    "traceparent": [7, []],
    "response_to": [7, {}],
    "accept_uncorrelated": [7, []],
}
EVENTS: Final = [
    *(event(name, body) for name, body in NO_JSON.items()),
    *(
        event(f"{field}: {json.dumps(value)[:40]}", j(**{"unknot": 1, field: value}))
        for field, wrong in WRONG_TYPES.items()
        for value in wrong
    ),
    event("half a surrogate in data", b'{"unknot":1,"data":"\\ud800"}'),
    event("a number beyond all floats", b'{"unknot":1,"timeout_s":1e999}'),
    event("a number of 5 000 digits for a timeout", b'{"unknot":1,"timeout_s":' + b"9" * 5_000 + b"}"),
    event("NaN for a timeout", b'{"unknot":1,"timeout_s":NaN}'),
    event("another protocol", b'{"unknot":2}', "protocol_unknown"),
    event("a negative protocol", b'{"unknot":-1}', "protocol_unknown"),
    event("an id of 65", j(unknot=1, id="x" * 65), "bad_id"),
    event("no id at all", j(unknot=1, id=""), "bad_id"),
    event("an id with a dot", j(unknot=1, id="a.b"), "bad_id"),
    event("an id with a wildcard", j(unknot=1, id="*"), "bad_id"),
    event("an id of full-width digits", j(unknot=1, id="\uff11\uff12"), "bad_id"),
    event("a look-alike id", j(unknot=1, id="\u0430bc"), "bad_id"),
    event("an id with half a surrogate", b'{"unknot":1,"id":"\\ud800"}', "bad_request"),
    event("a null byte in an id", b'{"unknot":1,"id":"a\\u0000"}', "bad_id"),
    event("an execution with a space", env(execution="a b"), "bad_id"),
    event("a strand of 65", env(strand="s" * 65), "bad_id"),
    event("a run with a slash", env(run="a/b"), "bad_id"),
    event("a group with a newline", env(group={"id": "g\n", "n": 1, "need": 1}), "bad_id"),
    event("a pattern that is none", env(accept_uncorrelated="Work..x"), "bad_id"),
    event("a post with a space", env(response_to="a b"), "bad_id"),
    event("a session of nobody", j(unknot=1, session="nobody"), "stale_session"),
    event("another agent's session", j(unknot=1, session="%OTHER%"), "stale_session"),
    event("as much as the server takes", b'"' + b"x" * (1024 * 1024 - 2) + b'"', "too_large"),
    event("a megabyte of white space", b" " * 1_000_000, "too_large"),
    event("metadata of 20 000 keys", env(metadata={f"k{n}": n for n in range(20_000)}), "too_large"),
    event("501 levels", b'{"unknot":1,"data":' + b"[" * 500 + b"]" * 500 + b"}"),
    event("501 levels of objects", b'{"a":' * 501 + b"1" + b"}" * 501),
    event(
        "500 levels behind a wall of strings", b'["' + b"[" * 2_000 + b'",' + b"[" * 600 + b"]" * 600 + b"]"
    ),
    # what looks bad and is not
    event("600 brackets in a string", b'{"unknot":1,"data":"' + b"[" * 600 + b'"}', OK),
    event("ten times ten, six levels deep", env(data=[[[[["lol"] * 10] * 10] * 10] * 10] * 4), OK),
    event("the same key twice", b'{"unknot":1,"data":1,"data":2,"id":"%ID%","id":"%ID%"}', OK),
    event("the mark twice", b'{"unknot":1,"unknot":1}', OK),
    event("a mark beyond all numbers", j(unknot=2**70), "protocol_unknown"),
    event("a number of 5 000 digits in data", b'{"unknot":1,"data":' + b"9" * 5_000 + b"}", OK),
    event("a float beyond all floats in data", b'{"unknot":1,"data":1e999}', OK),
    event("metadata as a list", env(metadata=[1, 2]), OK),
    event("metadata as a string", env(metadata="blocking_wait"), OK),
    event("metadata of 400 levels", b'{"unknot":1,"metadata":' + b"[" * 400 + b"]" * 400 + b"}", OK),
    event("a negative timeout", env(timeout_s=-1), OK),
    event("a timeout of a million years", env(timeout_s=3e13), OK),
    event("the least float for a timeout", env(timeout_s=5e-324), OK),
    event("a negative patience", env(wait_for_target_s=-1e308), OK),
    event("unknown fields", env(admin=True, source="gateway", target="gateway"), OK),
    event("another source in the body", env(source="gateway", epoch=0, data={"unknot": 1}), OK),
]


def verb(name: str, after: str, body: bytes, said: str = "bad_request") -> Hostile:
    """One of the verbs about sessions, waits and requests."""
    return Hostile(name, after, body, said)


def on(count: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Conditions."""
    return [{"kind": "human", "id": "someone", **fields}] * count


VERBS: Final = [
    verb("hello with its own token again, elsewhere", "hello", j(session="%OTHER%"), "session_used"),
    verb("hello with a token that has ended", "hello", j(session="%ENDED%"), "session_used"),
    verb("hello without a token", "hello", j(protocol=1), "session_required"),
    verb("hello with an empty token", "hello", j(session=""), "bad_id"),
    verb("hello with a token of 65", "hello", j(session="s" * 65), "bad_id"),
    verb("hello in another protocol", "hello", j(session="%ID%", protocol=2), "protocol_unknown"),
    verb("hello with pools and concurrency", "hello", j(session="%ID%", concurrency=1, pools=[{"slots": 1}])),
    verb("hello with no slots", "hello", j(session="%ID%", concurrency=0)),
    verb("hello with a slot too few", "hello", j(session="%ID%", pools=[{"slots": -1}])),
    verb("hello with slots without end", "hello", j(session="%ID%", concurrency=2**62)),
    verb("hello with slots beyond all numbers", "hello", j(session="%ID%", concurrency=2**70)),
    verb(
        "hello with a type that is no pattern",
        "hello",
        j(session="%ID%", pools=[{"slots": 1, "types": ["A"]}]),
        "bad_id",
    ),
    verb("hello with a channel that is no name", "hello", j(session="%ID%", channels=["a b"]), "bad_id"),
    verb(
        "hello with 65 channels",
        "hello",
        j(session="%ID%", channels=[f"c{n}" for n in range(65)]),
        "too_large",
    ),
    verb("hello with a heartbeat in words", "hello", j(session="%ID%", heartbeat_s="often")),
    verb("hello with an instance that is no name", "hello", j(session="%ID%", instance="../x"), "bad_id"),
    verb(
        "hello that holds 10 001",
        "hello",
        j(session="%ID%", resume=True, held=[{"id": "x"}] * 10_001),
        "too_large",
    ),
    verb("a heartbeat of nobody", "heartbeat", j(session="nobody"), "unknown_session"),
    verb("a heartbeat of another", "heartbeat", j(session="%OTHER%"), "stale_session"),
    verb("a heartbeat that has seen too much", "heartbeat", own(seen=2**64, open=["%OPEN%"]), OK),
    verb(
        "a heartbeat that has seen 5 000 digits",
        "heartbeat",
        b'{"session":"%SESSION%","seen":' + b"9" * 5_000 + b"}",
    ),
    verb("a heartbeat that has seen less than nothing", "heartbeat", own(seen=-(2**80), open=["%OPEN%"]), OK),
    verb("a heartbeat that names 10 001", "heartbeat", own(open=["x"] * 10_001), "too_large"),
    verb("a heartbeat that names no ids", "heartbeat", own(open=["a b"]), "bad_id"),
    verb("a heartbeat with a state of its own", "heartbeat", own(held=[{"id": "x", "state": "asleep"}])),
    verb("bye for another", "bye", j(session="%OTHER%"), "stale_session"),
    verb("bye that drains for NaN", "bye", b'{"session":"%SESSION%","drain_s":NaN}'),
    verb("done for 10 001", "done", own(ids=["x"] * 10_001), "too_large"),
    verb("done in words", "done", own(ids="all")),
    verb("done for what is another's", "done", own(ids=["%THEIRS%"]), OK),
    verb("defer by what is no execution", "defer", own(ids=["x"], by="a b"), "bad_id"),
    verb("defer for what is another's", "defer", own(ids=["%THEIRS%"]), OK),
    verb(
        "facts of 10 001 strands",
        "facts",
        own(incident="i", strands={f"s{n}": {} for n in range(10_001)}),
        "too_large",
    ),
    verb(
        "facts of 10 001 that are alive",
        "facts",
        own(incident="i", strands={"x": {"alive": ["s"] * 10_001}}),
        "too_large",
    ),
    verb("facts that nobody asked for", "facts", own(incident="i1-1", open=["%OPEN%"]), OK),
    verb("facts with a state of their own", "facts", own(incident="i", requests={"x": "asleep"})),
    verb("a wait of 10 000 conditions", "wait.open", own(id="%ID%", on=on(10_000)), "too_large"),
    verb("a wait for nothing", "wait.open", own(id="%ID%", on=[])),
    verb("a wait that needs none", "wait.open", own(id="%ID%", on=on(), need=0)),
    verb("a wait that needs more than there are", "wait.open", own(id="%ID%", on=on(), need=2)),
    verb("a wait that needs most", "wait.open", own(id="%ID%", on=on(), need="most")),
    verb("a wait that needs less than none", "wait.open", own(id="%ID%", on=on(), need=-(2**63))),
    verb("a wait for something unknown", "wait.open", own(id="%ID%", on=on(kind="godot")), OK),
    verb("a wait for an id of 257", "wait.open", own(id="%ID%", on=on(id="x" * 257)), "bad_id"),
    verb("a wait for a control character", "wait.open", own(id="%ID%", on=on(id="a\x1b[2J")), "bad_id"),
    verb(
        "a wait for an agent that is no name",
        "wait.open",
        own(id="%ID%", on=on(kind="agent", id="a b")),
        "bad_id",
    ),
    verb("a wait for the gateway", "wait.open", own(id="%ID%", on=on(kind="agent", id="gateway")), "bad_id"),
    verb(
        "a wait for an event that is no pattern",
        "wait.open",
        own(id="%ID%", on=on(kind="event", id="A.b")),
        "bad_id",
    ),
    verb("a wait under a request's id", "wait.open", own(id="%OPEN%", on=on()), "id_conflict"),
    verb(
        "a wait of another's session", "wait.open", j(session="%OTHER%", id="%ID%", on=on()), "stale_session"
    ),
    verb("a wait without an id", "wait.open", own(on=on())),
    verb("a generation beyond all numbers", "wait.open", own(id="%ID%", on=on(), generation=2**64), OK),
    verb("the end of a wait without a session", "wait.close", j(id="x"), "session_required"),
    verb("a cancel of another's request", "request.cancel", own(id="%THEIRS%"), "stale_session"),
    verb("a cancel of nothing", "request.cancel", own()),
    verb("a verb about nothing", "heartbeat", b""),
    verb("a verb as a list", "hello", b'["%SESSION%"]'),
]


def request(name: str, body: bytes, said: str, after: str = "request.{elm}.x") -> Hostile:
    """A body for requests, which are answered by their Outcome."""
    return Hostile(name, after, body, said)


def group(n: int, need: int) -> bytes:
    """A request that is a member of a group."""
    return env(id="%ID%", group={"id": "g-%ID%", "n": n, "need": need})


REQUESTS: Final = [
    request("a group of none", group(0, 0), "group_conflict"),
    request("a group that needs more than there are", group(2, 3), "group_conflict"),
    request("a group that needs none", group(2, 0), "group_conflict"),
    request("a group of fewer than none", group(-1, -1), "group_conflict"),
    request("a group beyond all numbers", group(2**80, 2**79), "group_conflict"),
    request("a group of a million", group(1_000_000, 1), "group_conflict"),
    request("a request under another's id", env(id="%THEIRS%"), "id_conflict"),
    request("a request to a channel of nobody", env(id="%ID%"), "unreachable", "request.@nobody.x"),
    request("a request without its session", j(unknot=1, id="%ID%"), "session_required"),
    request("a request of another's session", j(unknot=1, session="%OTHER%", id="%ID%"), "stale_session"),
    request(
        "a request that cannot be read, with an id",
        b'{"unknot":1,"session":"%SESSION%","id":"%ID%","run":7}',
        "bad_request",
    ),
]


def answer(name: str, body: bytes, said: str, after: str = "reply.%THEIRS%", **of: Any) -> Hostile:
    """An answer that nobody may give."""
    return Hostile(name, after, body, said, **of)


ANSWERS: Final = [
    answer("an answer for another", env(data="forged"), "foreign_reply"),
    answer("an answer of bare data for another", b'"forged"', "foreign_reply"),
    answer("an answer to nothing", env(data=1), "unknown_reply", "reply.nothing"),
    answer("an answer to oneself", env(data=1), "foreign_reply", "reply.%OPEN%"),
    answer("a stream's acknowledgement", b'{"stream":"S","seq":1}', SILENCE),
    answer("a stream's refusal", b'{"stream":"S","seq":0,"error":{"err_code":10071}}', SILENCE),
    answer("more than a stream's acknowledgement", b'{"stream":"S","seq":1,"x":1}', "foreign_reply"),
    answer("nobody listens, forged in a header", b"", SILENCE, header=b"NATS/1.0 503\r\n\r\n"),
    answer("nobody listens, with a body", b"1", "foreign_reply", header=b"NATS/1.0 503\r\n\r\n"),
    answer(
        "nobody listens, as a name in a header",
        b"",
        "foreign_reply",
        header=b"NATS/1.0\r\nStatus: 503\r\n\r\n",
    ),
]
HEADERS: Final = [
    Hostile(f"the header {header!r}", "send.{elm}.x", b"1", OK, header=header)
    for header in (
        b"NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Expected-Stream: S\r\n\r\n",
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0 \xff\xff\xff\r\n\r\n",
        b"NATS/1.0 503 \xff\r\n\r\n",
        b"NATS/1.0\r\n\xff\xfe: \xff\r\n\r\n",
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0\r\n" + b"x: y\r\n" * 2_000 + b"\r\n",
        b"NATS/9.9\r\nA: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"\r\n\r\n",
    )
]
REPLIES: Final = [
    Hostile(f"the reply subject {reply[:40]!r}", "send.{elm}.x", b"1", SILENCE, reply=reply)
    for reply in (
        b"{root}.in.{elm}.send.{elm}.forged",
        b"{root}.in.{elm}.bye",
        b"{root}.out.{elm}.0.event.forged",
        b"{root}.notice.agent.over_limit",
        b"{root}.api.stats",
        b"$JS.API.STREAM.CREATE.S",
        b"$KV.leases.x",
        b"$SYS.REQ.SERVER.PING",
        b"$SRV.PING",
        b"_INBOX.*",
        b"_INBOX.raw.>",
        b"_INBOX.raw..x",
        b"_INBOX.raw.x.",
        b"_inbox.raw.x",
        b"_INBOX",
        b"_INBOX.raw." + b"x" * 600,
        b"_INBOX.raw.\xc3\xa9",
        b"_INBOX.raw.\xff",
        b"_INBOX.raw.x\x0b1",
        b"_INBOX.raw.x\x7f",
    )
]

ALL: Final = [*SUBJECTS, *EVENTS, *VERBS, *REQUESTS, *ANSWERS, *HEADERS, *REPLIES]
