"""A siege: what one agent floods is kept out of the way on which all others are heard.

The server sends what a gateway subscribes in one line, in the order in which it came. Of a flood that is faster than
the gateway can read, that line grows in the server until everybody's messages are late, or the connection is cut off;
no fairness behind the reading helps there. So when an agent is shed at a pace that says so, or sends most while all is
late, the gateway subscribes each agent that it knows by itself, and gives up the subscription for all. Whoever it does
not know, and whoever floods, is heard by the streets: as before, but for the verbs that are flooded, of which it hears
samples. When nobody floods any more all is as it was.

Everything goes on over one connection, so the order of each sender stays. While two subscriptions may bring copies of
the same message, one copy is taken.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

import nats
import structlog

from unknot_gateway.identity.permissions import GATEWAY_INBOX
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.limits import (
    BEAT_S,
    CALM_S,
    FLOOD_PART,
    FLOOD_WEIGHT,
    FLOOD_WINDOW_S,
    KNOWN_MAX,
    NEXT_PART,
    WEIGH_BYTES,
    WEIGH_PART,
    WEIGH_S,
)
from unknot_gateway.shell.loop import Owner
from unknot_gateway.shell.parsing import Incoming, Put
from unknot_gateway.shell.streets import ENDS, Street, Twins, streets
from unknot_schemas.ids import ALIAS, GATEWAY, agent_id

log = structlog.get_logger()

_OUTER: Final = 1
_INNER: Final = -1


class Siege:
    """Of one network. *put*: what its one subscription *inbound* calls; *known*: whom the gateway knows now."""

    def __init__(
        self,
        bus: NatsBus,
        owner: Owner,
        inbound: str,
        put: Put,
        known: Callable[[], Iterable[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.floods: dict[str, float] = {}
        """Agents that are kept out, and when each was last seen to flood."""
        self._bus, self._owner, self._inbound, self._put, self._known = bus, owner, inbound, put, known
        self._clock = clock
        self._at = len(inbound) - 1
        self._task: asyncio.Task[None] | None = None
        self._weighing: asyncio.Task[None] | None = None
        self._sent: dict[str, int] | None = None
        """Bytes of each agent, while they are weighed."""
        self._connection: object = None
        """Whose numbers these are."""
        self._window_ends = 0.0
        self._weights: dict[str, int] = {}
        self._numbers = 0
        self._inside: dict[str, str] = {}
        """Words that name agents heard by themselves, with the number of each one's subscription."""
        self._entering: dict[str, None] = {}
        """Such words to be, met in the streets."""
        self._arriving: list[str] = []
        """Those of them that the server is being asked for."""
        self._leaving: dict[str, str] = {}
        """Such words that flood by now; the server is being told."""
        self._streets: list[Street] = []
        self._twins: Twins | None = None
        self._passed = asyncio.Event()
        owner.inbox.on_shed = self.saw_shed

    def saw_shed(self, agent: str, weight: int) -> None:
        """So much of *agent* could not be taken."""
        now, weights = self._clock(), self._weights
        if now >= self._window_ends:
            weights.clear()
            self._window_ends = now + FLOOD_WINDOW_S
        weights[agent] = weights.get(agent, 0) + weight
        if weights[agent] < FLOOD_WEIGHT // FLOOD_PART or agent in self.floods:
            return
        total = sum(weights.values())
        is_on = self._task is not None and not self._task.done()
        if (
            total >= (FLOOD_WEIGHT // NEXT_PART if is_on else FLOOD_WEIGHT)
            and weights[agent] >= total // FLOOD_PART
        ):
            self._keep_out(agent, now)

    def weigh(self) -> None:
        """All is late, and perhaps nothing was shed, for it is reading that takes long: find out who sends most."""
        if self._weighing is None or self._weighing.done():
            self._weighing = asyncio.create_task(self._weigh(), name=f"weighing in {self._network}")

    async def _weigh(self) -> None:
        self._sent, puts, wide = {}, self._bus.puts, self._bus.number_of(self._inbound)
        if puts.get(wide) == self._put:
            puts[wide] = self._hand_on
        await asyncio.sleep(WEIGH_S)
        if puts.get(wide) == self._hand_on:
            puts[wide] = self._put
        sent, self._sent = self._sent, None
        most = max(sum(sent.values()), WEIGH_BYTES)
        for word, size in sent.items():
            agent = agent_id(word)
            if agent is not None and size * WEIGH_PART >= most and agent not in self.floods:
                self._keep_out(agent, self._clock())

    def _hand_on(self, message: Incoming) -> None:
        if self._sent is not None:
            word = self._word(message)
            self._sent[word] = self._sent.get(word, 0) + len(message.subject) + len(message.data)
        self._put(message)

    async def close(self) -> None:
        """No siege any more; what it has subscribed ends."""
        self._owner.inbox.on_shed = None
        if self._weighing is not None:
            self._weighing.cancel()
            await asyncio.gather(self._weighing, return_exceptions=True)
        if self._task is None or self._task.done():
            return
        numbers = self._all_numbers()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(nats.errors.Error, OSError, RuntimeError):
            await self._write([_unsubscribed(number) for number in numbers])

    def _keep_out(self, agent: str, now: float) -> None:
        self.floods[agent] = now
        self._owner.counters["besieged"] += 1
        self._count()
        log.warning("an agent floods: the others are heard past it", agent=agent, network=self._network)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._last(), name=f"siege of {self._network}")

    @property
    def _network(self) -> str:
        return self._owner.kernel.network

    # -- the task

    async def _last(self) -> None:
        """From the first flood to the end of the last. With its connection the server forgets all; then it begins
        anew, before the flood has come again."""
        try:
            while self.floods:
                self._forget_numbers()
                await self._bus.is_back.wait()
                self.floods = dict.fromkeys(self.floods, self._clock())
                try:
                    await self._while_connected()
                except (nats.errors.Error, OSError, RuntimeError) as error:
                    log.warning("the connection of a siege broke", network=self._network, error=repr(error))
                    await asyncio.sleep(BEAT_S)
            log.info("nobody floods any more", network=self._network)
        finally:
            self._forget_numbers()
            self.floods.clear()
            self._count()

    async def _while_connected(self) -> None:
        life = self._bus.life
        await self._begin()
        while self.floods and self._bus.life == life:
            await asyncio.sleep(BEAT_S)
            if self._bus.life == life:
                await self._beat()
        if self._bus.life == life:
            await self._end()

    async def _begin(self) -> None:
        words = [word for word in self._known() if word not in self.floods][:KNOWN_MAX]
        commands = [self._let_in(word) for word in [*words, GATEWAY]]
        for street in streets(self._inbound):
            self._streets.append(street)
            commands.append(street.open(self._listened(self._taker(street))))
        wide, self._connection = self._bus.number_of(self._inbound), self._bus.connection
        self._bus.puts[wide] = self._take_wide
        await self._move([*commands, _unsubscribed(wide)])

    async def _beat(self) -> None:
        now = self._clock()
        self._see_next(now)
        commands = [self._renewed(street) for street in self._streets]
        for agent in [one for one, seen_at in self.floods.items() if now - seen_at > CALM_S]:
            del self.floods[agent]
        self._count()
        self._leaving = {
            word: number for word, number in self._inside.items() if self._flooding(word) is not None
        }
        self._arriving = [word for word in self._entering if self._flooding(word) is None]
        self._entering.clear()
        commands += map(_unsubscribed, self._leaving.values())
        commands += map(self._let_in, self._arriving)
        await (self._move if self._leaving or self._arriving else self._write)(commands)

    def _see_next(self, now: float) -> None:
        """Who of the others floods, too: fills a street, or has as much waiting as was shed of the first."""
        crowds = {agent for street in self._streets for agent in street.crowds()}
        for agent in crowds.union(self._owner.inbox.far_behind(FLOOD_WEIGHT)).difference(self.floods):
            self._keep_out(agent, now)

    async def _end(self) -> None:
        wide = self._bus.number_of(self._inbound)
        subscribed = f"SUB {self._inbound} {wide}\r\n".encode()
        await self._move([subscribed, *map(_unsubscribed, self._all_numbers())])

    async def _move(self, commands: list[bytes]) -> None:
        """Have the server do *commands*; until it has, and all that came before is read, copies are twins.

        A message to ourselves, right behind them, says when.
        """
        self._twins = Twins()
        self._passed.clear()
        life, number = self._bus.life, self._listened(self._pass)
        fence = f"{GATEWAY_INBOX}.siege.{number}"
        await self._write(
            [f"SUB {fence} {number}\r\n".encode(), *commands, f"PUB {fence} 0\r\n\r\n".encode()]
        )
        while not self._passed.is_set() and self._bus.life == life:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._passed.wait(), BEAT_S)
            self._see_next(self._clock())
        await self._write([_unsubscribed(number)])

    def _pass(self, _: Incoming) -> None:
        for word, number in self._leaving.items():
            del self._inside[word]
            self._bus.puts.pop(number, None)
        self._leaving = {}
        self._arriving = []
        self._twins = None
        self._passed.set()

    async def _write(self, commands: list[bytes]) -> None:
        if commands:
            await self._bus.write(b"".join(commands))

    def _forget_numbers(self) -> None:
        """Listen as before the first flood: what was subscribed meanwhile has ended."""
        puts = self._bus.puts
        if self._connection is self._bus.connection:  # else its numbers are others, and listened to anew
            puts[self._bus.number_of(self._inbound)] = self._put
        for number in [number for number in puts if number.startswith(self._mark)]:
            del puts[number]
        self._twins = None
        self._arriving = []
        for table in (self._inside, self._entering, self._leaving, self._weights):
            table.clear()
        self._streets.clear()

    def _count(self) -> None:
        """A gauge among the counters: how many flood now."""
        self._owner.counters["besieging"] = len(self.floods)

    def _all_numbers(self) -> list[str]:
        return [*self._inside.values(), *(street.number for street in self._streets)]

    # -- subscriptions

    @property
    def _mark(self) -> str:
        """Numbers that begin so are this siege's; nats-py's own are digits alone."""
        return f"{self._network}."

    def _listened(self, take: Put) -> str:
        """A new number, under which *take* gets what comes."""
        self._numbers += 1
        number = f"{self._mark}{self._numbers}"
        self._bus.puts[number] = take
        return number

    def _let_in(self, word: str) -> bytes:
        number = self._inside[word] = self._listened(self._take_own)
        return f"SUB {self._inbound[: self._at]}{word}.> {number}\r\n".encode()

    def _renewed(self, street: Street) -> bytes:
        if not street.is_used_up:
            return street.beat(street.number)
        del self._bus.puts[street.number]
        return street.beat(self._listened(self._taker(street)))

    # -- what comes

    def _taker(self, street: Street) -> Put:
        return lambda message: self._take_in_street(street, message)

    def _take_own(self, message: Incoming) -> None:
        if self._twins is None or not self._twins.is_second(message, _INNER):
            self._hand_on(message)

    def _take_wide(self, message: Incoming) -> None:
        if self._flooding(self._word(message)) is not None:
            self._owner.shed(message)
        elif self._twins is None or not self._twins.is_second(message, _OUTER):
            self._hand_on(message)

    def _take_in_street(self, street: Street, message: Incoming) -> None:
        street.came += 1
        word, step = self._word(message), _INNER
        if word in self._inside:
            street.familiar += 1
            if word not in self._arriving:
                return
            step = _OUTER
        if not street.word and self._verb(message, word) in ENDS:
            return  # another street brings it
        agent = self._flooding(word)
        if agent is not None:
            street.flood += 1
            if street.is_flooded:
                self.floods[agent] = self._clock()
                self._owner.shed(message)
                return
        elif step == _INNER:
            street.senders[word] = street.senders.get(word, 0) + 1
            if self._may_enter(word):
                self._entering[word] = None
        if self._twins is None or not self._twins.is_second(message, step):
            self._hand_on(message)

    def _flooding(self, word: str) -> str | None:
        """The agent that *word* names, if it floods; "": one of those that are none."""
        agent = word.removeprefix(ALIAS)
        if agent in self.floods:
            return agent
        return "" if "" in self.floods and agent_id(word) is None else None

    def _may_enter(self, word: str) -> bool:
        return len(self._inside) + len(self._entering) < KNOWN_MAX and agent_id(word) is not None

    def _word(self, message: Incoming) -> str:
        at = self._at
        return message.subject[at : message.subject.find(".", at)]

    def _verb(self, message: Incoming, word: str) -> str:
        return message.subject[self._at + len(word) + 1 :].partition(".")[0]


def _unsubscribed(number: str) -> bytes:
    return f"UNSUB {number}\r\n".encode()
