"""After an epoch change: one right outcome, nothing run twice, whoever lies, comes late, or never speaks again."""

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.facts import NobodyListened
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId
from unknot_schemas.limits import SESSION_LOSS_S


def back(stage: Stage, agent: str, *held: str, heard: bool = True, **fields: object) -> str:
    """*agent* comes back with what it holds; *heard*: its first heartbeat has come, too."""
    fields = {"concurrency": 1, **fields}
    token = stage.hello(agent, resume=True, held=[bodies.Held(event_id) for event_id in held], **fields)
    if heard:
        beat(stage, agent, token, *held)
    return token


def beat(stage: Stage, agent: str, token: str, *held: str, **fields: object) -> None:
    """A heartbeat."""
    named = [bodies.Held(event_id) for event_id in held]
    stage.say(agent, bodies.Heartbeat(token, held=named, **fields))  # type: ignore[arg-type]


def asks_again(stage: Stage, *ids: str, target: str = "elm") -> str:
    """caller comes back and sends its requests again."""
    caller = stage.hello("caller", resume=True, open=list(ids), heartbeat_s=60.0)
    for event_id in ids:
        stage.request("caller", target, event_id, session=caller, timeout_s=300.0)
    beat(stage, "caller", caller)
    return caller


# ---- who holds it


@pytest.mark.parametrize("dies", [False, True])
def test_of_two_sessions_that_name_the_same_request_one_has_it_and_it_ends_once(dies: bool) -> None:
    stage = Stage()
    first, second = back(stage, "elm", "r"), back(stage, "elm", "r")
    asks_again(stage, "r")
    stage.reply("elm", "r", "of the other", session=second)
    receipt = stage.last_receipt()
    assert receipt.error is not None
    assert receipt.error.code == errors.STALE_REPLY
    if dies:
        stage.say("elm", bodies.Bye(first))
        assert stage.kinds() == {"r": "responder_lost"}
        stage.reply("elm", "r", "of the other", session=second)
    else:
        stage.reply("elm", "r", "of the one", session=first)
        assert stage.kinds() == {"r": "reply"}
    assert stage.delivered("elm") == []
    stage.outcomes()  # asserts that there is one


def test_an_agent_claims_only_what_was_asked_of_it() -> None:
    stage = Stage()
    oak = back(stage, "oak", "r")
    elm = back(stage, "elm")
    asks_again(stage, "r")
    assert stage.delivered("elm") == ["r"]
    stage.reply("oak", "r", session=oak)
    assert stage.kinds() == {}
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_a_request_that_waits_for_a_slot_goes_to_who_names_it_later() -> None:
    stage = Stage()
    stage.clear()
    first = back(stage, "elm", "other")
    asks_again(stage, "r")
    assert stage.delivered("elm") == []
    stage.pass_time(15.0)
    late = back(stage, "elm", "r", heard=False)
    stage.say("elm", bodies.Done(first, ["other"]))
    assert stage.delivered("elm") == []
    stage.reply("elm", "r", session=late)
    assert stage.kinds() == {"r": "reply"}


def test_a_request_whose_responder_resumes_after_all_others_is_still_its_own() -> None:
    stage = Stage()
    asks_again(stage, "r")
    stage.pass_time(20.0)
    assert stage.kinds() == {}
    late = back(stage, "elm", "r")
    assert stage.delivered("elm") == []
    stage.reply("elm", "r", session=late)
    assert stage.kinds() == {"r": "reply"}


def test_a_responder_that_never_resumes_is_lost_and_nobody_runs_it_again() -> None:
    stage = Stage()
    asks_again(stage, "r")
    stage.hello("elm", concurrency=1)
    stage.pass_time(SESSION_LOSS_S + 1.0)
    assert stage.delivered("elm") == []
    assert (stage.outcomes()["r"].outcome, stage.outcomes()["r"].handled) == ("responder_lost", "maybe")


def test_what_the_session_that_is_replaced_had_queued_goes_to_the_resumed_one_that_holds_it() -> None:
    stage = Stage()
    back(stage, "elm", "busy", instance="one")
    asks_again(stage, "r")
    stage.clear()
    new = back(stage, "elm", "r", instance="one", heard=False)
    assert stage.delivered("elm") == []
    stage.reply("elm", "r", session=new)
    assert stage.kinds() == {"r": "reply"}


def test_a_session_that_has_ended_in_this_epoch_cannot_resume_nor_claim() -> None:
    stage = Stage()
    elm = back(stage, "elm")
    stage.say("elm", bodies.Bye(elm))
    back(stage, "elm")
    stage.say("elm", bodies.Hello(elm, concurrency=1, resume=True, held=[bodies.Held("r")]))
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.SESSION_USED
    asks_again(stage, "r")
    assert stage.delivered("elm") == ["r"]


