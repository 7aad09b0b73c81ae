"""Laws of the verdicts: what each agent and each component is told to be, and what a question costs."""

from tests.core.resource_stage import ResourceStage
from tests.core.stage import Stage
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.query import verdicts
from unknot_gateway.core.repeats import Repeats
from unknot_gateway.core.verdicts import WORST_FIRST, Component, Verdicts
from unknot_schemas import bodies, resources
from unknot_schemas.bodies import WaitCondition

EVERYTHING = 10_000


def judged(stage: Stage, limit: int = EVERYTHING) -> Verdicts:
    """The verdicts now."""
    return verdicts(stage.kernel, stage.now, limit)


def only(stage: Stage) -> Component:
    """The one component."""
    (component,) = judged(stage).components
    return component


def trio(**config: object) -> ResourceStage:
    """Three scripts."""
    stage = ResourceStage(**config)
    stage.join("birch", "elm", "flint")
    return stage


def test_bug_111_idle_working_waiting_and_stuck_agents_have_different_verdicts() -> None:
    stage = ResourceStage(policy="shadow")
    stage.join("birch", "elm", "flint", "grove", "heath", concurrency=1)
    stage.request("birch", "elm", "r1", session=stage.sessions["birch"])
    stage.request("grove", "heath", "g1", session=stage.sessions["grove"])
    stage.request("heath", "grove", "h1", session=stage.sessions["heath"], execution="g1")
    stage.request("grove", "heath", "g2", session=stage.sessions["grove"], execution="h1")
    stage.answer_confirms()
    found = judged(stage)
    assert found.agents == {
        "birch": "CONTENTION", "elm": "PROGRESSING", "flint": "IDLE", "grove": "DEADLOCK", "heath": "DEADLOCK"
    }  # fmt: skip
    assert [component.verdict for component in found.components] == ["DEADLOCK", "CONTENTION"]
    (edge,) = found.components[1].waiters[0].edges
    assert (edge.wait, edge.kind, edge.id, edge.type, edge.evidence, edge.holders) == (
        "r1", "reply", "elm", "work", "observed", ["elm/r1"]
    )  # fmt: skip


def test_who_waits_for_a_chain_that_ends_in_work_is_in_contention() -> None:
    stage = ResourceStage()
    stage.join("birch", "elm", "flint", concurrency=1)
    stage.request("birch", "elm", "r1", session=stage.sessions["birch"])
    stage.request("elm", "flint", "r2", session=stage.sessions["elm"], execution="r1")
    assert judged(stage).agents == {"birch": "CONTENTION", "elm": "CONTENTION", "flint": "PROGRESSING"}


def test_a_chain_that_ends_in_a_tool_or_a_human_is_outside() -> None:
    stage = trio()
    stage.wait("birch", "w1", WaitCondition("tool", "ocr"), WaitCondition("human", "ann"))
    assert only(stage).verdict == "WAITING_OUTSIDE"
    assert [edge.evidence for edge in only(stage).waiters[0].edges] == ["reported", "reported"]
    stage.request("elm", "birch", "r1", session=stage.sessions["elm"])
    assert only(stage).agents == {"birch": "WAITING_OUTSIDE", "elm": "WAITING_OUTSIDE"}


def test_a_chain_that_ends_where_nobody_is_risks_starvation() -> None:
    stage = trio()
    stage.wait("birch", "w1", WaitCondition("artifact", "plan"), WaitCondition("tool", "ocr"))
    assert only(stage).verdict == "STARVATION_RISK"
    stage.produces("elm", "plan")
    assert only(stage).agents == {"birch": "CONTENTION", "elm": "PROGRESSING"}
    stage.wait("elm", "w2", WaitCondition("task", "review"))
    assert only(stage).agents == {"birch": "STARVATION_RISK", "elm": "STARVATION_RISK"}
    stage.wait("flint", "w3", WaitCondition("agent", "nobody"))
    assert [c.verdict for c in judged(stage).components] == ["STARVATION_RISK", "STARVATION_RISK"]


def test_a_request_to_somebody_who_is_not_there_risks_starvation() -> None:
    stage = trio()
    stage.join("gone")
    stage.bye("gone")
    stage.request("birch", "gone", "r1", session=stage.sessions["birch"], wait_for_target_s=30.0)
    assert only(stage).verdict == "STARVATION_RISK"


def test_who_waits_behind_a_waiting_holder_shares_its_end() -> None:
    stage = trio()
    stage.lock("birch", "a1", "page")
    stage.lock("elm", "a2", "page")
    assert only(stage).agents == {"elm": "CONTENTION", "birch": "PROGRESSING"}
    stage.wait("birch", "w1", WaitCondition("human", "ann"))
    stage.lock("flint", "a3", "page")
    assert only(stage).agents == dict.fromkeys(("birch", "elm", "flint"), "WAITING_OUTSIDE")


