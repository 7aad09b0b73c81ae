"""Answers that name no request: taken where exactly one request can be meant, never guessed."""

from typing import Any

import pytest
from msgspec import Raw

from tests.core.stage import Stage
from unknot_gateway.core.effects import Answer, Deliver, SendOutcome
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies


def outcomes(stage: Stage) -> dict[str, bodies.Outcome]:
    return {e.outcome.request_id: e.outcome for e in stage.effects if isinstance(e, SendOutcome)}


def delivered(stage: Stage) -> list[str]:
    return [e.event.id for e in stage.effects if isinstance(e, Deliver)]


def asking(**hello: Any) -> tuple[Stage, str, str]:
    """birch, a script that reads events, has asked elm (two slots) for r1 and accepts work.reply; tokens of both."""
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", **{"concurrency": 2, **hello})
    ask(stage, birch, "r1")
    return stage, birch, elm


def ask(stage: Stage, session: str, request_id: str, target: str = "elm", **fields: Any) -> None:
    fields = {"accept_uncorrelated": "work.reply", "timeout_s": 30.0, **fields}
    stage.request("birch", target, request_id, session=session, **fields)


def say(stage: Stage, session: str | None, event_id: str, agent: str = "elm", **fields: Any) -> None:
    """*agent* sends birch a one-way event."""
    fields = {"type": "work.reply", "data": {"by": event_id}, **fields}
    stage.request(agent, "birch", event_id, verb="send", session=session, reply_to="_INBOX.sent", **fields)


def test_an_event_of_the_accepted_type_is_the_answer() -> None:
    stage, _, elm = asking()
    stage.clear()
    say(stage, elm, "e1")
    outcome = outcomes(stage)["r1"]
    assert (outcome.outcome, outcome.handled) == ("reply", "yes")
    assert outcome.event is not None
    event = outcome.event
    assert (event.id, event.type, event.source, event.response_to) == ("e1", "work.reply", "elm", "r1")
    assert bytes(event.data) == b'{"by":"e1"}'
    assert "e1" not in delivered(stage), "an answer is no event beside"
    receipts = [e.body for e in stage.effects if isinstance(e, Answer) and e.reply_to == "_INBOX.sent"]
    assert [isinstance(r, bodies.Receipt) and r.ok for r in receipts] == [True]
    assert not stage.kernel.tables.uncorrelated.has_any


def test_an_error_on_such_an_event_is_the_outcome_failed() -> None:
    stage, _, elm = asking()
    say(stage, elm, "e1", error=bodies.Error("handler_failed", "no ink"))
    outcome = outcomes(stage)["r1"]
    assert outcome.outcome == "failed"
    assert outcome.error is not None
    assert outcome.error.message == "no ink"


def test_the_second_event_is_an_event_like_any_other() -> None:
    stage, _, elm = asking()
    say(stage, elm, "e1")
    stage.clear()
    say(stage, elm, "e2")
    assert delivered(stage) == ["e2"]
    assert not outcomes(stage)


@pytest.mark.parametrize("fields", [{"type": "work"}, {"type": "work.reply.more"}, {"type": "other.reply"}])
def test_an_event_of_another_type_is_no_answer(fields: dict[str, Any]) -> None:
    stage, _, elm = asking()
    stage.clear()
    say(stage, elm, "e1", **fields)
    assert delivered(stage) == ["e1"]
    assert not outcomes(stage)


def test_a_pattern_says_which_types_answer() -> None:
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=1)
    ask(stage, birch, "r1", accept_uncorrelated="done.>")
    say(stage, elm, "e1", type="done.at.last")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_without_the_word_no_event_is_an_answer() -> None:
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=1)
    ask(stage, birch, "r1", accept_uncorrelated=None)
    say(stage, elm, "e1")
    assert not outcomes(stage)


def test_an_event_of_somebody_else_is_no_answer() -> None:
    stage, _, _ = asking()
    oak = stage.hello("oak", concurrency=1)
    say(stage, oak, "e1", "oak")
    assert not outcomes(stage)


