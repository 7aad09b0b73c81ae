"""Each limit is reached here, with the answer that docs/operating.md names, or by a law that ELSEWHERE names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.core.stage import Stage
from tests.hostile import limits_table, resource_limits
from tests.hostile.answers import outcome_code, receipt_code
from unknot_gateway.core.effects import Answer, SendOutcome
from unknot_gateway.core.facts import AnyFact, BodySeen, EventSeen, InputRefused
from unknot_gateway.core.limits import Limits
from unknot_gateway.shell import api, checks
from unknot_gateway.shell import limits as shell_limits
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.fairness import Inbox
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.parsing import Incoming
from unknot_gateway.shell.settings import BadSettings, load
from unknot_schemas import Subjects, bodies, limits
from unknot_schemas.ids import AgentId, SessionId

ROOT: Final = Path(__file__).resolve().parents[2]
SUBJECTS: Final = Subjects("default")
Reach = Callable[[], None]

ELSEWHERE: Final = {
    "ended_connections_max": "tests/core/test_disconnects.py",
    "claims_max": "tests/core/test_claims.py",
    "uncorrelated_max": "tests/core/test_uncorrelated.py",
    "asks_again_max": "tests/core/test_bursts.py",
    "parked_bytes_max": "tests/core/test_reconcile.py",
    "pools_max": "tests/core/test_resources.py",
    "holds_max": "tests/core/test_resources.py",
    "verdict_waits": "tests/core/test_verdicts.py",
    "verdict_links": "tests/core/test_verdicts.py",
    "livelock_decisions": "tests/core/test_verdicts.py",
    "livelock_window_s": "tests/core/test_verdicts.py",
    "cycles_max": "tests/core/test_verdicts.py",
    "late_pairs_max": "tests/core/test_uncorrelated.py",
    "check_steps": "tests/core/graph/test_lessons.py",
    "NEVER_BEHIND": "tests/shell/test_fairness.py",
    "SHARE": "tests/shell/test_fairness.py",
    "BACKLOG_MAX": "tests/shell/test_fairness.py",
    "INBOX_MAX": "tests/shell/test_fairness.py",
    "SHED_ANSWERS_MAX": "tests/shell/test_fairness.py",
    "STREET_BUDGET": "tests/shell/test_siege.py",
    "KNOWN_MAX": "tests/shell/test_siege.py",
    "TWINS_MAX": "tests/shell/test_siege.py",
    "TURN_S": "tests/shell/test_loop.py",
    "BATCH_MAX": "tests/shell/test_loop.py",
    "PENDING_MSGS_MAX": "tests/shell/test_bus.py",
    "PENDING_BYTES_MAX": "tests/shell/test_bus.py",
}
"""Reached by a law of its own, which names it."""


def two(**bound: Any) -> Stage:
    """A network with these limits, a script that asks and a worker with one slot."""
    stage = Stage(limits=Limits(**bound))
    stage.birch = stage.hello("birch")  # type: ignore[attr-defined]
    stage.elm = stage.hello("elm", concurrency=1)  # type: ignore[attr-defined]
    return stage


def asked(stage: Stage, count: int, **fields: Any) -> None:
    for number in range(count):
        stage.request("birch", "elm", f"r{number}", session=stage.birch, **fields)  # type: ignore[attr-defined]


def messages_max() -> None:
    stage = two(messages_max=3)
    asked(stage, 4)
    assert outcome_code(stage, "r3") == "over_limit"
    stage.reply("elm", "r0")
    stage.request("birch", "elm", "again", session=stage.birch)  # type: ignore[attr-defined]
    assert "again" not in stage.outcomes()


def held_events_bytes_max() -> None:
    stage = two(held_events_bytes_max=100)
    asked(stage, 3, data="x" * 60)
    assert outcome_code(stage, "r2") == "over_limit"


def open_per_session_max() -> None:
    stage = two(open_per_session_max=2)
    asked(stage, 3)
    assert outcome_code(stage, "r2") == "over_limit"
    token = stage.birch  # type: ignore[attr-defined]
    stage.say("birch", bodies.WaitOpen("w", token, [bodies.WaitCondition("human", "x")]))
    assert receipt_code(stage) == "over_limit"
    stage.request("flint", "elm", "other", reply_to="_INBOX.x")
    assert "other" not in stage.outcomes()


def queue_max() -> None:
    stage = two(queue_max=2)
    asked(stage, 4)
    assert outcome_code(stage, "r3") == "over_limit"


def agents_max() -> None:
    stage = two(agents_max=2)
    stage.hello("flint")
    assert receipt_code(stage) == "over_limit"
    stage.request("birch", "nobody", "r", session=stage.birch)  # type: ignore[attr-defined]
    assert outcome_code(stage, "r") == "over_limit"
    asked(stage, 1)
    assert stage.delivered("elm") == ["r0"]


def sessions_max() -> None:
    stage = Stage(limits=Limits(sessions_max=2))
    for _ in range(3):
        stage.hello("birch")
    assert receipt_code(stage) == "over_limit"


def tokens_max() -> None:
    stage = Stage(limits=Limits(tokens_max=2))
    for number in range(4):
        stage.hello("birch", session=f"token-{number}")
        stage.say("birch", bodies.Bye(f"token-{number}"))
    stage.hello("birch", session="token-3")
    assert receipt_code(stage) == "session_used"
    stage.clear()
    stage.hello("birch", session="token-0")
    assert stage.kernel.tables.sessions.find(AgentId("birch"), "token-0") is not None


def parked_replies_max() -> None:
    stage = Stage(limits=Limits(parked_replies_max=2))
    token = stage.hello("elm", resume=True, open=["x"])
    for number in range(4):
        stage.reply("elm", f"r{number}", session=token)
    assert stage.kernel.counters["replies.parked"] == 4
    assert stage.kernel.counters["replies.parked_lost"] == 2


def remembered_max() -> None:
    stage = two(remembered_max=3)
    for number in range(10):
        stage.request("birch", "elm", f"r{number}", session=stage.birch)  # type: ignore[attr-defined]
        stage.reply("elm", f"r{number}", session=stage.elm)  # type: ignore[attr-defined]
    assert stage.kernel.tables.messages.remembered <= 3


def kept_bytes_max() -> None:
    stage = two(kept_bytes_max=1_000)
    for number in range(3):
        stage.request("birch", "elm", f"r{number}", session=stage.birch)  # type: ignore[attr-defined]
        stage.reply("elm", f"r{number}", "x" * 400, session=stage.elm)  # type: ignore[attr-defined]
    assert stage.kernel.tables.messages.kept_bytes <= 1_000
    stage.clear()
    asked(stage, 1)
    outcome = stage.outcomes()["r0"]
    assert outcome.error is not None
    assert outcome.error.code == "outcome_forgotten"


def void_max() -> None:
    stage = two(void_max=3)
    token = stage.birch  # type: ignore[attr-defined]
    for number in range(10):
        stage.say("birch", bodies.WaitClose(f"w{number}", token))
    session = stage.kernel.tables.sessions.find(AgentId("birch"), token)
    assert session is not None
    assert len(session.void) <= 3


def depth_max() -> None:
    stage = Stage(limits=Limits(depth_max=3))
    tokens = {agent: stage.hello(agent, concurrency=9) for agent in ("birch", "elm")}
    execution = "main"
    for number in range(4):
        asker, target = ("birch", "elm") if number % 2 == 0 else ("elm", "birch")
        stage.request(asker, target, f"r{number}", session=tokens[asker], execution=execution)
        execution = f"r{number}"
    assert outcome_code(stage, "r3") == "depth_limit"


def groups_max() -> None:
    stage = two(groups_max=2)
    for number in range(3):
        group = bodies.Group(f"g{number}", 2, 2)
        stage.request("birch", "elm", f"r{number}", session=stage.birch, group=group)  # type: ignore[attr-defined]
    assert outcome_code(stage, "r2") == "over_limit"


def routes_max() -> None:
    stage = two(routes_max=3)
    for number in range(10):
        stage.request("birch", "elm", f"r{number}", session=stage.birch, type=f"t{number}")  # type: ignore[attr-defined]
    assert len(stage.kernel.tables.sessions.agents[AgentId("elm")].routes) <= 3


def expect_search_max() -> None:
    stage = two(expect_search_max=2)
    asked(stage, 4)
    stage.request("birch", "elm", "deep", session=stage.birch, type="news")  # type: ignore[attr-defined]
    stage.clear()
    wait = bodies.WaitOpen("w", stage.elm, [bodies.WaitCondition("event", "news")])  # type: ignore[attr-defined]
    stage.say("elm", wait)
    assert stage.delivered("elm") == []


def knots(stage: Stage, count: int) -> None:
    for number in range(count):
        one, other = f"a{number}", f"b{number}"
        tokens = {agent: stage.hello(agent) for agent in (one, other)}
        stage.request(one, other, f"x{number}", session=tokens[one])
        stage.request(other, one, f"y{number}", session=tokens[other])


def incidents_max() -> None:
    stage = Stage(limits=Limits(incidents_max=2))
    knots(stage, 4)
    assert len(stage.kernel.detector.incidents) == 2
    while stage.answer_confirms():
        stage.pass_time(1.5)
    assert stage.kernel.counters["outcome.deadlock"] == 8


def decisions_max() -> None:
    stage = Stage(limits=Limits(decisions_max=2))
    knots(stage, 4)
    stage.answer_confirms()
    assert stage.kernel.counters["outcome.deadlock"] == 8
    assert len(stage.kernel.detector.decided) == 2


def chain_max() -> None:
    stage = Stage(limits=Limits(chain_max=2))
    tokens = {f"a{n}": stage.hello(f"a{n}", concurrency=1) for n in range(6)}
    execution = "main"
    for number in range(5):
        asker = f"a{number}"
        stage.request(
            asker, f"a{number + 1}", f"r{number}", session=tokens[asker], execution=execution, timeout_s=5
        )
        execution = f"r{number}"
    stage.pass_time(6)
    error = stage.outcomes()["r0"].error
    assert error is not None
    assert error.detail is not None
    assert len(error.detail["chain"]) <= 3  # type: ignore[arg-type]


def due_max() -> None:
    stage = Stage(limits=Limits(due_max=3, queue_max=100))
    stage.birch, stage.elm = stage.hello("birch", heartbeat_s=60), stage.hello("elm", concurrency=1)  # type: ignore[attr-defined]
    asked(stage, 20, timeout_s=5)
    stage.pass_time(5.5)
    assert set(stage.kinds().values()) == {"expired"}
    assert len(stage.kinds()) == 20


def steps_max() -> None:
    stage = two(steps_max=3, queue_max=100)
    asked(stage, 20)
    stage.clear()
    stage.say("elm", bodies.Bye(stage.elm))  # type: ignore[attr-defined]
    assert len(stage.kinds()) <= 3
    stage.pass_time(0.001)
    assert len(stage.kinds()) == 20
    assert not stage.kernel.backlog


def members_asked_max() -> None:
    stage = two(members_asked_max=2)
    for number in range(3):
        stage.hello(f"m{number}", concurrency=1, channels=["crew"])
    stage.request("birch", "@crew", "r", session=stage.birch)  # type: ignore[attr-defined]
    assert outcome_code(stage, "r") == "too_large"
    assert not any(stage.delivered(f"m{number}") for number in range(3))


def sweep_waits() -> None:
    stage = two(sweep_waits=1, queue_max=100)
    asked(stage, 20)
    stage.pass_time(3)
    stage.reply("elm", "r0", session=stage.elm)  # type: ignore[attr-defined]
    assert stage.kinds() == {"r0": "reply"}


# -- on the wire


def read(verb: str, body: object, *, reader: Ingress | None = None) -> AnyFact:
    """What bytes of agent ``birch`` say."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    subject = f"{SUBJECTS.root}.in.birch.{verb}"
    return (reader or Ingress(SUBJECTS)).fact(subject, "_INBOX.x", payload, None)


