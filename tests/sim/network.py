"""NATS in memory, on the virtual clock: what it promises (one connection's order) and everything that it does not.

``Line`` has the interface of the nats-py connection that the client's transport drives; ``GatewayLine`` is the
shell's Bus. Every way from one connection to one subscription keeps its order; different ways overtake each other.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

import nats
from msgspec import Struct

from unknot_gateway.shell.bus import Message

QUICK_S = (0.0002, 0.002)
SLOW_S = (0.05, 1.0)
MAX_PAYLOAD = 1024 * 1024


class Letter(Struct):
    """One message as a subscription gets it."""

    subject: str
    data: bytes
    reply: str = ""
    headers: dict[str, str] | None = None


Take = Callable[[Letter], Awaitable[None]]
Async = Callable[[], Awaitable[None]]
Tap = Callable[[str, str, bytes], None]


class Way:
    """From one connection to one subscription."""

    __slots__ = ("at", "held_up", "letters")

    def __init__(self) -> None:
        self.letters: deque[Letter] = deque()
        self.at = 0.0
        self.held_up = 0


class Subscription:
    """Letters for one subject of one connection. Patterns end in ``.>`` or ``.*``, or are plain."""

    def __init__(self, line: "Connection", subject: str, take: Take) -> None:
        self.line = line
        self.subject = subject
        self.take = take
        self.ways: dict[str, Way] = {}
        self.closed = False

    async def unsubscribe(self) -> None:
        """Nothing more comes."""
        self.close()

    def close(self) -> None:
        """Nothing more comes."""
        if not self.closed:
            self.closed = True
            self.line.server.forget(self)


class Server:
    """Routes, delays, loses and repeats. *tap* sees everything that is published."""

    def __init__(self, seed: int, tap: Tap) -> None:
        self.random = Random(f"network {seed}")
        self.loop = asyncio.get_running_loop()
        self.tap = tap
        self.counters: Counter[str] = Counter()
        self.lossy: list[float] = []
        """How likely a letter is lost, repeated or slow: one entry for each fault that is on."""
        self._subscriptions: dict[str, dict[Subscription, None]] = {}
        self._numbers = 0

    def number(self) -> int:
        """A number for a new connection."""
        self._numbers += 1
        return self._numbers

    def add(self, subscription: Subscription) -> None:
        """From now on it gets what it names."""
        self._subscriptions.setdefault(subscription.subject, {})[subscription] = None

    def forget(self, subscription: Subscription) -> None:
        """It gets nothing more."""
        named = self._subscriptions.get(subscription.subject, {})
        named.pop(subscription, None)
        if not named:
            self._subscriptions.pop(subscription.subject, None)

    def publish(self, source: "Connection", letter: Letter) -> None:
        """Bring *letter* to everybody who listens; a question that nobody hears is answered with a 503."""
        self.tap(source.name, letter.subject, letter.data)
        self.counters["letters"] += 1
        if source.is_cut or (self.lossy and self.random.random() < self.lossy[-1]):
            self.counters["lost"] += 1
            return
        if not self._bring(source, letter) and letter.reply:
            self._bring(source, Letter(letter.reply, b"", headers={"Status": "503"}))

    def _bring(self, source: "Connection", letter: Letter) -> bool:
        found = False
        for subscription in self._listening(letter.subject):
            found = True
            if subscription.line.is_cut:
                self.counters["lost"] += 1
                continue
            self._enter(source, subscription, letter)
            if self.lossy and self.random.random() < self.lossy[-1]:
                self.counters["repeated"] += 1
                self._enter(source, subscription, letter)
        return found

    def _listening(self, subject: str) -> list[Subscription]:
        patterns = self._subscriptions
        found = [*patterns.get(subject, ()), *patterns.get(f"{subject.rpartition('.')[0]}.*", ())]
        at = subject.find(".")
        while at >= 0:
            found += patterns.get(f"{subject[:at]}.>", ())
            at = subject.find(".", at + 1)
        return found

    def _enter(self, source: "Connection", subscription: Subscription, letter: Letter) -> None:
        way = subscription.ways.get(source.address)
        if way is None:
            way = subscription.ways[source.address] = Way()
        way.letters.append(letter)
        way.at = max(way.at, self.loop.time() + self._delay())
        self.loop.call_at(way.at, self._arrive, way, subscription)

    def _delay(self) -> float:
        low, high = QUICK_S
        if self.lossy and self.random.random() < 2 * self.lossy[-1]:
            self.counters["slow"] += 1
            low, high = SLOW_S
        return self.random.uniform(low, high)

    def _arrive(self, way: Way, subscription: Subscription) -> None:
        if subscription.line.is_stalled:
            way.held_up += 1
            return
        letter = way.letters.popleft()
        if subscription.closed or subscription.line.is_cut:
            self.counters["lost"] += 1
        else:
            step(subscription.take(letter))

    def release(self, line: "Connection") -> None:
        """What was held up on its way to *line* arrives."""
        for subscription in line.subscriptions:
            for way in subscription.ways.values():
                while way.held_up:
                    way.held_up -= 1
                    self._arrive(way, subscription)


def step(call: Awaitable[None]) -> None:
    """Run a callback that never really waits."""
    try:
        call.__await__().send(None)
    except StopIteration:
        return
    raise AssertionError("a callback of a subscription waits")


class Connection:
    """One connection to the server, as faults see it."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.address = f"{name}/{server.number()}"
        self.subscriptions: list[Subscription] = []
        self.is_cut = False
        """Nothing passes; neither side has noticed."""
        self.is_stalled = False
        """Nothing passes for a while, nothing is lost."""
        self._stalled: list[Letter] = []

    def listen(self, subject: str, take: Take) -> Subscription:
        """Subscribe."""
        subscription = Subscription(self, subject, take)
        self.subscriptions = [each for each in self.subscriptions if not each.closed]
        self.subscriptions.append(subscription)
        self.server.add(subscription)
        return subscription

    def say(self, letter: Letter) -> None:
        """Publish."""
        if self.is_stalled:
            self._stalled.append(letter)
        else:
            self.server.publish(self, letter)

    def stall(self) -> None:
        """Hold everything up."""
        self.is_stalled = True

    def go_on(self) -> None:
        """Let everything pass that was held up."""
        self.is_stalled = False
        said, self._stalled = self._stalled, []
        for letter in said:
            self.server.publish(self, letter)
        self.server.release(self)

    def vanish(self) -> None:
        """Its process is dead."""
        self.is_cut = True
        for subscription in self.subscriptions:
            subscription.close()