def test_a_question_in_the_other_direction_is_no_answer() -> None:
    for verb in ("ask", "request"):
        stage, _, elm = asking()
        stage.request("elm", "birch", "back", verb=verb, session=elm, type="work.reply", timeout_s=30.0)
        assert "r1" not in outcomes(stage)


def test_a_mark_makes_the_event_a_question_and_so_no_answer() -> None:
    stage, _, elm = asking()
    say(stage, elm, "e1", metadata=Raw(b'{"blocking_wait": "true"}'))
    assert "r1" not in outcomes(stage)


def test_two_that_could_be_meant_are_never_guessed() -> None:
    stage, birch, elm = asking()
    ask(stage, birch, "r2")
    stage.clear()
    say(stage, elm, "e1")
    assert not outcomes(stage)
    assert delivered(stage) == ["e1"], "it goes its ordinary way"
    assert stage.kernel.counters["uncorrelated.ambiguous"] == 1
    stage.reply("elm", "r1", session=elm, done=True)
    stage.clear()
    say(stage, elm, "e2")
    assert list(outcomes(stage)) == ["r2"], "with one left it is clear again"


def test_two_sessions_of_the_asking_agent_are_never_told_apart_by_guessing() -> None:
    stage, _, elm = asking()
    ask(stage, stage.hello("birch"), "r2")
    stage.clear()
    say(stage, elm, "e1")
    assert not outcomes(stage)


def test_what_its_agent_was_never_given_it_cannot_answer() -> None:
    """elm has one slot: r2 waits in the queue, so the event can only answer r1."""
    stage, birch, elm = asking(concurrency=1)
    ask(stage, birch, "r2")
    say(stage, elm, "e1")
    assert list(outcomes(stage)) == ["r1"]


def test_an_event_of_a_session_that_does_not_hold_the_request_is_no_answer() -> None:
    stage, _, _ = asking()
    other = stage.hello("elm", concurrency=1)
    stage.clear()
    say(stage, other, "e1")
    assert not outcomes(stage)


def test_an_agent_without_hello_answers_so() -> None:
    stage = Stage()
    birch = stage.hello("birch")
    ask(stage, birch, "r1", "raw")
    say(stage, None, "e1", "raw")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_a_script_that_reads_nothing_gets_its_answer() -> None:
    stage = Stage()
    birch, elm = stage.hello("birch", pools=[]), stage.hello("elm", concurrency=1)
    ask(stage, birch, "r1")
    say(stage, elm, "e1")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_a_member_of_a_channel_answers_so() -> None:
    stage = Stage()
    birch = stage.hello("birch")
    elm, oak = (stage.hello(name, concurrency=1, channels=["team"]) for name in ("elm", "oak"))
    ask(stage, birch, "r1", "@team")
    say(stage, oak, "e1", "oak")
    say(stage, elm, "e2")
    event = outcomes(stage)["r1"].event
    assert event is not None
    assert event.source == "oak"
    assert "e2" in delivered(stage)


def test_the_handler_that_said_so_holds_its_slot_until_it_returns() -> None:
    stage, birch, elm = asking(concurrency=1)
    ask(stage, birch, "r2")
    say(stage, elm, "e1")
    assert "r2" not in delivered(stage)
    stage.say("elm", bodies.Done(elm, ["r1"]))
    assert "r2" in delivered(stage)


def test_a_handler_that_returns_without_an_answer_may_send_it_later() -> None:
    """Its slot is free, nobody inside is waited for, and heartbeats that omit the request change nothing."""
    stage, birch, elm = asking(concurrency=1)
    ask(stage, birch, "r2", accept_uncorrelated=None)
    stage.say("elm", bodies.Done(elm, ["r1"]))
    assert "r2" in delivered(stage)
    stage.clear()
    for _ in range(5):
        stage.pass_time(5)
        stage.say("elm", bodies.Heartbeat(elm, held=[bodies.Held("r2")], seen=2))
        stage.say("birch", bodies.Heartbeat(birch, open=["r1", "r2"]))
    assert "r1" not in outcomes(stage)
    assert "r1" not in delivered(stage)
    say(stage, elm, "e1")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_without_the_word_a_handler_that_returns_without_an_answer_has_failed() -> None:
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=1)
    ask(stage, birch, "r1", accept_uncorrelated=None)
    stage.say("elm", bodies.Done(elm, ["r1"]))
    assert outcomes(stage)["r1"].outcome == "failed"