def code(verb: str, body: object) -> str:
    """How what is one over the limit is refused; counted."""
    reader = Ingress(SUBJECTS)
    fact = read(verb, body, reader=reader)
    assert isinstance(fact, InputRefused), fact
    assert reader.counters["refused"] == 1
    assert fact.reply_to == "_INBOX.x"
    return fact.error.code


def is_taken(verb: str, body: object) -> bool:
    """Whether what just fits is."""
    return isinstance(read(verb, body), EventSeen | BodySeen)


def at_the_edge(verb: str, make: Callable[[int], object], most: int, said: str) -> None:
    assert is_taken(verb, make(most))
    assert code(verb, make(most + 1)) == said


def hello(**fields: object) -> dict[str, object]:
    return {"session": "s", "protocol": 1, **fields}


def hello_error(**fields: Any) -> str | None:
    stage = Stage()
    stage.hello("birch", **fields)
    return receipt_code(stage)


def welcome(**fields: Any) -> bodies.Welcome:
    stage = Stage()
    stage.hello("birch", **fields)
    (answer,) = [
        e.body for e in stage.effects if isinstance(e, Answer) and isinstance(e.body, bodies.Welcome)
    ]
    return answer


def prefix_chars() -> None:
    load({"prefix": "p" * limits.PREFIX_CHARS_MAX}, {})
    with pytest.raises(BadSettings):
        load({"prefix": "p" * (limits.PREFIX_CHARS_MAX + 1)}, {})


