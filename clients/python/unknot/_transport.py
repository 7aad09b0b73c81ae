"""One NATS connection: an outbox that keeps order, one inbox for all Receipts, and a supervisor.

Nothing that sends ever waits: messages go to the outbox, one task writes them. So the only place where a waiter
can be cancelled is the wait itself, and facts leave behind everything that was sent before them.
"""

import asyncio
import itertools
import logging
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import nats
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unknot._calls import Answer, Calls
from unknot._login import Login
from unknot._refusals import Refusal, is_denial, is_final, not_permitted, refusal
from unknot.errors import Refused, Unreachable, WaitFailed
from unknot_schemas import errors as codes
from unknot_schemas.limits import SUBJECT_BYTES_MAX

logger = logging.getLogger("unknot")

OUTBOX_MAX: Final = 200_000
"""Messages that wait to be written, at most."""
OUTBOX_BYTES_MAX: Final = 64 * 1024 * 1024
RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to build a connection that has been closed for good."""
DENIALS_MAX: Final = 5
"""Attempts in a row that the server has turned away, before the session ends: its user is gone."""
RECONNECT_S: Final = 0.25
"""Pause between attempts to reach the same server again."""
LET_GO_S: Final = 0.5
PING_S: Final = 2
PENDING_MESSAGES_MAX: Final = 1_000_000
COMPLAINTS_S: Final = 10.0
"""Pause between two lines in the log that say that no server answers."""

Receive = Callable[[str, bytes], None]
Post = tuple[str, bytes, str, str | None]


class Transport:
    """A NATS connection that comes back. *is_wanted*: whether the request of this id is still worth sending."""

    def __init__(
        self, url: str, agent: str, *, is_wanted: Callable[[str], bool], login: Login | None = None
    ) -> None:
        self.url = _without_secrets(url)
        """For people: without user and password."""
        self._servers = url.split(",")
        self.counters: Counter[str] = Counter()
        self.on_up: Callable[[], None] = lambda: None
        """Called when the connection is back after a loss."""
        self.on_refused: Callable[[str], None] = lambda _subject: None
        """Called with the subject, in lower case, of something sent that the server has refused."""
        self.on_denied: Callable[[WaitFailed], None] = lambda _why: None
        """Called when the server lets this user in no more."""
        self._agent = agent
        self._login = login or Login()
        self._connecting = False
        self._complained_at: float | None = None
        """When the log last said that no server answers; None while one does."""
        self._confirming = 0
        self._unheard: set[str] = set()
        """Subscriptions that the server has refused on this connection, in lower case."""
        self._is_wanted = is_wanted
        self._nats: NatsClient | None = None
        self._routes: dict[str, Receive] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._outbox: deque[Post] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self.calls = Calls(agent)
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
        self.calls.close()

    async def listen(self, subject: str, receive: Receive) -> None:
        """From now on *receive* gets what comes for *subject*, in order; also on connections to come.

        Refused when the server does not allow it.
        """
        self._routes[subject] = receive
        if self._nats is not None and not self._nats.is_closed:
            await self._subscribe(self._nats, subject, receive)
            try:
                await self._confirm(self._nats, [subject])
            except Refused:
                self._routes.pop(subject)
                raise

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

    def ask(self, subject: str, payload: bytes, answer: Answer) -> str:
        """Send and give the NATS reply to *answer* (None: nobody listens there); returns what ``forget`` takes."""
        inbox = self.calls.open(subject, answer)
        if not self.post(subject, payload, inbox):
            self.calls.answer(inbox, None)
        return inbox

    def forget(self, inbox: str) -> None:
        """No answer is wanted there any more."""
        self.calls.forget(inbox)

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
    def connection(self) -> str | None:
        """How the server calls this connection: it says so, too, when the connection has ended; None: not known."""
        client = self._nats
        info = getattr(client, "_server_info", None) or {}  # nats-py tells the server's id nowhere else
        server, number = info.get("server_id"), info.get("client_id")
        return f"{server}/{number}" if server and number is not None else None

    @property
    def waiting_calls(self) -> int:
        """Answers that are still awaited."""
        return len(self.calls)

    # ------------------------------------------------------------------ the connection

    async def _connect(self, timeout: float) -> None:
        client = NatsClient()
        self._lost.clear()
        self._unheard.clear()
        self._connecting = True
        try:
            async with asyncio.timeout(timeout):
                await client.connect(self._servers, **self._options(), **self._login.options(self._agent))
                self._connecting = False
                for subject, receive in self._routes.items():
                    await self._subscribe(client, subject, receive)
                await self._subscribe(client, f"{self.calls.inbox}.*", None)
                await self._confirm(client, [*self._routes, f"{self.calls.inbox}.*"])
        except (TimeoutError, OSError, nats.errors.Error) as why:
            await _let_go(client)
            if is_denial(why):
                raise not_permitted(
                    f"the NATS server at {self.url} does not let agent {self._agent} in"
                ) from why
            raise Unreachable(self._nobody(why), code=codes.UNREACHABLE, handled="no") from why
        except (asyncio.CancelledError, Refused, ValueError):
            await _let_go(client)
            raise
        finally:
            self._connecting = False
        self._nats = client
        self._complained_at = None
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

    async def _confirm(self, client: NatsClient, subjects: list[str]) -> None:
        """Return when the server has seen these subscriptions; Refused when it has refused one."""
        self._confirming += 1
        try:
            await asyncio.sleep(0)  # the PING must not pass what was just issued
            await asyncio.sleep(0)
            await client.flush()
        except (nats.errors.Error, OSError, TimeoutError):
            return  # it went down: when it is back, what is refused comes up again
        finally:
            self._confirming -= 1
        for subject in subjects:
            if subject.lower() in self._unheard:
                raise not_permitted(
                    f"agent {self._agent} may not subscribe {subject!r} on {self.url}", subject
                )

    async def _receipt(self, msg: Msg) -> None:
        nobody = not msg.data and (msg.headers or {}).get("Status") == "503"
        self.calls.answer(msg.subject, None if nobody else msg.data)

    def _refused(self, refused: Refusal) -> None:
        if refused.what == "publish":
            self.on_refused(refused.subject)
            return
        self._unheard.add(refused.subject)
        heard = refused.subject == f"{self.calls.inbox}.*".lower() or refused.subject in map(
            str.lower, self._routes
        )
        if heard and not self._confirming:
            self._lost.set()  # it was allowed before: a new connection shows what is left

    async def _failed(self, error: Exception) -> None:
        self.counters["errors"] += 1
        if (refused := refusal(error)) is not None:
            self._refused(refused)
        elif is_denial(error) and not self._connecting:
            self._lost.set()  # the secret may have been changed: a new connection reads it again
        if isinstance(error, nats.errors.SlowConsumerError):
            self.counters["dropped"] += 1
            self.on_up()  # something was lost: reconcile
        if isinstance(error, OSError) and not is_final(error):
            self._complain(error)
            return
        expected = isinstance(error, OSError | nats.errors.Error)
        logger.log(
            logging.WARNING if expected else logging.ERROR,
            "agent %s: %s: %s",
            self._agent,
            type(error).__name__,
            error,
            exc_info=None if expected else error,
        )
        if self._connecting and is_final(error):
            raise error  # trying again, as nats-py would, changes nothing

    def _complain(self, why: Exception) -> None:
        """Log that no server answers: at first, and then now and then."""
        now = asyncio.get_running_loop().time()
        if self._complained_at is None or now >= self._complained_at + COMPLAINTS_S:
            self._complained_at = now
            logger.warning("agent %s: %s", self._agent, self._nobody(why))

    def _nobody(self, why: Exception) -> str:
        return (
            f"no NATS server at {self.url} ({str(why) or type(why).__name__}):"
            " start one with `unknot serve`, or set UNKNOT_URL"
        )

    async def _went_down(self) -> None:
        self._connected.clear()
        if self._nats is not None:
            logger.warning("agent %s: the connection to %s is gone; trying again", self._agent, self.url)

    async def _came_back(self) -> None:
        self._complained_at = None
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
            self._connected.clear()
            if self._nats is not None and not self._nats.is_closed:
                await self._nats.close()  # nats-py would go on with what it was given at first
            denials = 0
            for attempt in itertools.count():
                try:
                    await self._connect(5.0)
                    break
                except (Unreachable, Refused, ValueError) as why:
                    if isinstance(why, Unreachable):
                        self._complain(why.__cause__ if isinstance(why.__cause__, Exception) else why)
                    else:
                        logger.warning("agent %s: %s", self._agent, why)
                    denials = denials + 1 if isinstance(why, Refused) else 0
                    if isinstance(why, Refused) and denials == DENIALS_MAX:
                        self.on_denied(why)
                        return
                    await asyncio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
            await self._came_back()

    # ------------------------------------------------------------------ the writer

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._connected.wait()
            client = self._nats
            if client is not None:
                await self._write_all(client)
            if self._outbox:
                self._wake.set()
                if client is not None and not client.is_connected:
                    self._connected.clear()  # nats-py says so only later: till then this would turn without end

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


async def _let_go(client: NatsClient) -> None:
    """Close what was never open: after a TLS handshake that failed nats-py would wait for ever."""
    try:
        async with asyncio.timeout(LET_GO_S):
            await client.close()
    except TimeoutError:
        pass


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@,]*@", "//", url)