def test_an_event_after_the_end_is_an_event_like_any_other() -> None:
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=2)
    ask(stage, birch, "r1", timeout_s=5.0)
    stage.pass_time(6)
    assert outcomes(stage)["r1"].outcome == "expired"
    stage.clear()
    say(stage, elm, "e1")
    assert delivered(stage) == ["e1"]


def after_one_that_expired() -> tuple[Stage, str, str]:
    """r0 has expired in elm's hands, which has a free slot; tokens."""
    stage = Stage()
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=4)
    ask(stage, birch, "r0", timeout_s=5.0)
    stage.pass_time(6)
    for agent, token in (("birch", birch), ("elm", elm)):
        stage.say(agent, bodies.Heartbeat(token, seen=9))
    stage.clear()
    return stage, birch, elm


def test_the_late_answer_to_the_last_request_is_not_taken_for_the_next_one() -> None:
    stage, birch, elm = after_one_that_expired()
    ask(stage, birch, "r1")
    say(stage, elm, "e1")
    assert not outcomes(stage), "it may be the answer to r0"
    assert delivered(stage)[-1] == "e1"
    assert stage.kernel.counters["uncorrelated.ambiguous"] == 1
    stage.reply("elm", "r1", session=elm)
    assert outcomes(stage)["r1"].outcome == "reply", "an answer that names it is taken as ever"


def test_when_the_late_answer_has_come_the_next_request_is_alone() -> None:
    stage, birch, elm = after_one_that_expired()
    say(stage, elm, "e0")
    assert stage.kernel.counters["uncorrelated.late"] == 1
    ask(stage, birch, "r1")
    say(stage, elm, "e1")
    event = outcomes(stage)["r1"].event
    assert event is not None
    assert event.id == "e1"


def test_a_late_answer_is_awaited_only_for_so_long() -> None:
    stage, birch, elm = after_one_that_expired()
    for _ in range(3):
        stage.pass_time(10)
        for agent, token in (("birch", birch), ("elm", elm)):
            stage.say(agent, bodies.Heartbeat(token, seen=9))
    assert not stage.kernel.tables.uncorrelated.has_any
    ask(stage, birch, "r1")
    say(stage, elm, "e1")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_a_new_session_of_who_asked_does_not_get_the_late_answer_to_the_old_one() -> None:
    stage, birch, elm = asking(concurrency=4)
    stage.say("birch", bodies.Bye(birch))
    ask(stage, stage.hello("birch"), "r2")
    stage.clear()
    say(stage, elm, "e1")
    assert not outcomes(stage)


def test_the_second_member_of_a_channel_does_not_answer_the_next_request() -> None:
    stage = Stage()
    birch = stage.hello("birch")
    elm, oak = (stage.hello(name, concurrency=4, channels=["team"]) for name in ("elm", "oak"))
    ask(stage, birch, "r1", "@team")
    say(stage, elm, "e1")
    ask(stage, birch, "r2", "@team")
    stage.clear()
    say(stage, oak, "late", "oak")
    assert not outcomes(stage)
    say(stage, elm, "e2")
    event = outcomes(stage)["r2"].event
    assert event is not None
    assert event.id == "e2", "elm has answered what it had: its next event is clear"


def test_what_was_never_delivered_leaves_no_late_answer_behind() -> None:
    stage, birch, elm = asking(concurrency=1)
    ask(stage, birch, "r2", timeout_s=1.0)
    stage.pass_time(2)
    say(stage, elm, "e1")
    assert outcomes(stage)["r1"].outcome == "reply"


