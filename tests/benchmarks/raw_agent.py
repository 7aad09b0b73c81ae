"""An agent on bare nats-py that keeps the rules of the wire: hello, heartbeats, outcomes, facts. Fast, and no SDK.

The same code drives the relay and the gateway: what differs between their figures is what stands between.
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from unknot_schemas import Subjects
from unknot_schemas.bodies import (
    Bye,
    Confirm,
    Done,
    Envelope,
    Facts,
    Heartbeat,
    Held,
    Hello,
    Outcome,
    Pulse,
    Receipt,
    Strands,
    Welcome,
)
from unknot_schemas.subjects import CONTROL_CONFIRM

HEARTBEAT_S = 5.0
ANSWER_S = 10.0
_encode = msgspec.json.Encoder().encode
_outcome = msgspec.json.Decoder(Outcome)
_receipt = msgspec.json.Decoder(Receipt)
_confirm = msgspec.json.Decoder(Confirm)


class Event(msgspec.Struct, gc=False):
    """What a bare agent reads of a delivered event."""

    id: str
    data: msgspec.Raw
    seq: int | None = None
    deadline_in_s: float | None = None


OnEvent = Callable[[Event], Awaitable[None]]
_event = msgspec.json.Decoder(Event)


class RawAgent:
    """One session of one agent. Events go to *on_event*; without it they are only held."""

    def __init__(
        self, client: Client, subjects: Subjects, name: str, on_event: OnEvent | None = None
    ) -> None:
        self.name = name
        self.session = secrets.token_urlsafe(16)
        self.held: dict[str, float] = {}
        self.held_came = asyncio.Event()
        self.surprises: list[str] = []
        """Second outcomes that nobody asked for, or that contradict the first: there should be none."""
        self._named: dict[str, str] = {}
        self._open: dict[str, tuple[asyncio.Future[Outcome], float, str | None]] = {}
        self._client = client
        self._subjects = subjects
        self._on_event = on_event
        self._seen = 0
        self._ids = itertools.count()
        self._out = len(subjects.out(name, self.session)) - 1
        self._heart: asyncio.Task[None] | None = None

    async def start(self, concurrency: int | None) -> None:
        """Subscribe, say hello, and begin to send heartbeats."""
        await self._client.subscribe(self._subjects.out(self.name, self.session), cb=self._on_message)
        await self._client.flush()
        hello = Hello(self.session, concurrency=concurrency, heartbeat_s=HEARTBEAT_S, sdk="raw")
        welcome = msgspec.json.decode((await self.ask("hello", hello)).data, type=Welcome)
        assert welcome.ok, welcome
        self._heart = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """No more heartbeats; goodbye; the connection is closed."""
        if self._heart is not None:
            self._heart.cancel()
        await self.ask("bye", Bye(self.session))
        await self._client.close()

    async def ask(self, verb: str, body: msgspec.Struct) -> Msg:
        """Send *body* as *verb*; the gateway's answer."""
        return await self._client.request(
            self._subjects.verb(self.name, verb), _encode(body), timeout=ANSWER_S
        )

    async def tell(self, verb: str, body: msgspec.Struct) -> None:
        """Send *body* as *verb*."""
        await self._client.publish(self._subjects.verb(self.name, verb), _encode(body))

    async def send(self, target: str, kind: str, data: object) -> str:
        """One-way event; its id, once the gateway has taken it."""
        event_id = self._id()
        envelope = Envelope(1, event_id, self.session, msgspec.Raw(_encode(data)))
        subject = self._subjects.event(self.name, "send", target, kind)
        receipt = _receipt.decode(
            (await self._client.request(subject, _encode(envelope), timeout=ANSWER_S)).data
        )
        assert receipt.ok, receipt
        return event_id

    async def request(
        self, target: str, kind: str, data: bytes, execution: str | None = None, timeout_s: float = 60.0
    ) -> asyncio.Future[Outcome]:
        """Blocking request on behalf of *execution*; its Outcome, to be awaited."""
        event_id = self._id()
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._open[event_id] = (answer, time.monotonic(), execution)
        envelope = Envelope(1, event_id, self.session, msgspec.Raw(data), execution, timeout_s=timeout_s)
        await self._client.publish(
            self._subjects.event(self.name, "request", target, kind), _encode(envelope)
        )
        return answer

    async def reply(self, request_id: str, data: bytes) -> None:
        """Answer a delivered request."""
        body = _encode(Envelope(1, None, self.session, msgspec.Raw(data)))
        await self._client.publish(self._subjects.reply(self.name, request_id), body)

    async def reply_asking(self, request_id: str, data: bytes) -> Receipt:
        """Answer a delivered request, and wait for what the gateway says to the answer."""
        body = _encode(Envelope(1, None, self.session, msgspec.Raw(data)))
        subject = self._subjects.reply(self.name, request_id)
        return _receipt.decode((await self._client.request(subject, body, timeout=ANSWER_S)).data)

    async def done(self, ids: list[str]) -> None:
        """The handlers of these events have returned."""
        for event_id in ids:
            self.held.pop(event_id, None)
        await self.tell("done", Done(self.session, ids))

    async def pulse(self) -> None:
        """Send a heartbeat; returns when the gateway has answered it, and with it all that was sent before."""
        old = time.monotonic() - HEARTBEAT_S
        still_open = [one for one, (_, since, _) in self._open.items() if since < old]
        self._named |= dict.fromkeys(still_open, "")
        held = [Held(one) for one, since in self.held.items() if since < old]
        answer = await self.ask("heartbeat", Heartbeat(self.session, still_open, held, self._seen))
        pulse = msgspec.json.decode(answer.data, type=Pulse)
        if not pulse.ok or pulse.unknown or pulse.not_held:
            self.surprises.append(f"pulse {pulse}")

    def _id(self) -> str:
        return f"{self.session}-{next(self._ids)}"

    async def _on_message(self, msg: Msg) -> None:
        what = msg.subject[self._out :]
        if what == "outcome":
            self._settle(_outcome.decode(msg.data))
        elif what.startswith("event."):
            await self._event(_event.decode(msg.data))
        elif what == f"control.{CONTROL_CONFIRM}":
            await self.tell("facts", self._facts(_confirm.decode(msg.data)))

    def _settle(self, outcome: Outcome) -> None:
        waiting = self._open.pop(outcome.request_id, None)
        if waiting is None:
            # A heartbeat that names an open id has its outcome repeated, if that was on its way already.
            if self._named.get(outcome.request_id) != outcome.outcome:
                self.surprises.append(f"{outcome.request_id} {outcome.outcome}")
            return
        if outcome.request_id in self._named:
            self._named[outcome.request_id] = outcome.outcome
        if not waiting[0].done():  # else: given up
            waiting[0].set_result(outcome)

    async def _event(self, event: Event) -> None:
        if event.seq is not None:
            self._seen = max(self._seen, event.seq)
        if self._on_event is not None:
            await self._on_event(event)
        else:
            self.held[event.id] = time.monotonic()
            self.held_came.set()

    def _facts(self, asked: Confirm) -> Facts:
        standing = {execution for _, _, execution in self._open.values()}
        alive = {
            execution: Strands(alive=[] if execution in standing else [""]) for execution in asked.executions
        }
        held: dict[str, Literal["running", "deferred", "done"]] = {
            one: "running" for one in asked.requests if one in self.held
        }
        return Facts(self.session, asked.incident, list(self._open), held, alive)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.pulse()


async def raw_agent(
    url: str, network: str, name: str, concurrency: int | None, on_event: OnEvent | None = None
) -> RawAgent:
    """An agent that has said hello, on a connection of its own."""
    agent = RawAgent(await nats.connect(url, name=name), Subjects(network), name, on_event)
    await agent.start(concurrency)
    return agent
