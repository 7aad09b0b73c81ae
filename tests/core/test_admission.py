"""Delivered means started: the gateway keeps the queue, slots are taken and given back one by one."""

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies, errors


@pytest.fixture
def stage() -> Stage:
    stage = Stage(limits=Limits(queue_max=3))
    stage.hello("birch", session="birch-1")
    stage.hello("elm", session="elm-1", concurrency=1)
    stage.clear()
    return stage


def test_one_slot_takes_one_event_and_the_next_in_order(stage: Stage) -> None:
    for name in ("r1", "r2", "r3"):
        stage.request("birch", "elm", name, session="birch-1")
    assert stage.delivered("elm") == ["r1"]
    stage.reply("elm", "r1", session="elm-1")
    assert stage.delivered("elm") == ["r1", "r2"]
    stage.reply("elm", "r2", session="elm-1")
    assert stage.delivered("elm") == ["r1", "r2", "r3"]


def test_an_early_answer_keeps_the_slot_until_done(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("birch", "elm", "r2", session="birch-1")
    stage.reply("elm", "r1", session="elm-1", done=False)
    assert stage.kinds() == {"r1": "reply"}
    assert stage.delivered("elm") == ["r1"]
    stage.say("elm", bodies.Done("elm-1", ["r1"]))
    assert stage.delivered("elm") == ["r1", "r2"]


def test_defer_gives_the_slot_back(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("birch", "elm", "r2", session="birch-1")
    stage.say("elm", bodies.Defer("elm-1", ["r1"]))
    assert stage.delivered("elm") == ["r1", "r2"]


def test_an_expired_request_still_holds_its_slot_until_its_late_answer(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1", timeout_s=1)
    stage.request("birch", "elm", "r2", session="birch-1")
    stage.pass_time(2)
    assert stage.delivered("elm") == ["r1"]
    stage.reply("elm", "r1", session="elm-1")
    assert stage.delivered("elm") == ["r1", "r2"]


def test_what_expired_in_the_queue_is_never_delivered(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("birch", "elm", "r2", session="birch-1", timeout_s=1)
    stage.pass_time(2)
    stage.reply("elm", "r1", session="elm-1")
    assert stage.delivered("elm") == ["r1"]
    assert stage.outcomes()["r2"].handled == "no"


def test_a_full_queue_answers_over_limit_with_a_time(stage: Stage) -> None:
    for number in range(5):
        stage.request("birch", "elm", f"r{number}", session="birch-1")
    outcome = stage.outcomes()["r4"]
    assert outcome.outcome == "over_limit"
    assert outcome.error is not None
    assert outcome.error.detail == {"retry_after_s": 1.0}


def test_what_one_pool_cannot_take_is_passed_over(stage: Stage) -> None:
    stage.hello("grove", session="grove-1", pools=[bodies.Pool(1, ["heavy"]), bodies.Pool(1)])
    for name, event_type in (("h1", "heavy"), ("h2", "heavy"), ("l1", "light")):
        stage.request("birch", "grove", name, session="birch-1", type=event_type)
    assert stage.delivered("grove") == ["h1", "l1"]


def test_a_one_way_event_waits_for_a_slot_and_then_is_dropped_and_counted(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("birch", "elm", "e1", verb="send", session="birch-1", timeout_s=1)
    stage.pass_time(2)
    stage.reply("elm", "r1", session="elm-1")
    assert stage.delivered("elm") == ["r1"]
    assert stage.kernel.counters["dropped.expired"] == 1


def test_two_heartbeats_that_omit_a_one_way_event_free_its_slot(stage: Stage) -> None:
    stage.request("birch", "elm", "e1", verb="send", session="birch-1")
    stage.request("birch", "elm", "e2", verb="send", session="birch-1")
    stage.pass_time(11)
    stage.say("elm", bodies.Heartbeat("elm-1", seen=1))
    assert stage.delivered("elm") == ["e1"]
    stage.pass_time(5)
    stage.say("elm", bodies.Heartbeat("elm-1", seen=1))
    assert stage.delivered("elm") == ["e1", "e2"]


def test_a_delivery_that_no_heartbeat_confirms_is_repeated_under_its_number(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.pass_time(6)
    stage.say("elm", bodies.Heartbeat("elm-1", seen=0))
    assert stage.delivered("elm") == ["r1", "r1"]


def test_what_is_settled_is_repeated_to_who_still_names_it_and_what_is_unknown_is_named(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.reply("elm", "r1", session="elm-1")
    stage.clear()
    stage.say("birch", bodies.Heartbeat("birch-1", open=["r1", "r9"]))
    assert stage.kinds() == {"r1": "reply"}
    pulses = [
        effect.body for effect in stage.effects if isinstance(getattr(effect, "body", None), bodies.Pulse)
    ]
    assert [pulse.unknown for pulse in pulses] == [["r9"]]


def test_an_unknown_session_is_told_so(stage: Stage) -> None:
    stage.say("elm", bodies.Heartbeat("other"))
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.UNKNOWN_SESSION


def test_an_event_that_an_expect_waits_for_takes_no_slot(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    wait = bodies.WaitOpen("w1", "elm-1", [bodies.WaitCondition("event", "news.>")], execution="r1")
    stage.say("elm", wait)
    stage.request("birch", "elm", "e1", verb="send", session="birch-1", type="news.today")
    stage.request("birch", "elm", "e2", verb="send", session="birch-1", type="other")
    assert stage.delivered("elm") == ["r1", "e1"]
