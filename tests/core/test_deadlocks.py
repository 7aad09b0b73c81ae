"""Exactly the members fail, at once, and nobody fails who can still go on."""

import pytest

from tests.core.stage import Stage
from unknot_schemas import bodies


def pair(stage: Stage, **hello: object) -> None:
    """Two agents, each with one event in hand, each waiting for the other."""
    stage.hello("caller", session="caller-1", concurrency=4)
    for name in ("birch", "elm"):
        stage.hello(name, session=f"{name}-1", **hello)
    stage.request("caller", "birch", "b0", session="caller-1")
    stage.request("caller", "elm", "e0", session="caller-1")
    stage.request("birch", "elm", "b1", session="birch-1", execution="b0")
    stage.clear()
    stage.request("elm", "birch", "e1", session="elm-1", execution="e0")


def test_two_serial_agents_that_wait_for_each_other_both_fail() -> None:
    stage = Stage()
    pair(stage, concurrency=1)
    assert stage.answer_confirms() == 2
    assert stage.kinds() == {"b1": "deadlock", "e1": "deadlock"}
    (event,) = stage.deadlocks()
    assert event.cycle == ["birch", "elm", "birch"]
    assert sorted(event.request_ids) == ["b1", "e1"]
    assert "birch serves one event at a time" in event.remedy
    assert event.evidence == "observed"
    assert event.blocked_behind == ["caller"]
    assert all(outcome.handled == "no" for outcome in stage.outcomes().values())


def test_the_same_two_at_concurrency_two_are_no_deadlock() -> None:
    stage = Stage()
    pair(stage, concurrency=2)
    assert stage.delivered("birch") == ["e1"]
    assert stage.answer_confirms() == 0
    stage.pass_time(3)
    assert stage.deadlocks() == []


def test_refuse_fails_only_the_closing_wait() -> None:
    stage = Stage(policy="refuse")
    pair(stage, concurrency=1)
    stage.answer_confirms()
    assert stage.kinds() == {"e1": "deadlock"}
    assert stage.delivered("birch") == []


def test_shadow_only_tells_and_only_once() -> None:
    stage = Stage(policy="shadow")
    pair(stage, concurrency=1)
    stage.answer_confirms()
    assert stage.kinds() == {}
    assert len(stage.deadlocks()) == 1
    stage.pass_time(5)
    assert len(stage.deadlocks()) == 1


def test_control_goes_out_before_the_outcome() -> None:
    stage = Stage()
    pair(stage, concurrency=1)
    stage.answer_confirms()
    names = [type(effect).__name__ for effect in stage.effects]
    assert names.index("SendControl") < names.index("SendOutcome")


def scripts(stage: Stage, *names: str) -> None:
    for name in names:
        stage.hello(name, session=f"{name}-1")
    stage.clear()


def test_two_scripts_that_wait_for_each_other_both_fail_and_the_closing_request_is_never_delivered() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1")
    assert stage.delivered("birch") == []
    stage.answer_confirms()
    assert stage.kinds() == {"r1": "deadlock", "r2": "deadlock"}
    assert stage.delivered("birch") == []
    assert stage.abandoned("elm") == ["r1"]


def test_a_script_that_waits_for_itself_is_a_cycle_of_one() -> None:
    stage = Stage()
    scripts(stage, "birch")
    stage.request("birch", "birch", "r1", session="birch-1")
    stage.answer_confirms()
    (event,) = stage.deadlocks()
    assert event.cycle == ["birch", "birch"]
    assert stage.delivered("birch") == []


@pytest.mark.parametrize("size", [3, 10, 1_000])
def test_a_ring_of_any_size_is_found(size: int) -> None:
    stage = Stage()
    names = [f"a{number:04}" for number in range(size)]
    scripts(stage, *names)
    for number, name in enumerate(names):
        stage.request(name, names[(number + 1) % size], f"r{number}", session=f"{name}-1")
    stage.pass_time(0.1)  # a large one is found between messages
    assert stage.answer_confirms() == size
    assert stage.kinds() == {f"r{number}": "deadlock" for number in range(size)}
    (event,) = stage.deadlocks()
    assert event.members_total == size
    assert len(event.cycle) == min(size + 1, 64)


