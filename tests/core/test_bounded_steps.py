"""No fact takes long, whatever it brings about: the rest follows between messages, and all laws hold meanwhile."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.facts import TimePassed
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies, errors

N = 1_200
CALLS_MAX = 35_000
"""Calls of functions within one fact: some 10 ms. Without slices it is more than a hundred thousand for N."""

Act = Callable[[], object]


def asked(n: int, verb: str = "request", **hello: Any) -> tuple[Stage, str]:
    """elm, whose slots are taken, and *n* requests in its queue, each of an execution of its own."""
    stage = Stage()
    elm = stage.hello("elm", **hello)
    for number in range(10):
        stage.hello(f"asker{number}", session=f"of-{number}")
    for number in range(n + 1):
        at = number % 10
        stage.request(
            f"asker{at}",
            "elm",
            f"r{number}",
            verb=verb,
            session=f"of-{at}",
            execution=f"x{number}",
            timeout_s=600,
        )
    stage.clear()
    return stage, elm


def another_comes() -> tuple[Stage, Act]:
    stage, _ = asked(N, concurrency=1)
    return stage, lambda: stage.hello("elm", concurrency=1)


def another_comes_beside_a_main() -> tuple[Stage, Act]:
    stage, _ = asked(N)
    return stage, lambda: stage.hello("elm", concurrency=1)


def hello_again() -> tuple[Stage, Act]:
    stage, elm = asked(N, concurrency=1)
    return stage, lambda: stage.hello("elm", session=elm, concurrency=1)


def other_pools() -> tuple[Stage, Act]:
    stage, elm = asked(N, concurrency=1)
    return stage, lambda: stage.hello("elm", session=elm, pools=[bodies.Pool(1, ["other"])])


def no_limit_any_more() -> tuple[Stage, Act]:
    stage, _ = asked(N, concurrency=1)
    return stage, lambda: stage.hello("elm", pools=[bodies.Pool(None)])


def bye_with_a_queue() -> tuple[Stage, Act]:
    stage, elm = asked(N, concurrency=1)
    return stage, lambda: stage.say("elm", bodies.Bye(elm))


def bye_of_a_main() -> tuple[Stage, Act]:
    stage, elm = asked(N)
    return stage, lambda: stage.say("elm", bodies.Bye(elm))


def bye_that_drains() -> tuple[Stage, Act]:
    stage, elm = asked(N, concurrency=1)
    return stage, lambda: stage.say("elm", bodies.Bye(elm, 60.0))


def bye_with_much_held() -> tuple[Stage, Act]:
    stage, elm = asked(N, pools=[bodies.Pool(None)])
    return stage, lambda: stage.say("elm", bodies.Bye(elm))


def bye_of_an_asker() -> tuple[Stage, Act]:
    stage = Stage()
    stage.hello("elm", concurrency=1)
    asker = stage.hello("asker")
    for number in range(N):
        stage.request("asker", "elm", f"r{number}", session=asker, execution=f"x{number}", timeout_s=600)
    return stage, lambda: stage.say("asker", bodies.Bye(asker))


def bye_with_many_waits() -> tuple[Stage, Act]:
    stage = Stage()
    asker = stage.hello("asker")
    for number in range(N):
        on = [bodies.WaitCondition("tool", "ocr")]
        stage.say("asker", bodies.WaitOpen(f"w{number}", asker, on, timeout_s=600, execution=f"x{number}"))
    return stage, lambda: stage.say("asker", bodies.Bye(asker))


def reconciliation_ends() -> tuple[Stage, Act]:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, resume=True)
    asker = stage.hello("asker", resume=True)
    for number in range(N):
        stage.request("asker", "elm", f"r{number}", session=asker, execution=f"x{number}", timeout_s=600)
    stage.say("asker", bodies.Heartbeat(asker))
    return stage, lambda: stage.say("elm", bodies.Heartbeat(elm))


def the_agent_appears() -> tuple[Stage, Act]:
    stage = Stage()
    stage.say("elm", bodies.Bye(stage.hello("elm")))
    asker = stage.hello("asker")
    for number in range(N):
        stage.request(
            "asker", "elm", f"r{number}", session=asker, execution=f"x{number}", timeout_s=600,
            wait_for_target_s=60.0,
        )  # fmt: skip
    return stage, lambda: stage.hello("elm", concurrency=1)


def a_large_channel() -> tuple[Stage, Act]:
    stage = Stage()
    for number in range(Limits().members_asked_max):
        stage.hello(f"member{number}", concurrency=1, channels=["crew"])
    asker = stage.hello("asker")
    return stage, lambda: stage.request("asker", "@crew", "r", session=asker, timeout_s=60.0)


def calls_of(act: Act) -> int:
    """How many functions *act* has called."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    "begun",
    [
        another_comes,
        another_comes_beside_a_main,
        hello_again,
        other_pools,
        no_limit_any_more,
        bye_with_a_queue,
        bye_of_a_main,
        bye_that_drains,
        bye_with_much_held,
        bye_of_an_asker,
        bye_with_many_waits,
        reconciliation_ends,
        the_agent_appears,
        a_large_channel,
    ],
)
def test_no_fact_takes_long(begun: Callable[[], tuple[Stage, Act]]) -> None:
    stage, act = begun()
    most = calls_of(act)
    facts = 1
    while (at := stage.kernel.next_wakeup_at()) is not None and at <= stage.now:
        most = max(most, calls_of(lambda: stage.feed(TimePassed())))
        facts += 1
    assert most <= CALLS_MAX
    assert not stage.kernel.backlog
    assert facts <= 2 + 3 * N / Limits().steps_max, "and it comes to an end"


