"""Whether this gateway hears anybody, and the clock of its owners, which stands still as long as it does not.

A process that was stopped, or is cut off from its NATS server, has heard nothing: that is no sign that anybody is gone.
So before time passes after a silence, the server must bring back a message of the gateway's own, behind all that has
come before it; while it does not, nothing runs out.

And one that is pressed may hear late: what it reads now has waited in the server. As long as that may be so, its
messages to itself say how late, and its clock shows the instant until which it has heard everybody.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Final

import nats

from unknot_gateway.identity.permissions import GATEWAY_INBOX
from unknot_gateway.shell.bus import Message, NatsBus
from unknot_gateway.shell.fairness import Inbox
from unknot_gateway.shell.limits import LOOK_S, SOUNDING_S
from unknot_gateway.shell.parsing import Incoming

DOUBT_S: Final = 1.0
"""Silence of all agents together, or lateness of a timer, after which hearing has to be proven."""
PROOF_S: Final = 0.5
"""How long a proof may take."""
PAUSE_S: Final = 0.1
"""Until time is looked at again when it may not pass."""
LATE_S: Final = 0.3
"""Late by less than this counts as in time."""
CATCH_UP_PACE: Final = 4.0
"""Seconds that the clock of one who was late goes in a second, at most."""
CATCH_UP_S: Final = 2.0
"""How long what has come meanwhile goes before the time, at most."""

Proof = Callable[[], Awaitable[bool]]
"""Whether all that has come for this process until now has been read."""


class Hearing:
    """A clock that stands still while nobody can be heard. Without *proof* everything is always heard.

    While it ``is_late`` it follows what has been heard, and after what was long in coming no faster than CATCH_UP_PACE:
    of a server that stood still its own messages to itself come first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, proof: Proof | None = None) -> None:
        self._clock = clock
        self._proof = proof
        self._deaf_s = 0.0
        self._deaf_since: float | None = None
        self._stands_at: float | None = None
        self._moved_at = 0.0
        self.is_late = False
        self._slept = False
        self._heard_at = self._turned_at = clock()
        self._catch_up_until = 0.0

    def now(self) -> float:
        """The instant (seconds, never running back)."""
        since = self._stands_at
        return (self._clock() if since is None else since) - self._deaf_s

    def turned(self, *, heard: bool) -> None:
        """The owner is at work; *heard*: something has come."""
        self._turned_at = self._clock()
        if heard:
            self._heard_at = self._turned_at

    def rang(self, late_s: float) -> None:
        """A timer has rung that late: perhaps this process stood still."""
        if self._proof is not None and self._stands_at is None and late_s > DOUBT_S:
            self._deaf_s += min(late_s, self._clock() - self._turned_at)
            self._slept = True

    async def lets_time_pass(self, *, more: bool) -> bool:
        """Whether what is due may be done now; *more*: something that has come is not handled yet."""
        now = self._clock()
        if self._proof is None or self.is_late:
            return True
        if self._deaf_since is None and not self._slept and now - self._heard_at <= DOUBT_S:
            return not more or now >= self._catch_up_until
        if not await self._proof() and not self._hears_again():
            if self._stands_at is None:
                self._deaf_since = self._stands_at = now
            return False
        self._heard_at = self._clock()
        if self._deaf_since is None and not self._slept:
            return True  # it was silent, no more
        if self._deaf_since is not None:
            self._deaf_s += self._heard_at - self._deaf_since
            self._deaf_since = self._stands_at = None
        self._slept = False
        self._catch_up_until = self._heard_at + CATCH_UP_S
        return False

    @property
    def least_s(self) -> float:
        """How long a timer waits at least: while the clock does not move by itself, none would come closer."""
        return PAUSE_S if self.is_late else 0.0

    def press(self) -> None:
        """It may be late from now on."""
        if self._proof is not None and self._stands_at is None:
            self.is_late = True
            self._stands_at = self._moved_at = self._clock()

    def heard_until(self, sent_at: float, *, pressed: bool) -> None:
        """All that had come for this process at *sent_at* has been read; *pressed*: it may be late yet."""
        if not self.is_late or self._stands_at is None:
            return
        now = self._clock()
        most = self._stands_at + min(now - self._moved_at, PROOF_S) * CATCH_UP_PACE
        self._stands_at, self._moved_at = max(self._stands_at, min(sent_at, most, now)), now
        if not pressed and now - self._stands_at < LATE_S:
            self.relieve()

    def relieve(self) -> None:
        """It is late no more."""
        if self.is_late:
            self.is_late, self._stands_at = False, None

    def skip(self) -> None:
        """What had come since the instant that the clock shows went with a connection: that time did not pass."""
        if self.is_late and self._stands_at is not None:
            self._deaf_s += self._clock() - self._stands_at
            self.relieve()

    def _hears_again(self) -> bool:
        """What comes is a proof, too: the server may refuse the gateway's own messages."""
        return self._deaf_since is not None and self._heard_at > self._deaf_since + CATCH_UP_S