class Line(Connection):
    """What ``unknot._transport`` sees of nats-py."""

    def __init__(self, server: Server, on_open: Callable[["Line"], None]) -> None:
        super().__init__(server, "")
        self.is_connected = False
        self.is_closed = False
        self.max_payload = MAX_PAYLOAD
        self._on_open = on_open
        self._down: Async
        self._up: Async
        self._over: Async

    async def connect(self, servers: list[str], **options: Any) -> None:
        """Connect; the name says which agent it is."""
        self.name = options["name"].rpartition(" ")[2]
        self.address = f"{self.name}{self.address}"
        self._down, self._up = options["disconnected_cb"], options["reconnected_cb"]
        self._over = options["closed_cb"]
        await asyncio.sleep(self.server.random.uniform(*QUICK_S))
        self.is_connected = True
        self._on_open(self)

    async def subscribe(self, subject: str, cb: Take, **limits: int) -> Subscription:
        """As nats-py does."""
        return self.listen(subject, cb)

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """As nats-py does."""
        self.say(Letter(subject, payload, reply))

    async def flush(self, timeout: float = 10) -> None:
        """As nats-py does: a round trip to the server."""
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
            await self._over()

    def die(self) -> None:
        """The process is dead: nothing leaves any more."""
        self.vanish()
        if self.is_connected:
            self.is_connected = False
            step(self._down())

    def cut(self) -> None:
        """The network is gone, silently."""
        self.is_cut = True

    def notice(self) -> None:
        """The client has found out: no answer to its ping."""
        if self.is_cut and self.is_connected and not self.is_closed:
            self.is_connected = False
            step(self._down())

    def heal(self) -> None:
        """The network is there again."""
        self.is_cut = False
        if not self.is_connected and not self.is_closed:
            self.is_connected = True
            step(self._up())


class GatewayLine(Connection):
    """The gateway's Bus. While it is frozen the gateway stands still at its next message."""

    max_payload = MAX_PAYLOAD

    def __init__(self, server: Server) -> None:
        super().__init__(server, "gateway")
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    async def publish(self, messages: Iterable[Message]) -> None:
        """Send them in order."""
        await self._goes_on.wait()
        for message in messages:
            self.say(Letter(message.subject, message.payload, message.reply))

    def freeze(self) -> None:
        """SIGSTOP."""
        self._goes_on.clear()

    def thaw(self) -> None:
        """SIGCONT."""
        self._goes_on.set()
