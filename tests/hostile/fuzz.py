"""Hostile messages by the thousand through the gateway's own ways: inbox, ingress, kernel, egress, in this process.

    python -m tests.hostile.fuzz --messages 1000000 [--seed 1] [--jobs 2]
    python -m tests.hostile.fuzz --nats --messages 100000        the same letters through a real server

Nothing may raise, every table keeps its bound, and two agents in the middle of it are answered all the time. A run that
fails says its seed.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any, Final

from msgspec import Struct

from tests.hostile.letters import Letters
from unknot_gateway.core.effects import AnyEffect
from unknot_gateway.core.facts import AnyFact, TimePassed
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_gateway.core.limits import Limits
from unknot_gateway.shell.bus import Message
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.fairness import Inbox
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas import Subjects
from unknot_schemas.ids import AgentId

SUBJECTS: Final = Subjects("default")
RUN_MESSAGES: Final = 2_000
"""Of one run: then everything must end, and a new gateway begins."""
BEAT_S: Final = 2.0
PAUSES_S: Final = (0.01, 0.01, 0.01, 0.3, 0.3, 0.3, 1.1, 1.1, 6.0, 40.0)
"""Between messages, now and then; the last one is longer than silent sessions live."""


class Figures(Struct):
    """What has been done."""

    messages: int = 0
    sent: int = 0
    asked: int = 0
    answered: int = 0
    full: int = 0
    """Of *asked*, refused because the network was full just then."""
    peak_mb: int = 0

    def add(self, other: "Figures") -> None:
        """Both together."""
        for name in ("messages", "sent", "asked", "answered", "full"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak_mb = max(self.peak_mb, other.peak_mb)


class Run:
    """One gateway in memory, under fire. ``good`` asks ``helper``, and both keep to the rules."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"fuzz {seed}")
        policy: Any = self.random.choice(["fail_all", "refuse", "shadow"])
        self.limits = Limits(
            agents_max=12,
            messages_max=60,
            tokens_max=10,
            queue_max=3,
            groups_max=4,
            remembered_max=40,
            kept_bytes_max=2_000,
            incidents_max=2,
            routes_max=2,
            check_steps=self.random.choice([0, 1, 50]),
        )
        self.kernel = Kernel("default", 7, KernelConfig(policy=policy, limits=self.limits))
        self.inbox = Inbox(SUBJECTS.root)
        self.ingress, self.egress = Ingress(SUBJECTS), Egress(SUBJECTS, 1_000_000)
        self.letters = Letters(self.random)
        self.letters.live = self._live
        self.now = 100.0
        self.figures = Figures()
        self._open: dict[str, str] = {}
        """What ``good`` waits for."""
        self._seen = {"good": 0, "helper": 0}

    def play(self, messages: int) -> Figures:
        """The whole run. Raises whatever goes wrong."""
        for agent in ("good", "helper"):
            self._say(agent, "hello", session=f"{agent}-token", concurrency=50)
        for number in range(messages):
            letter = self.letters.draw()
            headers = {"Status": letter.status} if letter.status else None
            self.inbox.put(Incoming(f"{SUBJECTS.root}.in.{letter.after}", letter.reply, letter.body, headers))
            if self.random.random() < 0.3:
                self._handle_all()
            if number % 50 == 0:
                self._ask(f"good-{number}")
            if self.random.random() < 0.05:
                self._pass_time(self.random.choice(PAUSES_S))
            self._check_bounds()
        self.figures.messages += messages
        self._end()
        return self.figures

    def _live(self, name: str) -> list[str]:
        agent = self.kernel.tables.sessions.agents.get(AgentId(name))
        return [str(session) for session in agent.sessions] if agent is not None else []

    def _handle_all(self) -> None:
        while self.inbox.waiting or self.inbox.next_round():
            message: Incoming = self.inbox.waiting.popleft()
            fact = self.ingress.fact(message.subject, message.reply, message.data, message.headers)
            self._feed(fact)

    def _feed(self, fact: AnyFact) -> None:
        for effect in self.kernel.handle(fact, self.now):
            message = self.egress.message(effect)
            if message is not None:
                self.figures.sent += 1
                self._arrived(effect, message)

    def _arrived(self, effect: AnyEffect, message: Message) -> None:
        body = json.loads(message.payload)
        if message.subject.startswith(f"{SUBJECTS.root}.out.") and (incident := body.get("incident")):
            self.letters.incidents.append(incident)
        name = next((agent for agent in self._seen if f".out.{agent}." in message.subject), None)
        if name is None:
            return
        self._seen[name] = max(self._seen[name], body.get("seq", 0))
        if name == "helper" and ".event." in message.subject:
            self._say("helper", f"reply.{body['id']}", unknot=1, session="helper-token", data=body["data"])
        elif name == "good" and body.get("request_id") in self._open:
            data, ended = self._open.pop(body["request_id"]), body["outcome"]
            assert ended == "over_limit" or (ended == "reply" and body["event"]["data"] == data), body
            self.figures.answered += ended == "reply"
            self.figures.full += ended == "over_limit"

    def _ask(self, request_id: str) -> None:
        self._open[request_id] = data = f"for {request_id}"
        self.figures.asked += 1
        self._say(
            "good",
            "request.helper.work",
            unknot=1,
            id=request_id,
            session="good-token",
            data=data,
            timeout_s=600,
        )

    def _say(self, agent: str, after: str, **body: Any) -> None:
        self.inbox.put(Incoming(f"{SUBJECTS.root}.in.{agent}.{after}", "", json.dumps(body).encode()))
        if after == "hello" or after.startswith("request"):
            self._handle_all()

    def _pass_time(self, seconds: float) -> None:
        """In steps, so that the two that keep to the rules are heard."""
        until = self.now + seconds
        while self.now < until:
            self._handle_all()
            step_end = min(until, self.now + BEAT_S)
            for _ in range(1_000):
                due_at = self.kernel.next_wakeup_at()
                if due_at is None or due_at > step_end:
                    break
                self.now = max(self.now, due_at)
                self._feed(TimePassed())
            self.now = step_end
            for agent in ("good", "helper"):
                named = list(self._open) if agent == "good" else []
                self._say(agent, "heartbeat", session=f"{agent}-token", open=named, seen=self._seen[agent])
        self._handle_all()

    def _check_bounds(self) -> None:
        tables, limits = self.kernel.tables, self.limits
        assert len(tables.messages.open) <= limits.messages_max
        assert len(tables.sessions.agents) <= limits.agents_max
        assert tables.messages.remembered <= limits.remembered_max + 1
        assert tables.messages.kept_bytes <= limits.kept_bytes_max
        assert len(self.kernel.groups) <= limits.groups_max
        assert len(self.kernel.detector.incidents) <= limits.incidents_max
        assert all(agent.queued <= limits.queue_max + 60 for agent in tables.sessions.agents.values())

    def _end(self) -> None:
        """Whoever attacks falls silent: what they left ends, and the two are answered."""
        self._pass_time(60.0)
        self._ask("good-last")
        self._pass_time(1.0)
        assert not self._open, f"never ended: {list(self._open)}"
        self.now += 4_000.0
        for _ in range(20_000):
            due_at = self.kernel.next_wakeup_at()
            if due_at is None:
                break
            self.now = max(self.now, due_at)
            self._feed(TimePassed())
        tables = self.kernel.tables
        left = {
            "open": len(tables.messages.open), "waits": len(tables.messages.waits), "graph": len(tables.waiting.graph),
            "groups": len(self.kernel.groups), "incidents": len(self.kernel.detector.incidents),
            "agents": len(tables.sessions.agents),
        }  # fmt: skip
        assert not any(left.values()), left


def play(seed: int, messages: int = RUN_MESSAGES) -> Figures:
    """One run; what goes wrong is said with its seed."""
    try:
        figures = Run(seed).play(messages)
    except Exception as error:
        raise AssertionError(
            f"seed {seed}: python -m tests.hostile.fuzz --seed {seed} --messages {messages}"
        ) from error
    figures.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return figures


def main(arguments: list[str]) -> int:
    """Run until enough messages have been handled; figures now and then."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nats", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.nats:
        from tests.hostile.over_nats import play_over_nats  # noqa: PLC0415  # what starts processes, only when asked

        sys.stdout.write(f"{asyncio.run(play_over_nats(asked.seed, asked.messages))}\n")
        return 0
    began, total = time.monotonic(), Figures()
    runs = max(1, asked.messages // RUN_MESSAGES)
    with ProcessPoolExecutor(asked.jobs) as pool:
        for number, figures in enumerate(pool.map(play, range(asked.seed, asked.seed + runs)), 1):
            total.add(figures)
            if number == runs or number % 50 == 0:
                sys.stdout.write(f"{time.monotonic() - began:.0f} s: {total}\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
