"""What the server itself says of connections that have ended; only the system account hears it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import nats
import structlog
from msgspec import Struct
from nats.aio.msg import Msg

from unknot_gateway.core.facts import Disconnected
from unknot_gateway.shell.bus import Login, NatsBus
from unknot_gateway.shell.loop import Owner

log = structlog.get_logger()

SUBJECT: Final = "$SYS.ACCOUNT.*.DISCONNECT"
_WHO: Final = "$SYS.REQ.SERVER.PING"
"""Servers answer it in the system account alone."""
ANSWER_S: Final = 2.0
FROM_THE_CLIENT: Final = ("Client Closed", "Read Error", "Write Error")
"""How a connection ends when its client has gone: the server says what it read. Whoever it cuts off itself (a slow
consumer, a shutdown, a changed user, pings without an answer) may live, and has until its session counts as lost."""


class _Server(Struct):
    id: str


class _Client(Struct):
    id: int


class _Event(Struct):
    server: _Server
    client: _Client
    reason: str = ""


_read: Final = msgspec.json.Decoder(_Event).decode


class Disconnects:
    """Tells every owner."""

    def __init__(self, owners: Iterable[Owner]) -> None:
        self.counters: Counter[str] = Counter()
        self._owners = list(owners)

    async def take(self, message: Msg) -> None:
        """A connection has ended."""
        try:
            event = _read(message.data)
        except msgspec.DecodeError:
            self.counters["unread"] += 1
            return
        self.counters[event.reason] += 1
        if event.reason.startswith(FROM_THE_CLIENT):
            for owner in self._owners:
                owner.tell(Disconnected(f"{event.server.id}/{event.client.id}"))


@asynccontextmanager
async def telling(
    url: str, login: Login | None, owners: Iterable[Owner], patience_s: float
) -> AsyncIterator[Disconnects]:
    """Have *owners* hear of it, on a connection of its own by *login*, in the system account; None: they do not.

    Raises NotReachable when no server answers or lets it in within *patience_s*.
    """
    disconnects = Disconnects(owners)
    if login is None:
        yield disconnects
        return
    bus = NatsBus(url, "unknot gateway: disconnects", login=login)
    await bus.open(patience_s)
    supervising = asyncio.create_task(bus.supervise(), name="bus of the system account")
    try:
        await bus.subscribe(SUBJECT, disconnects.take)
        if not await _hears(bus):
            log.warning("no system account answers: who is gone is noticed by its silence alone", url=bus.url)
        yield disconnects
    finally:
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)
        await bus.close()


async def _hears(bus: NatsBus) -> bool:
    """Whether *bus* is in the system account; the server has seen its subscription by then."""
    try:
        await bus.connection.request(_WHO, timeout=ANSWER_S)
    except (nats.errors.Error, TimeoutError):
        return False
    return True
