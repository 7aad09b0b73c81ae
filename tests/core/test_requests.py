"""Laws of a request: one Outcome, from the one who was asked, whatever comes twice, late or from elsewhere."""

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.effects import Deliver
from unknot_gateway.core.facts import NobodyListened
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.hello("birch", session="birch-1")
    stage.hello("elm", session="elm-1", concurrency=2)
    return stage


def test_a_request_reaches_its_target_and_its_answer_the_asker(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    assert stage.delivered("elm") == ["r1"]
    stage.reply("elm", "r1", {"x": 1}, session="elm-1")
    outcome = stage.outcomes("birch")["r1"]
    assert (outcome.outcome, outcome.handled) == ("reply", "yes")
    assert outcome.event is not None
    assert bytes(outcome.event.data) == b'{"x":1}'
    assert outcome.event.response_to == "r1"


def test_an_ended_request_leaves_nothing_behind_but_its_tombstone(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.reply("elm", "r1", session="elm-1")
    tables = stage.kernel.tables
    assert not tables.messages.open
    assert not tables.waiting.waits
    assert len(tables.waiting.graph) == 0
    assert all(not session.held and not session.open for session in tables.sessions.all())
    assert tables.messages.remembered == 1


def test_the_same_request_again_is_not_delivered_again_and_its_outcome_is_repeated(stage: Stage) -> None:
    for _ in range(2):
        stage.request("birch", "elm", "r1", session="birch-1")
    assert stage.delivered("elm") == ["r1"]
    stage.reply("elm", "r1", session="elm-1")
    stage.clear()
    stage.request("birch", "elm", "r1", session="birch-1")
    assert stage.delivered("elm") == []
    assert stage.kinds() == {"r1": "reply"}


def test_an_id_used_for_other_content_is_a_conflict_and_ends_nothing(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1", data=1)
    stage.request("birch", "elm", "r1", session="birch-1", data=2, reply_to="_INBOX.x")
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.ID_CONFLICT
    assert stage.kinds() == {}


@pytest.mark.parametrize("agent", ["birch", "flint"])
def test_an_answer_from_another_than_the_one_asked_changes_nothing(stage: Stage, agent: str) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.reply(agent, "r1")
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.FOREIGN_REPLY
    assert stage.kinds() == {}


def test_a_counter_request_is_no_reply(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1", execution="r1")
    assert "r1" not in stage.kinds()


def test_a_late_answer_goes_to_nobody_and_says_so(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1", timeout_s=0.5)
    stage.pass_time(0.6)
    assert stage.kinds() == {"r1": "expired"}
    assert stage.abandoned("elm") == ["r1"]
    stage.request("birch", "elm", "r2", session="birch-1")
    stage.clear()
    stage.reply("elm", "r1", session="elm-1")
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.LATE_REPLY
    assert stage.kinds() == {}


def test_a_second_answer_is_a_duplicate(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.reply("elm", "r1", 1, session="elm-1")
    stage.reply("elm", "r1", 2, session="elm-1")
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.DUPLICATE_REPLY
    assert stage.kinds() == {"r1": "reply"}


def test_a_handler_that_returns_without_an_answer_has_failed(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.say("elm", bodies.Done("elm-1", ["r1"]))
    outcome = stage.outcomes()["r1"]
    assert outcome.outcome == "failed"
    assert outcome.error is not None
    assert outcome.error.code == errors.NO_ANSWER


def test_a_deferred_request_is_answered_later(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.say("elm", bodies.Defer("elm-1", ["r1"]))
    assert stage.kinds() == {}
    stage.reply("elm", "r1", session="elm-1")
    assert stage.kinds() == {"r1": "reply"}


def test_the_end_of_the_session_that_took_a_request_is_its_end_at_once(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1", timeout_s=300)
    stage.say("elm", bodies.Bye("elm-1"))
    outcome = stage.outcomes()["r1"]
    assert (outcome.outcome, outcome.handled) == ("responder_lost", "maybe")


def test_an_absent_target_is_unreachable_at_once_or_when_patience_ends(stage: Stage) -> None:
    stage.say("elm", bodies.Bye("elm-1"))
    stage.request("birch", "elm", "r1", session="birch-1")
    assert stage.kinds() == {"r1": "unreachable"}
    stage.clear()
    stage.request("birch", "elm", "r2", session="birch-1", wait_for_target_s=5)
    stage.request("birch", "elm", "r3", session="birch-1", wait_for_target_s=1)
    stage.pass_time(2)
    assert stage.kinds() == {"r3": "unreachable"}
    stage.hello("elm", concurrency=1)
    assert stage.delivered("elm") == ["r2"]


def test_a_type_that_no_pool_names_is_refused(stage: Stage) -> None:
    stage.hello("grove", pools=[bodies.Pool(1, ["thread.>"])])
    stage.request("birch", "grove", "r1", session="birch-1", type="other")
    error = stage.outcomes()["r1"].error
    assert error is not None
    assert error.code == errors.NOT_SUBSCRIBED
    stage.request("birch", "grove", "r2", session="birch-1", type="thread.new")
    assert stage.delivered("grove") == ["r2"]


def test_the_sixty_fifth_nested_request_is_refused(stage: Stage) -> None:
    stage.hello("flint", session="flint-1", concurrency=100)
    execution = "main"
    for depth in range(1, 66):
        stage.request("flint", "flint", f"r{depth}", session="flint-1", execution=execution)
        execution = f"r{depth}"
    error = stage.outcomes()["r65"].error
    assert error is not None
    assert error.code == errors.DEPTH_LIMIT
    assert set(stage.kinds()) == {"r65"}


def test_a_cancel_of_an_unknown_id_does_nothing_to_a_later_request(stage: Stage) -> None:
    stage.say("birch", bodies.RequestCancel("r77", "birch-1"))
    stage.request("birch", "elm", "r77", session="birch-1")
    stage.reply("elm", "r77", session="elm-1")
    assert stage.kinds() == {"r77": "reply"}


def test_a_cancelled_request_is_withdrawn_from_who_runs_it(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.say("birch", bodies.RequestCancel("r1", "birch-1"))
    assert stage.kinds() == {"r1": "cancelled"}
    assert stage.abandoned("elm") == ["r1"]


def test_a_request_without_its_session_is_refused_from_an_agent_that_said_hello(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", reply_to="_INBOX.x")
    error = stage.outcomes()["r1"].error
    assert error is not None
    assert error.code == errors.SESSION_REQUIRED


def test_a_stale_session_changes_nothing(stage: Stage) -> None:
    stage.request("birch", "elm", "r1", session="gone", reply_to="_INBOX.x")
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.STALE_SESSION
    assert stage.kinds() == {}
    assert stage.delivered("elm") == []


@pytest.mark.parametrize("heard", [False, True])
def test_what_came_before_the_first_hello_goes_to_the_session(stage: Stage, heard: bool) -> None:
    stage.request("birch", "grove", "r1", session="birch-1", wait_for_target_s=5)
    if not heard:
        stage.feed(NobodyListened(AgentId("grove"), EventId("r1")))
    stage.clear()
    stage.hello("grove", session="grove-1", concurrency=1)
    (delivery,) = [effect for effect in stage.effects if isinstance(effect, Deliver)]
    assert (delivery.session, delivery.event.id, delivery.event.redelivered) == ("grove-1", "r1", heard)
    stage.reply("grove", "r1", session="grove-1")
    assert stage.kinds() == {"r1": "reply"}
