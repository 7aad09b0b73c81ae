"""Artifacts, approvals, what is reported of things outside, and waits that mix all of them."""

from typing import Any

import pytest

from tests.core.resource_stage import ResourceStage, leased
from unknot_gateway.core.effects import SendNotice
from unknot_gateway.core.facts import ApprovalDecided
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.query import waits
from unknot_schemas import bodies, errors, resources
from unknot_schemas.limits import TIMEOUT_MAX_S

ARTIFACT = bodies.WaitCondition("artifact", "report")
TOOL = bodies.WaitCondition("tool", "browser")


@pytest.fixture
def stage() -> ResourceStage:
    stage = ResourceStage()
    stage.join("ash", "birch", "cedar", "elm")
    return stage


def reply_of(stage: ResourceStage) -> bodies.Receipt:
    return stage.last_receipt()


def code(stage: ResourceStage) -> str | None:
    error = stage.last_receipt().error
    return error.code if error is not None else None


def data_of(outcome: bodies.Outcome) -> dict[str, bytes]:
    assert outcome.fulfilled is not None
    return {name: bytes(data) for name, data in outcome.fulfilled.artifacts.items()}


# ---- since when


@pytest.mark.parametrize(("said", "shown"), [(40.0, 42.0), (-5.0, 2.0), (1e300, TIMEOUT_MAX_S + 2.0)])
def test_a_wait_that_another_gateway_has_seen_began_before_this_one_was_told(
    stage: ResourceStage, said: float, shown: float
) -> None:
    stage.wait("ash", "w1", bodies.WaitCondition("artifact", "report"), since_s=said, timeout_s=100.0)
    stage.pass_time(2.0)
    (row,) = waits(stage.kernel, stage.now)
    assert (row.since_s, row.deadline_in_s) == (pytest.approx(shown), pytest.approx(98.0))


# ---- artifacts


def test_who_waits_for_an_artifact_gets_its_data(stage: ResourceStage) -> None:
    stage.say("ash", resources.ArtifactWait("w1", stage.sessions["ash"], "report"))
    assert stage.publish("birch", "report", {"pages": 3}) == bodies.Receipt(True, "report")
    outcome = stage.outcomes("ash")["w1"]
    assert outcome.outcome == "produced"
    assert data_of(outcome) == {"report": b'{"pages":3}'}


def test_one_that_is_there_is_not_waited_for(stage: ResourceStage) -> None:
    stage.publish("birch", "report", 1)
    stage.wait("ash", "w1", ARTIFACT)
    assert data_of(stage.outcomes()["w1"]) == {"report": b"1"}


def test_the_first_to_publish_holds(stage: ResourceStage) -> None:
    stage.publish("birch", "report", 1)
    assert stage.publish("cedar", "report", 2).duplicate
    stage.wait("ash", "w1", ARTIFACT)
    assert data_of(stage.outcomes()["w1"]) == {"report": b"1"}


def test_a_forgotten_artifact_may_be_produced_anew(stage: ResourceStage) -> None:
    stage.publish("birch", "report", 1)
    stage.say("ash", resources.ArtifactForget("report"))
    assert not stage.last_receipt().duplicate
    stage.wait("ash", "w1", ARTIFACT)
    assert stage.kinds() == {}
    stage.publish("birch", "report", 2)
    assert data_of(stage.outcomes()["w1"]) == {"report": b"2"}


def test_artifacts_are_bounded_by_number_and_bytes_oldest_first_out() -> None:
    stage = ResourceStage(limits=Limits(artifacts_max=2, artifact_bytes_max=100))
    stage.join("ash")
    for name in ("a", "b", "c"):
        stage.publish("ash", name)
    artifacts = stage.kernel.tables.resources.artifacts
    assert [name for name in "abc" if artifacts.data_of(name) is not None] == ["b", "c"]
    stage.publish("ash", "d", "x" * 90)
    assert [name for name in "abcd" if artifacts.data_of(name) is not None] == ["c", "d"]
    stage.publish("ash", "e", "x" * 90)
    assert artifacts.published == 1
    assert artifacts.published_bytes <= 100


