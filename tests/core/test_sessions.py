"""Several sessions of one agent: who gets the next event, who replaces whom, and what they serve."""

from typing import Any

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.effects import Deliver, SendNotice
from unknot_schemas import bodies, errors
from unknot_schemas.limits import SESSION_LOSS_S


def taken(stage: Stage) -> list[tuple[str, str]]:
    """Session and id of each delivery, in order."""
    return [(e.session, e.event.id) for e in stage.effects if isinstance(e, Deliver)]


def ask(stage: Stage, caller: str, *ids: str, **fields: Any) -> None:
    """caller asks elm."""
    for event_id in ids:
        stage.request("caller", "elm", event_id, verb="ask", session=caller, **fields)


def test_of_several_sessions_the_least_loaded_gets_the_next_event() -> None:
    stage = Stage()
    first, second, third = (stage.hello("elm", concurrency=n) for n in (1, 2, 4))
    caller = stage.hello("caller")
    ask(stage, caller, *(f"r{n}" for n in range(8)))
    assert [token for token, _ in taken(stage)] == [first, second, third, third, second, third, third]
    stage.reply("elm", "r4", session=second)
    assert taken(stage)[-1] == (second, "r7")


@pytest.mark.parametrize("sessions", [1, 2, 5])
def test_all_sessions_drain_one_queue_in_order(sessions: int) -> None:
    stage = Stage()
    for _ in range(sessions):
        stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    ids = [f"r{n}" for n in range(20)]
    ask(stage, caller, *ids)
    done = 0
    while done < len(taken(stage)):
        token, event_id = taken(stage)[done]
        stage.reply("elm", event_id, session=token)
        done += 1
    assert [event_id for _, event_id in taken(stage)] == ids


def test_a_rolling_restart_of_three_instances_loses_nothing() -> None:
    stage = Stage()
    old = {f"i{n}": stage.hello("elm", concurrency=1, instance=f"i{n}") for n in range(3)}
    caller = stage.hello("caller")
    ask(stage, caller, *(f"r{n}" for n in range(9)))
    answered = 0
    for instance, token in old.items():
        stage.say("elm", bodies.Bye(token, 60.0))
        stage.hello("elm", concurrency=1, instance=f"{instance}-new")
        for session, event_id in taken(stage)[answered:]:
            stage.reply("elm", event_id, session=session)
            answered += 1
    for session, event_id in taken(stage)[answered:]:
        stage.reply("elm", event_id, session=session)
    while answered < len(taken(stage)):
        session, event_id = taken(stage)[answered]
        stage.reply("elm", event_id, session=session)
        answered += 1
    assert stage.kinds() == {f"r{n}": "reply" for n in range(9)}
    assert len(taken(stage)) == 9, "nothing was delivered twice"


def test_exclusive_replaces_every_other_session_at_once() -> None:
    stage = Stage()
    old = [stage.hello("elm", concurrency=1) for _ in range(3)]
    caller = stage.hello("caller")
    ask(stage, caller, "r0", "r1", "r2", "r3")
    new = stage.hello("elm", concurrency=1, exclusive=True)
    assert stage.kinds() == dict.fromkeys(("r0", "r1", "r2"), "responder_lost")
    assert taken(stage)[-1] == (new, "r3")
    assert len([c for c in stage.controls("elm") if isinstance(c, bodies.Replaced)]) == len(old)


@pytest.mark.parametrize(
    "body",
    [
        bodies.Done("old", ["r"]),
        bodies.Defer("old", ["r"]),
        bodies.Bye("old"),
        bodies.Facts("old", "incident"),
        bodies.Heartbeat("old"),
        bodies.WaitOpen("w", "old", [bodies.WaitCondition("tool", "t")]),
        bodies.WaitClose("w", "old"),
        bodies.Hello("old", concurrency=9),
        bodies.Hello("old", concurrency=9, resume=True, held=[bodies.Held("r")]),
    ],
    ids=lambda body: (
        f"{type(body).__name__} resume" if getattr(body, "resume", False) else type(body).__name__
    ),
)
def test_whatever_a_session_that_is_over_says_changes_nothing(body: Any) -> None:
    stage = Stage()
    stage.hello("elm", session="old", concurrency=1)
    stage.say("elm", bodies.Bye("old"))
    new = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    ask(stage, caller, "r")
    stage.say("elm", bodies.Heartbeat(new, seen=1))
    before = (taken(stage), stage.outcomes())
    stage.say("elm", body)
    assert not stage.last_receipt().ok
    assert (taken(stage), stage.outcomes()) == before
    stage.reply("elm", "r", session=new)
    assert stage.kinds() == {"r": "reply"}


