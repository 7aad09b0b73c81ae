"""What a hostile reader found about resources: each a law that was broken once."""

from typing import Any

import pytest

from tests.core.resource_stage import ResourceStage, leased, units
from unknot_gateway.core.facts import ApprovalDecided
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_schemas import bodies, errors, holds, resources


@pytest.fixture
def stage() -> ResourceStage:
    stage = ResourceStage()
    stage.join("ash", "birch", "cedar", "oak")
    return stage


@pytest.fixture
def after() -> ResourceStage:
    """A new gateway, whose agents lived before it."""
    after = ResourceStage()
    after.kernel = Kernel("default", 8, KernelConfig())
    after.sessions = {agent: f"{agent}-before" for agent in ("ash", "birch")}
    return after


def resume(stage: ResourceStage, agent: str, *named: holds.Hold, open_: tuple[str, ...] = ()) -> None:
    fields: dict[str, Any] = {"resume": True, "open": list(open_), "holds": list(named), "heartbeat_s": 60.0}
    stage.hello(agent, session=stage.sessions[agent], **fields)


def held(stage: ResourceStage) -> list[str]:
    return [str(hold.id) for hold in stage.kernel.tables.resources.leases.all()]


def report(stage: ResourceStage, agent: str, kind: Any, of: str, **fields: Any) -> None:
    holder = resources.Holder(of)
    stage.say(agent, resources.HolderSet(stage.sessions[agent], kind, "thing", holder, **fields))


def clear(stage: ResourceStage, agent: str, kind: Any, of: str) -> bodies.Receipt:
    stage.say(agent, resources.HolderClear(stage.sessions[agent], kind, "thing", holder=resources.Holder(of)))
    return stage.last_receipt()


# ---- false deadlocks


@pytest.mark.parametrize("comes_back", [False, True])
def test_who_has_approved_is_not_waited_for(stage: ResourceStage, comes_back: bool) -> None:
    stage.lock("cedar", "h", "db")
    stage.wait("ash", "w", bodies.WaitCondition("approval", "oak"), leased("db"))
    stage.say("oak", resources.ApprovalResolve("w", "approved"))
    if comes_back:
        stage.hello("oak", heartbeat_s=60.0, concurrency=1)
        stage.hello("oak", heartbeat_s=60.0, main_runs=False, pools=[])
    stage.request("oak", "ash", "r", session=stage.sessions["oak"], timeout_s=100)
    assert stage.stuck == set()
    assert stage.answer_confirms() == 0
    stage.release("cedar", "h")
    assert stage.outcomes()["w"].outcome == "granted"


def test_who_has_denied_makes_nothing_true_when_it_joins_again(stage: ResourceStage) -> None:
    stage.produces("oak", "x")
    either = (bodies.WaitCondition("approval", "cedar"), bodies.WaitCondition("artifact", "x"))
    stage.wait("ash", "w", *either, need="any")
    stage.say("cedar", resources.ApprovalResolve("w", "denied"))
    stage.hello("cedar", heartbeat_s=60.0)
    stage.request("oak", "ash", "r", session=stage.sessions["oak"], timeout_s=100)
    assert stage.stuck == {"ash", "oak"}


def test_a_report_whose_time_is_over_says_that_nobody_holds_it(stage: ResourceStage) -> None:
    report(stage, "ash", "lock", "birch")
    report(stage, "ash", "lock", "birch", until_s=-1.0)
    report(stage, "ash", "lock", "cedar", until_s=0.0)
    assert stage.last_receipt().ok
    assert stage.kernel.tables.resources.holders.reports == 0


@pytest.mark.parametrize("how", ["second session", "lost"])
def test_a_report_is_cleared_by_the_name_that_it_was_made_with(how: str) -> None:
    stage = ResourceStage(session_loss_s=20.0)
    stage.join("ash")
    stage.join("birch", heartbeat_s=1.0)
    report(stage, "ash", "lock", "birch")
    if how == "lost":
        stage.pass_time(21)
    else:
        stage.hello("birch", heartbeat_s=60.0)
    receipt = clear(stage, "ash", "lock", "birch")
    assert receipt.ok
    assert not receipt.duplicate
    assert stage.kernel.tables.resources.holders.reports == 0


def test_who_is_named_as_a_producer_stays_one_when_it_withdraws_its_own_word(stage: ResourceStage) -> None:
    stage.produces("birch", "thing")
    stage.produces("cedar", "thing")
    report(stage, "ash", "artifact", "birch")
    stage.say("birch", resources.ArtifactWithdraw("thing", stage.sessions["birch"]))
    stage.wait("oak", "w", bodies.WaitCondition("artifact", "thing"))
    stage.request("cedar", "oak", "r", session=stage.sessions["cedar"], timeout_s=100)
    assert stage.stuck == set(), "birch can go on"
    clear(stage, "ash", "artifact", "birch")
    assert stage.stuck == {"cedar", "oak"}