def test_what_does_not_fit_one_message_can_be_waited_for_alone(stage: ResourceStage) -> None:
    for name in ("a", "b"):
        stage.publish("birch", name, "x" * 300_000)
    stage.wait("ash", "w1", *(bodies.WaitCondition("artifact", name) for name in "ab"))
    outcome = stage.outcomes()["w1"]
    assert outcome.outcome == "produced"
    assert list(data_of(outcome)) == ["a"]


def test_producers_are_bounded() -> None:
    stage = ResourceStage(limits=Limits(productions_max=1))
    stage.join("ash")
    assert stage.produces("ash", "a").ok
    assert stage.produces("ash", "b").ok is False
    assert code(stage) == errors.OVER_LIMIT


def test_while_no_producer_is_known_an_artifact_is_outside(stage: ResourceStage) -> None:
    stage.wait("ash", "w1", ARTIFACT)
    stage.wait("birch", "w2", bodies.WaitCondition("agent", "ash"))
    assert stage.stuck == set()


def test_a_producer_that_waits_for_who_waits_for_it_is_a_deadlock(stage: ResourceStage) -> None:
    stage.produces("birch", "report")
    stage.wait("ash", "w1", ARTIFACT)
    stage.lock("ash", "w0", "db", strand="s1", detached=True)
    stage.lock("birch", "w2", "db")
    assert stage.deadlocks() == [], "the holder is a strand of its own, which runs"
    stage.release("ash", "w0")
    stage.release("birch", "w2")
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    stage.answer_confirms()
    assert [(wait.kind, wait.target) for wait in stage.deadlocks()[0].waits] == [
        ("artifact", "report"),
        ("reply", "ash"),
    ]


def test_an_alternative_producer_that_runs_makes_it_none(stage: ResourceStage) -> None:
    stage.produces("birch", "report")
    stage.produces("cedar", "report")
    stage.wait("ash", "w1", ARTIFACT)
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    assert stage.stuck == set()
    stage.say("cedar", resources.ArtifactWithdraw("report", stage.sessions["cedar"]))
    assert stage.stuck == {"ash", "birch"}
    stage.produces("elm", "report")
    assert stage.stuck == set()


@pytest.mark.parametrize("how", ["bye", "done", "withdraw", "lost"])
def test_who_has_ended_produces_nothing(how: str) -> None:
    stage = ResourceStage(session_loss_s=5.0)
    stage.join("ash", "elm")
    stage.join("birch", concurrency=2, heartbeat_s=1.0)
    stage.request("elm", "birch", "e1", session=stage.sessions["elm"], timeout_s=3000.0)
    execution = "main" if how == "withdraw" else "e1"
    stage.produces("birch", "report", execution=execution)
    match how:
        case "bye":
            stage.bye("birch")
        case "done":
            stage.reply("birch", "e1", session=stage.sessions["birch"])
        case "lost":
            stage.pass_time(8)
        case _:
            stage.say("birch", resources.ArtifactWithdraw("report", stage.sessions["birch"]))
    assert stage.kernel.tables.resources.artifacts.productions == 0
    assert stage.kernel.tables.resources.artifacts.wanted == 0


# ---- approvals


def ask_for(stage: ResourceStage, from_: str, **fields: Any) -> bodies.Receipt:
    fields = {"timeout_s": 100.0, **fields}
    stage.say("ash", resources.ApprovalRequest("w1", stage.sessions["ash"], from_, **fields))
    return stage.last_receipt()


def test_an_agent_is_told_and_decides(stage: ResourceStage) -> None:
    assert ask_for(stage, "birch", data=resources.Raw(b'{"cost":7}'), reason="too dear?").ok
    [(agent, asked)] = stage.controls_of(resources.ApprovalRequested)
    assert (agent, asked.id, asked.by, asked.reason) == ("birch", "w1", "ash", "too dear?")
    assert bytes(asked.data) == b'{"cost":7}'
    assert asked.deadline_in_s == 100.0
    stage.say("birch", resources.ApprovalResolve("w1", "approved"))
    outcome = stage.outcomes()["w1"]
    assert outcome.outcome == "approved"
    assert outcome.fulfilled == bodies.Fulfilled([0], decision="approved")


