"""Knots over resources, found and named by kind; and what holds over a gateway's restart."""

from typing import Any

import pytest

from tests.core.resource_stage import ResourceStage, leased, units
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_schemas import bodies, errors, holds, resources


@pytest.fixture
def stage() -> ResourceStage:
    stage = ResourceStage()
    stage.join("ash", "birch", "cedar", "elm")
    return stage


def reply(stage: ResourceStage, agent: str, target: str, request_id: str = "r1") -> None:
    stage.request(agent, target, request_id, session=stage.sessions[agent], timeout_s=3000.0)


def kinds_of(event: bodies.DeadlockDetected) -> dict[str, tuple[str, str]]:
    return {wait.waiter: (wait.kind, wait.target) for wait in event.waits}


def four(stage: ResourceStage) -> None:
    """Ash asks birch, who wants cedar's lock, who wants elm's artifact, who wants ash's permit."""
    stage.declare("gpu", 1)
    stage.lock("ash", "h1", "gpu*1")
    stage.lock("cedar", "h2", "db")
    stage.produces("elm", "report")
    stage.clear()
    reply(stage, "ash", "birch")
    stage.lock("birch", "w2", "db")
    stage.wait("cedar", "w3", bodies.WaitCondition("artifact", "report"))
    stage.lock("elm", "w4", "gpu*1")


def test_a_cycle_through_four_kinds_is_found_and_each_edge_named(stage: ResourceStage) -> None:
    four(stage)
    assert stage.answer_confirms() == 4
    [event] = stage.deadlocks()
    assert event.cycle == ["ash", "birch", "cedar", "elm", "ash"]
    assert kinds_of(event) == {
        "ash": ("reply", "birch"),
        "birch": ("lock", "db"),
        "cedar": ("artifact", "report"),
        "elm": ("permits", "gpu"),
    }
    assert event.evidence == "observed"
    assert stage.kinds() == dict.fromkeys(["r1", "w2", "w3", "w4"], "deadlock")
    assert len(stage.kernel.tables.resources.leases) == 2, "what is held is their own to release"


def test_what_a_member_names_no_more_it_has_given_back_though_word_of_that_is_lost(
    stage: ResourceStage,
) -> None:
    four(stage)
    stage.answer_confirms(holds=[])
    assert stage.deadlocks() == []
    assert stage.outcomes("elm")["w4"].outcome == "granted"


def test_what_a_member_names_or_says_nothing_of_it_holds_still(stage: ResourceStage) -> None:
    four(stage)
    stage.answer_confirms(holds=["h1", "h2"])
    assert len(stage.deadlocks()) == 1


@pytest.mark.parametrize(
    "way_out", ["a free permit", "another producer", "a tool", "a human", "a holder let go"]
)
def test_one_way_out_and_it_is_no_deadlock(stage: ResourceStage, way_out: str) -> None:
    stage.join("fir")
    match way_out:
        case "a free permit":
            four(stage)
            stage.declare("gpu", 2)
        case "another producer":
            stage.produces("fir", "report")
            four(stage)
        case "a holder let go":
            four(stage)
            stage.release("ash", "h1")
        case _:
            four(stage)
            on = [bodies.WaitCondition("artifact", "report"), bodies.WaitCondition(way_out.split()[1], "x")]
            stage.wait("cedar", "w3", *on, need="any", generation=1)
    stage.answer_confirms()
    assert stage.deadlocks() == []
    assert stage.stuck == set()
    assert "deadlock" not in stage.kinds().values()


def test_two_locks_in_opposite_order(stage: ResourceStage) -> None:
    stage.lock("ash", "h1", "a")
    stage.lock("birch", "h2", "b")
    stage.lock("ash", "w1", "b")
    stage.lock("birch", "w2", "a")
    stage.answer_confirms()
    [event] = stage.deadlocks()
    assert kinds_of(event) == {"ash": ("lock", "b"), "birch": ("lock", "a")}
    assert "one step" in event.remedy
    assert stage.kinds() == {"w1": "deadlock", "w2": "deadlock"}


def test_a_lock_that_its_waiter_holds_itself(stage: ResourceStage) -> None:
    stage.lock("ash", "h1", "a")
    stage.lock("ash", "w1", "a")
    stage.answer_confirms()
    [event] = stage.deadlocks()
    assert event.cycle == ["ash", "ash"]
    assert "itself" in event.remedy
    stage.release("ash", "h1")
    stage.lock("birch", "w2", "a")
    assert stage.kinds()["w2"] == "granted"


def test_a_condition_of_several_is_named_if_it_is_the_false_one(stage: ResourceStage) -> None:
    stage.lock("ash", "h1", "a")
    stage.wait("birch", "w1", bodies.WaitCondition("tool", "x"), leased("a"))
    reply(stage, "ash", "birch")
    stage.answer_confirms()
    [event] = stage.deadlocks()
    assert kinds_of(event)["birch"] == ("lock", "a")