# ---- meanwhile


def slow(n: int, **hello: Any) -> tuple[Stage, str, str]:
    """elm, whose one slot is taken by r0, and n requests in its queue; one step a fact. elm and who asks."""
    stage = Stage(limits=Limits(steps_max=1))
    elm = stage.hello("elm", **(hello or {"concurrency": 1}))
    asker = stage.hello("asker", pools=[])
    for number in range(n + 1):
        stage.request("asker", "elm", f"r{number}", verb="ask", session=asker, timeout_s=600)
    return stage, elm, asker


def served(stage: Stage, **sessions: str) -> list[str]:
    """Ids delivered to elm, each answered as soon as it was."""
    answered = 0
    tokens = list(sessions.values())
    while answered < len(stage.delivered("elm")):
        for token in tokens:
            stage.reply("elm", stage.delivered("elm")[answered], session=token)
        answered += 1
        stage.pass_time(0.001)
    return stage.delivered("elm")


def test_what_is_placed_anew_is_delivered_once_and_in_order() -> None:
    stage, elm, asker = slow(20)
    other = stage.hello("elm", concurrency=1)
    for number in range(21, 30):
        stage.request("asker", "elm", f"r{number}", verb="ask", session=asker, timeout_s=600)
    assert stage.kernel.backlog
    assert served(stage, elm=elm, other=other) == [f"r{number}" for number in range(30)]
    assert stage.kinds() == {f"r{number}": "reply" for number in range(30)}


@pytest.mark.parametrize("hello", [{"concurrency": 1}, {}])
def test_sessions_that_come_and_go_meanwhile_lose_nothing(hello: dict[str, Any]) -> None:
    stage, elm, _ = slow(20, **hello)
    others = [stage.hello("elm", concurrency=1, instance="other") for _ in range(5)]
    stage.say("elm", bodies.Bye(elm))
    assert served(stage, other=others[-1])[0] == "r0"
    ended = stage.kinds()
    assert set(ended) == {f"r{number}" for number in range(21)}
    lost = [name for name, kind in ended.items() if kind == "responder_lost"]
    assert set(ended.values()) == {"reply", "responder_lost"}
    assert len(lost) <= len(others), "only what had been delivered to those that left"
    assert len(set(stage.delivered("elm"))) == len(stage.delivered("elm"))


def test_what_is_cancelled_or_overdue_meanwhile_is_never_delivered() -> None:
    stage, elm, asker = slow(20)
    stage.request("asker", "elm", "late", verb="ask", session=asker, timeout_s=0.5)
    stage.hello("elm", pools=[])
    for number in range(1, 21):
        stage.say("asker", bodies.RequestCancel(f"r{number}", asker))
    stage.now += 1.0
    stage.pass_time(0.0)
    stage.reply("elm", "r0", session=elm)
    assert stage.delivered("elm") == ["r0"]
    assert stage.kinds()["late"] == "expired"
    assert stage.kernel.tables.sessions.agents["elm"].queued == 0  # type: ignore[index]


def test_whose_patience_ends_while_its_place_is_found_is_not_unreachable() -> None:
    stage = Stage(limits=Limits(steps_max=1))
    stage.say("elm", bodies.Bye(stage.hello("elm")))
    asker = stage.hello("asker", pools=[])
    for number in range(9):
        stage.request(
            "asker", "elm", f"r{number}", verb="ask", session=asker, timeout_s=60, wait_for_target_s=1.0
        )
    stage.now += 0.9
    elm = stage.hello("elm", concurrency=1)
    stage.now += 0.2
    stage.pass_time(1.0)
    assert served(stage, elm=elm) == [f"r{number}" for number in range(9)]