def test_a_denial_says_by_whom_and_why(stage: ResourceStage) -> None:
    ask_for(stage, "birch")
    stage.say("birch", resources.ApprovalResolve("w1", "denied", "no budget"))
    outcome = stage.outcomes()["w1"]
    assert outcome.outcome == "denied"
    assert outcome.error is not None
    assert outcome.error.code == errors.DENIED
    assert outcome.error.detail == {"by": "birch", "reason": "no budget"}


def test_only_who_was_asked_decides(stage: ResourceStage) -> None:
    ask_for(stage, "birch")
    for agent in ("ash", "cedar"):
        stage.say(agent, resources.ApprovalResolve("w1", "approved"))
        assert code(stage) == errors.NOT_PERMITTED
    stage.say("birch", resources.ApprovalResolve("w7", "approved"))
    assert code(stage) == errors.UNKNOWN_APPROVAL
    stage.feed(ApprovalDecided("w1", "approved", by="human:eva", reply_to="_INBOX.verb"))
    assert code(stage) == errors.NOT_PERMITTED, "the agent was asked, no human"
    assert stage.kinds() == {}


def test_a_human_decides_by_the_operators_api_only(stage: ResourceStage) -> None:
    ask_for(stage, "human:eva")
    assert stage.controls_of(resources.ApprovalRequested) == []
    notices = [e.body for e in stage.effects if isinstance(e, SendNotice)]
    assert [body.from_ for body in notices if isinstance(body, resources.ApprovalRequested)] == ["human:eva"]
    stage.say("birch", resources.ApprovalResolve("w1", "approved"))
    assert code(stage) == errors.NOT_PERMITTED
    stage.feed(ApprovalDecided("w1", "approved", reply_to="_INBOX.api"))
    assert stage.kinds() == {"w1": "approved"}


def test_who_joins_later_is_told_what_it_must_decide(stage: ResourceStage) -> None:
    ask_for(stage, "fir")
    assert stage.controls_of(resources.ApprovalRequested) == []
    stage.join("fir")
    assert [agent for agent, _ in stage.controls_of(resources.ApprovalRequested)] == ["fir"]
    stage.clear()
    stage.say("ash", bodies.WaitClose("w1", stage.sessions["ash"]))
    stage.join("fir")
    assert stage.controls_of(resources.ApprovalRequested) == []


@pytest.mark.parametrize("from_", ["human:", "no agent!", ""])
def test_an_approval_comes_from_somebody(stage: ResourceStage, from_: str) -> None:
    assert ask_for(stage, from_).ok is False
    assert stage.kinds() == {"w1": "refused"}


def test_open_approvals_are_bounded() -> None:
    stage = ResourceStage(limits=Limits(approvals_max=1))
    stage.join("ash")
    assert ask_for(stage, "human:eva").ok
    stage.say("ash", resources.ApprovalRequest("w2", stage.sessions["ash"], "human:eva"))
    assert stage.kinds() == {"w2": "over_limit"}


def test_an_agent_that_waits_for_who_wants_its_approval_is_a_deadlock(stage: ResourceStage) -> None:
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    ask_for(stage, "birch")
    stage.answer_confirms()
    [event] = stage.deadlocks()
    assert event.evidence == "observed"
    assert [(wait.kind, wait.target) for wait in event.waits] == [("reply", "ash"), ("approval", "birch")]
    assert stage.kinds() == {"r1": "deadlock", "w1": "deadlock"}


def test_a_human_is_outside(stage: ResourceStage) -> None:
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    ask_for(stage, "human:birch")
    assert stage.stuck == set()


# ---- what is reported of things outside


def outside(kind: str, name: str = "page") -> bodies.WaitCondition:
    return bodies.WaitCondition(kind, name)


def report(stage: ResourceStage, by: str, kind: Any, holder: str | None = None, **fields: Any) -> None:
    named = resources.Holder(holder) if holder is not None else None
    stage.say(by, resources.HolderSet(stage.sessions[by], kind, "page", named, **fields))
    assert stage.last_receipt().ok


@pytest.mark.parametrize("kind", ["lock", "permits", "task", "artifact"])
def test_what_nobody_is_reported_to_hold_is_outside(stage: ResourceStage, kind: str) -> None:
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    stage.wait("ash", "w1", outside(kind))
    assert stage.stuck == set()


