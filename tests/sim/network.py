"""The two ends of NATS in memory: ``Line`` has the interface of the nats-py connection that the client's transport
drives, ``MemoryBus`` is the shell's Bus; tests/bus shows that both keep NATS's contract.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, copy_context
from typing import Any

import nats

from tests.sim.server import QUICK_S, Async, Connection, Letter, Server, Subscription, Take
from unknot_gateway.shell.bus import Message
from unknot_gateway.shell.parsing import Incoming

MAX_PAYLOAD = 1024 * 1024


def step(call: Awaitable[None]) -> None:
    """Run a callback that never really waits."""
    try:
        call.__await__().send(None)
    except StopIteration:
        return
    raise AssertionError("a callback of a subscription waits")


class Line(Connection):
    """What ``unknot._transport`` sees of nats-py."""

    def __init__(self, server: Server, on_open: Callable[["Line"], None]) -> None:
        super().__init__(server, "")
        self.is_connected = False
        self.is_closed = False
        self.max_payload = MAX_PAYLOAD
        self._on_open = on_open
        self._context: Context
        self._server_info: dict[str, Any]
        self._down: Async
        self._up: Async
        self._over: Async

    async def connect(self, servers: list[str], **options: Any) -> None:
        """Connect; the name says which agent it is."""
        self.name = options["name"].rpartition(" ")[2]
        self.address = f"{self.name}{self.address}"
        self._context = copy_context()
        self._enter_server()
        self._down, self._up = options["disconnected_cb"], options["reconnected_cb"]
        self._over = options["closed_cb"]
        await asyncio.sleep(self.server.random.uniform(*QUICK_S))
        self.is_connected = True
        self._on_open(self)

    async def subscribe(self, subject: str, cb: Take, **limits: int) -> Subscription:
        """As nats-py does."""
        self._refuse_if_closed()
        return self.attach(subject, cb)

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """As nats-py does."""
        self._refuse_if_closed()
        if len(payload) > self.max_payload:
            raise nats.errors.MaxPayloadError
        self.say(Letter(subject, payload, reply))

    async def flush(self, timeout: float = 10) -> None:
        """As nats-py does: a round trip to the server."""
        self._refuse_if_closed()
        await asyncio.sleep(2 * self.server.random.uniform(*QUICK_S))
        if self.is_cut or self.is_stalled:
            await asyncio.sleep(timeout)
            raise nats.errors.TimeoutError

    async def close(self) -> None:
        """As nats-py does: what was published still leaves."""
        if not self.is_closed:
            self.is_closed, self.is_connected = True, False
            for subscription in self.subscriptions:
                subscription.close()
            self.server.on_end(self.known_as)
            await self._over()

    def _refuse_if_closed(self) -> None:
        if self.is_closed:
            raise nats.errors.ConnectionClosedError

    def die(self) -> None:
        """The process is dead: nothing leaves any more."""
        self.vanish()
        if not self.is_closed:
            self.server.on_end(self.known_as)
        self._go_down()

    def cut(self) -> None:
        """The network is gone, silently."""
        self.is_cut = True

    def notice(self) -> None:
        """The client has found out: no answer to its ping."""
        if self.is_cut and not self.is_closed:
            self._go_down()

    def heal(self) -> None:
        """The network is there again."""
        self.is_cut = False
        if not self.is_connected and not self.is_closed:
            self.is_connected = True
            self.server.on_end(self.known_as)
            self._enter_server()
            self._tell(self._up)

    @property
    def known_as(self) -> str:
        """What the server calls this connection."""
        return f"{self._server_info['server_id']}/{self._server_info['client_id']}"

    def _enter_server(self) -> None:
        self._server_info = {"server_id": "SIMULATED", "client_id": self.server.number()}

    def _go_down(self) -> None:
        if self.is_connected:
            self.is_connected = False
            self._tell(self._down)

    def _tell(self, callback: Async) -> None:
        self.server.loop.call_soon(lambda: step(callback()), context=self._context)


class MemoryBus(Connection):
    """The gateway's Bus."""

    max_payload = MAX_PAYLOAD

    def __init__(self, server: Server) -> None:
        super().__init__(server, "gateway")
        self.counters: Counter[str] = Counter()
        self._closed = False

    async def subscribe(self, subject: str, take: Take) -> None:
        """As NatsBus."""
        self.attach(subject, take)

    async def listen(self, subject: str, put: Callable[[Incoming], None]) -> None:
        """As NatsBus."""

        async def take(letter: Letter) -> None:
            put(Incoming(letter.subject, letter.reply, letter.data, letter.headers))

        self.attach(subject, take)

    async def publish(self, messages: Iterable[Message]) -> None:
        """Send them in order."""
        for message in messages:
            if self._closed or len(message.payload) > self.max_payload:
                self.counters["unsent"] += 1
            else:
                self.say(Letter(message.subject, message.payload, message.reply))

    async def barrier(self) -> None:
        """As NatsBus: a round trip to the server."""
        await asyncio.sleep(2 * QUICK_S[1])

    async def stop_intake(self) -> None:
        """As NatsBus: what is on its way is still handed over."""
        for subscription in self.subscriptions:
            self.server.forget(subscription)
        while any(way.letters for each in self.subscriptions for way in each.ways.values()):
            await self.barrier()

    async def close(self) -> None:
        """As NatsBus: what was published still leaves."""
        self._closed = True
        for subscription in self.subscriptions:
            subscription.close()