def subject_bytes() -> None:
    reader = Ingress(SUBJECTS)
    fact = reader.fact(f"{SUBJECTS.root}.in.birch.send.elm.{'x.' * 600}y", "_INBOX.x", b"", None)
    assert isinstance(fact, InputRefused)
    assert fact.error.code == "bad_id"
    most = limits.SUBJECT_BYTES_MAX // 2
    for reply, goes in (("_INBOX." + "x" * (most - 7), True), ("_INBOX." + "x" * (most - 6), False)):
        seen = reader.fact(f"{SUBJECTS.root}.in.birch.send.elm.x", reply, b"", None)
        assert isinstance(seen, EventSeen)
        assert (seen.reply_to is not None) is goes
    assert reader.counters["reply_subjects_refused"] == 1


def type_chars() -> None:
    assert is_taken(f"send.elm.{'t' * limits.TYPE_CHARS_MAX}", b"")
    assert code(f"send.elm.{'t' * (limits.TYPE_CHARS_MAX + 1)}", b"") == "bad_id"


def condition_id(size: int) -> object:
    return {"id": "w", "session": "s", "on": [{"kind": "artifact", "id": "x" * size}]}


def nested(depth: int) -> bytes:
    return b'{"unknot":1,"data":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def slots() -> None:
    welcome(concurrency=limits.SLOTS_MAX)
    assert hello_error(concurrency=limits.SLOTS_MAX + 1) == "bad_request"
    assert hello_error(pools=[bodies.Pool(limits.SLOTS_MAX + 1)]) == "bad_request"


