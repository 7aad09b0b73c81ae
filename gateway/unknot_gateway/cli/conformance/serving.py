"""What is delivered is run once and answered once."""

import asyncio
from typing import Any, Final

from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Message, require
from unknot_gateway.cli.conformance.stage import AGENT, ASKER, ECHO, HEARTBEAT_S, Stage

_NASTY: Final = {"": None, "tief": [{"π": '\u2028 "quoted" \\ \u0000'}], "n": [0, -1.5, 1e300, True, False]}
_REPAIR_S: Final = 16 * HEARTBEAT_S
"""For what heartbeats cure."""
_QUIET_S: Final = 0.3
"""After that, what has not come does not come."""


async def count(stage: Stage, key: str) -> Any:
    """How often the program has run something under *key*."""
    return await (await stage.others.ask("count", {"key": key, "add": 0})).answer()


async def answer_data(stage: Stage) -> None:
    """An answer carries the data as it is, whatever JSON that is."""
    many: tuple[Any, ...] = (_NASTY, None, "text", 0, [], {"unknot": 1, "data": 2})
    for data in many:
        question = await stage.others.ask("echo", data)
        answer = await question.answer()
        require(answer == data, f"conformance.echo of {data!r} was answered with {answer!r}")


async def answer_failed(stage: Stage) -> None:
    """A handler that fails answers with an error, and the program goes on."""
    question = await stage.others.ask("fail", {"message": "on purpose"})
    outcome = await question.outcome()
    require(outcome.get("outcome") == "failed", f"conformance.fail ended {outcome.get('outcome')!r}")
    message = str((outcome.get("error") or {}).get("message"))
    require("on purpose" in message, f"the error says {message!r}")
    await (await stage.others.ask("echo", 1)).answer()


async def answer_early(stage: Stage) -> None:
    """An early answer says done: false; done comes once, when the handler has returned, and no second answer."""
    question = await stage.others.ask("early", {"s": 0.6})
    require(await question.answer() == "early", "conformance.early answers something else")
    answer = stage.record.answers(question.id)[0]
    require(answer.body.get("done") is False, "an answer of a handler that runs on does not say done: false")
    done = await _done(stage, question.id)
    require(done.at - answer.at >= 0.4, f"done came {done.at - answer.at:.2f} s after the answer, not 0.6 s")
    await _once(stage, question.id, answers=1, dones=1)


async def answer_deferred(stage: Stage) -> None:
    """A deferred request is deferred once, before its only answer, and needs no done."""
    question = await stage.others.ask("defer", {"s": 0.4, "data": {"late": True}})
    require(await question.answer() == {"late": True}, "the deferred answer is another one")
    defers = stage.record.named("defer", question.id)
    require(len(defers) == 1, f"it was deferred {len(defers)} times")
    require(defers[0].body.get("session") == stage.session, "defer does not name the session")
    require(defers[0].number < stage.record.answers(question.id)[0].number, "defer came after the answer")
    await _once(stage, question.id, answers=1, dones=0)


async def event_done(stage: Stage) -> None:
    """A one-way event is run once, not answered, and done once its handler has returned."""
    id = await stage.others.send("count", {"key": "event", "s": 0.3})
    await stage.delivered(id)
    arrived = stage.record.deliveries(id)[0]
    done = await _done(stage, id)
    require(done.at - arrived.at >= 0.2, "done came before the handler had returned")
    require(done.body.get("session") == stage.session, "done does not name the session")
    await _once(stage, id, answers=0, dones=1)
    require(await count(stage, "event") == 1, "its handler did not run once")


async def request_done(stage: Stage) -> None:
    """An answer that ends its handler is one message: it needs no done."""
    question = await stage.others.ask("echo", "once")
    await question.answer()
    await asyncio.sleep(_QUIET_S)
    answers = len(stage.record.answers(question.id))
    require(answers == 1, f"it answered {answers} times")
    require(not stage.record.named("defer", question.id), "it deferred what it answered at once")


