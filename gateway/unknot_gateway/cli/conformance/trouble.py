"""The gateway stands still, the connection breaks, the gateway is killed."""

from typing import Any, Final

from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Message, require
from unknot_gateway.cli.conformance.serving import count
from unknot_gateway.cli.conformance.stage import AGENT, ECHO, Question, Stage
from unknot_schemas.limits import CLIENT_GRACE_S

_TIMEOUT_S: Final = 1.0
_SLACK_S: Final = 2.0
_BACK_S: Final = 8.0
"""For a connection to come back."""
_RESUMED_S: Final = 20.0
_WORK_S: Final = 4.0
"""Longer than a gateway is mostly away."""


async def _while_frozen(stage: Stage, mark: str, timeout_s: float) -> tuple[Question, Message]:
    """Have the program ask something; the gateway stands still before the request reaches it."""
    stage.record.on_said(lambda said: said.verb == "request" and said.data == mark, stage.freeze_gateway)
    ask = {"target": ECHO, "type": "mirror.show", "data": mark, "timeout_s": timeout_s}
    question = await stage.others.ask("ask", ask)
    request = await stage.record.said_next(
        lambda said: said.verb == "request" and said.data == mark, "a request of its own"
    )
    return question, request


async def _report(stage: Stage, question: Question, within_s: float) -> Message:
    """What it answers to conformance.ask, while no gateway hears it."""
    return await stage.record.until(
        lambda: next(iter(stage.record.answers(question.id)), None),
        "its report of how its request ended",
        within_s,
    )


async def outcome_first(stage: Stage) -> None:
    """The first Outcome of an open id counts, with unknown fields, whatever its epoch; a second one changes nothing."""
    question, request = await _while_frozen(stage, "who is first?", 10.0)
    try:
        id = request.body["id"]
        to = request.reply or stage.subjects.outcome(AGENT, stage.session)
        error = {"code": "not_permitted", "message": "by the first one", "help": "unknown"}
        refused = {
            "request_id": id,
            "outcome": "refused",
            "handled": "no",
            "epoch": 1,
            "error": error,
            "new": [1],
        }
        await stage.others.publish(to, refused)
        other = {"id": "second", "type": "mirror.show", "source": ECHO, "target": AGENT, "data": "second"}
        event = {**other, "requires_response": False, "epoch": 2, "response_to": id, "unknot": 1}
        reply = {"request_id": id, "outcome": "reply", "handled": "yes", "epoch": 2, "event": event}
        await stage.others.publish(to, reply)
        told: Any = (await _report(stage, question, 3.0)).data
        require(isinstance(told, dict) and told.get("outcome") == "refused", f"it reports {told!r}")
        require(told.get("code") == "not_permitted", f"it reports the code {told.get('code')!r}")
    finally:
        stage.thaw_gateway()
    answer = await question.answer()
    require(answer == told, "it reports something else later")
    require(len(stage.record.answers(question.id)) == 1, "it reports twice")


async def deadline_own(stage: Stage) -> None:
    """When no gateway answers, it ends a request by its own clock, 1 s after the timeout: expired; request.cancel."""
    question, request = await _while_frozen(stage, "is nobody there?", _TIMEOUT_S)
    try:
        told = await _report(stage, question, _TIMEOUT_S + CLIENT_GRACE_S + 2 * _SLACK_S)
        took_s = told.at - request.at
        least, most = _TIMEOUT_S + CLIENT_GRACE_S / 2, _TIMEOUT_S + CLIENT_GRACE_S + _SLACK_S
        require(least <= took_s <= most, f"it gave up after {took_s:.1f} s; its timeout was {_TIMEOUT_S:g} s")
        require(told.body.get("data", {}).get("outcome") == "expired", f"it reports {told.data!r}")
        id = request.body["id"]
        await stage.record.said_next(
            lambda said: said.verb == "request.cancel" and said.body.get("id") == id, "request.cancel"
        )
    finally:
        stage.thaw_gateway()
    await question.outcome()


