"""The state of one agent's session: what it has open, what it holds, and the own clock over both."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from unknot._leases import Holds
from unknot._login import Login
from unknot._pending import Entry, Pending
from unknot._posts import Post
from unknot._running import Running
from unknot._standing import Standing
from unknot._strands import Execution, Strand
from unknot._tasks import Tasks
from unknot._transport import Transport
from unknot.errors import Cancelled, Unreachable, WaitFailed, from_receipt
from unknot_schemas import Subjects, bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import MAIN
from unknot_schemas.limits import CLIENT_GRACE_S

logger = logging.getLogger("unknot")

BlockingWaits = Literal["allow", "warn", "forbid"]

RECEIPT_S: Final = 5.0
"""How long a Receipt may take before the gateway counts as unreachable."""
RECEIPT_TRY_S: Final = 1.0
"""How long one sending waits for its Receipt; then the same bytes are sent again under the same id."""
NOBODY_PAUSE_S: Final = 0.1

encode: Final = msgspec.json.Encoder().encode
_receipt: Final = msgspec.json.Decoder(bodies.Receipt).decode


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
    """Tables, timer and connection of one session; who sends, who receives and who beats share it."""

    def __init__(self, profile: Profile, url: str, subjects: Subjects, login: Login | None = None) -> None:
        self.profile = profile
        self.agent = profile.agent
        self.subjects = subjects
        self.transport = Transport(url, profile.agent, is_wanted=self._is_wanted, login=login)
        self.counters: Counter[str] = self.transport.counters
        self.tasks = Tasks()
        self.main = Execution(MAIN)
        self.beside: dict[str, Execution] = {}
        """Executions that hold no slot: of channel and topic events."""
        self.pending = Pending()
        self.posts: WeakValueDictionary[str, Post] = WeakValueDictionary()
        """Posts made here that the program still has."""
        self.running = Running()
        self.holds = Holds(self)
        self.standing = Standing()
        self.token = ""
        self.out_prefix = ""
        self.epoch = 0
        self.ended: str | None = None
        """Why this session takes part no more; None while it does."""
        self.denied: WaitFailed | None = None
        """Set when it has ended because the server lets its user in no more."""
        self.over = asyncio.Event()
        """Set when the session has ended for good."""
        self._ids = ""
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # ------------------------------------------------------------------ who it is

    def become(self, token: str, ids: str) -> None:
        """From now on this is the session *token*; its ids begin with *ids*."""
        self.token = token
        self.out_prefix = self.subjects.out(self.agent, token)[:-1]
        self._ids = ids
        self.running = Running()

    def new_id(self) -> str:
        """An id that nobody else makes: random for the session, then numbered."""
        self._number += 1
        return f"{self._ids}{self._number:x}"

    def end(self, reason: str) -> None:
        """Take part no more: everything open ends cancelled, everything held is abandoned."""
        if self.ended is None:
            self.ended = reason
        self.let_go(reason)
        if self._timer is not None:
            self._timer.cancel()
        self.over.set()

    def replaced(self, by: str) -> None:
        """Another session has taken the place of this one, which ends."""
        reason = f"session {by} has taken the place of this one"
        logger.error("agent %s: %s", self.agent, reason)
        self.end(reason)

    def let_go(self, reason: str) -> None:
        """Everything open ends cancelled, everything held is abandoned; the gateway is told by a bye."""
        for entry in list(self.pending):
            error = bodies.Error(codes.CANCELLED, f"{entry.target}: {reason}")
            self.pending.settle(bodies.Outcome(entry.id, "cancelled", "maybe", self.epoch, error=error))
        for work in self.running.held.values():
            work.abandon(reason)
        self.holds.lose_all()

    # ------------------------------------------------------------------ what it has open

    def post(self, verb: str, body: bodies.Body) -> None:
        """Send a verb; nobody waits for its Receipt."""
        self.transport.post(self.subjects.verb(self.agent, verb), encode(body))

    def ask(self, verb: str, body: bodies.Body, answered: Callable[[bodies.Receipt | None], None]) -> None:
        """Send a verb, and give its Receipt to *answered*; None: nobody listens there."""

        def answer(receipt: bytes | None) -> None:
            answered(_receipt(receipt) if receipt is not None else None)

        self.transport.ask(self.subjects.verb(self.agent, verb), encode(body), answer)

    async def order(self, verb: str, body: bodies.Body, id: str) -> bodies.Receipt:
        """Send a verb that may come twice, until its Receipt says that it is done. *id*: what it is about."""
        self.check_alive()
        return await self.receipt(self.subjects.verb(self.agent, verb), encode(body), id)

    async def receipt(self, subject: str, body: bytes, id: str) -> bodies.Receipt:
        """Send until a Receipt comes; the same id and content are the same thing, however often it is sent."""
        give_up_at = self._loop.time() + RECEIPT_S
        while (left := give_up_at - self._loop.time()) > 0:
            asked_at = self._loop.time()
            answer = await self.transport.call(subject, body, min(RECEIPT_TRY_S, left))
            if answer is not None:
                receipt = _receipt(answer)
                if not receipt.ok:
                    raise from_receipt(receipt, id)
                return receipt
            self.check_alive()
            if self._loop.time() - asked_at < NOBODY_PAUSE_S:
                await asyncio.sleep(NOBODY_PAUSE_S)
        raise Unreachable(
            f"no gateway has taken {id} within {RECEIPT_S:g} s", code=codes.UNREACHABLE, request_id=id
        )

    def check_alive(self) -> None:
        """Cancelled when this session has ended."""
        if self.ended is not None:
            raise Cancelled(f"agent {self.agent}: {self.ended}", code=codes.CANCELLED, handled="no")

    def open_entry(self, entry: Entry) -> None:
        """Register *entry*; its own clock runs from now."""
        self.pending.open(entry, self._loop.time())
        if self._timer is None or entry.deadline_at < self._timer.when():
            self._arm(entry.deadline_at)

    def deadline_at(self, timeout: float) -> float:
        """When the own clock gives up on a wait with *timeout*."""
        return self._loop.time() + timeout + CLIENT_GRACE_S

    def give_up(self, entry: Entry) -> None:
        """The waiter wants no answer any more: forget the wait, and say so. Nothing happens to what has ended."""
        if self.pending.withdraw(entry.id) is not None and self.ended is None:
            self.post(*entry.farewell(self.token))

    def settle_locally(self, entry: Entry, outcome: bodies.OutcomeKind, error: bodies.Error) -> None:
        """End *entry* by the own word; the gateway is told, and what it says later is ignored."""
        self.pending.settle(bodies.Outcome(entry.id, outcome, "maybe", self.epoch, error=error))
        self.post(*entry.farewell(self.token))

    def satisfy(self, event: bodies.Delivered) -> Strand | None:
        """End every open wait for an event like this one, and give the strand of one of them; None when there is none.

        The gateway is told of those that it has not ended itself.
        """
        strand = None
        for wait in self.pending.expecting(event):
            strand = wait.strand
            self.pending.settle(bodies.Outcome(wait.id, "reply", "yes", event.epoch, event=event))
            if wait.id != event.for_:
                self.post(*wait.farewell(self.token))
        return strand

    def keep(self, event: bodies.Delivered) -> None:
        """Keep an answer to an own post that nobody waits for yet."""
        post = self.posts.get(event.response_to) if event.response_to is not None else None
        if post is not None and not post._keep(event):
            self.counters["answers_dropped"] += 1

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
            text = (
                f"{entry.target}: no outcome by the own clock; is the gateway gone? see `unknot waits list`"
            )
            self.settle_locally(entry, "expired", bodies.Error(codes.EXPIRED, text))
        at = self.pending.next_deadline_at()
        if at is not None:
            self._arm(at)