class Echo:
    """A proof: a message to oneself, through the server."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus

    async def __call__(self) -> bool:
        """Whether it comes back in PROOF_S."""
        connection = self._bus.connection
        if not connection.is_connected:
            return False
        inbox = connection.new_inbox()
        try:
            subscription = await connection.subscribe(inbox)
            try:
                await connection.publish(inbox)
                await subscription.next_msg(PROOF_S)
            finally:
                await subscription.unsubscribe()
        except (nats.errors.Error, OSError, RuntimeError):
            return False
        return True


class Sounding:
    """How late *hearing* is: messages to oneself on the way on which all come, as long as *inbox* is pressed."""

    def __init__(
        self, bus: NatsBus, hearing: Hearing, inbox: Inbox, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bus, self._hearing, self._inbox, self._clock = bus, hearing, inbox, clock
        self._subject = f"{GATEWAY_INBOX}.sounding.{token_hex(8)}"
        self.on_late: Callable[[], None] | None = None
        """Called when what comes has been late for a while, whatever the reason."""
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._works = False
        self._back_at = self._sent_at = 0.0

    async def begin(self) -> None:
        """Listen, and find out whether the server brings such messages at all: else the clock is never held."""
        await self._bus.listen(self._subject, self._came)
        self._looking = asyncio.create_task(self._look(), name="lateness")
        self._inbox.on_pressed = self._press

    async def close(self) -> None:
        """No sounding any more; the clock goes on."""
        self._inbox.on_pressed = None
        self._hearing.relieve()
        tasks = [task for task in (self._task, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        late = 0
        while True:
            asked_at = self._clock()
            await self._send()
            await asyncio.sleep(LOOK_S)
            late = late + 1 if self._works and self._sent_at < asked_at else 0
            if late > 1 and self.on_late is not None:
                self.on_late()

    def connected_again(self) -> None:
        """What was not read yet of the connection before is lost."""
        self._hearing.skip()

    def _press(self) -> None:
        if self._works and not self._hearing.is_late:
            self._hearing.press()
            self._back_at = self._clock()
            self._task = asyncio.create_task(self._go_on(), name="sounding")

    async def _go_on(self) -> None:
        while self._hearing.is_late:
            await self._send()
            await asyncio.sleep(SOUNDING_S)
            if not self._inbox.is_pressed and self._clock() - self._back_at > CATCH_UP_S:
                self._hearing.relieve()  # not pressed, and yet nothing comes back: the server may refuse it by now

    async def _send(self) -> None:
        await self._bus.publish([Message(self._subject, b"%r" % self._clock())])

    def _came(self, message: Incoming) -> None:
        with contextlib.suppress(ValueError):
            sent_at = float(message.data)
            self._works = True
            self._back_at, self._sent_at = self._clock(), sent_at
            self._hearing.heard_until(sent_at, pressed=self._inbox.is_pressed)
