"""The gateway's side of the wire, scripted: raw nats-py on a real server. A test says what the gateway does."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

HANG_S = 5.0


class Seen:
    """One message of an agent."""

    def __init__(self, msg: Msg, root: str) -> None:
        words = msg.subject[len(root) :].split(".")
        self.agent = words[0]
        self.verb = words[1]
        if self.verb in ("send", "ask", "request") and len(words) > 3:
            self.target, self.type = words[2], ".".join(words[3:])
        else:
            self.verb = ".".join(words[1:]) if self.verb != "reply" else "reply"
            self.request_id = words[-1]
        self.payload = msg.data
        self.body: dict[str, Any] = json.loads(msg.data) if msg.data else {}
        self.reply = msg.reply
        self.subject = msg.subject

    @property
    def id(self) -> str:
        return str(self.body["id"])

    def __repr__(self) -> str:
        return f"{self.subject} {self.payload!r}"


class Fake:
    """Answers hello and heartbeats by itself; everything else is the test's to see and to answer."""

    def __init__(self, client: Client, network: str) -> None:
        self.client = client
        self.network = network
        self.root = f"unknot.{network}.in."
        self.log: list[Seen] = []
        self.sessions: dict[str, dict[str, Any]] = {}
        self.epoch = 1
        self.heartbeat_s = 60.0
        self.unknown_session = False
        self.answers: dict[str, dict[str, Any] | None] = {}
        """What a verb's NATS reply is instead of the usual; None: silence."""
        self.subscription: Subscription
        self._taken: set[int] = set()
        self._arrived = asyncio.Condition()
        self._seq = 0

    async def _on(self, msg: Msg) -> None:
        seen = Seen(msg, self.root)
        async with self._arrived:
            self.log.append(seen)
            self._arrived.notify_all()
        if seen.verb == "hello" and "hello" not in self.answers:
            self.sessions[seen.agent] = seen.body
            self.unknown_session = False
        if msg.reply:
            answer = self.answers.get(seen.verb, self._usual(seen))
            if answer is not None:
                await self.client.publish(msg.reply, json.dumps(answer).encode())

    def _usual(self, seen: Seen) -> dict[str, Any]:
        if seen.verb == "hello":
            return {
                "ok": True,
                "session": seen.body["session"],
                "epoch": self.epoch,
                "protocol": 1,
                "heartbeat_s": self.heartbeat_s,
                "session_loss_s": 30.0,
                "limits": {},
            }
        if self.unknown_session and seen.verb == "heartbeat":
            return {"ok": False, "error": {"code": "unknown_session", "message": "say hello"}}
        if seen.verb == "heartbeat":
            return {"ok": True, "epoch": self.epoch}
        return {"ok": True, "id": seen.body.get("id")}

    def session(self, agent: str) -> str:
        return str(self.sessions[agent]["session"])

    async def next(self, verb: str, agent: str | None = None) -> Seen:
        """The first message of this verb that no test has taken yet; waits for it."""

        def find() -> Seen | None:
            for number, seen in enumerate(self.log):
                if number not in self._taken and seen.verb == verb and agent in (None, seen.agent):
                    self._taken.add(number)
                    return seen
            return None

        async with asyncio.timeout(HANG_S), self._arrived:
            while (found := find()) is None:
                await self._arrived.wait()
            return found

    def seen(self, verb: str) -> list[Seen]:
        return [seen for seen in self.log if seen.verb == verb]

    async def settled(self) -> None:
        """Until everything sent so far, in both directions, has been handled."""
        for _ in range(2):
            await asyncio.sleep(0)
            await self.client.flush()
        for _ in range(20):
            await asyncio.sleep(0.002)

    async def publish(self, subject: str, body: dict[str, Any], reply: str = "") -> None:
        await self.client.publish(f"unknot.{self.network}.{subject}", json.dumps(body).encode(), reply=reply)

    async def deliver(
        self, agent: str, event_type: str, data: Any = None, *, id: str = "e1", asks: bool = True, **more: Any
    ) -> None:
        """Deliver an event; a request unless *asks* is False."""
        if "seq" not in more:
            self._seq += 1
            more["seq"] = self._seq
        body = {
            "unknot": 1,
            "id": id,
            "type": event_type,
            "source": more.pop("source", "asker"),
            "target": agent,
            "data": data,
            "requires_response": asks,
            "epoch": self.epoch,
            "metadata": {"blocking_wait": True} if asks else {},
            "deadline_in_s": more.pop("deadline_in_s", 30.0),
            "time": "2026-01-01T00:00:00.000Z",
            **more,
        }
        await self.publish(
            f"out.{agent}.{self.session(agent)}.event.{event_type}", body, f"{self.root}{agent}.reply.{id}"
        )

    async def answer(self, request: Seen, data: Any = None, **more: Any) -> None:
        """The request's Outcome: a reply."""
        event = {
            "unknot": 1,
            "id": f"re-{request.id}",
            "type": request.type,
            "source": request.target,
            "target": request.agent,
            "data": data,
            "requires_response": False,
            "epoch": self.epoch,
            "response_to": request.id,
            "metadata": {},
        }
        await self.outcome(request.agent, request.id, "reply", handled="yes", event=event, **more)

    async def outcome(self, agent: str, id: str, outcome: str, **more: Any) -> None:
        body = {"request_id": id, "outcome": outcome, "handled": "no", "epoch": self.epoch, **more}
        await self.publish(f"out.{agent}.{self.session(agent)}.outcome", body)

    async def control(self, agent: str, control_type: str, body: dict[str, Any]) -> None:
        await self.publish(f"out.{agent}.{self.session(agent)}.control.{control_type}", body)

    async def facts(self, agent: str, incident: str = "i1", **asked: Any) -> dict[str, Any]:
        """Ask the session and give its facts."""
        body = {"incident": incident, "waits": [], "requests": [], **asked}
        await self.control(agent, "confirm", body)
        return (await self.next("facts", agent)).body


@asynccontextmanager
async def faking(url: str, network: str) -> AsyncIterator[Fake]:
    client = await nats.connect(url, reconnect_time_wait=0.05, max_reconnect_attempts=-1)
    fake = Fake(client, network)
    fake.subscription = await client.subscribe(f"{fake.root}>", cb=fake._on)
    await client.flush()
    await asyncio.sleep(0.01)
    try:
        yield fake
    finally:
        await client.close()
