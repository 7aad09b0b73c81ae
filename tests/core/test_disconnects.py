"""A session whose connection to the server has ended is lost after a short grace, unless it is heard of."""

from tests.core.stage import Stage
from unknot_gateway.core.facts import Disconnected
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies
from unknot_schemas.limits import DISCONNECT_GRACE_S, SESSION_LOSS_S


def asked(stage: Stage) -> tuple[str, str]:
    """elm has taken a request of caller's; their sessions."""
    elm = stage.hello("elm", concurrency=1, connection="S/1")
    caller = stage.hello("caller", connection="S/2")
    stage.request("caller", "elm", "r", session=caller, timeout_s=300.0)
    return elm, caller


def test_the_end_of_a_connection_is_its_session_s_after_the_grace() -> None:
    stage = Stage()
    asked(stage)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(DISCONNECT_GRACE_S - 0.1)
    assert stage.kinds() == {}
    stage.pass_time(0.2)
    assert stage.kinds() == {"r": "responder_lost"}
    assert len(stage.kernel.tables.waiting.graph) == 0


def test_what_it_waited_for_is_withdrawn_with_it() -> None:
    stage = Stage()
    asked(stage)
    stage.feed(Disconnected("S/2"))
    stage.pass_time(DISCONNECT_GRACE_S + 0.1)
    assert stage.abandoned("elm") == ["r"]


def test_who_comes_back_within_the_grace_loses_nothing() -> None:
    stage = Stage()
    elm, _ = asked(stage)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(0.5)
    stage.say("elm", bodies.Heartbeat(elm, connection="S/3", held=[bodies.Held("r")]))
    stage.pass_time(20.0)
    assert stage.kinds() == {}
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_the_late_end_of_a_connection_that_it_has_left_harms_nobody() -> None:
    stage = Stage()
    elm, _ = asked(stage)
    stage.say("elm", bodies.Heartbeat(elm, connection="S/3", held=[bodies.Held("r")]))
    stage.feed(Disconnected("S/1"))
    stage.pass_time(5.0)
    assert stage.kinds() == {}
    stage.feed(Disconnected("S/3"))
    stage.pass_time(5.0)
    assert stage.kinds() == {"r": "responder_lost"}


def test_a_heartbeat_that_was_on_its_way_when_its_connection_ended_brings_nobody_back() -> None:
    stage = Stage()
    elm, _ = asked(stage)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(0.1)
    stage.say("elm", bodies.Heartbeat(elm, connection="S/1"))
    stage.pass_time(9.0)
    assert stage.kinds() == {}
    stage.pass_time(2.0)
    assert stage.kinds() == {"r": "responder_lost"}


def test_a_hello_that_comes_after_the_end_of_its_connection_is_lost_soon() -> None:
    stage = Stage()
    stage.feed(Disconnected("S/1"))
    asked(stage)
    stage.pass_time(DISCONNECT_GRACE_S + 0.1)
    assert stage.kinds() == {"r": "responder_lost"}


def test_an_answer_within_the_grace_is_taken() -> None:
    stage = Stage()
    elm, _ = asked(stage)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(0.5)
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_a_client_that_does_not_name_its_connection_again_is_there_when_its_heartbeat_is() -> None:
    stage = Stage()
    elm, _ = asked(stage)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(0.5)
    stage.say("elm", bodies.Heartbeat(elm, held=[bodies.Held("r")]))
    stage.pass_time(SESSION_LOSS_S - 1.0)
    assert stage.kinds() == {}


def test_who_names_no_connection_is_lost_by_its_silence_alone() -> None:
    stage = Stage()
    elm = stage.hello("elm", concurrency=1)
    caller = stage.hello("caller", heartbeat_s=60.0)
    stage.request("caller", "elm", "r", session=caller, timeout_s=300.0)
    stage.feed(Disconnected("S/1"))
    stage.pass_time(SESSION_LOSS_S - 1.0)
    assert stage.kinds() == {}
    stage.pass_time(2.0)
    assert stage.kinds() == {"r": "responder_lost"}
    assert elm


def test_who_names_the_connection_of_another_puts_only_itself_at_risk() -> None:
    stage = Stage()
    asked(stage)
    stage.hello("liar", connection="S/1")
    stage.say("liar", bodies.Bye(stage.hello("liar", connection="S/2")))
    stage.feed(Disconnected("S/9"))
    stage.pass_time(5.0)
    assert stage.kinds() == {}


def test_all_sessions_of_one_connection_end_with_it_and_nothing_is_left_of_it() -> None:
    stage = Stage(limits=Limits(ended_connections_max=4))
    for name in ("birch", "elm", "flint"):
        stage.hello(name, connection="S/1")
    assert len(stage.kernel.tables.connections) == 1
    for number in range(1, 20):
        stage.feed(Disconnected(f"S/{number}"))
    stage.pass_time(5.0)
    assert stage.kernel.tables.sessions.all() == []
    assert len(stage.kernel.tables.connections) == 0
    assert len(stage.kernel.tables.deadlines) == 0