def test_a_wait_that_its_agent_no_longer_has_open_is_no_part_of_a_deadlock() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1")
    (confirm,) = [body for body in stage.controls("birch") if isinstance(body, bodies.Confirm)]
    stage.say("elm", bodies.Facts("elm-1", confirm.incident, open=["r2"]), None)
    stage.say("birch", bodies.Facts("birch-1", confirm.incident, open=[]), None)
    assert stage.kinds() == {}
    assert stage.deadlocks() == []
    assert stage.delivered("birch") == ["r2"]
    assert stage.kernel.counters["retracted"] == 1


def test_who_says_nothing_counts_as_able_to_go_on_and_the_parked_request_is_delivered() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1")
    stage.pass_time(0.3)
    assert stage.delivered("birch") == ["r2"]
    assert stage.kinds() == {}


def test_heartbeats_sent_after_the_first_read_stand_for_facts() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1")
    stage.pass_time(0.3)
    for _ in range(2):
        stage.pass_time(4.9)
        stage.say("birch", bodies.Heartbeat("birch-1", ["r1"], seen=9))
        stage.say("elm", bodies.Heartbeat("elm-1", ["r2"], seen=9))
    stage.pass_time(0.05)
    assert stage.kinds() == {"r1": "deadlock", "r2": "deadlock"}


def test_a_tail_is_told_and_waits_on() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm", "heath")
    stage.request("heath", "birch", "t1", session="heath-1")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.request("elm", "birch", "r2", session="elm-1")
    stage.answer_confirms()
    assert stage.kinds() == {"r1": "deadlock", "r2": "deadlock"}
    (told,) = stage.controls("heath")
    assert isinstance(told, bodies.BlockedBehind)
    assert told.waits == ["t1"]


def group(name: str, n: int, need: int) -> bodies.Group:
    return bodies.Group(name, n, need)


@pytest.mark.parametrize(("need", "deadlocked"), [(1, False), (2, True)])
def test_a_group_is_stuck_when_too_few_of_its_branches_can_go_on(need: int, deadlocked: bool) -> None:
    stage = Stage()
    scripts(stage, "birch", "elm")
    stage.hello("free", session="free-1", concurrency=1)
    stage.request("birch", "free", "g1", session="birch-1", group=group("g", 2, need))
    stage.request("birch", "elm", "g2", session="birch-1", group=group("g", 2, need))
    stage.request("elm", "birch", "r1", session="elm-1")
    stage.answer_confirms()
    assert bool(stage.deadlocks()) is deadlocked
    if deadlocked:
        assert stage.kinds() == {"g1": "cancelled", "g2": "deadlock", "r1": "deadlock"}


def test_any_of_with_no_free_branch_is_a_deadlock() -> None:
    stage = Stage()
    scripts(stage, "birch", "elm", "flint")
    for number, target in enumerate(("elm", "flint")):
        stage.request("birch", target, f"g{number}", session="birch-1", group=group("g", 2, 1))
    stage.request("elm", "birch", "r1", session="elm-1")
    assert stage.answer_confirms() == 0
    stage.request("flint", "birch", "r2", session="flint-1")
    stage.answer_confirms()
    assert stage.kinds() == dict.fromkeys(["g0", "g1", "r1", "r2"], "deadlock")


def test_the_first_answer_of_an_any_of_cancels_the_rest() -> None:
    stage = Stage()
    stage.hello("birch", session="birch-1")
    for name in ("elm", "flint"):
        stage.hello(name, session=f"{name}-1", concurrency=1)
    stage.request("birch", "elm", "g0", session="birch-1", group=group("g", 2, 1))
    stage.request("birch", "flint", "g1", session="birch-1", group=group("g", 2, 1))
    stage.reply("flint", "g1", session="flint-1")
    assert stage.kinds() == {"g1": "reply", "g0": "cancelled"}
    assert stage.abandoned("elm") == ["g0"]


def test_a_pool_saturated_by_its_own_sub_requests_is_a_deadlock() -> None:
    stage = Stage()
    stage.hello("caller", session="caller-1", concurrency=4)
    stage.hello("elm", session="elm-1", concurrency=2)
    for number in range(2):
        stage.request("caller", "elm", f"j{number}", session="caller-1")
    stage.request("elm", "elm", "s0", session="elm-1", execution="j0")
    assert stage.answer_confirms() == 0
    stage.request("elm", "elm", "s1", session="elm-1", execution="j1")
    stage.answer_confirms()
    assert stage.kinds() == {"s0": "deadlock", "s1": "deadlock"}
    (event,) = stage.deadlocks()
    assert "all 2 slots of elm" in event.remedy