def group_members() -> None:
    stage = two()
    group = bodies.Group("g", limits.GROUP_MEMBERS_MAX + 1, 1)
    stage.request("birch", "elm", "r", session=stage.birch, group=group)  # type: ignore[attr-defined]
    assert outcome_code(stage, "r") == "group_conflict"


def timeout_max() -> None:
    stage = two()
    stage.request("birch", "elm", "r", session=stage.birch, verb="ask", timeout_s=1e9, reply_to="_INBOX.x")  # type: ignore[attr-defined]
    assert stage.last_receipt().timeout_s == limits.TIMEOUT_MAX_S


def heartbeat_min() -> None:
    assert welcome(heartbeat_s=0.0).heartbeat_s == limits.HEARTBEAT_MIN_S


def heartbeat_max() -> None:
    assert welcome(heartbeat_s=1e9).heartbeat_s == limits.HEARTBEAT_MAX_S


def reported_entries() -> None:
    stage = Stage()
    count = limits.REPORTED_ENTRIES_MAX + 10
    tokens = {f"a{n:03}": stage.hello(f"a{n:03}") for n in range(count)}
    for number, (agent, token) in enumerate(tokens.items()):
        stage.request(agent, f"a{(number + 1) % count:03}", f"r{number}", session=token)
    stage.pass_time(0.1)  # so large a ring is found between messages
    stage.answer_confirms()
    (told,) = stage.deadlocks()
    assert len(told.waits) == len(told.request_ids) == limits.REPORTED_ENTRIES_MAX
    assert len(stage.outcomes()) == count


def subject_cache() -> None:
    reader = Ingress(SUBJECTS)
    for number in range(shell_limits.SUBJECT_CACHE_MAX + 10):
        read(f"send.elm.t{number}", b"", reader=reader)
    assert len(reader._parsed) <= shell_limits.SUBJECT_CACHE_MAX