@pytest.mark.parametrize("kind", ["lock", "permits", "task", "artifact"])
def test_a_reported_holder_that_waits_is_a_deadlock_after_a_second_read(kind: str) -> None:
    stage = ResourceStage()
    stage.join("ash", "birch", heartbeat_s=2.0)
    report(stage, "ash", kind, "birch", capacity=1)
    stage.wait("ash", "w1", outside(kind))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    assert stage.stuck == {"ash", "birch"}
    assert stage.answer_confirms() == 2
    assert stage.deadlocks() == [], "only told: one heartbeat more"
    for agent, wait_id in (("ash", "w1"), ("birch", "r1")):
        stage.beat(agent, open=[wait_id])
    stage.clear()
    stage.pass_time(2.1)
    assert stage.answer_confirms() == 2
    stage.pass_time(0.1)
    [event] = stage.deadlocks()
    assert event.evidence == "reported"
    assert [(wait.kind, wait.target) for wait in event.waits] == [(kind, "page"), ("reply", "ash")]


@pytest.mark.parametrize("kind", ["lock", "task", "artifact"])
def test_what_is_cleared_between_the_reads_is_no_deadlock(kind: Any) -> None:
    stage = ResourceStage()
    stage.join("ash", "birch", heartbeat_s=2.0)
    report(stage, "ash", kind, "birch")
    stage.wait("ash", "w1", outside(kind))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    stage.answer_confirms()
    stage.say("ash", resources.HolderClear(stage.sessions["ash"], kind, "page", resources.Holder("birch")))
    stage.pass_time(2.1)
    stage.answer_confirms()
    stage.pass_time(0.1)
    assert stage.stuck == set()
    assert stage.deadlocks() == []


def test_another_report_between_the_reads_is_read_twice_itself() -> None:
    stage = ResourceStage()
    stage.join("ash", "birch", heartbeat_s=2.0)
    report(stage, "ash", "lock", "birch")
    stage.wait("ash", "w1", outside("lock"))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    stage.answer_confirms()
    report(stage, "ash", "lock", "birch")
    stage.pass_time(2.1)
    stage.answer_confirms()
    stage.pass_time(0.1)
    assert stage.deadlocks() == []


def test_a_report_is_forgotten_in_time(stage: ResourceStage) -> None:
    report(stage, "ash", "lock", "birch", until_s=10.0)
    stage.wait("ash", "w1", outside("lock"))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    assert stage.stuck == {"ash", "birch"}
    for agent in stage.sessions:
        stage.beat(agent, open=["w1", "r1"])
    stage.pass_time(10.1)
    assert stage.stuck == set()


def test_a_lost_holder_of_something_outside_orphans_for_a_while() -> None:
    stage = ResourceStage(session_loss_s=10.0)
    stage.join("birch", heartbeat_s=1.0)
    stage.join("ash")
    report(stage, "ash", "lock", "birch")
    stage.wait("ash", "w1", outside("lock"))
    stage.pass_time(10.5)
    assert stage.orphaned == {"ash"}
    stage.pass_time(10)
    assert stage.orphaned == set()
    assert stage.kernel.tables.resources.holders.reports == 0


def test_permits_outside_are_held_by_units(stage: ResourceStage) -> None:
    report(stage, "birch", "permits", units=2, capacity=3)
    stage.wait("ash", "w1", bodies.WaitCondition("permits", "page", 2))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    assert stage.stuck == {"ash", "birch"}
    report(stage, "birch", "permits", units=1)
    assert stage.stuck == set(), "two are free"


@pytest.mark.parametrize("kind", ["lock", "permits", "task", "artifact"])
def test_what_is_reported_goes_with_its_session(stage: ResourceStage, kind: str) -> None:
    report(stage, "birch", kind, capacity=1)
    stage.wait("ash", "w1", outside(kind))
    stage.bye("birch")
    assert stage.stuck == set()
    for agent in list(stage.sessions):
        stage.bye(agent)
    assert stage.leftovers() == {}


@pytest.mark.parametrize("end", ["bye", "lost"])
def test_what_somebody_said_of_others_goes_with_whoever_said_it(end: str) -> None:
    stage = ResourceStage(session_loss_s=5.0)
    stage.join("cedar", heartbeat_s=1.0)
    stage.join("ash", "birch", heartbeat_s=60.0)
    report(stage, "cedar", "lock", "birch")
    stage.wait("ash", "w1", outside("lock"))
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    assert stage.stuck == {"ash", "birch"}
    if end == "bye":
        stage.bye("cedar")
    else:
        stage.pass_time(8)
    assert stage.stuck == set()


