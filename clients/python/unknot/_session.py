"""One life of one agent's process: hello, heartbeats, and the tables of what it has open and holds."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from typing import Final, Literal

import msgspec
from msgspec import Struct

from unknot import _watchdog
from unknot._pending import Entry, Pending
from unknot._running import Running
from unknot._strands import Execution
from unknot._tasks import Tasks
from unknot._transport import Transport
from unknot.errors import Unreachable, from_receipt
from unknot_schemas import Subjects, bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import MAIN
from unknot_schemas.limits import CLIENT_GRACE_S, HEARTBEAT_DEFAULT_S, NAMED_IDS_MAX, SESSION_LOSS_S

logger = logging.getLogger("unknot")

BlockingWaits = Literal["allow", "warn", "forbid"]
HELLO_S: Final = 1.0
"""How long one hello waits for its answer before the next one."""
BYE_S: Final = 2.0

encode: Final = msgspec.json.Encoder().encode
_receipt: Final = msgspec.json.Decoder(bodies.Receipt).decode
_welcome: Final = msgspec.json.Decoder(bodies.Welcome).decode
_pulse: Final = msgspec.json.Decoder(bodies.Pulse).decode


def _sdk() -> str:
    try:
        return f"python {metadata.version('unknot')}"
    except metadata.PackageNotFoundError:
        return "python"


class Profile(Struct, frozen=True, kw_only=True):
    """What an agent says of itself."""

    agent: str
    pools: list[bodies.Pool]
    main_runs: bool = True
    channels: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    reentrant: bool = False
    exclusive: bool = False
    instance: str | None = None
    heartbeat_s: float | None = None
    blocking_waits: BlockingWaits = "warn"


class Session:
    """Tables, timer and heartbeat of one session; who sends and who receives share it."""

    def __init__(self, profile: Profile, url: str, subjects: Subjects) -> None:
        self.profile = profile
        self.agent = profile.agent
        self.subjects = subjects
        self.transport = Transport(url, profile.agent, is_wanted=self._is_wanted)
        self.counters: Counter[str] = self.transport.counters
        self.main = Execution(MAIN)
        self.pending = Pending()
        self.running = Running()
        self.tasks = Tasks()
        self.beside: dict[str, Execution] = {}
        """Executions that hold no slot: of channel and topic events."""
        self.token = ""
        self.out_prefix = ""
        self.epoch = 0
        self.heartbeat_s = profile.heartbeat_s or HEARTBEAT_DEFAULT_S
        self.loss_s = SESSION_LOSS_S
        self.ended: str | None = None
        """Why this session takes part no more; None while it does."""
        self.over = asyncio.Event()
        """Set when the session has ended for good."""
        self._ids = ""
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._resuming = False
        self._watched = False
        self._loop = asyncio.get_running_loop()

    # ------------------------------------------------------------------ a life

    async def open(self, receive: Callable[[str, bytes], None], timeout: float) -> None:
        """Connect, subscribe, say hello. Unreachable when no server or gateway answers in *timeout* seconds."""
        self.main.own.task = asyncio.current_task()
        await self.transport.open(timeout)
        _watchdog.watch()
        self._watched = True
        self.transport.on_up = self._pulse_now
        await self._begin(receive, timeout)
        self._receive = receive
        self.tasks.start(self._heartbeats(), "heartbeat")

    async def close(self, reason: str = "the connection was closed") -> None:
        """Say bye, fail what is still open as cancelled, let go. Nothing waits for ever on a closed session."""
        said = self.ended is not None
        self.end(reason)
        if not said:
            await self._call("bye", bodies.Bye(self.token), BYE_S)
        await self.tasks.close()
        await self.transport.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._watched:
            self._watched = False
            _watchdog.unwatch()

    def end(self, reason: str) -> None:
        """No more heartbeats; everything open ends cancelled, everything held is abandoned."""
        if self.ended is None:
            self.ended = reason
        for entry in list(self.pending):
            self.settle_locally(
                entry, "cancelled", bodies.Error(codes.CANCELLED, f"{entry.target}: {reason}")
            )
        for work in self.running.held.values():
            work.abandon(reason)
        self.over.set()

    async def drain(self, at_most_s: float) -> None:
        """Take no new work; return when what is held has been answered, or *at_most_s* seconds are over."""
        self.post("bye", bodies.Bye(self.token, at_most_s))
        self.running.leaving = asyncio.Event()
        if self.running.held:
            try:
                async with asyncio.timeout(at_most_s):
                    await self.running.leaving.wait()
            except TimeoutError:
                left = len(self.running.held)
                logger.warning("agent %s: %d events were not finished in %g s", self.agent, left, at_most_s)

    # ------------------------------------------------------------------ sending

    def new_id(self) -> str:
        """An id that nobody else makes: random for the session, then numbered."""
        self._number += 1
        return f"{self._ids}{self._number:x}"

    def post(self, verb: str, body: bodies.Body) -> None:
        """Send a verb; nobody waits for its Receipt."""
        self.transport.post(self.subjects.verb(self.agent, verb), encode(body))

    def open_entry(self, entry: Entry) -> None:
        """Register *entry*; its own clock runs from now."""
        self.pending.open(entry, self._loop.time())
        if self._timer is None or entry.deadline_at < self._timer.when():
            self._arm(entry.deadline_at)

    def deadline_at(self, timeout: float) -> float:
        """When the own clock gives up on a wait with *timeout*."""
        return self._loop.time() + timeout + CLIENT_GRACE_S

    def give_up(self, entry: Entry) -> None:
        """The waiter wants no answer any more: forget the wait, and say so."""
        if self.pending.withdraw(entry.id) is not None:
            self.post(*entry.farewell(self.token))

    def settle_locally(self, entry: Entry, outcome: bodies.OutcomeKind, error: bodies.Error) -> None:
        """End *entry* by the own word; the gateway is told, and what it says later is ignored."""
        self.pending.settle(bodies.Outcome(entry.id, outcome, "maybe", self.epoch, error=error))
        if self.ended is None:
            self.post(*entry.farewell(self.token))

    def _is_wanted(self, id: str) -> bool:
        return id in self.pending

    # ------------------------------------------------------------------ the own clock

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for entry in self.pending.overdue(self._loop.time()):
            self.counters["expired_locally"] += 1
            text = f"{entry.target}: no outcome by the own clock; the gateway may be gone: see `unknot waits list`"
            self.settle_locally(entry, "expired", bodies.Error(codes.EXPIRED, text))
        at = self.pending.next_deadline_at()
        if at is not None:
            self._arm(at)

    # ------------------------------------------------------------------ hello

    async def _begin(self, receive: Callable[[str, bytes], None], timeout: float) -> None:
        self.token = secrets.token_urlsafe(16)
        self._ids = f"{secrets.token_urlsafe(9)}-"
        self.running = Running()
        self.out_prefix = self.subjects.out(self.agent, self.token)[:-1]
        await self.transport.listen(self.subjects.out(self.agent, self.token), receive)
        try:
            async with asyncio.timeout(timeout):
                while not await self._hello(self._first_hello()):
                    pass
        except TimeoutError:
            raise Unreachable(
                f"no gateway answers for network {self.subjects.network!r} at {self.transport.url}:"
                " start one with `unknot serve`",
                code=codes.UNREACHABLE,
                handled="no",
            ) from None

    def _first_hello(self) -> bodies.Hello:
        profile = self.profile
        return bodies.Hello(
            self.token,
            instance=profile.instance,
            pools=profile.pools,
            main_runs=profile.main_runs,
            channels=list(profile.channels) or None,
            reentrant=profile.reentrant,
            exclusive=profile.exclusive,
            heartbeat_s=profile.heartbeat_s,
            sdk=_sdk(),
        )

    async def _hello(self, hello: bodies.Hello) -> bool:
        """Whether the gateway has taken it; False when none answers. A refusal raises."""
        asked_at = self._loop.time()
        answer = await self._call("hello", hello, HELLO_S)
        if answer is None:
            await asyncio.sleep(max(0.0, 0.1 - (self._loop.time() - asked_at)))
            return False
        receipt = _receipt(answer)
        if not receipt.ok:
            raise from_receipt(receipt)
        welcome = _welcome(answer)
        self.epoch, self.heartbeat_s, self.loss_s = welcome.epoch, welcome.heartbeat_s, welcome.session_loss_s
        return True

    async def _call(self, verb: str, body: bodies.Body, timeout: float) -> bytes | None:
        return await self.transport.call(self.subjects.verb(self.agent, verb), encode(body), timeout)

    # ------------------------------------------------------------------ heartbeats

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_s)
            now = self._loop.time()
            self.running.sweep(now)
            if self.ended is not None:
                return
            if not self._resuming:
                self._pulse(now - self.heartbeat_s)

    def _pulse_now(self) -> None:
        if self.ended is None:
            self._pulse(float("inf"))

    def _pulse(self, older_than: float) -> None:
        beat = bodies.Heartbeat(
            self.token,
            open=self.pending.named(older_than, NAMED_IDS_MAX),
            held=self.running.named(older_than, NAMED_IDS_MAX),
            seen=self.running.seen,
        )
        self.transport.ask(self.subjects.verb(self.agent, "heartbeat"), encode(beat), self._on_pulse)

    def _on_pulse(self, answer: bytes | None) -> None:
        if answer is None or self.ended is not None:
            self.counters["heartbeats_unheard"] += 1
            return
        receipt = _receipt(answer)
        if receipt.ok:
            pulse = _pulse(answer)
            self.epoch = pulse.epoch
            self._repair(pulse)
        elif receipt.error is not None and receipt.error.code == codes.UNKNOWN_SESSION:
            if not self._resuming:
                self._resuming = True
                self.tasks.start(self._resume(), "resume")
        else:
            logger.error("agent %s: heartbeat refused: %s", self.agent, receipt.error)

    def _repair(self, pulse: bodies.Pulse) -> None:
        """Send again what the gateway does not know of; let go of what it holds us not responsible for."""
        for id in pulse.unknown:
            entry = self.pending.get(id)
            if entry is not None:
                self.counters["sent_again"] += 1
                self.transport.post(entry.subject, entry.payload, request_id=id)
        for id in pulse.not_held:
            self.running.disown(id)

    async def _resume(self) -> None:
        """The gateway has forgotten this session (a restart, a long silence): go on with it, or begin anew."""
        try:
            hello = msgspec.structs.replace(
                self._first_hello(),
                resume=True,
                open=self.pending.named(float("inf"), NAMED_IDS_MAX),
                held=self.running.named(float("inf"), NAMED_IDS_MAX),
                answered=self.running.answered(NAMED_IDS_MAX),
                seen=self.running.seen,
            )
            if await self._hello(hello):
                self.counters["resumed"] += 1
                self._pulse_now()
        finally:
            self._resuming = False