def test_what_nobody_reads_any_more_ends_so_and_what_comes_later_otherwise() -> None:
    stage, elm, asker = slow(5)
    stage.hello("elm", session=elm, pools=[bodies.Pool(1, ["other"])])
    stage.request("asker", "elm", "late", verb="ask", session=asker, timeout_s=600)
    stage.pass_time(0.1)
    codes = {id: outcome.error.code for id, outcome in stage.outcomes().items() if outcome.error is not None}
    assert codes == {
        **dict.fromkeys(("r1", "r2", "r3", "r4", "r5"), errors.NO_READER),
        "late": errors.NOT_SUBSCRIBED,
    }


def knotted(**hello: Any) -> tuple[Stage, str, dict[str, str]]:
    """elm's one slot is held by what waits for oak, whose main waits behind others in elm's queue."""
    stage = Stage(limits=Limits(steps_max=1))
    elm = stage.hello("elm", **hello)
    tokens = {name: stage.hello(name) for name in ("oak", "asker")}
    tokens["elm"] = elm
    stage.request("asker", "elm", "first", verb="ask", session=tokens["asker"], timeout_s=600)
    for number in range(9):
        stage.request("asker", "elm", f"r{number}", verb="ask", session=tokens["asker"], timeout_s=600)
    return stage, elm, tokens


@pytest.mark.parametrize("hello", [{"concurrency": 1}, {}])
def test_who_gets_another_session_is_not_called_stuck_while_its_queue_is_moved(hello: dict[str, Any]) -> None:
    stage, elm, tokens = knotted(**hello)
    stage.request("oak", "elm", "in", session=tokens["oak"], timeout_s=600)
    stage.hello("elm", concurrency=2)
    assert stage.kernel.backlog
    execution = "first" if hello else "main"
    stage.request("elm", "oak", "out", session=elm, execution=execution, timeout_s=600)
    assert not stage.kernel.tables.waiting.graph.stuck()
    stage.pass_time(2.0)
    assert stage.answer_confirms() == 0
    assert stage.deadlocks() == []


@pytest.mark.parametrize("hello", [{"concurrency": 1}, {}])
def test_a_knot_through_a_queue_that_was_moved_is_found_when_it_has_been(hello: dict[str, Any]) -> None:
    stage, elm, tokens = knotted(**hello)
    other = stage.hello("elm", pools=[bodies.Pool(1, ["work"])])
    stage.request("asker", "elm", "second", verb="ask", session=tokens["asker"], timeout_s=600)
    stage.request("oak", "elm", "in", session=tokens["oak"], timeout_s=600)
    execution = "first" if hello else "main"
    stage.request("elm", "oak", "out", session=elm, execution=execution, timeout_s=600)
    stage.pass_time(0.5)
    assert stage.deadlocks() == []
    stage.clear()
    stage.say("elm", bodies.Bye(other))
    assert stage.kernel.backlog
    stage.pass_time(0.2)
    assert stage.answer_confirms(requests={}) == 2
    assert stage.kinds() == {"in": "deadlock", "out": "deadlock"}


def test_who_has_left_is_no_member_of_a_deadlock_while_its_rest_is_cleared_away() -> None:
    stage = Stage(limits=Limits(steps_max=1))
    tokens = {name: stage.hello(name, concurrency=20) for name in ("elm", "oak", "asker")}
    for number in range(9):
        stage.request("asker", "elm", f"r{number}", verb="ask", session=tokens["asker"], timeout_s=600)
    stage.request("elm", "oak", "out", session=tokens["elm"], timeout_s=600)
    stage.request("oak", "elm", "in", session=tokens["oak"], execution="out", timeout_s=600)
    stage.say("elm", bodies.Defer(tokens["elm"], ["in"], by="main"))
    asked = [each for name in ("elm", "oak") for each in stage.controls(name)]
    (incident,) = {confirm.incident for confirm in asked if isinstance(confirm, bodies.Confirm)}
    stage.say("elm", bodies.Facts(tokens["elm"], incident, open=["out"]))
    stage.say("elm", bodies.Bye(tokens["elm"]))
    stage.say("oak", bodies.Facts(tokens["oak"], incident, open=["in"]))
    assert stage.kernel.backlog
    stage.pass_time(2.0)
    assert stage.deadlocks() == []
    kinds = stage.kinds()
    assert (kinds.pop("out"), set(kinds.values())) == ("cancelled", {"responder_lost"})