async def connection_cut(stage: Stage) -> None:
    """After its connection broke it is back as the same session, and what was asked meanwhile is answered."""
    session, at = stage.session, stage.record.number
    stage.tap.cut()
    question = await stage.others.ask("count", {"key": "cut"})
    beat = await stage.record.said_next(
        lambda said: said.verb == "heartbeat", "a heartbeat on a new connection", after=at, within_s=_BACK_S
    )
    require(beat.body.get("session") == session, "it comes back as another session")
    own = f"{stage.subjects.root}.out."
    again = [each for each in stage.record.subscribed if each.number > at and each.subject.startswith(own)]
    require(bool(again), "it does not subscribe again")
    require(await question.answer() == 1, "what was asked meanwhile was not run once")
    hellos = [said for said in stage.record.of("hello") if said.number > at]
    require(all(said.body.get("session") == session for said in hellos), "it began a new session")


async def restart(stage: Stage) -> None:
    """After a restart of the gateway it says hello with resume as the same session, and what it holds and has open."""
    others, record = stage.others, stage.record
    running = await others.ask("count", {"key": "restart", "s": _WORK_S}, timeout_s=30.0)
    deferred = await others.ask("defer", {"s": _WORK_S, "data": "kept"}, timeout_s=30.0)
    # Of itself: after a restart nobody knows whether somebody else will be back.
    ask = {"target": AGENT, "type": "conformance.echo", "data": "again", "timeout_s": 20.0}
    record.lose("said", lambda said: said.verb == "request" and said.data == "again")
    asking = await others.ask("ask", ask, timeout_s=30.0)
    request = await record.said_next(
        lambda said: said.verb == "request" and said.data == "again", "a request"
    )
    await record.until(lambda: record.named("defer", deferred.id) or None, "a defer")
    session, at = stage.session, record.number
    await stage.kill_gateway()
    await stage.start_gateway()
    hello = await record.said_next(
        lambda said: said.verb == "hello",
        "hello after a restart of the gateway",
        after=at,
        within_s=_RESUMED_S,
    )
    require(hello.body.get("resume") is True, "its hello does not say resume")
    require(hello.body.get("session") == session, "it says hello as another session")
    held = {each.get("id"): each.get("state", "running") for each in hello.body.get("held") or ()}
    answered = hello.body.get("answered") or ()
    for question, state in ((running, "running"), (asking, "running"), (deferred, "deferred")):
        named = held.get(question.id)
        if question.id not in answered:  # else the gateway was away for longer than the work took
            require(named == state, f"what it holds {state} is named {named!r}")
    require(request.body["id"] in (hello.body.get("open") or ()), "its open request is not named")
    await _same_again(stage, request, at)
    for question in (running, deferred, asking):
        await others.ask_again(question)
    require(await running.answer(_RESUMED_S) == 1, "what was running was run again")
    require(await deferred.answer(_RESUMED_S) == "kept", "what was deferred was not answered")
    told = await asking.answer(_RESUMED_S)
    require(told.get("outcome") == "reply", f"its own request ended {told.get('outcome')!r}")
    require(await count(stage, "restart") == 1, "what was running was run again")


async def _same_again(stage: Stage, request: Message, at: int) -> None:
    """What the gateway does not know is sent again."""
    again = await stage.record.said_next(
        lambda said: said.verb == "request" and said.body.get("id") == request.body["id"],
        "its open request, sent again under the same id",
        after=at,
    )
    require(
        again.subject == request.subject and again.data == request.data, "it is sent again with other content"
    )


async def restart_answered(stage: Stage) -> None:
    """An answer that it gave just before the gateway was killed is given again after it, without a second run."""
    record = stage.record
    record.lose("said", lambda said: said.verb == "reply" and said.data == 1)
    question = await stage.others.ask("count", {"key": "answered before"}, timeout_s=30.0)
    answer = await record.until(lambda: next(iter(record.answers(question.id)), None), "an answer")
    await stage.kill_gateway()
    await stage.start_gateway()
    hello = await record.said_next(
        lambda said: said.verb == "hello", "hello after a restart", after=answer.number, within_s=_RESUMED_S
    )
    named = hello.body.get("answered") or ()
    require(question.id in named, "its hello does not name what it has answered")
    await stage.others.ask_again(question)
    require(await question.answer(_RESUMED_S) == 1, "the answer is another one")
    require(await count(stage, "answered before") == 1, "it was run again")


LAWS: Final = (
    Law("outcome.first", "freeze", outcome_first),
    Law("deadline.own", "freeze", deadline_own),
    Law("connection.cut", "connection", connection_cut),
    Law("restart.resumed", "restart", restart),
    Law("restart.answered", "restart", restart_answered),
)