async def _done(stage: Stage, id: str) -> Message:
    return await stage.record.until(
        lambda: next(iter(stage.record.named("done", id)), None),
        "done for an event whose handler has returned",
    )


async def _once(stage: Stage, id: str, *, answers: int, dones: int) -> None:
    await asyncio.sleep(_QUIET_S)
    answered, done = len(stage.record.answers(id)), len(stage.record.named("done", id))
    require(answered == answers, f"{answered} answers instead of {answers}")
    require(done == dones, f"{done} times done instead of {dones}")


async def lost_answer(stage: Stage) -> None:
    """A request that is delivered again because its answer got lost is answered again and not run again."""
    stage.record.lose("said", lambda said: said.verb == "reply" and _key(stage, said) == "lost answer")
    question = await stage.others.ask("count", {"key": "lost answer"})
    answer = await question.answer(_REPAIR_S)
    require(answer == 1, f"the second answer is {answer!r}, not the first one again")
    copies = len(stage.record.deliveries(question.id))
    require(copies == 2, f"it was delivered {copies} times")
    ran = await count(stage, "lost answer")
    require(ran == 1, f"its handler ran {ran} times")


def _key(stage: Stage, answer: Message) -> Any:
    """The key of the conformance.count that *answer* answers."""
    assert answer.read is not None
    copies = stage.record.deliveries(answer.read.request_id)
    data = copies[0].body.get("data") if copies else None
    return data.get("key") if isinstance(data, dict) else None


async def lost_delivery(stage: Stage) -> None:
    """A delivery that got lost is missed in heartbeats (seen stops before it), and run when it comes again."""
    stage.record.lose("got", lambda got: _has_key(got, "lost delivery"))
    question = await stage.others.ask("count", {"key": "lost delivery"})
    lost = await stage.record.got_next(
        lambda got: _has_key(got, "lost delivery"), "a delivery by the gateway"
    )
    await (await stage.others.ask("echo", "behind it")).answer()
    again = stage.record.got_next(
        lambda got: _has_key(got, "lost delivery"), "a second copy", after=lost.number, within_s=_REPAIR_S
    )
    copy = await again
    beats = [s for s in stage.record.of("heartbeat") if lost.number < s.number < copy.number]
    seen = [beat.body.get("seen", 0) for beat in beats]
    require(
        bool(seen) and max(seen) < lost.body["seq"],
        f"number {lost.body['seq']} got lost, heartbeats said seen {seen}",
    )
    require(await question.answer() == 1, "it was not run once")
    at = stage.record.number
    beat = await stage.record.said_next(lambda said: said.verb == "heartbeat", "a heartbeat", after=at)
    require(
        beat.body.get("seen", 0) >= lost.body["seq"],
        f"afterwards heartbeats say seen {beat.body.get('seen')}",
    )


def _has_key(got: Message, key: str) -> bool:
    data = got.body.get("data")
    return ".event." in got.subject and isinstance(data, dict) and data.get("key") == key


async def lost_request(stage: Stage) -> None:
    """A request of its own that got lost is named by heartbeats and sent again: same id, same content."""
    mark = "please get lost"
    stage.record.lose("said", lambda said: said.verb == "request" and said.data == mark)
    ask = {"target": ECHO, "type": "mirror.show", "data": mark, "timeout_s": 15.0}
    question = await stage.others.ask("ask", ask)
    told = await question.answer(_REPAIR_S)
    require(told.get("outcome") == "reply", f"it reports {told!r}")
    sent = [said for said in stage.record.of("request") if said.data == mark]
    require(len(sent) >= 2 and not sent[0].passed, "it was not sent again")
    first, again = sent[0], sent[1]
    require(again.body.get("id") == first.body.get("id"), "it was sent again under another id")
    require(
        again.subject == first.subject and again.data == first.data, "it was sent again with other content"
    )


