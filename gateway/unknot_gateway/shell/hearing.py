"""Whether this gateway hears anybody, and the clock of its owners, which stands still as long as it does not.

A process that was stopped, or is cut off from its NATS server, has heard nothing: that is no sign that anybody is gone.
So before time passes after a silence, the server must bring back a message of the gateway's own, behind all that has
come before it; while it does not, nothing runs out.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import nats

from unknot_gateway.shell.bus import NatsBus

DOUBT_S: Final = 1.0
"""Silence of all agents together, or lateness of a timer, after which hearing has to be proven."""
PROOF_S: Final = 0.5
"""How long a proof may take."""
PAUSE_S: Final = 0.1
"""Until time is looked at again when it may not pass."""
CATCH_UP_S: Final = 2.0
"""How long what has come meanwhile goes before the time, at most."""

Proof = Callable[[], Awaitable[bool]]
"""Whether all that has come for this process until now has been read."""


class Hearing:
    """A clock that stands still while nobody can be heard. Without *proof* everything is always heard."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, proof: Proof | None = None) -> None:
        self._clock = clock
        self._proof = proof
        self._deaf_s = 0.0
        self._deaf_since: float | None = None
        self._slept = False
        self._heard_at = self._turned_at = clock()
        self._catch_up_until = 0.0

    def now(self) -> float:
        """The instant (seconds, never running back)."""
        since = self._deaf_since
        return (self._clock() if since is None else since) - self._deaf_s

    def turned(self, *, heard: bool) -> None:
        """The owner is at work; *heard*: something has come."""
        self._turned_at = self._clock()
        if heard:
            self._heard_at = self._turned_at

    def rang(self, late_s: float) -> None:
        """A timer has rung that late: perhaps this process stood still."""
        if self._proof is not None and self._deaf_since is None and late_s > DOUBT_S:
            self._deaf_s += min(late_s, self._clock() - self._turned_at)
            self._slept = True

    async def lets_time_pass(self, *, more: bool) -> bool:
        """Whether what is due may be done now; *more*: something that has come is not handled yet."""
        now = self._clock()
        if self._proof is None:
            return True
        if self._deaf_since is None and not self._slept and now - self._heard_at <= DOUBT_S:
            return not more or now >= self._catch_up_until
        if not await self._proof() and not self._hears_again():
            self._deaf_since = self._deaf_since if self._deaf_since is not None else now
            return False
        self._heard_at = self._clock()
        if self._deaf_since is None and not self._slept:
            return True  # it was silent, no more
        if self._deaf_since is not None:
            self._deaf_s += self._heard_at - self._deaf_since
            self._deaf_since = None
        self._slept = False
        self._catch_up_until = self._heard_at + CATCH_UP_S
        return False

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