def ids_known() -> None:
    for number in range(shell_limits.IDS_KNOWN_MAX + 10):
        assert isinstance(read("send.elm.x", b'{"unknot":1,"session":"s%d"}' % number), EventSeen)
    assert checks.known_ids() == shell_limits.IDS_KNOWN_MAX


# -- in front of the core


def sent(agent: str, size: int = 0) -> Incoming:
    return Incoming(
        f"{SUBJECTS.root}.in.{agent}.send.elm.x", "_INBOX.x", b'{"unknot":1,"id":"i"}' + b" " * size
    )


def requests_per_s() -> None:
    inbox = Inbox(SUBJECTS.root, rate=2.0)
    for _ in range(5):
        inbox.put(sent("birch"))
    inbox.put(sent("elm"))
    assert inbox.shed == 3
    fact = Ingress(SUBJECTS).shed(inbox.refused.popleft())
    assert isinstance(fact, InputRefused)
    assert fact.error.code == "over_limit"
    assert (fact.event_id, fact.reply_to) == ("i", "_INBOX.x")
    assert fact.error.detail == {"retry_after_s": 1.0}


def senders() -> None:
    inbox = Inbox(SUBJECTS.root, rate=0.001)
    for number in range(shell_limits.SENDERS_MAX + 10):
        for _ in range(2):
            inbox.put(sent(f"a{number}"))
    assert inbox.shed == shell_limits.SENDERS_MAX + 10
    assert len(inbox.excess) == len(inbox._rates) + shell_limits.SENDERS_MAX - 10 == shell_limits.SENDERS_MAX


def shed_answers_per_s() -> None:
    inbox = Inbox(SUBJECTS.root, rate=1.0, clock=lambda: 100.0)
    answered = 0
    for _ in range(3 * shell_limits.SHED_ANSWERS_PER_S):
        inbox.put(sent("birch"))
        answered += len(inbox.refused)
        inbox.refused.clear()
    assert answered == shell_limits.SHED_ANSWERS_PER_S


def shed_named() -> None:
    inbox = Inbox(SUBJECTS.root, rate=1.0, clock=lambda: 100.0)
    for number in range(2 * shell_limits.SHED_NAMED_MAX):
        for _ in range(2 + (number == 150)):
            inbox.put(sent(f"a{number}"))
    counted = inbox.counted()
    assert len(counted) == 1 + shell_limits.SHED_NAMED_MAX
    assert counted["shed"] == 2 * shell_limits.SHED_NAMED_MAX + 1
    assert counted["shed.a150"] == 2


def shed_body() -> None:
    fact = Ingress(SUBJECTS).shed(sent("birch", shell_limits.SHED_BODY_MAX))
    assert isinstance(fact, InputRefused)
    assert fact.event_id is None


def addresses() -> None:
    egress = Egress(SUBJECTS, 1_000_000)
    for number in range(shell_limits.ADDRESSES_MAX + 10):
        outcome = bodies.Outcome("r", "expired", "no", 1)
        assert egress.message(SendOutcome(AgentId(f"a{number}"), SessionId("s"), outcome)) is not None
    assert len(egress._addresses) <= shell_limits.ADDRESSES_MAX


def rows() -> None:
    assert api.most_rows(10**9) == shell_limits.ROWS_MAX
    assert api.most_rows(-1) == 0


def drain_steps() -> None:
    stage = Stage(limits=Limits(check_steps=1, drain_steps=1))
    knots(stage, 3)
    for _ in range(50):
        stage.pass_time(0.1)
        stage.answer_confirms()
    assert stage.kernel.counters["outcome.deadlock"] == 6


