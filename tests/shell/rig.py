"""A small kernel that echoes, and a bus that remembers: what the shell is tested with, behind the borders."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from nats.aio.client import Client
from nats.aio.msg import Msg

from unknot_gateway.core.effects import Answer, AnyEffect, SendOutcome
from unknot_gateway.core.facts import AnyFact, EventSeen, InputRefused, Stopped, TimePassed
from unknot_gateway.shell.bus import Message, NatsBus
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.loop import Owner
from unknot_schemas import Subjects, bodies
from unknot_schemas.ids import NO_SESSION, AgentId

SUBJECTS = Subjects("echo")
PATIENCE_S = 5.0


class EchoKernel:
    """Answers each request with its own data; *bombs* in the data make it raise."""

    def __init__(self) -> None:
        self.network = SUBJECTS.network
        self.facts: list[AnyFact] = []
        self.wakeups: list[float] = []
        self.on_time: Callable[[float], None] = lambda now: None

    def handle(self, fact: AnyFact, now: float) -> list[AnyEffect]:
        self.facts.append(fact)
        if isinstance(fact, TimePassed):
            self.wakeups = [at for at in self.wakeups if at > now]
            self.on_time(now)
            return []
        if isinstance(fact, Stopped):
            return [self._outcome("last", bodies.NULL, "_INBOX.last", "cancelled")]
        if isinstance(fact, InputRefused) and fact.reply_to:
            return [Answer(fact.reply_to, bodies.Receipt(ok=False, id=fact.event_id, error=fact.error))]
        if isinstance(fact, EventSeen):
            data = bytes(fact.envelope.data)
            if b"bomb" in data:
                raise ValueError("a bomb went off")
            if fact.verb == "request" and fact.reply_to:
                return [self._outcome(fact.envelope.id or "none", fact.envelope.data, fact.reply_to)]
        return []

    def next_wakeup_at(self) -> float | None:
        return min(self.wakeups, default=None)

    def _outcome(self, id: str, data: bodies.Raw, to: str, kind: bodies.OutcomeKind = "reply") -> SendOutcome:
        event = bodies.Delivered(id, "echo.say", "echo", "cli", data, requires_response=False, epoch=1)
        outcome = bodies.Outcome(id, kind, "yes", 1, event=event)
        return SendOutcome(AgentId("cli"), NO_SESSION, outcome, to)


class MemoryBus:
    """Remembers what is published."""

    def __init__(self, max_payload: int = 1024) -> None:
        self.max_payload = max_payload
        self.published: list[tuple[str, bytes, str]] = []

    async def publish(self, messages: Iterable[Message]) -> None:
        self.published += [(message.subject, message.payload, message.reply) for message in messages]


@asynccontextmanager
async def owner(bus: MemoryBus | NatsBus, kernel: EchoKernel) -> AsyncIterator[Owner]:
    """An owner at work; stopped at the end of the block."""
    owner = Owner(kernel, Ingress(SUBJECTS), Egress(SUBJECTS, bus.max_payload), bus)
    task = asyncio.create_task(owner.run())
    try:
        yield owner
    finally:
        owner.stop()
        await asyncio.wait_for(task, PATIENCE_S)


def message(subject: str, payload: bytes, reply: str = "_INBOX.test") -> Msg:
    """A message as nats-py hands it over."""
    return Msg(_client=Client(), subject=subject, reply=reply, data=payload)


def request(id: str, data: str = "1") -> Msg:
    """A blocking request to ``echo``."""
    payload = f'{{"unknot":1,"id":"{id}","data":{data}}}'.encode()
    return message(SUBJECTS.event("cli", "request", "echo", "echo.say"), payload)


async def until(true: Callable[[], bool]) -> None:
    """Return when *true*; fails after a while."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110  # what is waited for knows no event
            await asyncio.sleep(0.001)