def test_under_refuse_only_the_wait_that_closed_it_fails() -> None:
    stage = ResourceStage(policy="refuse")
    stage.join("ash", "birch")
    stage.lock("ash", "h1", "a")
    stage.lock("birch", "h2", "b")
    stage.lock("ash", "w1", "b")
    stage.lock("birch", "w2", "a")
    stage.answer_confirms()
    assert stage.kinds() == {"w2": "deadlock"}
    stage.release("birch", "h2")
    assert stage.kinds()["w1"] == "granted"


def test_in_shadow_nobody_fails() -> None:
    stage = ResourceStage(policy="shadow")
    stage.join("ash", "birch")
    stage.lock("ash", "h1", "a")
    stage.lock("ash", "w1", "a")
    stage.answer_confirms()
    assert len(stage.deadlocks()) == 1
    assert stage.kinds() == {}


def test_a_place_ahead_of_one_who_waits_counts_like_what_it_will_hold(stage: ResourceStage) -> None:
    """Birch will be granted the lock when cedar lets go, and keep it: it waits for ash, too."""
    stage.lock("cedar", "h1", "a")
    stage.wait("birch", "w1", leased("a"))
    stage.wait("birch", "w2", bodies.WaitCondition("agent", "ash"))
    stage.lock("ash", "w3", "a")
    assert stage.stuck == {"ash", "birch"}
    stage.release("cedar", "h1")
    assert stage.kinds()["w1"] == "granted"
    assert stage.stuck == {"ash", "birch"}


def test_shrinking_a_pool_can_close_a_knot(stage: ResourceStage) -> None:
    stage.declare("gpu", 2)
    stage.lock("ash", "h1", "gpu*1")
    stage.lock("cedar", "h2", "gpu*1")
    stage.lock("birch", "w1", "gpu*1")
    reply(stage, "ash", "birch")
    assert stage.stuck == set()
    stage.declare("gpu", 1)
    assert stage.stuck == {"ash", "birch"}, "cedar runs, but what it returns is owed"


def test_who_waits_behind_a_knot_is_its_tail(stage: ResourceStage) -> None:
    stage.lock("ash", "h1", "a")
    stage.lock("ash", "w1", "a")
    stage.lock("birch", "w2", "a")
    stage.answer_confirms()
    [event] = stage.deadlocks()
    assert event.blocked_behind == ["birch"]
    assert stage.kinds() == {"w1": "deadlock"}


def test_of_a_lock_that_somebody_holds_who_runs_nobody_is_stuck(stage: ResourceStage) -> None:
    stage.lock("ash", "h1", "a")
    for number, agent in enumerate(["birch", "cedar", "elm"]):
        stage.lock(agent, f"w{number}", "a")
    assert stage.stuck == set()


# ---- how long a wait must have stood


def test_a_wait_counts_only_after_the_time_that_its_network_wants_of_its_kind() -> None:
    stage = ResourceStage(detect_after_s={"lock": 3.0})
    stage.join("ash", "birch")
    stage.lock("ash", "h1", "a")
    stage.lock("birch", "h2", "b")
    stage.lock("ash", "w1", "b")
    stage.pass_time(2)
    stage.lock("birch", "w2", "a")
    assert stage.answer_confirms() == 0
    stage.pass_time(2.9)
    assert stage.answer_confirms() == 0
    stage.pass_time(0.2)
    assert stage.answer_confirms() == 2
    assert stage.kinds() == {"w1": "deadlock", "w2": "deadlock"}


def test_other_kinds_count_at_once() -> None:
    stage = ResourceStage(detect_after_s={"lock": 3.0, "reported": 3.0})
    stage.join("ash", "birch")
    reply(stage, "ash", "birch", "r1")
    reply(stage, "birch", "ash", "r2")
    assert stage.answer_confirms() == 2


# ---- over a restart


def restarted(stage: ResourceStage) -> ResourceStage:
    """The same agents and sessions at a new gateway."""
    after = ResourceStage()
    after.kernel = Kernel("default", stage.kernel.epoch + 1, KernelConfig())
    after.now = stage.now + 1
    after.sessions = dict(stage.sessions)
    return after


def resume(stage: ResourceStage, agent: str, *named: holds.Hold, open_: list[str] | None = None) -> None:
    fields: dict[str, Any] = {"resume": True, "open": open_ or [], "holds": list(named), "heartbeat_s": 60.0}
    stage.hello(agent, session=stage.sessions[agent], **fields)


def test_what_was_held_is_held_and_nothing_is_granted_before_all_were_heard(stage: ResourceStage) -> None:
    stage.lock("ash", "w1", "db")
    token = stage.token("w1")
    stage.lock("birch", "w2", "db")
    after = restarted(stage)
    resume(after, "birch", open_=["w2"])
    after.lock("birch", "w2", "db")
    resume(after, "ash", holds.Hold("w1", token, [units("db")], lease_s=50.0))
    assert after.kinds() == {}
    for agent in ("ash", "birch"):
        after.beat(agent, open=["w2"] if agent == "birch" else [])
    assert after.kinds() == {}, "ash has it"
    after.lock("birch", "w3", "log")
    assert after.token("w3") > token
    assert after.release("ash", "w1", token).ok
    assert after.kinds()["w2"] == "granted"