def test_what_is_reported_of_an_agent_without_hello_goes_with_its_stand_in(stage: ResourceStage) -> None:
    stage.request("oak", "ash", "e1", verb="send")
    report(stage, "ash", "lock", "oak")
    assert stage.kernel.tables.resources.holders.reports == 1
    stage.pass_time(130)
    assert stage.kernel.tables.resources.holders.reports == 0


def test_an_artifact_that_was_published_has_no_reported_producers_left(stage: ResourceStage) -> None:
    report(stage, "ash", "artifact", "birch")
    stage.publish("birch", "page")
    assert stage.kernel.tables.resources.holders.reports == 0
    report(stage, "ash", "artifact", "birch")
    assert stage.last_receipt().duplicate


def test_who_cannot_be_found_is_nobody(stage: ResourceStage) -> None:
    report(stage, "ash", "lock", "nobody")
    stage.wait("ash", "w1", outside("lock"))
    assert stage.kernel.counters["holders.unresolved"] == 1
    assert stage.stuck == set()


def test_reports_are_bounded() -> None:
    stage = ResourceStage(limits=Limits(reports_max=1))
    stage.join("ash")
    report(stage, "ash", "lock")
    stage.say("ash", resources.HolderSet(stage.sessions["ash"], "lock", "other"))
    assert code(stage) == errors.OVER_LIMIT


# ---- mixed waits


def test_any_of_a_lock_and_an_artifact(stage: ResourceStage) -> None:
    stage.lock("birch", "w0", "db")
    stage.wait("ash", "w1", leased("db"), ARTIFACT, need="any")
    stage.publish("cedar", "report", 5)
    outcome = stage.outcomes()["w1"]
    assert (outcome.outcome, data_of(outcome)) == ("produced", {"report": b"5"})
    assert outcome.fulfilled is not None
    assert outcome.fulfilled.true == [1]
    stage.release("birch", "w0")
    stage.lock("cedar", "w2", "db")
    assert stage.kinds()["w2"] == "granted"


def test_all_of_a_lock_permits_an_artifact_an_answer_and_a_decision(stage: ResourceStage) -> None:
    stage.declare("gpu", 2)
    stage.request("ash", "birch", "r1", verb="ask", session=stage.sessions["ash"], timeout_s=3000.0)
    stage.wait(
        "ash",
        "w1",
        leased("db"),
        leased("gpu*2"),
        ARTIFACT,
        bodies.WaitCondition("reply", "r1"),
        bodies.WaitCondition("approval", "cedar"),
    )
    stage.publish("cedar", "report", 5)
    stage.reply("birch", "r1", session=stage.sessions["birch"])
    assert "w1" not in stage.kinds()
    stage.say("cedar", resources.ApprovalResolve("w1", "approved"))
    outcome = stage.outcomes()["w1"]
    assert outcome.outcome == "granted"
    assert outcome.fulfilled is not None
    assert outcome.fulfilled.true == [0, 1, 2, 3, 4]
    assert outcome.fulfilled.decision == "approved"
    assert stage.token("w1")


def test_two_of_three_approvers(stage: ResourceStage) -> None:
    names = ["birch", "cedar", "human:eva"]
    stage.wait("ash", "w1", *(bodies.WaitCondition("approval", name) for name in names), need=2)
    stage.say("birch", resources.ApprovalResolve("w1", "denied"))
    assert stage.kinds() == {}
    stage.say("birch", resources.ApprovalResolve("w1", "approved"))
    assert code(stage) == errors.NOT_PERMITTED, "it has decided"
    stage.say("cedar", resources.ApprovalResolve("w1", "approved"))
    stage.feed(ApprovalDecided("w1", "approved", by="human:eva"))
    outcome = stage.outcomes()["w1"]
    assert outcome.outcome == "approved"
    assert outcome.fulfilled is not None
    assert outcome.fulfilled.true == [1, 2]


