"""What sessions hold from before an epoch: it keeps its slot, and what is sent again goes to who claims it."""

from typing import Any

import pytest

from tests.core.stage import Stage
from unknot_gateway.core.effects import Answer
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Session
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId
from unknot_schemas.limits import TIMEOUT_MAX_S


def resumed(stage: Stage, agent: str, *held: bodies.Held, **fields: Any) -> str:
    """*agent* comes back after an epoch change, and its first heartbeat is heard."""
    token = stage.hello(agent, resume=True, held=list(held), **fields)
    beat(stage, agent, token, *held)
    return token


def beat(stage: Stage, agent: str, token: str, *held: bodies.Held) -> list[str]:
    """A heartbeat that names what is held; what the gateway does not count as held."""
    stage.clear()
    stage.say(agent, bodies.Heartbeat(token, held=list(held)))
    [answer] = [effect for effect in stage.effects if isinstance(effect, Answer)]
    assert isinstance(answer.body, bodies.Pulse)
    return list(answer.body.not_held)


def live(stage: Stage, agent: str, token: str) -> Session | None:
    """The session, as long as it lives."""
    return stage.kernel.tables.sessions.find(AgentId(agent), token)


def used(stage: Stage, agent: str, token: str) -> list[int]:
    """Slots taken, of each pool."""
    session = live(stage, agent, token)
    assert session is not None
    return [pool.used for pool in session.pools]


@pytest.fixture
def stage() -> Stage:
    """elm's one slot is held by what only elm knows; caller asks for it, and waits."""
    return Stage()


def busy(stage: Stage) -> str:
    """elm has come back with a handler running; caller's request waits for its slot."""
    elm = resumed(stage, "elm", bodies.Held("old"), concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "elm", "new", session=caller)
    assert stage.delivered("elm") == []
    return elm


def test_a_handler_that_nobody_asks_for_again_keeps_its_slot(stage: Stage) -> None:
    elm = busy(stage)
    for _ in range(4):
        stage.pass_time(5.0)
        assert beat(stage, "elm", elm, bodies.Held("old")) == []
        assert stage.delivered("elm") == []


def test_done_frees_the_slot_of_what_nobody_asks_for_again(stage: Stage) -> None:
    stage.say("elm", bodies.Done(busy(stage), ["old"]))
    assert stage.delivered("elm") == ["new"]


def test_its_answer_frees_it_and_goes_to_nobody(stage: Stage) -> None:
    stage.reply("elm", "old", session=busy(stage))
    assert stage.delivered("elm") == ["new"]
    assert stage.outcomes() == {}


def test_an_early_answer_keeps_it(stage: Stage) -> None:
    elm = busy(stage)
    stage.reply("elm", "old", session=elm, done=False)
    assert stage.delivered("elm") == []
    stage.say("elm", bodies.Done(elm, ["old"]))
    assert stage.delivered("elm") == ["new"]


def test_two_heartbeats_that_omit_it_free_it(stage: Stage) -> None:
    elm = busy(stage)
    stage.pass_time(11.0)
    beat(stage, "elm", elm)
    assert stage.delivered("elm") == []
    beat(stage, "elm", elm)
    assert stage.delivered("elm") == ["new"]


def test_its_session_s_end_frees_nothing_but_itself(stage: Stage) -> None:
    elm = busy(stage)
    second = stage.hello("elm", concurrency=1)
    assert stage.delivered("elm") == ["new"]
    stage.say("elm", bodies.Bye(elm))
    assert used(stage, "elm", second) == [1]
    assert stage.kinds() == {}


def test_a_session_that_drains_waits_for_it(stage: Stage) -> None:
    elm = busy(stage)
    stage.say("elm", bodies.Bye(elm, 60.0))
    stage.pass_time(1.0)
    assert live(stage, "elm", elm) is not None
    stage.say("elm", bodies.Done(elm, ["old"]))
    assert live(stage, "elm", elm) is None


def test_a_promise_holds_no_slot(stage: Stage) -> None:
    elm = busy(stage)
    stage.say("elm", bodies.Defer(elm, ["old"]))
    assert stage.delivered("elm") == ["new"]
    caller = stage.hello("caller", resume=True, open=["old"])
    stage.request("caller", "elm", "old", session=caller)
    stage.reply("elm", "old", session=elm)
    assert stage.kinds() == {"old": "reply"}
    assert used(stage, "elm", elm) == [1]


def test_the_pool_of_its_type_is_the_one_that_is_held() -> None:
    stage = Stage()
    pools = [bodies.Pool(1, ["heavy"]), bodies.Pool(2)]
    held = (bodies.Held("h", type="heavy"), bodies.Held("w", type="work"), bodies.Held("unknown"))
    elm = resumed(stage, "elm", *held, pools=pools)
    assert used(stage, "elm", elm) == [1, 1]


def test_who_claims_more_than_it_has_slots_gets_nothing_new_and_no_more_slots() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", *(bodies.Held(f"old{n}") for n in range(5)), concurrency=2)
    assert used(stage, "elm", elm) == [2]
    stage.say("elm", bodies.Done(elm, [f"old{n}" for n in range(5)]))
    assert used(stage, "elm", elm) == [0]


def test_sent_again_it_takes_the_very_slot_that_was_held_for_it(stage: Stage) -> None:
    elm = busy(stage)
    caller = stage.hello("caller", resume=True, open=["old"])
    stage.request("caller", "elm", "old", session=caller)
    stage.say("caller", bodies.Heartbeat(caller))
    assert (stage.delivered("elm"), used(stage, "elm", elm)) == ([], [1])
    stage.reply("elm", "old", session=elm)
    assert stage.kinds() == {"old": "reply"}
    assert (stage.delivered("elm"), used(stage, "elm", elm)) == (["new"], [1])


