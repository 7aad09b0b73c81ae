"""run_9104, played: every line that is printed rests on what was observed; what was not is Missing."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import nats
from msgspec import Struct

import unknot
from unknot_gateway.cli.demo.page import Page
from unknot_gateway.cli.demo.stage import Heard, Line, Missing, Stage, stage
from unknot_schemas import Subjects
from unknot_schemas.bodies import DeadlockDetected
from unknot_schemas.subjects import CONTROL_DEADLOCK

AGENTS: Final = {
    "extractor-1": "extractor_1",
    "extractor-2": "extractor_2",
    "indexer": "indexer",
    "reconciler": "reconciler",
    "writer": "writer",
}
"""Name and variable of each."""
KNOT: Final = ["extractor-2", "reconciler", "extractor-2"]
MEMBERS: Final = ("extractor-2", "reconciler")
PATIENCE_S: Final = 10.0
WHOLE_S: Final = 28.0
FRESH_S: Final = 2.0
FOUND_MAX_S: Final = 1.0
"""Far above the milliseconds that are printed: this is a demo, not a benchmark."""


class Incident(Struct):
    """What was observed of the deadlock; *found_s*, *told_s*: seconds after the closing wait until the first and the
    last of those who are told knew.
    """

    notice: DeadlockDetected
    waits: list[Line]
    liveness: list[Line]
    found_s: float
    told_s: float


class Played(Struct):
    """All that was observed."""

    incident: Incident
    answers: dict[str, Any]
    took_s: float


async def play(page: Page) -> Played:
    """Play it all. Raises Missing when a step does not happen."""
    began = time.monotonic()
    heard = Heard()
    logging.getLogger("unknot").addHandler(
        logging.NullHandler()
    )  # what the planner's client warns of is on the page
    async with stage(heard) as built:
        try:
            async with asyncio.timeout(WHOLE_S):
                return await _played(heard, built, page, began)
        except TimeoutError:
            raise Missing(f"the end of the run within {WHOLE_S:g} s") from None
        except unknot.UnknotError as failure:
            raise Missing(f"an answer: {failure}") from failure
        except ExceptionGroup as several:  # of the task group; what is missing first explains the rest
            missing = several.subgroup(Missing)
            if missing is None:
                raise
            raise missing.exceptions[0] from None


async def _played(heard: Heard, built: Stage, page: Page, began: float) -> Played:
    page.title()
    ready = await built.gateway()
    page.gateway_is_up(time.monotonic() - began)
    url, agents_began = ready["nats"], time.monotonic()
    async with _notices(url, heard), unknot.connect("planner", url=url) as planner:
        for name, variable in AGENTS.items():
            await built.agent(name, variable, url)
        for name in AGENTS:
            await heard.until(_step(name, "up"), f"{name} up", PATIENCE_S)
        page.agents_are_up(len(AGENTS), time.monotonic() - agents_began)
        return await _run(planner, heard, page, began)


@contextlib.asynccontextmanager
async def _notices(url: str, heard: Heard) -> AsyncIterator[None]:
    """Hear the notices that the gateway publishes for monitors."""

    async def take(message: Any) -> None:
        heard.take({"step": "notice", "at": time.monotonic(), "notice": message.data})

    client = await nats.connect(url, name="unknot demo")
    try:
        await client.subscribe(Subjects().notice(CONTROL_DEADLOCK), cb=take)
        await client.flush()
        yield
    finally:
        await client.close()


async def _run(planner: Any, heard: Heard, page: Page, began: float) -> Played:
    async with asyncio.TaskGroup() as group:

        def ask(agent: str, kind: str, bundle: str) -> asyncio.Task[Any]:
            return group.create_task(_asked(planner, agent, kind, bundle))

        asked = {
            "extractor-1": ask("extractor-1", "extract", "bundle_b6"),
            "extractor-2": ask("extractor-2", "extract", "bundle_b7"),
        }
        for name in ("extractor-1", "extractor-2", "indexer"):
            await heard.until(_beat(name), f"{name} at work", PATIENCE_S)
        asked["reconciler"] = ask("reconciler", "reconcile", "bundle_b7")
        await _waiting(heard, "reconciler", page)
        asked["writer"] = ask("writer", "write", "bundle_b7")
        await _waiting(heard, "writer", page)
        await _waiting(heard, "extractor-2", page)
        incident = await _incident(heard)
        page.liveness(incident.liveness)
        page.incident(incident.notice, incident.found_s, incident.told_s)
        page.going_on()
        for name in ("reconciler", "extractor-2", "extractor-1", "writer"):
            line = await heard.until(_step(name, "goes on"), f"{name} going on", PATIENCE_S)
            page.goes_on(name, line["how"])
    answers = {name: task.result() for name, task in asked.items()}
    _check_answers(answers)
    _check_nothing_else(heard)
    played = Played(incident, answers, time.monotonic() - began)
    page.finished(played.took_s)
    return played


async def _asked(planner: Any, agent: str, kind: str, bundle: str) -> Any:
    try:
        return await planner.send_and_wait(agent, kind, bundle, timeout=WHOLE_S)
    except unknot.WaitFailed as failure:
        raise Missing(f"{agent}'s answer to {kind}: {failure}") from failure


async def _waiting(heard: Heard, name: str, page: Page) -> None:
    line = await heard.until(_step(name, "waits"), f"{name} waiting", PATIENCE_S)
    page.waits(name, line["what"], line["of"])


async def _incident(heard: Heard) -> Incident:
    """The notice, what both members were told, and the liveness of all at the moment of the closing wait."""
    heard_notice = await heard.until(_step(None, "notice"), "a deadlock notice", PATIENCE_S)
    notice = msgspec.json.decode(heard_notice["notice"], type=DeadlockDetected)
    told = [
        await heard.until(_step(name, "told"), f"{name} being told of the deadlock", PATIENCE_S)
        for name in MEMBERS
    ]
    waits = [line for name in MEMBERS if (line := _step(name, "waits")(heard.lines))]
    closed_at = max(line["at"] for line in waits)
    found = Incident(
        notice=notice,
        waits=waits,
        liveness=[_last_beat(heard.lines, name, closed_at) for name in AGENTS],
        found_s=min(line["at"] for line in (heard_notice, *told)) - closed_at,
        told_s=max(line["at"] for line in told) - closed_at,
    )
    _check_incident(found, told)
    return found


def _check_incident(found: Incident, told: list[Line]) -> None:
    notice = found.notice
    _must(notice.cycle == KNOT, f"the cycle {KNOT}: the notice has {notice.cycle}")
    waiters = sorted(wait.waiter for wait in notice.waits)
    _must(waiters == sorted(MEMBERS), f"one wait of each member and no other: the notice has {waiters}")
    _must(len(set(notice.request_ids)) == 2, f"two request ids: the notice has {notice.request_ids}")
    _must(
        "planner" in notice.blocked_behind, f"the planner behind it: the notice has {notice.blocked_behind}"
    )
    _must("writer" not in notice.blocked_behind, "writer, who waits outside, left out of it")
    _must(bool(notice.remedy), "a remedy")
    for line in told:
        same = line["incident"] == notice.incident and line["cycle"] == KNOT
        _must(same, f"{line['agent']} being told of the same incident: it was told {line}")
    _must(found.told_s < FOUND_MAX_S, f"the members being told at once: it took {found.told_s:.3f} s")


def _check_answers(answers: dict[str, Any]) -> None:
    _must(
        answers["reconciler"] == {"reconciled": 38, "draft": True},
        f"the draft reconciled: {answers['reconciler']}",
    )
    _must(answers["extractor-2"]["clauses"] == 41, f"the clause table: {answers['extractor-2']}")
    _must(answers["writer"] == {"clauses": 41, "units": "EUR"}, f"the summary: {answers['writer']}")
    _must(answers["extractor-1"]["indexed"] == 24, f"all pages indexed: {answers['extractor-1']}")


def _check_nothing_else(heard: Heard) -> None:
    notices = sum(line.get("step") == "notice" for line in heard.lines)
    told = sorted(line["agent"] for line in heard.lines if line.get("step") == "told")
    _must(notices == 1, f"one deadlock: there were {notices}")
    _must(told == sorted(MEMBERS), f"nobody else being told of a deadlock: it was {told}")


def _must(happened: bool, what: str) -> None:
    if not happened:
        raise Missing(what)


def _beat(agent: str) -> Any:
    return lambda lines: next(
        (line for line in lines if line.get("agent") == agent and "healthy" in line), None
    )


def _step(agent: str | None, step: str) -> Any:
    return lambda lines: next(
        (line for line in lines if line.get("step") == step and line.get("agent") == agent), None
    )


def _last_beat(lines: list[Line], agent: str, at: float) -> Line:
    """What a probe of *agent* sees at that moment: its last heartbeat, which must be fresh."""
    beats = [line for line in lines if line.get("agent") == agent and "healthy" in line and line["at"] <= at]
    _must(bool(beats), f"a heartbeat of {agent}")
    beat = beats[-1]
    _must(beat["healthy"] and at - beat["at"] < FRESH_S, f"{agent} alive and healthy: {beat}")
    waits = agent in ("extractor-2", "reconciler", "writer")
    _must((beat["status"] == "waiting for input") == waits, f"the status of {agent} as in the run: {beat}")
    return beat
