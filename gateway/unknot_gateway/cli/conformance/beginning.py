"""How a session begins, and what keeps it alive."""

import asyncio
import itertools
from typing import Final

from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Message, require
from unknot_gateway.cli.conformance.stage import AGENT, ECHO, HEARTBEAT_S, SILENT, SLOTS, Stage
from unknot_schemas.ids import is_id, matches

_HELLO_S: Final = 30.0
"""For a program's start, whatever language it is in."""
_TOKEN_CHARS: Final = {"": 29, "0123456789": 29, "0123456789abcdef": 24}
"""Alphabet -> characters that hold 96 random bits."""
_TOKEN_CHARS_MIN: Final = 16
_ROUNDS_S: Final = 2.6
_GRACE_S: Final = 0.8
"""A busy machine is no broken law."""


async def begun(stage: Stage) -> Message:
    """The first hello of this life."""
    return await stage.record.said_next(
        lambda said: said.verb == "hello", "hello of the agent that UNKNOT_AGENT names", within_s=_HELLO_S
    )


async def hello_first(stage: Stage) -> None:
    """The first thing it says is hello, in protocol 1."""
    hello = await begun(stage)
    require(stage.record.said[0] is hello, f"it first published to {stage.record.said[0].subject!r}")
    require(hello.body.get("protocol", 1) == 1, f"protocol is {hello.body.get('protocol')!r}")
    require(hello.body.get("resume", False) is False, "its first hello says resume")


async def hello_token(stage: Stage) -> None:
    """The session token is a legal id that can hold 96 random bits."""
    token = (await begun(stage)).body.get("session")
    require(isinstance(token, str) and is_id(token), f"session {token!r} is no id: [A-Za-z0-9_-]{{1,64}}")
    assert isinstance(token, str)
    least = next(
        (chars for alphabet, chars in _TOKEN_CHARS.items() if set(token) <= set(alphabet)), _TOKEN_CHARS_MIN
    )
    require(
        len(token) >= least, f"session {token!r} has {len(token)} characters; 96 bits need {least} of these"
    )


async def hello_subscribed(stage: Stage) -> None:
    """Before its hello it has subscribed all that comes for its session, in no queue group."""
    hello = await begun(stage)
    subjects = stage.subjects
    wanted = (
        subjects.deliver(AGENT, stage.session, "conformance.echo"),
        subjects.outcome(AGENT, stage.session),
        subjects.control(AGENT, stage.session, "confirm"),
    )
    for subject in wanted:
        heard = [each for each in stage.record.subscribed if _covers(each.subject, subject)]
        require(
            any(each.number < hello.number for each in heard), f"{subject!r} was not subscribed before hello"
        )
        require(not any(each.queue for each in heard), f"{subject!r} is subscribed in a queue group")


def _covers(pattern: str, subject: str) -> bool:
    return matches(pattern, subject)


async def hello_serves(stage: Stage) -> None:
    """Its hello offers the role: conformance.> in 64 slots, at the heartbeat that UNKNOT_HEARTBEAT_S asks for."""
    hello = (await begun(stage)).body
    pools = hello.get("pools") or [{"slots": hello.get("concurrency"), "types": None}]
    fitting = [
        pool["slots"]
        for pool in pools
        if any(matches(pattern, "conformance.echo") for pattern in pool.get("types") or ["conformance.>"])
    ]
    require(SLOTS in fitting, f"the pool for conformance.echo has {fitting or 'no'} slots, not {SLOTS}")
    require(hello.get("heartbeat_s") == HEARTBEAT_S, f"heartbeat_s is {hello.get('heartbeat_s')!r}")
    question = await stage.others.ask("echo", "are you there?")
    require(await question.answer() == "are you there?", "conformance.echo answers with something else")


async def heartbeat_rhythm(stage: Stage) -> None:
    """Heartbeats come at the agreed interval: never two intervals without one, and none for nothing."""
    begun_at = stage.record.number
    await asyncio.sleep(_ROUNDS_S)
    beats = [said for said in stage.record.of("heartbeat") if said.number > begun_at]
    least = int(_ROUNDS_S / (2 * HEARTBEAT_S))
    require(
        len(beats) >= least,
        f"{len(beats)} heartbeats in {_ROUNDS_S:g} s, with an interval of {HEARTBEAT_S:g} s",
    )
    gap = max(b.at - a.at for a, b in itertools.pairwise(beats))
    require(gap <= 2 * HEARTBEAT_S + _GRACE_S, f"{gap:.1f} s without a heartbeat")
    require(len(beats) <= 4 * _ROUNDS_S / HEARTBEAT_S, f"{len(beats)} heartbeats in {_ROUNDS_S:g} s")
    wrong = [said for said in beats if said.body.get("session") != stage.session]
    require(not wrong, "a heartbeat names another session")