def test_the_higher_token_wins(stage: ResourceStage) -> None:
    after = restarted(stage)
    resume(after, "ash", holds.Hold("w1", 5, [units("db")], lease_s=50.0))
    resume(after, "birch", holds.Hold("w2", 6, [units("db")], lease_s=50.0))
    resume(after, "cedar", holds.Hold("w3", 4, [units("db")], lease_s=50.0))
    assert after.lapsed("ash") == ["w1"]
    assert after.lapsed("birch") == []
    assert after.lapsed("cedar") == ["w3"]
    assert [hold.id for hold in after.kernel.tables.resources.leases.of_pool(("lock", "db"))] == ["w2"]


def test_a_lock_that_was_granted_anew_before_its_holder_came_back_is_the_new_ones(
    stage: ResourceStage,
) -> None:
    after = restarted(stage)
    after.join("fir")
    after.lock("fir", "w9", "db")
    assert after.kinds() == {"w9": "granted"}
    resume(after, "ash", holds.Hold("w1", 5, [units("db")], lease_s=50.0))
    assert after.lapsed("ash") == ["w1"]


def test_who_resumes_too_late_has_lost_it(stage: ResourceStage) -> None:
    after = restarted(stage)
    after.join("fir")
    after.pass_time(30)
    resume(after, "ash", holds.Hold("w1", 5, [units("db")], lease_s=50.0))
    assert after.lapsed("ash") == ["w1"]
    after.lock("fir", "w9", "db")
    assert after.kinds() == {"w9": "granted"}


def test_a_token_of_this_epoch_cannot_be_claimed(stage: ResourceStage) -> None:
    after = restarted(stage)
    first = after.kernel.tables.resources.leases.first_token
    resume(after, "ash", holds.Hold("w1", first + 5, [units("db")]))
    assert after.lapsed("ash") == ["w1"]
    assert len(after.kernel.tables.resources.leases) == 0


def test_a_heartbeat_names_what_a_hello_did_not(stage: ResourceStage) -> None:
    after = restarted(stage)
    resume(after, "ash")
    named = [holds.Hold("w1", 5, [units("db")], lease_s=50.0)]
    assert after.beat("ash", holds=named).unknown_holds == []
    after.join("fir")
    after.lock("fir", "w9", "db")
    assert after.kinds() == {}


def test_permits_wait_for_their_pool_to_be_declared_again(stage: ResourceStage) -> None:
    after = restarted(stage)
    resume(after, "ash", holds.Hold("w1", 5, [units("gpu*2")], lease_s=50.0))
    resume(after, "birch", open_=["w2", "w3"])
    after.lock("birch", "w2", "gpu*1")
    after.lock("birch", "w3", "tpu*1")
    assert after.kinds() == {}, "perhaps they are declared again soon"
    after.declare("gpu", 3)
    for agent in ("ash", "birch"):
        after.beat(agent, open=["w2", "w3"] if agent == "birch" else [])
    assert after.kinds() == {"w2": "granted", "w3": "refused"}
    error = after.outcomes()["w3"].error
    assert error is not None
    assert error.code == errors.UNKNOWN_POOL
    after.lock("birch", "w4", "gpu*1")
    assert "w4" not in after.kinds(), "all three are held"


def test_a_hold_that_was_entered_again_lapses_too(stage: ResourceStage) -> None:
    after = restarted(stage)
    resume(after, "ash", holds.Hold("w1", 5, [units("db")], lease_s=20.0))
    after.beat("ash")
    after.pass_time(21)
    assert after.lapsed("ash") == ["w1"]
    assert after.leftovers().keys() <= {"nodes", "strands"}


def test_a_session_that_was_replaced_may_still_run_its_lease_goes_on(stage: ResourceStage) -> None:
    stage.join("oak", instance="one")
    stage.lock("oak", "w1", "db", lease_s=20)
    stage.lock("ash", "w2", "db")
    stage.join("oak", instance="one")
    assert stage.orphaned == {"ash"}
    stage.pass_time(21)
    assert stage.kinds()["w2"] == "granted"
    stage.say("oak", resources.LockRelease("w1"))
    assert stage.last_receipt().ok is False


def test_who_is_a_member_no_more_in_the_second_read_waits_on() -> None:
    stage = ResourceStage()
    stage.join("ash", "birch", "cedar", heartbeat_s=1.0)
    stage.say("ash", resources.HolderSet(stage.sessions["ash"], "lock", "outside"))
    stage.lock("ash", "h1", "db")
    stage.lock("cedar", "h2", "page")
    stage.lock("cedar", "w3", "db")
    stage.wait("birch", "w2", bodies.WaitCondition("lock", "outside"))
    stage.wait(
        "ash", "w1", bodies.WaitCondition("agent", "birch"), bodies.WaitCondition("lock", "page", lease_s=9)
    )
    assert stage.answer_confirms() == 3
    stage.release("cedar", "h2")
    for agent in ("ash", "birch", "cedar"):
        open_ids = {"ash": ["w1"], "birch": ["w2"], "cedar": ["w3"]}[agent]
        stage.beat(agent, open=open_ids)
    stage.pass_time(1.0)
    stage.answer_confirms()
    assert "w3" in stage.kernel.tables.messages.waits
