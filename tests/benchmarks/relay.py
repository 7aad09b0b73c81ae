"""The bar: the least that a Python relay must do for the four hops of a request, and nothing more.

Request in, delivery out, answer in, outcome out: one subscription, msgspec, a table of open requests; uvloop, as
the gateway has. No deadlines, no queues, no graph, no check of anything.

    python -m tests.benchmarks.relay URL NETWORK
"""

import asyncio
import sys

import msgspec
import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

from unknot_schemas import Subjects
from unknot_schemas.bodies import Delivered, Envelope, Hello, Outcome, Pulse, Receipt, Welcome

EPOCH = 1
_envelope = msgspec.json.Decoder(Envelope)
_hello = msgspec.json.Decoder(Hello)
_encode = msgspec.json.Encoder().encode


class Relay:
    """Open requests and the sessions to deliver to."""

    def __init__(self, client: Client, subjects: Subjects) -> None:
        self._client = client
        self._root = subjects.root
        self._sessions: dict[str, str] = {}
        self._open: dict[str, tuple[str, str, str, str]] = {}

    async def on_message(self, msg: Msg) -> None:
        words = msg.subject.split(".", 6)
        agent, verb = words[3], words[4]
        if verb == "request":
            await self._request(agent, words[5], words[6], _envelope.decode(msg.data))
        elif verb == "reply":
            await self._reply(agent, words[5], _envelope.decode(msg.data))
        elif verb == "send":
            await self._send(agent, words[5], words[6], _envelope.decode(msg.data), msg.reply)
        elif verb == "hello":
            self._sessions[agent] = session = _hello.decode(msg.data).session
            await self._client.publish(msg.reply, _encode(Welcome(True, session, EPOCH, 1, 5.0, 30.0, {})))
        elif verb in ("heartbeat", "bye"):
            await self._client.publish(msg.reply, _encode(Pulse(True, EPOCH)))

    async def _request(self, agent: str, target: str, kind: str, envelope: Envelope) -> None:
        assert envelope.id is not None
        assert envelope.session is not None
        self._open[envelope.id] = (agent, envelope.session, target, kind)
        await self._client.publish(
            f"{self._root}.out.{target}.{self._sessions[target]}.event.{kind}",
            _encode(Delivered(envelope.id, kind, agent, target, envelope.data, True, EPOCH)),
            reply=f"{self._root}.in.{target}.reply.{envelope.id}",
        )

    async def _reply(self, agent: str, request: str, envelope: Envelope) -> None:
        asker, session, _, kind = self._open.pop(request)
        answer = Delivered(
            f"{request}-r", kind, agent, asker, envelope.data, False, EPOCH, response_to=request
        )
        await self._client.publish(
            f"{self._root}.out.{asker}.{session}.outcome",
            _encode(Outcome(request, "reply", "yes", EPOCH, answer)),
        )

    async def _send(self, agent: str, target: str, kind: str, envelope: Envelope, reply: str) -> None:
        assert envelope.id is not None
        await self._client.publish(
            f"{self._root}.out.{target}.{self._sessions[target]}.event.{kind}",
            _encode(Delivered(envelope.id, kind, agent, target, envelope.data, False, EPOCH)),
        )
        await self._client.publish(reply, _encode(Receipt(True, envelope.id)))


async def main(url: str, network: str) -> None:
    """Relay until the process is ended."""
    client = await nats.connect(url, name="relay")
    subjects = Subjects(network)
    await client.subscribe(subjects.inbound, cb=Relay(client, subjects).on_message)
    await asyncio.sleep(0)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