REACHES: Final[dict[str, Reach]] = {
    "messages_max": messages_max,
    "steps_max": steps_max,
    "members_asked_max": members_asked_max,
    "open_per_session_max": open_per_session_max,
    "queue_max": queue_max,
    "agents_max": agents_max,
    "sessions_max": sessions_max,
    "tokens_max": tokens_max,
    "parked_replies_max": parked_replies_max,
    "remembered_max": remembered_max,
    "kept_bytes_max": kept_bytes_max,
    "void_max": void_max,
    "depth_max": depth_max,
    "groups_max": groups_max,
    "held_events_bytes_max": held_events_bytes_max,
    "routes_max": routes_max,
    "expect_search_max": expect_search_max,
    "incidents_max": incidents_max,
    "decisions_max": decisions_max,
    "chain_max": chain_max,
    "due_max": due_max,
    "sweep_waits": sweep_waits,
    "ID_CHARS_MAX": lambda: at_the_edge("send.elm.x", lambda n: {"unknot": 1, "id": "i" * n}, 64, "bad_id"),
    "TYPE_CHARS_MAX": type_chars,
    "PREFIX_CHARS_MAX": prefix_chars,
    "CONDITION_ID_CHARS_MAX": lambda: at_the_edge("wait.open", condition_id, 256, "bad_id"),
    "DATA_BYTES_MAX": lambda: at_the_edge(
        "send.elm.x", lambda n: b'"%b"' % (b"x" * (n - 2)), 524_288, "too_large"
    ),
    "SUBJECT_BYTES_MAX": subject_bytes,
    "METADATA_BYTES_MAX": lambda: at_the_edge(
        "send.elm.x", lambda n: {"unknot": 1, "metadata": "m" * (n - 2)}, 16_384, "too_large"
    ),
    "NESTING_MAX": lambda: at_the_edge("send.elm.x", nested, 500, "bad_request"),
    "CHANNELS_MAX": lambda: at_the_edge("hello", lambda n: hello(channels=["c"] * n), 64, "too_large"),
    "POOLS_MAX": lambda: at_the_edge("hello", lambda n: hello(pools=[{"slots": 1}] * n), 64, "too_large"),
    "POOL_TYPES_MAX": lambda: at_the_edge(
        "hello", lambda n: hello(pools=[{"slots": 1, "types": ["a"] * n}]), 256, "too_large"
    ),
    "SLOTS_MAX": slots,
    "NAMED_IDS_MAX": lambda: at_the_edge(
        "heartbeat", lambda n: {"session": "s", "open": ["i"] * n}, 3_072, "too_large"
    ),
    "GROUP_MEMBERS_MAX": group_members,
    "CONDITIONS_MAX": lambda: at_the_edge(
        "wait.open",
        lambda n: {"id": "w", "session": "s", "on": [{"kind": "human", "id": "x"}] * n},
        1_024,
        "too_large",
    ),
    "TIMEOUT_MAX_S": timeout_max,
    "HEARTBEAT_MIN_S": heartbeat_min,
    "HEARTBEAT_MAX_S": heartbeat_max,
    "REPORTED_ENTRIES_MAX": reported_entries,
    "SUBJECT_CACHE_MAX": subject_cache,
    "requests_per_s": requests_per_s,
    "SENDERS_MAX": senders,
    "SHED_ANSWERS_PER_S": shed_answers_per_s,
    "SHED_BODY_MAX": shed_body,
    "SHED_NAMED_MAX": shed_named,
    "IDS_KNOWN_MAX": ids_known,
    "ADDRESSES_MAX": addresses,
    "drain_steps": drain_steps,
    "ROWS_MAX": rows,
    **resource_limits.REACHES,
}


@pytest.mark.parametrize("name", REACHES)
def test_a_limit_that_is_reached_has_its_answer_and_is_counted(name: str) -> None:
    REACHES[name]()


@pytest.mark.parametrize(("name", "where"), ELSEWHERE.items())
def test_a_limit_reached_elsewhere_is_named_there(name: str, where: str) -> None:
    assert name in (ROOT / where).read_text()


def test_every_bound_of_the_gateway_is_in_the_table() -> None:
    missing = set(limits_table.values()) - set(limits_table.REACHED) - limits_table.PACES
    assert missing == set(), "tests/hostile/limits_table.py says what happens when a limit is reached"


def test_the_page_has_the_table_as_it_is() -> None:
    assert limits_table.on_the_page() == limits_table.table(), (
        "python -m tests.hostile.limits_table writes it"
    )


def test_every_bound_is_reached_by_a_law() -> None:
    missing = set(limits_table.REACHED) & set(limits_table.values()) - set(REACHES) - set(ELSEWHERE)
    assert missing == set(), "a new bound needs a law that reaches it"