def test_a_place_behind_one_that_waits_for_something_else_too_hangs_on_that() -> None:
    stage = trio()
    stage.wait("birch", "w1", WaitCondition("lock", "page", lease_s=60.0), WaitCondition("human", "ann"))
    stage.lock("elm", "a1", "page")
    assert only(stage).agents == {"birch": "WAITING_OUTSIDE", "elm": "WAITING_OUTSIDE"}


def test_who_is_stuck_behind_a_lost_holder_is_orphaned() -> None:
    stage = trio(session_loss_s=5.0)
    stage.lock("birch", "a1", "page", lease_s=600.0)
    for _ in range(6):
        stage.pass_time(30.0)
        stage.beat("elm")
    stage.lock("elm", "a2", "page")
    component = only(stage)
    assert (component.verdict, component.agents) == ("ORPHANED", {"elm": "ORPHANED"})
    assert component.waiters[0].edges[0].holders == ["birch/main (lost)"]


def test_one_busy_agent_hides_no_stuck_pair() -> None:
    stage = ResourceStage(policy="shadow")
    stage.join("birch", "elm", "flint", "grove")
    stage.lock("birch", "a1", "one")
    stage.lock("elm", "a2", "two")
    stage.lock("birch", "b1", "two")
    stage.lock("elm", "b2", "one")
    stage.wait("flint", "f1", WaitCondition("agent", "grove"), WaitCondition("agent", "birch"))
    stage.answer_confirms()
    component = only(stage)
    assert component.verdict == "DEADLOCK"
    assert component.agents == {
        "birch": "DEADLOCK", "elm": "DEADLOCK", "flint": "DEADLOCK", "grove": "PROGRESSING"
    }  # fmt: skip
    assert component.cycles == [["birch", "elm", "birch"]]
    assert [(waiter.agent, waiter.in_core) for waiter in component.waiters] == [
        ("birch", True), ("elm", True), ("flint", False)
    ]  # fmt: skip


def test_what_is_only_suspected_is_no_deadlock() -> None:
    stage = trio(policy="shadow")
    stage.lock("birch", "a1", "one")
    stage.lock("elm", "a2", "two")
    stage.lock("birch", "b1", "two")
    stage.lock("elm", "b2", "one")
    assert only(stage).agents == {"birch": None, "elm": None}
    stage.answer_confirms()
    assert only(stage).agents == {"birch": "DEADLOCK", "elm": "DEADLOCK"}


def lock_knot(stage: ResourceStage, number: int) -> None:
    """birch and elm take two locks crosswise; found, ended, and all given back."""
    stage.lock("birch", f"a{number}", "one")
    stage.lock("elm", f"b{number}", "two")
    stage.lock("birch", f"c{number}", "two")
    stage.lock("elm", f"d{number}", "one")
    stage.answer_confirms()
    stage.release("birch", f"a{number}")
    stage.release("elm", f"b{number}")


def test_a_deadlock_that_is_built_up_three_times_is_a_livelock() -> None:
    stage = trio()
    lock_knot(stage, 1)
    lock_knot(stage, 2)
    assert judged(stage).components == []
    lock_knot(stage, Limits().livelock_decisions)
    component = only(stage)
    assert (component.verdict, component.cycles, component.decided) == (
        "LIVELOCK",
        [["birch", "elm", "birch"]],
        3,
    )
    assert judged(stage).agents == {"birch": "LIVELOCK", "elm": "LIVELOCK", "flint": "IDLE"}
    stage.lock("birch", "a4", "one")
    stage.lock("elm", "b4", "one")
    assert only(stage).verdict == "LIVELOCK"
    assert only(stage).waiters[0].agent == "elm"
    stage.pass_time(Limits().livelock_window_s + 1)
    assert "LIVELOCK" not in judged(stage).agents.values()


def test_a_livelock_that_stands_is_a_deadlock_first() -> None:
    stage = trio(policy="shadow")
    for number in range(3):
        stage.lock("birch", f"a{number}", "one")
        stage.lock("elm", f"b{number}", "two")
        stage.lock("birch", f"c{number}", "two")
        stage.lock("elm", f"d{number}", "one")
        stage.answer_confirms()
        if number < 2:
            for agent, wait_id in (("birch", f"c{number}"), ("elm", f"d{number}")):
                stage.say(agent, bodies.WaitClose(wait_id, stage.sessions[agent]))
            stage.release("birch", f"a{number}")
            stage.release("elm", f"b{number}")
    component = only(stage)
    assert (component.verdict, component.others, component.decided) == ("DEADLOCK", ["LIVELOCK"], 3)