def test_more_pairs_than_are_remembered_are_refused() -> None:
    stage = Stage(limits=Limits(late_pairs_max=2))
    birch = stage.hello("birch")
    for name in ("elm", "oak", "ash"):
        stage.hello(name, concurrency=1)
        ask(stage, birch, f"r-{name}", name, timeout_s=1.0)
        stage.pass_time(2)
    assert {i: o.outcome for i, o in outcomes(stage).items()} == {
        "r-elm": "expired",
        "r-oak": "expired",
        "r-ash": "over_limit",
    }


def test_more_patterns_than_are_remembered_become_one_for_all_types() -> None:
    stage = Stage(limits=Limits(uncorrelated_max=2))
    birch, elm = stage.hello("birch"), stage.hello("elm", concurrency=9)
    for n in range(4):
        ask(stage, birch, f"r{n}", accept_uncorrelated=f"work.{n}", timeout_s=1.0)
        stage.pass_time(1.1)
    ask(stage, birch, "last", accept_uncorrelated="work.last")
    say(stage, elm, "e1", type="work.last")
    assert "last" not in outcomes(stage)


def test_a_later_answer_that_names_the_request_is_a_second_one() -> None:
    stage, _, elm = asking()
    say(stage, elm, "e1")
    stage.clear()
    stage.reply("elm", "r1", session=elm)
    refused = [e.body for e in stage.effects if isinstance(e, Answer) and isinstance(e.body, bodies.Receipt)]
    assert [r.error.code for r in refused if r.error is not None] == ["duplicate_reply"]
    assert not outcomes(stage)


def test_the_same_event_again_is_the_same_event() -> None:
    stage, birch, elm = asking()
    say(stage, elm, "e1")
    ask(stage, birch, "r2")
    stage.clear()
    say(stage, elm, "e1")
    assert not outcomes(stage), "it has answered r1, and answers nothing else"


def test_a_member_of_a_group_is_answered_so() -> None:
    stage = Stage()
    birch, elm, oak = (
        stage.hello("birch"),
        stage.hello("elm", concurrency=1),
        stage.hello("oak", concurrency=1),
    )
    for request_id, target in (("r1", "elm"), ("r2", "oak")):
        ask(stage, birch, request_id, target, group=bodies.Group("g", 2, 1))
    say(stage, oak, "e1", "oak")
    found = outcomes(stage)
    assert (found["r2"].outcome, found["r1"].outcome) == ("reply", "cancelled")
    del elm


def test_too_many_such_requests_of_one_agent_are_refused() -> None:
    stage = Stage(limits=Limits(uncorrelated_max=3))
    birch = stage.hello("birch")
    stage.hello("elm", concurrency=10)
    for n in range(4):
        ask(stage, birch, f"r{n}")
    assert {i: o.outcome for i, o in outcomes(stage).items()} == {"r3": "over_limit"}


def test_two_that_wait_so_for_each_other_are_a_deadlock() -> None:
    """That an event may answer is no way out: who would send it stands still."""
    stage = Stage()
    tokens = {name: stage.hello(name) for name in ("birch", "elm")}
    fields: dict[str, Any] = {"accept_uncorrelated": "work.reply", "timeout_s": 30.0}
    stage.request("birch", "elm", "r1", session=tokens["birch"], **fields)
    stage.request("elm", "birch", "r2", session=tokens["elm"], **fields)
    stage.answer_confirms()
    assert {outcome.outcome for outcome in outcomes(stage).values()} == {"deadlock"}


def test_after_a_restart_an_event_waits_until_the_request_is_known_again() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, resume=True, held=[bodies.Held("r1")], seen=1)
    say(stage, elm, "e1")
    birch = stage.hello("birch", resume=True, open=["r1"])
    ask(stage, birch, "r1")
    for agent, token in (("elm", elm), ("birch", birch)):
        beat = bodies.Heartbeat(token, open=["r1"] if agent == "birch" else [], seen=1)
        stage.say(agent, beat)
    event = outcomes(stage)["r1"].event
    assert event is not None
    assert event.id == "e1"
