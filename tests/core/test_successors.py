"""Who takes whose place: the younger session of the same instance, or an exclusive one; never the elder, however it
comes back.
"""

import pytest

from tests.core.stage import Stage
from unknot_schemas import bodies, errors
from unknot_schemas.limits import SESSION_LOSS_S

SAME = [{"instance": "one"}, {"exclusive": True}]
"""What both processes say of themselves."""


def comes_back(stage: Stage, agent: str, token: str, *held: str, **fields: object) -> None:
    """*token* says that it goes on."""
    stage.hello(agent, session=token, concurrency=1, resume=True, held=list(map(bodies.Held, held)), **fields)


def replaced_by(stage: Stage) -> object:
    """Whom the last refusal names as the successor; None if it names none."""
    error = stage.last_receipt().error
    assert error is not None
    assert error.code == errors.SESSION_USED
    return (error.detail or {}).get("replaced_by")


def live(stage: Stage, agent: str = "elm") -> set[str]:
    """Tokens of its live sessions."""
    return {str(session.id) for session in stage.kernel.tables.sessions.all() if session.name == agent}


@pytest.mark.parametrize("same", SAME)
def test_who_resumes_does_not_replace_who_has_begun_in_this_epoch(same: dict[str, object]) -> None:
    stage = Stage()
    new = stage.hello("elm", concurrency=1, **same)
    for _ in range(2):  # its refusal may be lost
        comes_back(stage, "elm", "old", "r", **same)
        assert replaced_by(stage) == new
    assert live(stage) == {new}
    assert stage.kernel.counters["sessions.replaced"] == 1
    assert stage.controls("elm") == []
    assert not stage.kernel.tables.is_reconciling, "nobody waits for who is over"


def test_who_resumes_is_one_of_those_whom_an_exclusive_one_has_replaced() -> None:
    stage = Stage()
    new = stage.hello("elm", concurrency=1, exclusive=True)
    comes_back(stage, "elm", "old")
    assert replaced_by(stage) == new


@pytest.mark.parametrize("fields", [{}, {"instance": "two"}, {"exclusive": True}])
def test_who_resumes_goes_on_beside_a_younger_one_that_has_not_replaced_it(fields: dict[str, object]) -> None:
    stage = Stage()
    new = stage.hello("elm", concurrency=1, instance="one")
    comes_back(stage, "elm", "old", **fields)
    assert live(stage) == {new, "old"}


def test_what_a_replaced_one_had_held_before_the_restart_is_lost_and_not_run_again() -> None:
    stage = Stage()
    stage.hello("elm", concurrency=1, instance="one")
    comes_back(stage, "elm", "old", "r", instance="one")
    caller = stage.hello("caller", resume=True, open=["r"])
    stage.request("caller", "elm", "r", session=caller, timeout_s=60.0)
    stage.say("caller", bodies.Heartbeat(caller))
    stage.pass_time(SESSION_LOSS_S + 1.0)
    assert stage.delivered("elm") == []
    assert (stage.outcomes()["r"].outcome, stage.outcomes()["r"].handled) == ("responder_lost", "maybe")


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize("is_over", [False, True])
def test_a_replaced_one_that_did_not_hear_of_it_is_told_by_whom(
    same: dict[str, object], is_over: bool
) -> None:
    stage = Stage()
    stage.hello("elm", session="old", concurrency=1, **same)
    new = stage.hello("elm", concurrency=1, **same)
    if is_over:
        stage.say("elm", bodies.Bye(new))
    comes_back(stage, "elm", "old", **same)
    assert replaced_by(stage) == new


@pytest.mark.parametrize("same", SAME)
def test_one_that_was_lost_is_told_who_has_come_instead(same: dict[str, object]) -> None:
    stage = Stage()
    stage.hello("elm", session="old", concurrency=1, **same)
    stage.pass_time(SESSION_LOSS_S + 1.0)
    assert live(stage) == set()
    new = stage.hello("elm", concurrency=1, **same)
    comes_back(stage, "elm", "old", **same)
    assert replaced_by(stage) == new


def test_one_that_was_lost_and_has_no_successor_begins_anew() -> None:
    stage = Stage()
    elder = stage.hello("elm", concurrency=1, exclusive=True)
    stage.hello("elm", session="old", concurrency=1)
    other = stage.hello("elm", concurrency=1, instance="other")
    stage.pass_time(SESSION_LOSS_S - 1.0)
    for token in (elder, other):
        stage.say("elm", bodies.Heartbeat(token))
    stage.pass_time(2.0)
    assert live(stage) == {elder, other}
    comes_back(stage, "elm", "old", instance="mine")
    assert replaced_by(stage) is None


def test_a_successor_is_told_to_its_own_agent_only() -> None:
    stage = Stage()
    stage.hello("elm", session="old", concurrency=1, instance="one")
    stage.hello("elm", concurrency=1, instance="one")
    stage.hello("liar", concurrency=1, instance="one")
    comes_back(stage, "liar", "old", instance="one")
    assert replaced_by(stage) is None