def test_an_approval_rests_on_its_approver() -> None:
    stage = trio()
    stage.say("birch", resources.ApprovalRequest("p1", stage.sessions["birch"], "elm", timeout_s=60.0))
    assert only(stage).agents == {"birch": "CONTENTION", "elm": "PROGRESSING"}
    stage.say("elm", resources.ApprovalRequest("p2", stage.sessions["elm"], "human:ann", timeout_s=60.0))
    assert only(stage).agents == {"birch": "WAITING_OUTSIDE", "elm": "WAITING_OUTSIDE"}


def test_nobody_is_judged_before_reconciliation_is_over() -> None:
    stage = ResourceStage()
    stage.join("birch", resume=True)
    stage.join("elm", resume=True)
    stage.wait("birch", "w1", WaitCondition("artifact", "plan"))
    assert only(stage).agents == {"birch": None}
    for agent in ("birch", "elm"):
        stage.beat(agent, open=["w1"] if agent == "birch" else [])
    assert only(stage).agents == {"birch": "STARVATION_RISK"}


def test_an_execution_shares_the_ends_of_its_joined_strands_and_of_no_others() -> None:
    stage = trio()
    stage.wait("birch", "w1", WaitCondition("tool", "ocr"), strand="s1")
    stage.wait("birch", "w2", WaitCondition("human", "ann"), strand="s2")
    stage.wait("birch", "w3", WaitCondition("agent", "elm"), strand="s3", detached=True)
    stage.wait("flint", "w4", WaitCondition("agent", "birch"))
    waiters = [waiter for component in judged(stage).components for waiter in component.waiters]
    assert {(waiter.agent, waiter.strand): waiter.verdict for waiter in waiters} == {
        ("birch", "s1"): "WAITING_OUTSIDE",
        ("birch", "s2"): "WAITING_OUTSIDE",
        ("birch", "s3"): "CONTENTION",
        ("birch", ""): "WAITING_OUTSIDE",
        ("flint", ""): "WAITING_OUTSIDE",
    }


def test_what_rests_on_an_agent_without_hello_is_assumed() -> None:
    stage = ResourceStage()
    stage.request("ash", "oak", "r1", timeout_s=30.0)
    (edge,) = only(stage).waiters[0].edges
    assert (edge.evidence, edge.holders) == ("assumed", ["oak/main"])
    assert only(stage).agents == {"ash": "CONTENTION", "oak": "PROGRESSING"}


def test_components_are_apart_and_the_worst_comes_first() -> None:
    stage = trio()
    stage.wait("birch", "w1", WaitCondition("human", "ann"))
    stage.wait("elm", "w2", WaitCondition("artifact", "plan"))
    stage.wait("flint", "w3", WaitCondition("agent", "flint2"), need="any", run="run_1")
    stage.join("flint2")
    found = judged(stage)
    assert [component.verdict for component in found.components] == [
        "STARVATION_RISK", "WAITING_OUTSIDE", "CONTENTION"
    ]  # fmt: skip
    assert found.components[2].runs == ["run_1"]


def test_a_question_looks_at_so_many_waits_and_at_the_stuck_ones_first() -> None:
    stage = ResourceStage(policy="shadow", limits=Limits(verdict_waits=4))
    stage.join(*(f"agent{number}" for number in range(10)), "birch", "elm")
    for number in range(10):
        stage.wait(
            f"agent{number}",
            f"w{number}",
            WaitCondition("agent", f"agent{(number + 1) % 10}" if number < 9 else "x"),
        )
    stage.lock("birch", "a1", "one")
    stage.lock("elm", "a2", "two")
    stage.lock("birch", "b1", "two")
    stage.lock("elm", "b2", "one")
    stage.answer_confirms()
    found = judged(stage)
    assert (found.total, found.judged) == (12, 4)
    assert [component.verdict for component in found.components] == ["DEADLOCK", None]
    assert found.components[1].agents["agent0"] is None


def test_a_question_follows_so_many_links_and_what_is_beyond_is_not_judged() -> None:
    stage = ResourceStage(limits=Limits(verdict_links=3))
    agents = [f"agent{number}" for number in range(6)]
    stage.join("birch", *agents)
    stage.lock("birch", "h", "page")
    stage.wait("birch", "w", WaitCondition("human", "ann"))
    for agent in agents:
        stage.lock(agent, f"a-{agent}", "page")
    assert judged(stage).agents == {
        "birch": "WAITING_OUTSIDE",
        **dict.fromkeys(agents[:2], "WAITING_OUTSIDE"),
        **dict.fromkeys(agents[2:], None),
    }


def test_so_many_cycles_are_remembered_by_when_they_were_decided_on_last() -> None:
    repeats = Repeats(Limits(cycles_max=2, livelock_decisions=2))
    for at, cycle in enumerate("abcacb"):
        repeats.note([cycle, "x", cycle], float(at))
    assert repeats.livelocks(6.0) == {("c", "x", "c"): 2}


def test_the_order_has_every_verdict_once() -> None:
    assert len(set(WORST_FIRST)) == len(WORST_FIRST) == 8
