"""What runs from before an epoch and nobody asks for again: its handler is told, when nobody can ask any more."""

from tests.core.stage import Stage
from unknot_schemas import bodies


def beats(stage: Stage, elm: str, seconds: float, *held: bodies.Held) -> None:
    """Heartbeats of elm for a while."""
    until = stage.now + seconds
    while stage.now < until:
        stage.pass_time(min(5.0, until - stage.now))
        stage.say("elm", bodies.Heartbeat(elm, held=list(held)))


def test_a_handler_whose_asker_does_not_come_back_is_told_that_nobody_waits() -> None:
    """The gateway before may have ended the request, and died before it said so to whoever runs it."""
    stage = Stage(session_loss_s=30.0)
    elm = stage.hello("elm", concurrency=1, resume=True, held=[bodies.Held("r")])
    beats(stage, elm, 29.0, bodies.Held("r"))
    assert stage.abandoned("elm") == [], "its asker may be slow"
    beats(stage, elm, 1.0, bodies.Held("r"))
    assert stage.abandoned("elm") == ["r"]
    stage.clear()
    beats(stage, elm, 5.0, bodies.Held("r"))
    assert stage.abandoned("elm") == ["r"], "said again: it may have been lost"
    stage.say("elm", bodies.Done(elm, ["r"]))
    stage.clear()
    beats(stage, elm, 5.0)
    assert stage.abandoned("elm") == []


def test_a_handler_that_is_asked_for_again_is_not_told() -> None:
    stage = Stage(session_loss_s=30.0)
    elm = stage.hello("elm", concurrency=1, resume=True, held=[bodies.Held("r")])
    oak = stage.hello("oak", pools=[], resume=True, open=["r"])
    stage.say("elm", bodies.Heartbeat(elm, held=[bodies.Held("r")]))
    stage.say("oak", bodies.Heartbeat(oak, open=["r"]))
    stage.request("oak", "elm", "r", session=oak, timeout_s=300)
    for _ in range(10):
        beats(stage, elm, 5.0, bodies.Held("r"))
        stage.say("oak", bodies.Heartbeat(oak, open=["r"]))
    assert stage.abandoned("elm") == []
    stage.reply("elm", "r", session=elm)
    assert stage.kinds() == {"r": "reply"}