def test_a_request_or_an_answer_under_a_session_that_is_over_changes_nothing() -> None:
    stage = Stage()
    stage.hello("elm", session="old", concurrency=1)
    stage.say("elm", bodies.Bye("old"))
    new = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    ask(stage, caller, "r")
    stage.reply("elm", "r", session="old")
    assert stage.last_receipt().error == bodies.Error(
        errors.STALE_REPLY,
        stage.last_receipt().error.message,  # type: ignore[union-attr]
    )
    stage.request("elm", "caller", "r2", session="old", reply_to="_INBOX.r2")
    assert not stage.last_receipt().ok
    assert stage.outcomes() == {}
    stage.reply("elm", "r", session=new)
    assert stage.kinds() == {"r": "reply"}


def test_an_answer_of_another_session_than_the_one_that_holds_the_request_frees_nobody_s_slot() -> None:
    stage = Stage()
    first, second = stage.hello("elm", concurrency=1), stage.hello("elm", concurrency=1)
    caller = stage.hello("caller")
    ask(stage, caller, "r1", "r2", "r3")
    assert taken(stage) == [(first, "r1"), (second, "r2")]
    stage.say("caller", bodies.RequestCancel("r1", caller))
    stage.reply("elm", "r1", session=second)
    assert len(taken(stage)) == 2
    stage.reply("elm", "r1", session=first)
    assert taken(stage)[2:] == [(first, "r3")]


def test_a_session_is_lost_after_its_silence_and_not_before() -> None:
    stage = Stage()
    stage.hello("elm", concurrency=1)
    caller = stage.hello("caller", heartbeat_s=60.0)
    ask(stage, caller, "r", timeout_s=300.0)
    stage.pass_time(SESSION_LOSS_S - 0.1)
    assert stage.kinds() == {}
    stage.pass_time(0.2)
    assert stage.kinds() == {"r": "responder_lost"}


def test_who_beats_seldom_is_lost_after_two_missed_beats_at_the_earliest() -> None:
    stage = Stage()
    stage.hello("elm", concurrency=1, heartbeat_s=60.0)
    stage.pass_time(119.0)
    assert len(stage.kernel.tables.sessions.all()) == 1
    stage.pass_time(2.0)
    assert stage.kernel.tables.sessions.all() == []


# ---- what they serve


def notices(stage: Stage) -> list[bodies.PoolsDiffer]:
    """Warnings of sessions that serve different types."""
    bodies_ = [e.body for e in stage.effects if isinstance(e, SendNotice)]
    return [body for body in bodies_ if isinstance(body, bodies.PoolsDiffer)]


def test_a_second_session_that_serves_other_types_is_warned_of() -> None:
    stage = Stage()
    first = stage.hello("elm", pools=[bodies.Pool(1, ["review", "write"])])
    second = stage.hello("elm", pools=[bodies.Pool(1, ["review"]), bodies.Pool(1, ["read"])])
    [told] = notices(stage)
    assert (told.agent, told.session, told.other) == ("elm", second, first)
    assert (told.more, told.less) == (["read"], ["write"])
    assert stage.kernel.counters["sessions.pools_differ"] == 1


def test_sessions_that_serve_the_same_in_other_pools_are_not_warned_of() -> None:
    stage = Stage()
    stage.hello("elm", pools=[bodies.Pool(1, ["a", "b"])])
    stage.hello("elm", pools=[bodies.Pool(3, ["b"]), bodies.Pool(1, ["a"])])
    stage.hello("oak", concurrency=1)
    stage.hello("oak")
    assert notices(stage) == []


def test_the_successor_of_a_session_that_leaves_or_is_replaced_is_not_compared_with_it() -> None:
    stage = Stage()
    first = stage.hello("elm", pools=[bodies.Pool(1, ["a"])], instance="one")
    caller = stage.hello("caller")
    ask(stage, caller, "r", type="a")
    stage.hello("elm", pools=[bodies.Pool(1, ["b"])], instance="one")
    stage.hello("oak", pools=[bodies.Pool(1, ["a"])])
    stage.say("oak", bodies.Bye(stage.hello("oak", session="oak-2", pools=[bodies.Pool(1, ["a"])]), 9.0))
    assert notices(stage) == []
    assert first


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("reviw", ["review"]),
        ("reivew", ["review"]),
        ("reviews", ["review"]),
        ("text.review", ["review"]),
        ("review.text", ["review"]),
        ("thread.x", None),
        ("something.else", None),
        ("x", None),
    ],
)
def test_who_asks_for_a_type_that_nobody_serves_is_told_the_near_ones(
    asked: str, near: list[str] | None
) -> None:
    stage = Stage()
    stage.hello("elm", pools=[bodies.Pool(1, ["review", "write.letter"]), bodies.Pool(1, ["tidy.up.*"])])
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller, type=asked)
    error = stage.outcomes()["r"].error
    assert error is not None
    assert (error.code, error.detail) == (errors.NOT_SUBSCRIBED, {"near": near} if near else None)
    assert (
        "did you mean 'review'?" if near else "it serves review, tidy.up.*, write.letter"
    ) in error.message


def test_an_agent_that_serves_nothing_is_told_to_register_a_handler() -> None:
    stage = Stage()
    stage.hello("elm", pools=[])
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    error = stage.outcomes()["r"].error
    assert error is not None
    assert error.message.endswith("register a handler")