def test_a_need_that_can_not_be_reached_any_more_ends_the_wait(stage: ResourceStage) -> None:
    stage.lock("birch", "w0", "db")
    stage.wait("ash", "w1", leased("db"), bodies.WaitCondition("approval", "birch"))
    stage.say("birch", resources.ApprovalResolve("w1", "denied"))
    assert stage.kinds()["w1"] == "denied"
    stage.request("ash", "birch", "r1", verb="ask", session=stage.sessions["ash"], timeout_s=3000.0)
    stage.wait("ash", "w2", leased("db"), bodies.WaitCondition("reply", "r1"))
    stage.say("ash", bodies.RequestCancel("r1", stage.sessions["ash"]))
    assert stage.kinds()["w2"] == "cancelled"
    stage.release("birch", "w0")
    stage.lock("cedar", "w3", "db")
    assert stage.kinds()["w3"] == "granted", "they have given up their places"


def test_an_answer_that_came_before_is_true_at_once(stage: ResourceStage) -> None:
    stage.request("ash", "birch", "r1", verb="ask", session=stage.sessions["ash"], timeout_s=3000.0)
    stage.reply("birch", "r1", session=stage.sessions["birch"])
    stage.wait("ash", "w1", ARTIFACT, bodies.WaitCondition("reply", "r1"), need="any")
    assert stage.kinds()["w1"] == "reply"


def test_any_of_an_event_and_a_lock(stage: ResourceStage) -> None:
    stage.lock("birch", "w0", "db")
    stage.wait("ash", "w1", leased("db"), bodies.WaitCondition("event", "news"), need="any")
    stage.request("birch", "ash", "e1", verb="send", type="news", session=stage.sessions["birch"])
    assert stage.delivered("ash") == ["e1"]
    assert stage.kinds()["w1"] == "reply"


@pytest.mark.parametrize(
    "condition",
    [
        TOOL,
        bodies.WaitCondition("human", "eva"),
        leased("free"),
        bodies.WaitCondition("approval", "human:eva"),
    ],
)
def test_whatever_can_come_true_outside_makes_it_no_deadlock(
    stage: ResourceStage, condition: bodies.WaitCondition
) -> None:
    stage.lock("birch", "w0", "db")
    stage.request("birch", "ash", "r1", session=stage.sessions["birch"], timeout_s=3000.0)
    stage.wait("ash", "w1", leased("db"), condition, need="any")
    assert stage.stuck == set()
    stage.answer_confirms()
    assert stage.deadlocks() == []


def test_a_tool_that_only_its_client_sees_is_closed_by_it(stage: ResourceStage) -> None:
    stage.lock("birch", "w0", "db")
    stage.wait("ash", "w1", leased("db"), TOOL, need="any")
    stage.say("ash", bodies.WaitClose("w1", stage.sessions["ash"]))
    stage.release("birch", "w0")
    assert stage.kinds() == {"w0": "granted"}
    assert stage.kernel.tables.resources.pools.asks == 0


# ---- a wait that comes before what it waits for (word of that was lost, and is said again)


def test_a_wait_for_an_answer_may_come_before_the_request_itself(stage: ResourceStage) -> None:
    on = [bodies.WaitCondition("reply", "r1"), leased("db")]
    stage.wait("ash", "w1", *on)
    stage.request("ash", "birch", "r1", verb="ask", session=stage.sessions["ash"])
    assert stage.kinds() == {}
    stage.reply("birch", "r1", session=stage.sessions["birch"])
    assert stage.kinds() == {"r1": "reply", "w1": "granted"}


def test_it_is_an_edge_from_then_on(stage: ResourceStage) -> None:
    stage.join("fir", concurrency=1)
    stage.lock("ash", "h1", "db")
    stage.wait("ash", "w1", bodies.WaitCondition("reply", "r1"), leased("page"))
    stage.request("ash", "fir", "r1", verb="ask", session=stage.sessions["ash"])
    stage.lock("fir", "w2", "db", execution="r1")
    assert stage.stuck == {"ash", "fir"}


def test_a_wait_that_is_over_waits_for_nothing_that_may_come(stage: ResourceStage) -> None:
    stage.wait("ash", "w1", bodies.WaitCondition("reply", "r1"), leased("db"))
    stage.say("ash", bodies.WaitClose("w1", stage.sessions["ash"]))
    assert stage.kernel.intake._openwaits.early == {}