def test_the_token_of_another_agent_cannot_be_resumed_while_it_lives() -> None:
    stage = Stage()
    elm = back(stage, "elm", "r")
    stage.say("liar", bodies.Hello(elm, concurrency=1, resume=True, held=[bodies.Held("r")]))
    assert not stage.last_receipt().ok
    asks_again(stage, "r")
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_heartbeats_of_a_session_that_has_not_resumed_change_nothing() -> None:
    stage = Stage()
    stage.say("elm", bodies.Heartbeat("old", open=["a"], held=[bodies.Held("r")], seen=7))
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.UNKNOWN_SESSION
    assert stage.kernel.tables.sessions.all() == []


# ---- answers that come before their requests


def test_a_parked_answer_holds_though_its_session_has_left_since() -> None:
    stage = Stage()
    elm = back(stage, "elm", "r", heard=False)
    stage.reply("elm", "r", "42", session=elm)
    stage.say("elm", bodies.Bye(elm))
    back(stage, "elm", heard=False)
    asks_again(stage, "r")
    assert stage.kinds() == {"r": "reply"}
    assert stage.delivered("elm") == []


def test_an_answer_that_comes_before_its_session_does_is_parked() -> None:
    stage = Stage()
    stage.hello("caller", session="caller-0", resume=True, open=["r"])
    stage.reply("elm", "r", "42", session="elm-before")
    assert stage.last_receipt().ok
    stage.request("caller", "elm", "r", session="caller-0")
    assert stage.kinds() == {"r": "reply"}


def test_of_two_parked_answers_the_first_holds() -> None:
    stage = Stage()
    elm = back(stage, "elm", "r", heard=False)
    stage.reply("elm", "r", "first", session=elm)
    stage.reply("elm", "r", "second", session=elm)
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.DUPLICATE_REPLY
    asks_again(stage, "r")
    event = stage.outcomes()["r"].event
    assert event is not None
    assert bytes(event.data) == b'"first"'


def test_a_session_that_is_over_parks_no_answer() -> None:
    stage = Stage()
    elm = back(stage, "elm", "r", heard=False)
    back(stage, "oak", heard=False)
    stage.say("elm", bodies.Bye(elm))
    stage.reply("elm", "r", session=elm)
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.STALE_REPLY


def test_what_another_agent_parks_answers_nothing() -> None:
    stage = Stage()
    elm = back(stage, "elm", "r", heard=False)
    stage.reply("liar", "r", "forged")
    asks_again(stage, "r")
    assert stage.kinds() == {}
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_parked_answers_are_bounded_in_number_and_bytes_and_what_made_room_is_asked_for_again() -> None:
    stage = Stage(limits=Limits(parked_replies_max=10, parked_bytes_max=10_000))
    elm = back(stage, "elm", "r", heard=False)
    stage.reply("elm", "r", session=elm)
    for number in range(100):
        stage.reply("liar", f"x{number}", "x" * 100 if number < 50 else "x" * 4_000)
    assert stage.kernel.reconcile.parked_bytes <= 10_000
    assert stage.kernel.counters["replies.parked_lost"] >= 90
    asks_again(stage, "r")
    assert stage.delivered("elm") == ["r"]
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_parked_answers_that_nobody_asks_for_are_forgotten() -> None:
    stage = Stage()
    back(stage, "elm", heard=False)
    stage.reply("elm", "r", "x" * 1_000)
    assert stage.kernel.reconcile.parked_bytes > 1_000
    stage.pass_time(120.0)
    stage.hello("anybody")
    stage.pass_time(120.0)
    assert stage.kernel.reconcile.parked_bytes == 0


# ---- for how long everybody waits


def test_who_resumes_and_is_not_heard_again_holds_the_others_up_for_ten_seconds_only() -> None:
    stage = Stage()
    back(stage, "silent", heard=False, heartbeat_s=60.0)
    back(stage, "elm")
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    stage.pass_time(9.0)
    assert stage.delivered("elm") == []
    stage.pass_time(2.0)
    assert stage.delivered("elm") == ["r"]


def test_an_agent_that_has_not_come_back_yet_is_not_called_unreachable() -> None:
    stage = Stage()
    back(stage, "oak")
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    stage.feed(NobodyListened(AgentId("elm"), EventId("r")))
    assert stage.kinds() == {}
    stage.pass_time(5.0)
    stage.clear()
    elm = back(stage, "elm")
    assert stage.delivered("elm") == ["r"]
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_where_nobody_has_lived_before_nobody_is_waited_for() -> None:
    stage = Stage()
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    stage.feed(NobodyListened(AgentId("elm"), EventId("r")))
    assert stage.kinds() == {"r": "unreachable"}


# ---- groups


def test_the_groups_of_a_session_end_with_it_and_no_other() -> None:
    stage = Stage()
    stage.hello("elm", concurrency=1)
    one, other = stage.hello("birch"), stage.hello("birch", instance="b")
    for token in (one, other):
        for number in range(3):
            stage.request(
                "birch",
                "elm",
                f"{token}-{number}",
                session=token,
                group=bodies.Group("g", 4, 4),
                timeout_s=60.0,
            )
    assert len(stage.kernel.groups) == 2
    stage.say("birch", bodies.Bye(one))
    assert len(stage.kernel.groups) == 1
    stage.say("birch", bodies.Bye(other))
    assert len(stage.kernel.groups) == 0
