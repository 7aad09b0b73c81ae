"""A NATS server in memory, on the virtual clock: what it promises (one connection's order) and everything it does not.

Every way from one connection to one subscription keeps its order; different ways overtake each other.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from random import Random
from types import coroutine
from typing import Any

import nats
from msgspec import Struct

from tests.sim.virtual import PROCESS, VirtualLoop
from unknot_schemas.ids import matches

QUICK_S = (0.0002, 0.002)
SLOW_S = (0.05, 1.0)
ROUTES_MAX = 10_000
DROPPED = {
    "granted": b'"granted"',
    "release": b".lock.release",
    "renew": b".lock.renew",
    "clear": b".holder.clear",
    "close": b".wait.close",
    "published": b".artifact.publish",
}
"""How letters are known that can be lost one at a time: by what is in an outcome, or by their subject."""


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
    """Letters for one subject of one connection, handed over one at a time."""

    def __init__(self, line: "Connection", subject: str, take: Take) -> None:
        self.line = line
        self.subject = subject
        self.take = take
        self.context = copy_context()
        """Its process, which takes the letters."""
        self.ways: dict[str, Way] = {}
        self.closed = False
        self._behind: deque[Letter] | None = None
        """What has arrived behind a letter whose taker still waits; None when none does."""

    async def unsubscribe(self) -> None:
        """Nothing more comes."""
        if self.closed:
            raise nats.errors.BadSubscriptionError
        self.close()

    def arrive(self, letter: Letter) -> None:
        """Hand *letter* over, behind those before it. Seldom anybody waits: then no task is made."""
        if self._behind is not None:
            self._behind.append(letter)
            return
        taking = self.take(letter).__await__()
        try:
            waited_for = next(taking)
        except StopIteration:
            return
        self._behind = deque()
        self.line.server.waiting.add(
            task := self.line.server.loop.create_task(self._wait(taking, waited_for))
        )
        task.add_done_callback(self.line.server.waiting.discard)

    async def _wait(self, taking: Generator[Any, None, None], waited_for: Any) -> None:
        await _go_on(taking, waited_for)
        while self._behind:
            await self.take(self._behind.popleft())
        self._behind = None

    def close(self) -> None:
        """Nothing more comes."""
        if not self.closed:
            self.closed = True
            self.line.server.forget(self)


class Server:
    """Routes, delays, loses and repeats. *tap* sees everything that is published."""

    def __init__(self, seed: int, loop: VirtualLoop, tap: Tap) -> None:
        self.random = Random(f"network {seed}")
        self.loop = loop
        self.tap = tap
        self.counters: Counter[str] = Counter()
        self.lossy: list[float] = []
        """How likely a letter is lost, repeated or slow: one entry for each fault that is on."""
        self.on_end: Callable[[str], None] = lambda _connection: None
        """Called with a connection that has ended from its client's side."""
        self.unwelcome: dict[str, int] = {}
        """How many answers to hellos of a process are still to be lost."""
        self.drops: dict[str, None] = {}
        """Kinds of letters of which the next one is lost."""
        self._unwelcome_at: dict[str, str] = {}
        """The process by the inbox in which it waits for such an answer."""
        self.waiting: set[asyncio.Task[None]] = set()
        """Takers that wait."""
        self._subscriptions: dict[str, dict[Subscription, None]] = {}
        self._routes: dict[str, list[Subscription]] = {}
        """Who gets what goes to a subject, as long as nobody comes or goes."""
        self._odd: dict[str, None] = {}
        """The patterns that are not found by their words: all but those that end in ``.>`` or ``.*``."""
        self._numbers = 0

    def number(self) -> int:
        """A number for a new connection."""
        self._numbers += 1
        return self._numbers

    def add(self, subscription: Subscription) -> None:
        """From now on it gets what it names."""
        self._routes.clear()
        self._subscriptions.setdefault(subscription.subject, {})[subscription] = None
        if _is_odd(subscription.subject):
            self._odd[subscription.subject] = None

    def forget(self, subscription: Subscription) -> None:
        """It gets nothing more."""
        self._routes.clear()
        named = self._subscriptions.get(subscription.subject, {})
        named.pop(subscription, None)
        if not named:
            self._subscriptions.pop(subscription.subject, None)
            self._odd.pop(subscription.subject, None)

    def publish(self, source: "Connection", letter: Letter) -> None:
        """Bring *letter* to everybody who listens; a question that nobody hears is answered with a 503."""
        self.tap(source.name, letter.subject, letter.data)
        self.counters["letters"] += 1
        if source.is_cut or source.is_mute or (self.lossy and self.random.random() < self.lossy[-1]):
            self.counters["lost"] += 1
            return
        if self.drops and self._is_dropped(source, letter):
            self.counters["dropped"] += 1
            return
        if self.unwelcome and self._is_unwelcome(source, letter):
            self.counters["lost welcomes"] += 1
            return
        listening = self._listening(letter.subject)
        if not listening and letter.reply:  # the asker alone is told, at one of its subscriptions
            letter = Letter(letter.reply, b"", headers={"Status": "503"})
            listening = [each for each in self._listening(letter.subject) if each.line is source][:1]
        self._bring(source, letter, listening)

    def _is_dropped(self, source: "Connection", letter: Letter) -> bool:
        is_told = source.name == "gateway" and letter.subject.endswith(".outcome")
        for kind in self.drops:
            marks = DROPPED[kind]
            if (is_told and marks in letter.data) if kind == "granted" else marks in letter.subject.encode():
                del self.drops[kind]
                return True
        return False

    def _is_unwelcome(self, source: "Connection", letter: Letter) -> bool:
        if letter.subject.endswith(".hello") and source.process in self.unwelcome:
            self._unwelcome_at[letter.reply] = source.process
            return False
        process = self._unwelcome_at.pop(letter.subject, None)
        if process is None or process not in self.unwelcome:
            return False
        self.unwelcome[process] -= 1
        if not self.unwelcome[process]:
            del self.unwelcome[process]
        return True

    def _bring(self, source: "Connection", letter: Letter, listening: list[Subscription]) -> None:
        for subscription in listening:
            if subscription.line.is_cut or subscription.line.is_deaf:
                self.counters["lost"] += 1
                continue
            self._enter(source, subscription, letter)
            if self.lossy and self.random.random() < self.lossy[-1]:
                self.counters["repeated"] += 1
                self._enter(source, subscription, letter)

    def _listening(self, subject: str) -> list[Subscription]:
        found = self._routes.get(subject)
        if found is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            found = self._routes[subject] = self._matching(subject)
        return found

    def _matching(self, subject: str) -> list[Subscription]:
        patterns = self._subscriptions
        found = [*patterns.get(subject, ()), *patterns.get(f"{subject.rpartition('.')[0]}.*", ())]
        for odd in self._odd:
            if matches(odd, subject):
                found += patterns[odd]
        if subject.startswith("_"):  # an inbox
            return found
        at = subject.find(".", subject.find(".") + 1)  # nobody listens to a whole network
        while at >= 0:
            if named := patterns.get(f"{subject[:at]}.>"):
                found += named
            at = subject.find(".", at + 1)
        return found

    def _enter(self, source: "Connection", subscription: Subscription, letter: Letter) -> None:
        way = subscription.ways.get(source.address)
        if way is None:
            way = subscription.ways[source.address] = Way()
        way.letters.append(letter)
        way.at = max(way.at, self.loop.now + self._delay())
        self.loop.call_at(way.at, self._arrive, way, subscription, context=subscription.context)

    def _delay(self) -> float:
        low, high = QUICK_S
        if self.lossy and self.random.random() < 2 * self.lossy[-1]:
            self.counters["slow"] += 1
            low, high = SLOW_S
        return low + (high - low) * self.random.random()

    def _arrive(self, way: Way, subscription: Subscription) -> None:
        if subscription.line.is_stalled:
            way.held_up += 1
            return
        letter = way.letters.popleft()
        if subscription.closed or subscription.line.is_cut:
            self.counters["lost"] += 1
        else:
            subscription.arrive(letter)

    def release(self, line: "Connection") -> None:
        """What was held up on its way to *line* arrives."""
        for subscription in line.subscriptions:
            for way in subscription.ways.values():
                while way.held_up:
                    way.held_up -= 1
                    self.loop.call_soon(self._arrive, way, subscription, context=subscription.context)


def _is_odd(subject: str) -> bool:
    words = subject.split(".")
    if "*" in words[:-1] or len(words) < 2:
        return ">" in words or "*" in words
    return words[-1] == ">" and (subject.startswith("_") or len(words) < 3)


@coroutine
def _go_on(taking: Generator[Any, None, None], waited_for: Any) -> Generator[Any, None, None]:
    """The rest of a taker that has begun without a task, and waits."""
    while True:
        yield waited_for
        try:
            waited_for = next(taking)
        except StopIteration:
            return


class Connection:
    """One connection to the server, as faults see it."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.process = PROCESS.get()
        self.address = f"{name}/{server.number()}"
        self.subscriptions: list[Subscription] = []
        self.is_cut = False
        """Nothing passes; neither side has noticed."""
        self.is_deaf = False
        """Nothing comes; what it sends passes."""
        self.is_mute = False
        """Nothing that it sends passes."""
        self.is_stalled = False
        """Nothing passes for a while, nothing is lost."""
        self._stalled: list[Letter] = []

    def attach(self, subject: str, take: Take) -> Subscription:
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