def test_a_detached_strand_blocks_nobody_unless_the_own_task_awaits_it() -> None:
    for awaited, expected in (([], {}), (["s1"], {"b1": "deadlock", "e1": "deadlock"})):
        stage = Stage()
        stage.hello("caller", session="caller-1", concurrency=4)
        for name in ("birch", "elm"):
            stage.hello(name, session=f"{name}-1", concurrency=1)
        stage.request("caller", "birch", "b0", session="caller-1")
        stage.request("caller", "elm", "e0", session="caller-1")
        stage.request("birch", "elm", "b1", session="birch-1", execution="b0", strand="s1", detached=True)
        stage.clear()
        stage.request("elm", "birch", "e1", session="elm-1", execution="e0")
        strands = {"b0": bodies.Strands(alive=[] if awaited else [""], awaited=awaited)}
        assert stage.answer_confirms(strands=strands) == 2
        assert stage.kinds() == expected


def test_joined_strands_are_found_without_being_asked_twice() -> None:
    stage = Stage()
    stage.hello("caller", session="caller-1", concurrency=4)
    for name in ("birch", "elm"):
        stage.hello(name, session=f"{name}-1", concurrency=1)
    stage.request("caller", "birch", "b0", session="caller-1")
    stage.request("caller", "elm", "e0", session="caller-1")
    stage.request("birch", "elm", "b1", session="birch-1", execution="b0", strand="s1")
    stage.request("elm", "birch", "e1", session="elm-1", execution="e0")
    stage.answer_confirms()
    assert stage.kinds() == {"b1": "deadlock", "e1": "deadlock"}
    assert stage.deadlocks()[0].cycle == ["birch", "elm", "birch"]


def test_a_deferred_request_is_outside_unless_somebody_inside_promised_its_answer() -> None:
    for by, deadlocks in ((None, 0), ("e9", 1)):
        stage = Stage()
        stage.hello("elm", session="elm-1", concurrency=1)
        scripts(stage, "birch")
        stage.request("birch", "elm", "r1", session="birch-1")
        stage.say("elm", bodies.Defer("elm-1", ["r1"], by))
        stage.clear()
        stage.request("elm", "birch", "r2", session="elm-1", execution="e9")
        stage.answer_confirms()
        assert len(stage.deadlocks()) == deadlocks


def test_agents_without_hello_are_one_serial_main_each_and_need_explicit_timeouts() -> None:
    for timeout_s, expected in ((None, {}), (30.0, {"r1": "deadlock", "r2": "deadlock"})):
        stage = Stage()
        stage.request("birch", "elm", "r1", timeout_s=timeout_s)
        stage.request("elm", "birch", "r2", timeout_s=timeout_s)
        assert stage.kinds() == expected
        assert [event.evidence for event in stage.deadlocks()] == ["assumed"] * bool(expected)


def test_an_assumed_deadlock_is_only_a_notice_where_the_network_says_so() -> None:
    stage = Stage(assume_serial=False)
    stage.request("birch", "elm", "r1", timeout_s=30.0)
    stage.request("elm", "birch", "r2", timeout_s=30.0)
    assert stage.kinds() == {}
    assert len(stage.deadlocks()) == 1
    assert stage.delivered("birch") == ["r2"]


def test_a_lost_responder_leaves_no_edge_for_its_next_life() -> None:
    stage = Stage()
    scripts(stage, "birch")
    stage.hello("elm", session="elm-1", instance="one")
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.hello("elm", session="elm-2", instance="one")
    assert stage.kinds() == {"r1": "responder_lost"}
    stage.clear()
    stage.request("elm", "birch", "r2", session="elm-2")
    assert stage.delivered("birch") == ["r2"]
    assert stage.answer_confirms() == 0


def test_an_early_answer_ends_the_edge_though_the_handler_runs_on() -> None:
    stage = Stage()
    scripts(stage, "birch")
    stage.hello("elm", session="elm-1", concurrency=1)
    stage.request("birch", "elm", "r1", session="birch-1")
    stage.reply("elm", "r1", session="elm-1", done=False)
    stage.clear()
    stage.request("elm", "birch", "r2", session="elm-1", execution="r1")
    assert stage.delivered("birch") == ["r2"]
    assert stage.answer_confirms() == 0
    assert not stage.kernel.tables.waiting.graph.stuck()
