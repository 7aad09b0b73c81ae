"""Heartbeats that come late and all at once, after a way was cut: they say less than those that come one by one."""

from tests.core.stage import Stage
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies

LIMITS = Limits()


def test_heartbeats_sent_before_an_answer_was_asked_for_again_say_nothing_of_it() -> None:
    """The answer was lost with the way that was cut; the heartbeats of that time come in one burst when it is back."""
    stage = Stage()
    asker, elm = stage.hello("oak", pools=[]), stage.hello("elm", concurrency=1)
    stage.request("oak", "elm", "r", session=asker, timeout_s=300)
    stage.now += 10.5
    stage.clear()
    for _ in range(6):
        stage.say("elm", bodies.Heartbeat(elm, seen=1))
    assert stage.delivered("elm") == ["r"], "asked for once"
    assert not stage.outcomes()
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_an_answer_that_is_lost_again_is_asked_for_again() -> None:
    stage = Stage()
    asker, elm = stage.hello("oak", pools=[]), stage.hello("elm", concurrency=1)
    stage.request("oak", "elm", "r", session=asker, timeout_s=300)
    stage.clear()
    beats(stage, elm, 3 * (LIMITS.asks_again_max + 1) - 1)
    assert stage.delivered("elm") == ["r"] * LIMITS.asks_again_max
    assert not stage.outcomes()
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}


def test_an_answer_asked_for_again_and_omitted_ever_after_is_none() -> None:
    stage = Stage()
    asker, elm = stage.hello("oak", pools=[]), stage.hello("elm", concurrency=1)
    stage.request("oak", "elm", "r", session=asker, timeout_s=300)
    beats(stage, elm, 3 * (LIMITS.asks_again_max + 1))
    assert stage.kinds() == {"r": "failed"}


def beats(stage: Stage, session: str, times: int) -> None:
    """Heartbeats of elm that omit what it had."""
    for _ in range(times):
        stage.now += 5.0
        stage.say("elm", bodies.Heartbeat(session, seen=1))
