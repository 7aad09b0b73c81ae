"""The bus: what the shell needs of NATS, and NATS by nats-py's public API. A connection closed for good is rebuilt."""

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import nats
import structlog
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unknot_gateway.identity.permissions import GATEWAY_INBOX
from unknot_gateway.shell.limits import (
    CONNECT_PATIENCE_S,
    DRAIN_S,
    LET_GO_S,
    LOG_PAUSE_S,
    PENDING_BYTES_MAX,
    PENDING_MSGS_MAX,
    PING_INTERVAL_S,
    PINGS_OUTSTANDING_MAX,
    REBUILD_PAUSE_MAX_S,
    RECONNECT_WAIT_S,
)
from unknot_gateway.shell.parsing import Incoming, MessageParser, Put

log = structlog.get_logger()

_FAILURES = (nats.errors.Error, OSError, TimeoutError, RuntimeError)
"""How nats-py fails; RuntimeError is uvloop's word for a socket that is closed."""

Login = Callable[[], Mapping[str, Any]]
"""What nats-py's connect is given to log in; asked for each new connection."""

Take = Callable[[Msg], Awaitable[None]]
"""What a subscription calls with each message, in their order."""


class NotReachable(Exception):
    """No NATS server answers there; the text says where."""


class Message(Struct, frozen=True, gc=False):
    """What goes out. *reply*: the NATS reply subject, or ""."""

    subject: str
    payload: bytes
    reply: str = ""


class Bus(Protocol):
    """What an owner needs to speak."""

    @property
    def max_payload(self) -> int:
        """Bytes of one message that the server takes."""
        ...

    async def publish(self, messages: Iterable[Message]) -> None:
        """Send them in order; what cannot be sent now is counted and lost: heartbeats cure it. Never raises for it."""
        ...


class _Client(Client):
    """A connection that is read by our own parser; nats-py decodes subjects strictly, and one that is no UTF-8 would
    end its reading."""

    def __init__(self) -> None:
        super().__init__()
        self._ps = self.parser = MessageParser(self)

    async def write(self, commands: bytes) -> None:
        """Send what is written in the protocol already. While there is no server it is kept, up to nats-py's bound."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        if not self.is_connected and self._pending_data_size + len(commands) > self._max_pending_size:
            raise nats.errors.OutboundBufferLimitError
        await self._send_command(commands)
        await self._flush_pending()

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Msg:
        if (
            reply
            and not reply.startswith(b"_INBOX.")
            and (b".api." in subject or subject.startswith(b"$SRV."))
        ):
            reply = b""  # nats.micro answers wherever it is told to: a gateway must not be made to forge
        return Msg(
            _client=self,
            subject=subject.decode("utf-8", "backslashreplace"),
            reply=reply.decode("utf-8", "backslashreplace"),
            data=data,
            headers=headers,
            _sid=sid,
        )


async def _let_go(connection: Client) -> None:
    """Close what was never open: after a TLS handshake that failed nats-py would wait for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LET_GO_S):
            await connection.close()


