"""Of two gateways of one network the younger one stays: an older one that wakes from a freeze must not decide any more.

A gateway that begins to serve says so on a subject that every gateway of the network listens to. A frozen one finds
that in its socket before all that its successor has heard first, because a server keeps the order of one connection.
It ends at that instant: nothing that came behind is handled, nothing more is sent. One that was cut off says its own
epoch again when it is back, and is told by whoever is younger.
"""

import asyncio
import contextlib

import msgspec
from msgspec import Struct

from unknot_gateway.shell.bus import Message, NatsBus
from unknot_gateway.shell.loop import Owner
from unknot_gateway.shell.parsing import Incoming, Put
from unknot_schemas.ids import GATEWAY
from unknot_schemas.subjects import Subjects


class Superseded(Exception):
    """A younger gateway serves a network; the text says which one."""


class Serves(Struct, frozen=True):
    """Body of what a gateway says of itself. *instance* tells two apart that started in the same millisecond."""

    epoch: int
    instance: str


class Succession:
    """What this gateway knows of others. *me*: this one."""

    def __init__(self, bus: NatsBus, owners: list[Owner], prefix: str, me: Serves) -> None:
        self._bus, self._owners, self._me = bus, owners, me
        self._subjects = {
            owner: Subjects(owner.kernel.network, prefix).verb(GATEWAY, "serves") for owner in owners
        }
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._telling: asyncio.Task[None] | None = None

    def gate(self, owner: Owner) -> Put:
        """What the subscription of *owner*'s network calls."""
        subject, put = self._subjects[owner], owner.put

        def pass_on(message: Incoming) -> None:
            if message.subject == subject:
                self._heard(owner, message.data)
            else:
                put(message)

        return pass_on

    async def tell(self) -> None:
        """Say that this gateway serves; a younger one answers likewise."""
        body = msgspec.json.encode(self._me)
        await self._bus.publish([Message(subject, body) for subject in self._subjects.values()])

    async def ended(self) -> None:
        """Raises Superseded when a younger gateway serves; never returns."""
        await self._ended

    def _heard(self, owner: Owner, body: bytes) -> None:
        try:
            other = msgspec.json.decode(body, type=Serves)
        except msgspec.MsgspecError:
            return
        if other == self._me:
            return
        if (other.epoch, other.instance) < (self._me.epoch, self._me.instance):
            if self._telling is None or self._telling.done():  # one answer at a time, however many ask
                self._telling = asyncio.create_task(self.tell())
            return
        for each in self._owners:
            each.halt()
        if not self._ended.done():
            network = owner.kernel.network
            text = (
                f"another gateway has begun to serve network {network} (epoch {other.epoch}); this one ends"
            )
            self._ended.set_exception(Superseded(text))

    def close(self) -> None:
        """Say nothing more."""
        if self._telling is not None:
            self._telling.cancel()
        if self._ended.done():
            with contextlib.suppress(Superseded):
                self._ended.result()
        else:
            self._ended.cancel()
