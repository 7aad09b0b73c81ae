"""One NATS connection: an outbox that keeps order, one inbox for all Receipts, and a supervisor.

Nothing that sends ever waits: messages go to the outbox, one task writes them. So the only place where a waiter
can be cancelled is the wait itself, and facts leave behind everything that was sent before them.
"""

import asyncio
import itertools
import logging
import re
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unknot.errors import Unreachable
from unknot_schemas import errors as codes
from unknot_schemas.limits import SUBJECT_BYTES_MAX

logger = logging.getLogger("unknot")

OUTBOX_MAX: Final = 200_000
"""Messages that wait to be written, at most."""
OUTBOX_BYTES_MAX: Final = 64 * 1024 * 1024
RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to build a connection that has been closed for good."""
RECONNECT_S: Final = 0.25
"""Pause between attempts to reach the same server again."""
PING_S: Final = 2
PENDING_MESSAGES_MAX: Final = 1_000_000

Receive = Callable[[str, bytes], None]
Post = tuple[str, bytes, str, str | None]


class Transport:
    """A NATS connection that comes back. *is_wanted*: whether the request of this id is still worth sending."""

    def __init__(self, url: str, agent: str, *, is_wanted: Callable[[str], bool]) -> None:
        self.url = _without_secrets(url)
        """For people: without user and password."""
        self._servers = url.split(",")
        self.counters: Counter[str] = Counter()
        self.on_up: Callable[[], None] = lambda: None
        """Called when the connection is back after a loss."""
        self._agent = agent
        self._is_wanted = is_wanted
        self._nats: NatsClient | None = None
        self._routes: dict[str, Receive] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._outbox: deque[Post] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._inbox = f"_INBOX.{agent}.{secrets.token_urlsafe(16)}"
        self._calls: dict[str, Callable[[bytes | None], None]] = {}
        self._call_number = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, timeout: float) -> None:
        """Connect; Unreachable when no server answers in *timeout* seconds."""
        await self._connect(timeout)
        self._tasks = [
            asyncio.create_task(self._write(), name="unknot: writer"),
            asyncio.create_task(self._supervise(), name="unknot: supervisor"),
        ]

    async def close(self) -> None:
        """Write what is in the outbox if that is possible at once, and let go of the connection."""
        client, self._nats = self._nats, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if client is not None:
            if client.is_connected:
                await self._write_all(client)
            await client.close()
        for answer in list(self._calls.values()):
            answer(None)
        self._calls.clear()

    async def listen(self, subject: str, receive: Receive) -> None:
        """From now on *receive* gets what comes for *subject*, in order; also on connections to come."""
        self._routes[subject] = receive
        if self._nats is not None and not self._nats.is_closed:
            await self._subscribe(self._nats, subject, receive)

    async def silence(self, subject: str) -> None:
        """What comes for *subject* is not wanted any more."""
        self._routes.pop(subject, None)
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None and self._nats is not None and self._nats.is_connected:
            try:
                await subscription.unsubscribe()
            except nats.errors.Error:  # it is gone with its connection
                pass

    def post(self, subject: str, payload: bytes, reply: str = "", request_id: str | None = None) -> bool:
        """Send behind everything sent before; False (and counted) when the outbox is full."""
        assert len(subject) + len(reply) <= SUBJECT_BYTES_MAX, "ids and types are checked before"
        if len(self._outbox) >= OUTBOX_MAX or self._outbox_bytes + len(payload) > OUTBOX_BYTES_MAX:
            self.counters["outbox_full"] += 1
            return False
        self._outbox.append((subject, payload, reply, request_id))
        self._outbox_bytes += len(payload)
        if len(self._outbox) == 1:
            self._wake.set()
        return True

    def ask(self, subject: str, payload: bytes, answer: Callable[[bytes | None], None]) -> str:
        """Send and give the NATS reply to *answer* (None: nobody listens there); returns what ``forget`` takes."""
        self._call_number += 1
        inbox = f"{self._inbox}.{self._call_number:x}"
        self._calls[inbox] = answer
        if not self.post(subject, payload, inbox):
            self._calls.pop(inbox)
            answer(None)
        return inbox

    def forget(self, inbox: str) -> None:
        """No answer is wanted there any more."""
        self._calls.pop(inbox, None)

    async def call(self, subject: str, payload: bytes, timeout: float) -> bytes | None:
        """Send and wait for the NATS reply; None when nobody listens there, or none came in *timeout* seconds."""
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        inbox = self.ask(subject, payload, lambda body: None if future.done() else future.set_result(body))
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            self.forget(inbox)

    @property
    def is_up(self) -> bool:
        """Whether there is a connection now."""
        return self._connected.is_set()

    @property
    def waiting_calls(self) -> int:
        """Answers that are still awaited."""
        return len(self._calls)

    # ------------------------------------------------------------------ the connection

    async def _connect(self, timeout: float) -> None:
        client = NatsClient()
        self._lost.clear()
        try:
            async with asyncio.timeout(timeout):
                await client.connect(self._servers, **self._options())
                for subject, receive in self._routes.items():
                    await self._subscribe(client, subject, receive)
                await self._subscribe(client, f"{self._inbox}.*", None)
        except (TimeoutError, OSError, nats.errors.Error) as why:
            await client.close()
            raise Unreachable(
                f"no NATS server answers at {self.url} ({str(why) or type(why).__name__}):"
                " start one with `unknot serve`, or set UNKNOT_URL",
                code=codes.UNREACHABLE,
                handled="no",
            ) from why
        except asyncio.CancelledError:
            await client.close()
            raise
        self._nats = client
        self._connected.set()

    def _options(self) -> dict[str, Any]:
        return {
            "name": f"unknot agent {self._agent}",
            "inbox_prefix": f"_INBOX.{self._agent}",
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT_S,
            "connect_timeout": 2,
            "ping_interval": PING_S,
            "max_outstanding_pings": 2,
            "error_cb": self._failed,
            "disconnected_cb": self._went_down,
            "reconnected_cb": self._came_back,
            "closed_cb": self._closed,
        }

    async def _subscribe(self, client: NatsClient, subject: str, receive: Receive | None) -> None:
        callback: Callable[[Msg], Awaitable[None]]
        if receive is None:
            callback = self._receipt
        else:

            async def callback(msg: Msg) -> None:
                receive(msg.subject, msg.data)

        self._subscriptions[subject] = await client.subscribe(
            subject, cb=callback, pending_msgs_limit=PENDING_MESSAGES_MAX, pending_bytes_limit=0
        )

    async def _receipt(self, msg: Msg) -> None:
        answer = self._calls.pop(msg.subject, None)
        if answer is not None:
            nobody = not msg.data and (msg.headers or {}).get("Status") == "503"
            answer(None if nobody else msg.data)

    async def _failed(self, error: Exception) -> None:
        self.counters["errors"] += 1
        if isinstance(error, nats.errors.SlowConsumerError):
            self.counters["dropped"] += 1
            self.on_up()  # something was lost: reconcile
        expected = isinstance(error, OSError | nats.errors.Error)
        logger.log(
            logging.WARNING if expected else logging.ERROR,
            "agent %s: %s: %s",
            self._agent,
            type(error).__name__,
            error,
            exc_info=None if expected else error,
        )

    async def _went_down(self) -> None:
        self._connected.clear()
        if self._nats is not None:
            logger.warning("agent %s: the connection to %s is gone; trying again", self._agent, self.url)

    async def _came_back(self) -> None:
        self._connected.set()
        self.counters["reconnects"] += 1
        logger.warning("agent %s: connected to %s again", self._agent, self.url)
        self.on_up()

    async def _closed(self) -> None:
        self._connected.clear()
        self._lost.set()

    async def _supervise(self) -> None:
        """Build a new connection whenever nats-py has closed the old one for good."""
        while True:
            await self._lost.wait()
            for attempt in itertools.count():
                try:
                    await self._connect(5.0)
                    break
                except Unreachable as why:
                    logger.warning("agent %s: %s", self._agent, why)
                    await asyncio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
            await self._came_back()

    # ------------------------------------------------------------------ the writer

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._connected.wait()
            if self._nats is not None:
                await self._write_all(self._nats)
            if self._outbox:
                self._wake.set()

    async def _write_all(self, client: NatsClient) -> None:
        outbox = self._outbox
        while outbox and client.is_connected:
            subject, payload, reply, request_id = outbox.popleft()
            self._outbox_bytes -= len(payload)
            if request_id is not None and not self._is_wanted(request_id):
                continue
            if len(payload) > client.max_payload:
                logger.error("agent %s: %d bytes are too many for %s", self._agent, len(payload), self.url)
                continue
            try:
                await client.publish(subject, payload, reply)
            except nats.errors.Error as why:  # it went down this very moment: heartbeats find what was lost
                self.counters["unsent"] += 1
                logger.warning("agent %s: %s: not sent: %s", self._agent, subject, why)
                return


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@,]*@", "//", url)