class NatsBus:
    """One connection for all networks. *url*: servers, with commas between. ``supervise`` must run beside it."""

    def __init__(self, url: str, name: str = "unknot gateway", *, login: Login = dict) -> None:
        self.url = url
        self.counters: Counter[str] = Counter()
        self.connection = _Client()
        self.on_rebuilt: Callable[[Client], Awaitable[None]] | None = None
        self.on_back: Callable[[], Awaitable[None]] | None = None
        """Called when it speaks to a server again, over the old connection or a new one. It must not raise."""
        self._name = name
        self._login = login
        self._connecting = False
        self._takes: dict[str, Take] = {}
        self._puts: dict[str, Put] = {}
        self._numbers: dict[str, str] = {}
        self._subscriptions: list[Subscription] = []
        self._closed = asyncio.Event()
        self.is_back = asyncio.Event()
        """Set while it is connected and everything is subscribed."""
        self._stopping = False
        self._quiet_until: dict[str, float] = {}

    @property
    def max_payload(self) -> int:
        """Bytes of one message that the server takes."""
        return self.connection.max_payload

    async def open(self, patience_s: float = CONNECT_PATIENCE_S) -> None:
        """Connect for the first time. Raises NotReachable after *patience_s*."""
        try:
            async with asyncio.timeout(patience_s):
                await self._connect()
            self.is_back.set()
        except _FAILURES as error:
            why = str(error) or type(error).__name__
            raise NotReachable(f"no NATS server at {self.url} within {patience_s:g} s: {why}") from error

    async def subscribe(self, subject: str, take: Take) -> None:
        """Have *take* called with what comes on *subject*, now and after every rebuilding."""
        self._takes[subject] = take
        await self._subscribe(subject, take)

    async def listen(self, subject: str, put: Put) -> None:
        """Have *put* called with what comes on *subject* as it is read, now and after every rebuilding.

        For what comes in floods: no queue of nats-py lies between.
        """
        self._puts[subject] = put
        await self._listen(subject, put)

    async def publish(self, messages: Iterable[Message]) -> None:
        """Send them in order; what cannot be sent now is counted and lost: heartbeats cure it."""
        connection, written, most = self.connection, list[bytes](), self.connection.max_payload
        for message in messages:
            payload = message.payload
            size = len(payload)
            if size > most:
                self._count("unsent", nats.errors.MaxPayloadError())
                continue
            head = f"PUB {message.subject} {message.reply} {size}\r\n"
            written += head.encode(), payload, b"\r\n"
        try:
            if written:  # in one piece: nats-py takes three calls for each message
                await connection.write(b"".join(written))
        except _FAILURES as error:
            self._count("unsent", error, len(written) // 3)

    @property
    def life(self) -> tuple[object, int]:
        """Of the connection as its server knows it: another one has forgotten what ``write`` has subscribed."""
        return self.connection, self.counters["disconnects"]

    @property
    def puts(self) -> dict[str, Put]:
        """Who takes what comes, by the number of the subscription. Own numbers must not be digits alone."""
        return self.connection.parser.puts

    def number_of(self, subject: str) -> str:
        """Of the subscription of *subject*, which is listened to."""
        return self._numbers[subject]

    async def write(self, commands: bytes) -> None:
        """Send *commands* of the protocol as they are. Raises what nats-py raises; nobody says them again later."""
        await self.connection.write(commands)

    async def barrier(self) -> None:
        """Return when the server has seen everything before: its PING may pass what was just issued."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.connection.flush()

    async def supervise(self) -> None:
        """Build a new connection whenever one has closed for good; runs until ``close``."""
        while True:
            await self._closed.wait()
            if self._stopping:
                return
            self._closed.clear()
            self.counters["connections_closed"] += 1
            log.warning("the NATS connection closed for good; building a new one", url=self.url)
            await self._rebuild()

    async def stop_intake(self) -> None:
        """Take nothing new; what has already come is still handed over, if the server answers within DRAIN_S."""
        drains = [subscription.drain() for subscription in self._subscriptions]  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(*drains)
                await self.barrier()  # nats-py's PING passes its UNSUB: until now the server went on sending
        except _FAILURES as error:
            self._count("drains_failed", error)

    async def close(self) -> None:
        """Send what is on its way, then close for good."""
        self._stopping = True
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.barrier()
                await self.connection.close()
        except _FAILURES as error:
            self._count("closes_failed", error)
        self._closed.set()

    async def _connect(self) -> None:
        connection = _Client()
        self._connecting = True
        try:
            await connection.connect(self.url.split(","), **self._login(), **self._options())
        except _FAILURES:
            await _let_go(connection)
            raise
        finally:
            self._connecting = False
        self.connection = connection

    def _options(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "inbox_prefix": GATEWAY_INBOX,
            "ping_interval": PING_INTERVAL_S,
            "max_outstanding_pings": PINGS_OUTSTANDING_MAX,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT_WAIT_S,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_reconnected,
            "closed_cb": self._on_closed,
            # All names are checked before a subject is built, and reply subjects came over the wire as one word.
            "skip_subject_validation": True,
        }

    async def _subscribe(self, subject: str, take: Take) -> None:
        self._subscriptions.append(
            await self.connection.subscribe(
                subject,
                cb=take,
                pending_msgs_limit=PENDING_MSGS_MAX,
                pending_bytes_limit=PENDING_BYTES_MAX,
            )
        )

    async def _listen(self, subject: str, put: Put) -> None:
        async def take(message: Msg) -> None:
            put(Incoming(message.subject, message.reply, message.data, message.headers))

        connection = self.connection
        await self._subscribe(subject, take)
        self._numbers[subject] = number = str(self._subscriptions[-1]._id)
        connection.parser.puts[number] = put

    async def _rebuild(self) -> None:
        pause_s = RECONNECT_WAIT_S
        while not self._stopping:
            try:
                async with asyncio.timeout(CONNECT_PATIENCE_S):
                    await self._connect()
                    self._subscriptions.clear()
                    for subject, take in self._takes.items():
                        await self._subscribe(subject, take)
                    for subject, put in self._puts.items():
                        await self._listen(subject, put)
                    if self.on_rebuilt is not None:
                        await self.on_rebuilt(self.connection)
            except (*_FAILURES, ValueError) as error:  # ValueError: a secret that cannot be read now
                self._count("rebuilds_failed", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, REBUILD_PAUSE_MAX_S)
            else:
                self.counters["connections_rebuilt"] += 1
                log.info("connected to NATS again", url=self.url)
                await self._is_back()
                return

    # A callback that raises stops nats-py's reconnection: these only count, and log.

    async def _on_error(self, error: Exception) -> None:
        dropped = isinstance(error, nats.errors.SlowConsumerError)
        self._count("dropped" if dropped else "connection_errors", error)
        is_final = "authorization violation" in str(error).lower() or isinstance(error, ssl.SSLError)
        if self._connecting and is_final:
            raise error  # trying again, as nats-py would, changes nothing

    async def _on_disconnected(self) -> None:
        self.counters["disconnects"] += 1
        self.is_back.clear()
        if not self._stopping:
            log.warning("disconnected from NATS", url=self.url)

    async def _on_reconnected(self) -> None:
        self.counters["reconnects"] += 1
        log.info("reconnected to NATS", url=self.url)
        await self._is_back()

    async def _is_back(self) -> None:
        self.is_back.set()
        if self.on_back is not None:
            await self.on_back()

    async def _on_closed(self) -> None:
        self._closed.set()

    def _count(self, what: str, error: Exception, times: int = 1) -> None:
        """Count always; log the first, and one each LOG_PAUSE_S while it lasts."""
        self.counters[what] += times
        now = time.monotonic()
        if now >= self._quiet_until.get(what, 0.0):
            self._quiet_until[what] = now + LOG_PAUSE_S
            said = str(error) or type(error).__name__
            log.warning("NATS", what=what, error=said, times=self.counters[what])
