"""Locks and permits: who gets what, for how long, and when it is over."""

from typing import Any

import pytest

from tests.core.resource_stage import ResourceStage, leased, units
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies, errors, holds, resources


@pytest.fixture
def stage() -> ResourceStage:
    stage = ResourceStage()
    stage.join("ash", "birch", "cedar", "elm", concurrency=4)
    return stage


# ---- grants


def test_a_free_lock_is_granted_at_once(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    outcome = stage.outcomes("ash")["w1"]
    assert outcome.outcome == "granted"
    assert outcome.fulfilled is not None
    assert (outcome.fulfilled.true, outcome.fulfilled.lease_s) == ([0], 600.0)
    assert stage.token("w1") > 0


def test_a_lock_has_one_holder(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    assert stage.kinds() == {"w1": "granted"}


def test_the_next_is_granted_with_a_higher_token_when_the_first_lets_go(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    assert stage.release("ash", "w1", stage.token("w1")).ok
    assert stage.kinds() == {"w1": "granted", "w2": "granted"}
    assert stage.token("w2") > stage.token("w1")


def test_first_in_first_out_by_units_who_does_not_fit_blocks_all_behind(stage: ResourceStage) -> None:
    stage.declare("gpu", 3)
    stage.lock("ash", "w1", "gpu*2")
    stage.lock("birch", "w2", "gpu*2")
    stage.lock("cedar", "w3", "gpu*1")
    assert stage.kinds() == {"w1": "granted"}, "one permit is free, but it is the second's first"
    stage.release("ash", "w1")
    assert stage.kinds() == {"w1": "granted", "w2": "granted", "w3": "granted"}


def test_all_or_none_nothing_is_held_before_everything_is(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "b")
    stage.lock("birch", "w2", "a", "b")
    assert stage.kinds() == {"w1": "granted"}
    assert [hold.id for hold in stage.kernel.tables.resources.leases.of_pool(("lock", "a"))] == []
    stage.release("ash", "w1")
    assert stage.kinds()["w2"] == "granted"
    assert stage.release("birch", "w2").ok
    stage.lock("ash", "w3", "a")
    stage.lock("cedar", "w4", "b")
    assert {stage.kinds()["w3"], stage.kinds()["w4"]} == {"granted"}


def test_several_at_once_are_granted_in_any_order_of_naming_without_a_deadlock(stage: ResourceStage) -> None:
    stage.lock("elm", "w0", "a")
    stage.lock("ash", "w1", "a", "b")
    stage.lock("birch", "w2", "b", "a")
    assert stage.stuck == set()
    stage.release("elm", "w0")
    stage.release("ash", "w1")
    assert stage.kinds() == {"w0": "granted", "w1": "granted", "w2": "granted"}


def test_any_one_of_two_locks_is_the_first_that_is_free(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "a")
    stage.wait("birch", "w2", leased("a"), leased("b"), need="any")
    fulfilled = stage.outcomes()["w2"].fulfilled
    assert fulfilled is not None
    assert fulfilled.true == [1]
    stage.release("ash", "w1")
    stage.lock("cedar", "w3", "a")
    assert stage.kinds()["w3"] == "granted", "the place in the other queue was given up"


def test_of_what_is_true_only_the_need_is_taken(stage: ResourceStage) -> None:
    stage.wait("ash", "w1", leased("a"), leased("b"), leased("c"), need=2)
    fulfilled = stage.outcomes()["w1"].fulfilled
    assert fulfilled is not None
    assert fulfilled.true == [0, 1]
    stage.lock("birch", "w2", "c")
    assert stage.kinds()["w2"] == "granted"


def test_a_reserved_place_keeps_its_units_until_the_wait_is_over(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "b")
    stage.lock("birch", "w2", "a", "b")
    stage.lock("cedar", "w3", "a")
    assert stage.kinds() == {"w1": "granted"}
    stage.say("birch", bodies.WaitClose("w2", stage.sessions["birch"]))
    assert stage.kinds() == {"w1": "granted", "w3": "granted"}


# ---- refusals are Outcomes


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (["nowhere*1"], errors.UNKNOWN_POOL),
        (["gpu*4"], errors.OVER_CAPACITY),
        (["gpu*2", "gpu*2"], errors.OVER_CAPACITY),
        (["gpu*0"], errors.BAD_UNITS),
        (["gpu*-1"], errors.BAD_UNITS),
        (["db", "db"], errors.OVER_CAPACITY),
    ],
)
def test_what_can_never_be_granted_is_refused_at_once(
    stage: ResourceStage, wanted: list[str], code: str
) -> None:
    stage.declare("gpu", 3)
    stage.lock("ash", "w1", *wanted)
    outcome = stage.outcomes("ash")["w1"]
    assert outcome.outcome == "refused"
    assert outcome.error is not None
    assert outcome.error.code == code
    receipt = stage.last_receipt()
    assert not receipt.ok
    assert receipt.error is not None
    assert receipt.error.code == code


def test_nothing_to_acquire_is_refused(stage: ResourceStage) -> None:
    stage.lock("ash", "w1")
    assert stage.last_receipt().ok is False


def test_a_pool_that_shrinks_refuses_who_asks_for_more_than_it_has(stage: ResourceStage) -> None:
    stage.declare("gpu", 4)
    stage.lock("ash", "w1", "gpu*4")
    stage.lock("birch", "w2", "gpu*3")
    stage.lock("cedar", "w3", "gpu*2")
    stage.declare("gpu", 2)
    assert stage.kinds() == {"w1": "granted", "w2": "refused"}
    stage.release("ash", "w1")
    assert stage.kinds()["w3"] == "granted"


def test_what_a_shrunk_pool_lacks_is_owed_first(stage: ResourceStage) -> None:
    stage.declare("gpu", 3)
    for number, agent in enumerate(["ash", "birch", "cedar"]):
        stage.lock(agent, f"w{number}", "gpu*1")
    stage.declare("gpu", 1)
    stage.lock("elm", "w9", "gpu*1")
    stage.release("ash", "w0")
    stage.release("birch", "w1")
    assert "w9" not in stage.kinds()
    stage.release("cedar", "w2")
    assert stage.kinds()["w9"] == "granted"


def test_a_pool_that_shrinks_takes_back_what_was_only_reserved(stage: ResourceStage) -> None:
    stage.declare("gpu", 2)
    stage.lock("elm", "w0", "db")
    stage.lock("ash", "w1", "gpu*1", "db")
    stage.lock("birch", "w2", "gpu*1", "db")
    stage.declare("gpu", 1)
    stage.release("elm", "w0")
    stage.release("ash", "w1")
    assert stage.kinds() == {"w0": "granted", "w1": "granted", "w2": "granted"}


def test_a_pool_that_grows_serves_who_waits(stage: ResourceStage) -> None:
    stage.declare("gpu", 1)
    stage.lock("ash", "w1", "gpu*1")
    stage.lock("birch", "w2", "gpu*1")
    stage.declare("gpu", 2)
    assert stage.kinds()["w2"] == "granted"


def test_a_pool_may_be_empty(stage: ResourceStage) -> None:
    assert stage.declare("gpu", 0).ok
    stage.lock("ash", "w1", "gpu*1")
    assert stage.kinds() == {"w1": "refused"}


def test_pools_are_bounded() -> None:
    stage = ResourceStage(limits=Limits(pools_max=2))
    assert stage.declare("a", 1).ok
    assert stage.declare("b", 1).ok
    receipt = stage.declare("c", 1)
    assert receipt.error is not None
    assert receipt.error.code == errors.OVER_LIMIT
    assert stage.declare("a", 2).ok, "one that is known is none more"


@pytest.mark.parametrize("bound", [{"holds_max": 1}, {"asks_max": 1}])
def test_what_is_held_and_waited_for_is_bounded(bound: dict[str, int]) -> None:
    stage = ResourceStage(limits=Limits(**bound))
    stage.join("ash", "birch", "cedar")
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    stage.lock("cedar", "w3", "db")
    assert stage.kinds()["w3"] == "over_limit"


def test_many_grants_at_once_are_made_in_slices() -> None:
    stage = ResourceStage(limits=Limits(grants_max=2))
    stage.join("ash", concurrency=10)
    stage.declare("gpu", 5)
    stage.lock("ash", "w0", "gpu*5", execution="e0")
    for number in range(1, 6):
        stage.lock("ash", f"w{number}", "gpu*1", execution=f"e{number}")
    stage.clear()
    stage.release("ash", "w0")
    assert list(stage.kinds()) == ["w1", "w2"]
    assert stage.kernel.next_wakeup_at() == 0.0, "the rest follows between messages"
    stage.pass_time(0.001)
    assert list(stage.kinds()) == ["w1", "w2", "w3", "w4", "w5"]


# ---- tokens, renewal, release, lapse


def test_tokens_grow_over_epochs() -> None:
    tokens = []
    for epoch in (7, 8):
        stage = ResourceStage()
        stage.kernel = type(stage.kernel)("default", epoch)
        stage.join("ash")
        for number in range(3):
            stage.lock("ash", f"w{number}", f"lock{number}")
            tokens.append(stage.token(f"w{number}"))
    assert tokens == sorted(set(tokens))


def test_a_lease_that_is_renewed_does_not_lapse(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db", lease_s=10)
    for _ in range(3):
        stage.pass_time(8)
        stage.say("ash", resources.LockRenew("w1", stage.token("w1")))
        assert stage.last_receipt().lease_s == 10
    assert stage.lapsed("ash") == []
    stage.pass_time(11)
    assert stage.lapsed("ash") == ["w1"]


def test_a_grant_that_nobody_heard_of_before_its_lease_was_over_is_not_told_any_more(
    stage: ResourceStage,
) -> None:
    stage.lock("ash", "w1", "db", lease_s=5)
    stage.lock("birch", "w2", "db")
    stage.pass_time(5.1)
    for ask_again in (
        lambda: stage.lock("ash", "w1", "db", lease_s=5),
        lambda: stage.beat("ash", open=["w1"]),
    ):
        stage.effects.clear()
        ask_again()
        again = stage.outcomes("ash")["w1"]
        assert (again.outcome, again.error and again.error.code) == ("cancelled", errors.NOT_HELD)


@pytest.mark.parametrize("how", ["sent again", "named by a heartbeat"])
def test_a_grant_that_is_told_again_begins_its_lease_anew(stage: ResourceStage, how: str) -> None:
    stage.lock("ash", "w1", "db", lease_s=5)
    stage.pass_time(4)
    stage.effects.clear()
    if how == "sent again":
        stage.lock("ash", "w1", "db", lease_s=5)
    else:
        stage.beat("ash", open=["w1"])
    stage.pass_time(4)
    assert stage.lapsed("ash") == []
    stage.pass_time(1.1)
    assert stage.lapsed("ash") == ["w1"]


def test_a_lease_that_lapses_passes_to_the_next_with_a_higher_token(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db", lease_s=5)
    stage.lock("birch", "w2", "db")
    stage.pass_time(5.1)
    assert stage.lapsed("ash") == ["w1"]
    assert stage.kinds() == {"w1": "granted", "w2": "granted"}
    assert stage.token("w2") > stage.token("w1")


@pytest.mark.parametrize(
    ("asked", "holds_for"), [(None, 30.0), (float("nan"), 30.0), (0.01, 1.0), (1e9, 3600.0)]
)
def test_a_lease_is_kept_within_bounds(stage: ResourceStage, asked: Any, holds_for: float) -> None:
    stage.lock("ash", "w1", "db", lease_s=asked)
    fulfilled = stage.outcomes()["w1"].fulfilled
    assert fulfilled is not None
    assert fulfilled.lease_s == holds_for


def test_the_zombie_is_refused(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db", lease_s=5)
    token = stage.token("w1")
    stage.lock("birch", "w2", "db")
    stage.pass_time(5.1)
    stage.say("ash", resources.LockRenew("w1", token))
    assert code(stage) == errors.NOT_HELD
    assert stage.release("ash", "w1", token).ok is False
    assert stage.publish("ash", "report", token=resources.FencingToken("db", token)).ok is False
    assert code(stage) == errors.STALE_TOKEN
    stage.say("store", resources.LockCheck("db", token))
    assert code(stage) == errors.STALE_TOKEN
    stage.say("store", resources.LockCheck("db", stage.token("w2")))
    assert stage.last_receipt().ok, "who holds it now may write"
    assert stage.kernel.tables.resources.artifacts.published == 0


def test_another_token_releases_and_renews_nothing(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    assert stage.release("ash", "w1", 1).ok is False
    assert code(stage) == errors.STALE_TOKEN
    stage.say("ash", resources.LockRenew("w1", 1))
    assert code(stage) == errors.STALE_TOKEN
    assert stage.release("birch", "w1").ok is False, "it is another agent's"
    assert code(stage) == errors.NOT_HELD


def test_a_close_that_crosses_the_grant_is_a_release(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    stage.say("ash", bodies.WaitClose("w1", stage.sessions["ash"]))
    assert stage.kinds() == {"w1": "granted", "w2": "granted"}


def test_a_cancel_that_crosses_the_grant_is_a_release(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    stage.say("ash", bodies.RequestCancel("w1", stage.sessions["ash"]))
    assert stage.kinds() == {"w1": "granted", "w2": "granted"}


def test_a_cancel_in_time_ends_the_wait(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    stage.say("birch", bodies.RequestCancel("w2", stage.sessions["birch"]))
    assert stage.kinds() == {"w1": "granted", "w2": "cancelled"}


def test_a_wait_that_expires_says_who_holds_it(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db", timeout_s=3)
    stage.pass_time(3.1)
    outcome = stage.outcomes()["w2"]
    assert outcome.outcome == "expired"
    assert outcome.error is not None
    assert outcome.error.detail == {"chain": ["lock:db", "ash/main"]}
    stage.release("ash", "w1")
    stage.lock("cedar", "w3", "db")
    assert stage.kinds()["w3"] == "granted"


def test_the_same_acquire_again_is_answered_the_same(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    first = stage.outcomes()["w1"]
    stage.clear()
    stage.lock("ash", "w1", "db")
    assert stage.outcomes()["w1"] == first
    assert len(stage.kernel.tables.resources.leases) == 1


def test_the_id_of_a_hold_is_not_to_be_used_again(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.clear()
    stage.wait("ash", "w1", leased("other"), generation=1)
    assert code(stage) == errors.ID_CONFLICT
    assert stage.kinds() == {}


# ---- the end of executions and sessions


def handled(stage: ResourceStage, agent: str, event_id: str) -> dict[str, str]:
    """*agent* handles an event; the fields that say so."""
    stage.request("elm", agent, event_id, session=stage.sessions["elm"], timeout_s=3000.0)
    return {"execution": event_id}


@pytest.mark.parametrize("how", ["answer", "done", "defer"])
def test_what_an_execution_holds_is_released_at_its_end(stage: ResourceStage, how: str) -> None:
    stage.lock("ash", "w1", "db", **handled(stage, "ash", "e1"))
    stage.lock("birch", "w2", "db")
    if how == "answer":
        stage.reply("ash", "e1", session=stage.sessions["ash"])
    else:
        verb = bodies.Done if how == "done" else bodies.Defer
        stage.say("ash", verb(stage.sessions["ash"], ["e1"]))
    assert stage.kinds()["w2"] == "granted"
    assert stage.release("ash", "w1").ok is False


def test_an_early_answer_does_not_end_the_execution(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db", **handled(stage, "ash", "e1"))
    stage.lock("birch", "w2", "db")
    stage.reply("ash", "e1", session=stage.sessions["ash"], done=False)
    assert "w2" not in stage.kinds()
    stage.say("ash", bodies.Done(stage.sessions["ash"], ["e1"]))
    assert stage.kinds()["w2"] == "granted"


def test_a_handler_that_nobody_waits_for_any_more_keeps_its_lock_while_it_runs() -> None:
    stage = ResourceStage()
    stage.join("elm", "birch")
    stage.join("ash", pools=[bodies.Pool(None)])
    stage.lock("ash", "w1", "db", **handled(stage, "ash", "e1"))
    stage.lock("birch", "w2", "db")
    stage.say("elm", bodies.RequestCancel("e1", stage.sessions["elm"]))
    assert "w2" not in stage.kinds(), "it was told, but may still be writing"
    stage.say("ash", bodies.Done(stage.sessions["ash"], ["e1"]))
    assert stage.kinds()["w2"] == "granted"


def test_what_a_detached_strand_holds_outlives_the_execution(stage: ResourceStage) -> None:
    execution = handled(stage, "ash", "e1")
    stage.lock("ash", "w1", "db", strand="s1", detached=True, **execution)
    stage.lock("ash", "w2", "log", strand="s2", **execution)
    stage.lock("birch", "w3", "db")
    stage.lock("cedar", "w4", "log")
    stage.reply("ash", "e1", session=stage.sessions["ash"])
    assert "w3" not in stage.kinds()
    assert stage.kinds()["w4"] == "granted", "a joined strand ends with its execution"
    assert stage.release("ash", "w1").ok
    assert stage.kinds()["w3"] == "granted"


def test_bye_releases_at_once(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    stage.bye("ash")
    assert stage.kinds()["w2"] == "granted"


def test_a_lost_holder_orphans_who_waits_until_its_lease_lapses() -> None:
    stage = ResourceStage(session_loss_s=20.0)
    stage.join("ash", heartbeat_s=1.0)
    stage.join("birch", heartbeat_s=30.0)
    stage.lock("ash", "w1", "db", lease_s=100)
    stage.lock("birch", "w2", "db")
    token = stage.token("w1")
    stage.pass_time(21)
    assert stage.orphaned == {"birch"}
    assert stage.deadlocks() == []
    assert stage.kinds() == {"w1": "granted"}
    for _ in range(4):
        stage.beat("birch", open=["w2"])
        stage.pass_time(20)
    assert stage.kinds()["w2"] == "granted"
    assert stage.token("w2") > token
    assert stage.release("ash", "w1", token).ok is False
    assert stage.orphaned == set()


def test_a_hold_that_two_heartbeats_omit_is_released(stage: ResourceStage) -> None:
    stage.join("ash", heartbeat_s=1.0)
    stage.lock("ash", "w1", "db")
    stage.lock("birch", "w2", "db")
    token = stage.token("w1")
    stage.pass_time(3)
    stage.beat("ash", open=["w1"], holds=[])  # its grant has not arrived: it is said again
    stage.clear()
    stage.beat("ash", holds=[holds.Hold("w1", token, [units("db")])])
    stage.beat("ash", holds=[])
    stage.beat("ash")  # says nothing of holds
    assert stage.kinds() == {}
    stage.beat("ash", holds=[])
    assert stage.kinds()["w2"] == "granted"


def test_the_answer_to_a_heartbeat_names_holds_that_are_none(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    token = stage.token("w1")
    named = [holds.Hold("w1", token, [units("db")]), holds.Hold("w7", token, [units("db")])]
    assert stage.beat("ash", holds=named).unknown_holds == ["w7"]


def test_nothing_is_left_when_all_sessions_have_ended(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db", **handled(stage, "ash", "e1"))
    stage.lock("birch", "w2", "db", "log")
    stage.wait("cedar", "w3", leased("db"), bodies.WaitCondition("artifact", "x"), need="any")
    stage.produces("elm", "x")
    for agent in ("birch", "ash", "cedar", "elm"):
        stage.bye(agent)
    assert stage.leftovers() == {}


def code(stage: ResourceStage) -> str:
    """Of the last Receipt."""
    error = stage.last_receipt().error
    assert error is not None
    return error.code