def test_a_pool_too_small_for_all_that_a_wait_asks_of_it_refuses_it(stage: ResourceStage) -> None:
    stage.declare("gpu", 3)
    stage.lock("ash", "h", "gpu*3")
    stage.lock("birch", "w", "gpu*1", "gpu*2")
    stage.wait("cedar", "v", leased("gpu*1"), leased("gpu*2"), need=1)
    stage.declare("gpu", 2)
    error = stage.outcomes()["w"].error
    assert error is not None
    assert error.code == errors.OVER_CAPACITY
    stage.release("ash", "h")
    assert stage.kinds()["v"] == "granted", "one of them is enough for it"


# ---- held by two, or by nobody


def test_what_an_execution_of_a_lost_session_holds_is_kept_until_its_lease_lapses() -> None:
    stage = ResourceStage(session_loss_s=20.0)
    stage.join("ash", "cedar")
    stage.join("birch", concurrency=1, heartbeat_s=1.0)
    stage.request("ash", "birch", "r", session=stage.sessions["ash"], timeout_s=900)
    stage.lock("birch", "w1", "db", execution="r", lease_s=100)
    stage.lock("cedar", "w2", "db")
    stage.pass_time(21)
    assert stage.kinds() == {"w1": "granted", "r": "responder_lost"}
    assert stage.orphaned == {"cedar"}
    for _ in range(2):
        stage.beat("ash")
        stage.beat("cedar", open=["w2"])
        stage.pass_time(40)
    assert stage.kinds()["w2"] == "granted"


def test_the_close_of_an_older_generation_releases_nothing(stage: ResourceStage) -> None:
    stage.wait("ash", "w", leased("db"), generation=2)
    close = bodies.WaitClose("w", stage.sessions["ash"], generation=1)
    stage.say("ash", close)
    assert held(stage) == ["w"]
    stage.say("ash", bodies.WaitClose("w", stage.sessions["ash"], generation=2))
    assert held(stage) == []
    stage.say("ash", close)
    stage.wait("ash", "w", leased("db"), generation=2)
    assert held(stage) == [], "an id never opens again"


@pytest.mark.parametrize("by", ["eve", "human:eve"])
def test_another_human_decides_nothing_however_the_name_is_written(stage: ResourceStage, by: str) -> None:
    stage.wait("ash", "w", bodies.WaitCondition("approval", "human:bob"))
    stage.feed(ApprovalDecided("w", "approved", by=by, reply_to="_INBOX.api"))
    assert not stage.last_receipt().ok
    stage.feed(ApprovalDecided("w", "approved", by=by.replace("eve", "bob")))
    assert stage.kinds() == {"w": "approved"}


# ---- over a restart


def test_who_is_outdone_in_several_locks_is_told_once(after: ResourceStage) -> None:
    both = [units("a"), units("b")]
    resume(after, "ash", holds.Hold("w1", 5, both, lease_s=50.0))
    resume(after, "birch", holds.Hold("w2", 6, [*both, units("a")], lease_s=50.0))
    assert after.lapsed("ash") == ["w1"]
    assert held(after) == ["w2"]
    assert after.release("birch", "w2").ok
    assert len(after.kernel.tables.resources.pools) == 0


def test_a_wait_sent_again_before_its_grant_was_heard_is_over_with_the_hold(after: ResourceStage) -> None:
    resume(after, "ash", open_=("w",))
    resume(after, "birch", open_=("v",))
    after.lock("ash", "w", "db")
    granted = holds.Hold("w", 5, [units("db")], lease_s=50.0)  # by the gateway before, and it arrived late
    assert after.beat("ash", holds=[granted]).unknown_holds == []
    after.lock("birch", "v", "db")
    after.beat("birch", open=["v"])
    assert after.stuck == set()
    assert after.release("ash", "w").ok
    assert after.kinds() == {"v": "granted"}


def test_nobody_names_a_hold_by_the_id_of_anothers_wait(after: ResourceStage) -> None:
    resume(after, "ash", open_=("w",))
    resume(after, "birch")
    after.lock("ash", "w", "db")
    forged = holds.Hold("w", 5, [units("log")], lease_s=50.0)
    assert after.beat("birch", holds=[forged]).unknown_holds == ["w"]
    after.beat("ash", open=["w"])
    assert after.kinds() == {"w": "granted"}
    assert held(after) == ["w"]


@pytest.mark.parametrize("is_released", [False, True])
def test_a_lock_that_was_granted_anew_never_goes_back_to_a_lower_token(
    after: ResourceStage, is_released: bool
) -> None:
    after.join("fir")
    after.lock("fir", "w9", "db")
    if is_released:
        after.release("fir", "w9")
    resume(after, "ash", holds.Hold("w1", 5, [units("db")], lease_s=50.0))
    assert after.lapsed("ash") == ["w1"]
    after.say("fir", resources.LockCheck("db", 5))
    assert not after.last_receipt().ok
    resume(after, "birch", holds.Hold("w2", 6, [units("log")], lease_s=50.0))
    assert "w2" in held(after)