async def twice_while_running(stage: Stage) -> None:
    """A copy of an event that is still running changes nothing: one run, one answer."""
    question = await stage.others.ask("count", {"key": "twice", "s": 0.8})
    copy = await stage.delivered(question.id)
    await stage.deliver("count", {**copy, "redelivered": True})
    require(await question.answer() == 1, "it was run twice")
    await asyncio.sleep(0.8 + _QUIET_S)  # a second run would end now
    require(len(stage.record.answers(question.id)) == 1, "it was answered twice")
    require(await count(stage, "twice") == 1, "it was run twice")


async def abandoned_running(stage: Stage) -> None:
    """A request that is abandoned while its handler runs is let go of when that ends: done, or a late answer, once."""
    question = await stage.others.ask("count", {"key": "abandoned", "s": 0.6})
    await stage.delivered(question.id)
    await stage.others.give_up(question)
    await stage.record.got_next(
        lambda got: got.subject.endswith(".control.request.abandoned"), "request.abandoned by the gateway"
    )
    let_go = await stage.record.until(
        lambda: next(
            iter([*stage.record.answers(question.id), *stage.record.named("done", question.id)]), None
        ),
        "done (or a late answer) for an abandoned event whose handler has ended",
    )
    await asyncio.sleep(_QUIET_S)
    times = len(stage.record.answers(question.id)) + len(stage.record.named("done", question.id))
    require(times == 1, f"it was let go of {times} times")
    beat = await stage.record.said_next(
        lambda said: said.verb == "heartbeat", "a heartbeat", after=let_go.number
    )
    require(all(held.get("id") != question.id for held in beat.body.get("held", [])), "it is still held")


async def abandoned_early(stage: Stage) -> None:
    """An event that arrives after it was abandoned is never run."""
    id = stage.others.new_id()
    await stage.control("request.abandoned", {"request_id": id, "reason": "nobody waits"})
    await stage.deliver("count", event(id, {"key": "abandoned early"}))
    await asyncio.sleep(_QUIET_S)
    require(await count(stage, "abandoned early") == 0, "it was run")


def event(id: str, data: Any, event_type: str = "conformance.count") -> dict[str, Any]:
    """A delivered request, as the gateway writes one."""
    return {
        "unknot": 1,
        "id": id,
        "type": event_type,
        "source": ASKER,
        "target": AGENT,
        "data": data,
        "requires_response": True,
        "epoch": 1,
        "deadline_in_s": 15.0,
        "metadata": {"blocking_wait": True},
    }


async def unknown_ignored(stage: Stage) -> None:
    """Unknown fields of an event, and control messages of an unknown type, are ignored."""
    await stage.control("conformance.unknown", {"what": ["is", "this"]})
    id = stage.others.new_id()
    more = {"x_new": {"a": [1]}, "later": None, "priority": 7}
    await stage.deliver("echo", {**event(id, "still here", "conformance.echo"), **more})
    answer = await stage.record.until(
        lambda: next(iter(stage.record.answers(id)), None), "an answer to an event with unknown fields"
    )
    require(answer.data == "still here", f"it answered {answer.data!r}")


LAWS: Final = (
    Law("answer.data", "serve", answer_data),
    Law("answer.once", "serve", request_done),
    Law("answer.failed", "serve", answer_failed),
    Law("answer.early", "serve", answer_early),
    Law("answer.deferred", "serve", answer_deferred),
    Law("event.done", "serve", event_done),
    Law("lost.answer", "serve", lost_answer),
    Law("lost.delivery", "serve", lost_delivery),
    Law("lost.request", "serve", lost_request),
    Law("copy.running", "serve", twice_while_running),
    Law("abandoned.running", "serve", abandoned_running),
    Law("abandoned.early", "serve", abandoned_early),
    Law("unknown.ignored", "serve", unknown_ignored),
)
