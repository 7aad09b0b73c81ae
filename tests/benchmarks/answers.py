"""No wrong, lost or doubled answer: many concurrent requests, a fifth of them timing out, late answers mixed in.

What becomes of each request is drawn before it is sent, so every outcome can be judged.
"""

import asyncio
import random
import time
from collections import Counter
from typing import Any

import msgspec
import nats

from tests.benchmarks.raw_agent import Event, RawAgent
from unknot_schemas import Subjects
from unknot_schemas.bodies import Outcome
from unknot_schemas.errors import LATE_REPLY

SHARES = {"at_once": 70, "twice": 4, "soon": 4, "silent": 10, "late": 10, "race": 2}
"""Of 100 requests. *soon*: overtaken by later ones; *race*: answered in the moment of its deadline."""
MUST_END = {
    "at_once": {"reply"},
    "twice": {"reply"},
    "soon": {"reply"},
    "silent": {"expired"},
    "late": {"expired"},
    "race": {"reply", "expired"},
}
SHORT_S = 1.0
SOON_S = 0.3
LONG_S = 60.0
LATE_S = 0.1
"""After the deadline."""
RACE_S = 0.5
"""Before the deadline at most: so some answers win the race, and some are overtaken on their way."""
TICK_S = 0.1
SLOTS = 50_000
HANG_S = 60.0
"""After the deadline; what has not come then never comes."""
FIRST_MAX = 3
"""Faults of each kind that are shown."""


class Fate(msgspec.Struct, array_like=True):
    """The body of a request: which one it is, and what its responder is to do."""

    number: int
    kind: str


class Judge:
    """Counts what went as drawn and what did not."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.first: list[str] = []
        self.longest_pause_s = 0.0
        """Of this process: of the agents, not of the gateway."""
        self._began = time.perf_counter()

    async def tick(self) -> None:
        """Watch the own loop: on a busy machine it is what stops, not the gateway."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.longest_pause_s = max(self.longest_pause_s, time.perf_counter() - before - TICK_S)

    def fault(self, kind: str, about: object) -> None:
        self.faults[kind] += 1
        if self.faults[kind] <= FIRST_MAX:
            self.first.append(f"{kind} after {time.perf_counter() - self._began:.1f} s: {about}")

    def outcome(self, fate: Fate, outcome: Outcome) -> None:
        self.ended[f"{fate.kind} {outcome.outcome}"] += 1
        if outcome.outcome not in MUST_END[fate.kind]:
            self.fault("wrong", (fate, outcome))
        elif outcome.outcome == "reply":
            answer = msgspec.json.decode(outcome.event.data, type=int) if outcome.event else None
            if answer != fate.number:
                self.fault("wrong", (fate, outcome))


class Responder:
    """Does to each request what its fate says, once."""

    def __init__(self, judge: Judge, group: asyncio.TaskGroup) -> None:
        self.agent: RawAgent
        self._judge = judge
        self._group = group
        self._seen: set[str] = set()

    async def on_event(self, event: Event) -> None:
        fate = msgspec.json.decode(event.data, type=Fate)
        if event.id in self._seen:
            self._judge.fault("delivered twice", event)
            return
        self._seen.add(event.id)
        answer = b"%d" % fate.number
        if fate.kind in ("at_once", "twice"):
            await self.agent.reply(event.id, answer)
            if fate.kind == "twice":
                await self.agent.reply(event.id, answer)
        else:
            self._group.create_task(self._later(event.id, fate.kind, answer, event.deadline_in_s or SHORT_S))

    async def _later(self, id: str, kind: str, answer: bytes, deadline_in_s: float) -> None:
        if kind == "soon":
            await asyncio.sleep(random.random() * SOON_S)
            await self.agent.reply(id, answer)
        elif kind == "race":
            await asyncio.sleep(deadline_in_s - random.random() * RACE_S)
            await self.agent.reply(id, answer)
        elif kind == "silent":
            await asyncio.sleep(SHORT_S + LATE_S)
            await self.agent.done([id])
        else:
            await asyncio.sleep(SHORT_S + LATE_S)
            receipt = await self.agent.reply_asking(id, answer)
            if receipt.ok or receipt.error is None or receipt.error.code != LATE_REPLY:
                self._judge.fault("late answer taken", receipt)


async def run(url: str, network: str, total: int, lanes: int, seed: int) -> dict[str, Any]:
    """Send *total* requests, *lanes* at a time; what came of them."""
    drawn = random.Random(seed).choices(list(SHARES), weights=list(SHARES.values()), k=total)
    fates = iter([Fate(number, kind) for number, kind in enumerate(drawn)])
    judge = Judge()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        responder = Responder(judge, group)
        responder.agent = RawAgent(
            await nats.connect(url), Subjects(network), "responder", responder.on_event
        )
        await responder.agent.start(SLOTS)
        ticks = group.create_task(judge.tick())
        asker = RawAgent(await nats.connect(url), Subjects(network), "asker")
        await asker.start(SLOTS)
        async with asyncio.TaskGroup() as asking:
            for lane in range(lanes):
                asking.create_task(_lane(asker, f"lane{lane}", fates, judge))
        ticks.cancel()
    took = time.perf_counter() - began
    await asyncio.sleep(1.0)  # what comes now comes too often
    for agent in (asker, responder.agent):
        for surprise in agent.surprises:
            judge.fault("doubled", surprise)
        await agent.stop()
    return {
        "requests": total,
        "in_flight": lanes,
        "seed": seed,
        "seconds": round(took, 1),
        "longest_pause_s": round(judge.longest_pause_s, 2),
        "ended": dict(sorted(judge.ended.items())),
        "faults": dict(judge.faults),
        "first_faults": judge.first,
    }


async def _lane(asker: RawAgent, execution: str, fates: Any, judge: Judge) -> None:
    for fate in fates:
        timeout_s = LONG_S if MUST_END[fate.kind] == {"reply"} else SHORT_S
        answer = await asker.request(
            "responder", f"bench.{fate.kind}", msgspec.json.encode(fate), execution, timeout_s
        )
        try:
            async with asyncio.timeout(timeout_s + HANG_S):
                judge.outcome(fate, await answer)
        except TimeoutError:
            judge.fault("lost", fate)


def show(result: dict[str, Any]) -> str:
    """One line for each fate, and the verdict."""
    lines = [f"  {ended:<18} {count:>8,}" for ended, count in result["ended"].items()]
    faults = result["faults"] or "0 wrong, lost or doubled"
    head = f"{result['requests']:,} requests, {result['in_flight']} at a time, {result['seconds']} s"
    head += f", agents paused for {result['longest_pause_s']} s at most"
    return "\n".join([head, *lines, f"{faults}", *result["first_faults"]])