@pytest.mark.parametrize("way", ["answer", "done"])
def test_sent_again_after_it_ended_it_is_asked_for_the_kept_answer(stage: Stage, way: str) -> None:
    elm = resumed(stage, "elm", bodies.Held("old"), concurrency=1)
    if way == "answer":
        stage.reply("elm", "old", session=elm)
    else:
        stage.say("elm", bodies.Done(elm, ["old"]))
    caller = stage.hello("caller", resume=True, open=["old"])
    stage.request("caller", "elm", "old", session=caller)
    assert stage.delivered("elm") == ["old"]
    assert used(stage, "elm", elm) == [0]
    stage.reply("elm", "old", session=elm)
    assert stage.kinds() == {"old": "reply"}


def test_a_promise_that_was_kept_before_it_was_asked_for_again_is_kept_again() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", bodies.Held("old", "deferred"), concurrency=1)
    stage.reply("elm", "old", session=elm)
    caller = stage.hello("caller", resume=True, open=["old"])
    stage.request("caller", "elm", "old", session=caller)
    assert stage.delivered("elm") == ["old"]


def test_an_answer_that_is_parked_frees_its_slot_and_holds() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, resume=True, held=[bodies.Held("old")])
    caller = stage.hello("caller", resume=True, open=["old", "new"])
    stage.reply("elm", "old", session=elm)
    assert used(stage, "elm", elm) == [0]
    stage.request("caller", "elm", "new", session=caller)
    stage.request("caller", "elm", "old", session=caller)
    beat(stage, "elm", elm)
    assert stage.delivered("elm") == []
    stage.say("caller", bodies.Heartbeat(caller, open=["old", "new"]))
    assert stage.delivered("elm") == ["new"]


def test_what_the_gateway_before_sent_off_last_is_claimed_by_a_heartbeat() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", concurrency=1)
    assert beat(stage, "elm", elm, bodies.Held("late")) == []
    assert used(stage, "elm", elm) == [1]


def test_sent_again_before_that_heartbeat_it_is_not_run_twice() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1, resume=True)
    caller = stage.hello("caller", resume=True, open=["late"])
    stage.request("caller", "elm", "late", session=caller)
    stage.say("elm", bodies.Heartbeat(elm, held=[bodies.Held("late")]))
    stage.say("caller", bodies.Heartbeat(caller, open=["late"]))
    stage.pass_time(1.0)
    assert stage.delivered("elm") == []
    stage.reply("elm", "late", session=elm)
    assert stage.kinds() == {"late": "reply"}


def test_a_session_of_this_epoch_claims_nothing() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    assert beat(stage, "elm", elm, bodies.Held("invented")) == ["invented"]
    assert used(stage, "elm", elm) == [0]


def test_what_has_ended_in_this_epoch_is_no_claim() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    stage.reply("elm", "r", session=elm)
    assert beat(stage, "elm", elm, bodies.Held("r")) == ["r"]
    assert used(stage, "elm", elm) == [0]


def test_what_another_session_holds_is_no_claim() -> None:
    stage = Stage()
    first = resumed(stage, "elm", concurrency=1)
    second = resumed(stage, "elm", concurrency=1)
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    assert (used(stage, "elm", first), used(stage, "elm", second)) == ([1], [0])
    assert beat(stage, "elm", second, bodies.Held("r")) == ["r"]
    assert used(stage, "elm", second) == [0]


def test_claims_are_bounded() -> None:
    stage = Stage(limits=Limits(claims_max=10))
    elm = resumed(stage, "elm", *(bodies.Held(f"old{n}") for n in range(30)), concurrency=1)
    beat(stage, "elm", elm, *(bodies.Held(f"more{n}") for n in range(30)))
    session = live(stage, "elm", elm)
    assert session is not None
    assert (len(session.claims), len(session.held)) == (10, 10)


def test_claims_are_forgotten_when_nobody_can_send_them_again() -> None:
    stage = Stage(session_loss_s=2 * TIMEOUT_MAX_S)
    elm = resumed(
        stage, "elm", bodies.Held("runs"), bodies.Held("owed", "deferred"), concurrency=2, answered=["gone"]
    )
    session = live(stage, "elm", elm)
    assert session is not None
    assert set(session.claims) == {"runs", "owed", "gone"}
    stage.pass_time(TIMEOUT_MAX_S + 1.0)
    assert set(session.claims) == {"runs"}
    assert used(stage, "elm", elm) == [1]


def test_a_knot_behind_a_slot_that_only_its_session_knows_of_is_found() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", bodies.Held("old"), concurrency=1)
    flint = stage.hello("flint", concurrency=1)
    stage.request("elm", "flint", "a", session=elm, execution="old", timeout_s=20.0)
    stage.request("flint", "elm", "b", session=flint, execution="a", timeout_s=20.0)
    stage.answer_confirms()
    assert [deadlock.cycle for deadlock in stage.deadlocks()] == [["elm", "flint", "elm"]]
    assert stage.kinds() == {"a": "deadlock", "b": "deadlock"}


def test_the_events_that_a_loop_has_in_hand_are_its_main_s() -> None:
    stage = Stage()
    elm = resumed(stage, "elm", bodies.Held("old"))
    caller = stage.hello("caller")
    stage.request("caller", "elm", "r", session=caller)
    assert stage.delivered("elm") == []
    stage.say("elm", bodies.Done(elm, ["old"]))
    assert stage.delivered("elm") == ["r"]