async def heartbeat_held(stage: Stage) -> None:
    """A heartbeat names what is held for longer than one interval, running or deferred, and not what is over."""
    work_s = 6 * HEARTBEAT_S
    running = await stage.others.ask("count", {"key": "held", "s": work_s})
    deferred = await stage.others.ask("defer", {"s": work_s, "data": "later"})
    for question, state in ((running, "running"), (deferred, "deferred")):
        await _named_held(stage, question.id, state, within_s=work_s)
    for question in (running, deferred):
        await question.answer()
    after = stage.record.number
    beat = await stage.record.said_next(lambda said: said.verb == "heartbeat", "a heartbeat", after=after)
    still = {held.get("id") for held in beat.body.get("held", [])} & {running.id, deferred.id}
    require(not still, "a heartbeat names as held what was answered before it")


async def _named_held(stage: Stage, id: str, state: str, within_s: float) -> None:
    await stage.record.said_next(
        lambda said: said.verb == "heartbeat" and (id, state) in _held(said),
        f"a heartbeat that names an event held {state} for {within_s:g} s",
        within_s=within_s,
    )


def _held(beat: Message) -> list[tuple[str | None, str]]:
    return [(held.get("id"), held.get("state", "running")) for held in beat.body.get("held", [])]


async def heartbeat_open(stage: Stage) -> None:
    """A heartbeat names the own requests that are open for longer than one interval, and no others."""
    ask = {"target": SILENT, "type": "sphinx.ask", "data": None, "timeout_s": 4 * HEARTBEAT_S}
    question = await stage.others.ask("ask", ask)
    request = await own_request(stage, question.id)
    id = request.body["id"]
    await stage.record.said_next(
        lambda said: said.verb == "heartbeat" and id in said.body.get("open", ()),
        "a heartbeat that names an open request",
        within_s=4 * HEARTBEAT_S,
    )
    told = await question.answer()
    require(told.get("outcome") == "expired", f"a request that nobody answers ended {told.get('outcome')!r}")
    after = stage.record.number
    beat = await stage.record.said_next(lambda said: said.verb == "heartbeat", "a heartbeat", after=after)
    require(id not in beat.body.get("open", ()), "a heartbeat names a request as open that has ended")


async def own_request(stage: Stage, execution: str) -> Message:
    """The request that the program sends while it handles the conformance.ask of this id."""
    await stage.delivered(execution)
    return await stage.record.said_next(
        lambda said: said.verb == "request" and said.body.get("execution") == execution,
        "a request of its own with the id of the event in hand as execution",
    )


async def request_tagged(stage: Stage) -> None:
    """What a handler sends names its session and, as execution, the event in hand; the answer comes back."""
    ask = {"target": ECHO, "type": "mirror.show", "data": {"deep": [1, None]}, "timeout_s": 10.0}
    question = await stage.others.ask("ask", ask)
    request = await own_request(stage, question.id)
    require(request.body.get("session") == stage.session, "its request does not name its session")
    require(request.body.get("timeout_s") == 10.0, f"timeout_s is {request.body.get('timeout_s')!r}, not 10")
    told = await question.answer()
    require(told.get("outcome") == "reply", f"it reports {told!r}")
    require(told.get("data") == ask["data"], f"it reports the answer as {told.get('data')!r}")


LAWS: Final = (
    Law("hello.first", "begin", hello_first),
    Law("hello.token", "begin", hello_token),
    Law("hello.subscribed", "begin", hello_subscribed),
    Law("hello.serves", "begin", hello_serves),
    Law("heartbeat.rhythm", "serve", heartbeat_rhythm),
    Law("heartbeat.held", "serve", heartbeat_held),
    Law("heartbeat.open", "serve", heartbeat_open),
    Law("request.tagged", "serve", request_tagged),
)
