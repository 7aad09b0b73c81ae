"""Locks and permits that are held here: each lease is renewed in time, or known to be lost.

held -> released    given back: by whoever holds it, or because nobody is left who could
held -> lost        the lease is over: by the own clock, by the gateway's word, or with the session

The own clock counts from the moment when a renewal was sent that the gateway has confirmed: from then on nobody here
believes to hold what the gateway has given to another. Before that it counts from when the grant was heard, and is late
by as much as word of it took; the fencing token tells.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self
from weakref import ReferenceType, ref

from unknot._strands import Strand
from unknot.errors import LeaseLost
from unknot_schemas import bodies, holds, resources
from unknot_schemas import errors as codes
from unknot_schemas.limits import LEASE_DEFAULT_S

if TYPE_CHECKING:
    from unknot._session import Session

HOLDS_MAX: Final = 1_000
"""Leases of one session; a heartbeat names all of them."""
NAMED_CHARS_MAX: Final = 128 * 1024
"""Characters of the names in that; where they are more, the heartbeat says nothing of holds."""
RENEWALS: Final = 3
"""How often a lease is renewed in its time."""
UNHEARD_PAUSE_S: Final = 0.5
"""Pause before the next renewal when no gateway was there to hear one."""


class Hold:
    """What the table knows of one lease."""

    __slots__ = (
        "lapses_at",
        "lease",
        "lease_s",
        "lost",
        "resources",
        "state",
        "strand",
        "timer",
        "token",
        "wait_id",
    )

    def __init__(
        self, wait_id: str, strand: Strand, granted: Sequence[holds.ResourceUnits], fulfilled: holds.Fulfilled
    ) -> None:
        assert fulfilled.fencing_token is not None, "a grant has one"
        self.wait_id = wait_id
        self.strand = strand
        self.resources = list(granted)
        self.token = fulfilled.fencing_token
        self.lease_s = fulfilled.lease_s or LEASE_DEFAULT_S
        self.lapses_at = 0.0
        self.state: Literal["held", "released", "lost"] = "held"
        self.lost = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self.lease: ReferenceType[Lease] | None = None
        """What the program has of it; dead when nobody can use it any more."""

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody is left to give it back: who held it is over, or has dropped it."""
        return self.strand.is_over or self.lease is None or self.lease() is None

    def named(self) -> holds.Hold:
        """As the wire says it."""
        return holds.Hold(
            self.wait_id,
            self.token,
            self.resources,
            execution=self.strand.execution.id,
            strand=self.strand.id or None,
            detached=self.strand.detached,
            lease_s=self.lease_s,
        )

    def failure(self) -> LeaseLost:
        """What raises when it is lost."""
        names = ", ".join(each.id for each in self.resources[:8])
        return LeaseLost(
            f"the lease of {names} (token {self.token}) is over, and another may hold it now: a longer lease=, and"
            " nothing that blocks the event loop",
            code=codes.NOT_HELD,
            detail={"token": self.token},
        )


class Lease:
    """Locks and permits that were granted together, under one fencing token.

    Given back at the end of ``async with``, by ``release``, with its execution, or when it is dropped; renewed by
    itself until then, at a third of its time. A lease can be lost all the same: the event loop stood still, or no
    gateway was there for too long. Then ``lost`` is set, and the end of the block raises LeaseLost; the block itself
    is never cancelled, for to stop halfway may be worse than to end. Look at ``lost``, or write with ``token``:
    whoever takes the writes can tell an old one.
    """

    __slots__ = ("__weakref__", "_hold", "_table")

    def __init__(self, table: "Holds", hold: Hold) -> None:
        self._table = table
        self._hold = hold

    @property
    def ids(self) -> tuple[str, ...]:
        """What is held: locks and pools."""
        return tuple(each.id for each in self._hold.resources)

    @property
    def token(self) -> int:
        """Grows with every grant of the network; a write under an older one is to be refused."""
        return self._hold.token

    @property
    def lease_s(self) -> float:
        """How long it lasts from each renewal, in seconds."""
        return self._hold.lease_s

    @property
    def lost(self) -> asyncio.Event:
        """Set when it is held no more without having been given back."""
        return self._hold.lost

    @property
    def is_held(self) -> bool:
        """Whether it is neither given back nor lost."""
        self._table.check(self._hold)
        return self._hold.state == "held"

    async def renew(self, lease: float | None = None) -> None:
        """Begin the lease anew: *lease* seconds from now on (else as before). LeaseLost when it is over."""
        await self._table.renew(self._hold, lease)

    def release(self) -> None:
        """Give it back now; again, or when it is lost, nothing happens."""
        self._table.release(self._hold)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.check(self._hold)
        self._table.release(self._hold)
        if self._hold.state == "lost" and kind is None:
            raise self._hold.failure()

    def __repr__(self) -> str:
        return f"Lease({', '.join(self.ids)}, token={self.token}, {self._hold.state})"


class Holds:
    """The leases of one session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._holds: dict[str, Hold] = {}
        self._has_held = False
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._holds)

    @property
    def is_full(self) -> bool:
        """Whether no further lease can be named by heartbeats."""
        return len(self._holds) >= HOLDS_MAX

    def granted(
        self,
        wait_id: str,
        strand: Strand,
        granted: Sequence[holds.ResourceUnits],
        fulfilled: holds.Fulfilled,
    ) -> Lease:
        """The lease that the wait *wait_id* of *strand* was granted; it is renewed from now on."""
        hold = Hold(wait_id, strand, granted, fulfilled)
        lease = Lease(self, hold)
        hold.lease = ref(lease, lambda _lease: self._dropped(hold))
        hold.lapses_at = self._loop.time() + hold.lease_s
        self._holds[wait_id] = hold
        self._has_held = True
        self._arm(hold, hold.lease_s / RENEWALS)
        return lease

    def named(self) -> list[holds.Hold] | None:
        """All that is held; None when nothing ever was, or it does not fit."""
        chars = sum(len(each.id) for hold in self._holds.values() for each in hold.resources)
        if not self._has_held or chars > NAMED_CHARS_MAX:
            return None
        return [hold.named() for hold in self._holds.values()]

    def check(self, hold: Hold) -> None:
        """It is lost when its time is over by the own clock, though no timer has come yet to say so."""
        if hold.state == "held" and self._loop.time() >= hold.lapses_at:
            self._lose(hold)

    def release(self, hold: Hold) -> None:
        """Give it back, if it is held."""
        if hold.state == "held":
            self._drop(hold, "released")
            session = self._session
            session.post("lock.release", resources.LockRelease(hold.wait_id, hold.token, session.token))

    async def renew(self, hold: Hold, seconds: float | None) -> None:
        """Begin the lease anew and wait until the gateway has said so; LeaseLost when it is over."""
        self.check(hold)
        if hold.state != "held":
            raise hold.failure()
        sent_at = self._loop.time()
        body = self._renewal(hold, seconds)
        try:
            receipt = await self._session.order("lock.renew", body, f"the renewal of {hold.resources[0].id}")
        except LeaseLost:
            self._lose(hold)
            raise hold.failure() from None
        self._renewed(hold, sent_at, receipt)
        if hold.lost.is_set():
            raise hold.failure()

    def lapsed(self, wait_id: str, token: int) -> None:
        """The gateway says that this lease is over."""
        hold = self._holds.get(wait_id)
        if hold is not None and hold.token == token:
            self._lose(hold)

    def unknown(self, wait_ids: Iterable[str]) -> None:
        """The gateway knows nothing of these holds (any more)."""
        for wait_id in wait_ids:
            hold = self._holds.get(wait_id)
            if hold is not None:
                self._lose(hold)

    def lose_all(self) -> None:
        """The session is over, and all that it held."""
        for hold in list(self._holds.values()):
            self._lose(hold)

    def renew_all(self) -> None:
        """Renew at once: another gateway has taken over."""
        for hold in list(self._holds.values()):
            self._beat(hold)

    # -- inside

    def _dropped(self, hold: Hold) -> None:
        """The program has dropped its lease, in whatever thread."""
        if hold.state == "held":
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the session
                self._loop.call_soon_threadsafe(self.release, hold)

    def _lose(self, hold: Hold) -> None:
        if hold.state != "held":
            return
        self._drop(hold, "lost")
        self._session.counters["leases_lost"] += 1
        hold.lost.set()

    def _drop(self, hold: Hold, state: Literal["released", "lost"]) -> None:
        hold.state = state
        self._holds.pop(hold.wait_id, None)
        if hold.timer is not None:
            hold.timer.cancel()
            hold.timer = None

    def _arm(self, hold: Hold, delay: float) -> None:
        if hold.timer is not None:
            hold.timer.cancel()
        at = min(self._loop.time() + delay, hold.lapses_at)
        hold.timer = self._loop.call_at(at, self._beat, hold)

    def _beat(self, hold: Hold) -> None:
        """Renew in time, or give back what nobody can use any more."""
        self.check(hold)
        if hold.state != "held":
            return
        if hold.is_abandoned:
            self.release(hold)
            return
        answered = partial(self._renewed, hold, self._loop.time())
        self._arm(hold, hold.lease_s / RENEWALS)
        self._session.ask("lock.renew", self._renewal(hold, None), answered)

    def _renewal(self, hold: Hold, seconds: float | None) -> resources.LockRenew:
        return resources.LockRenew(hold.wait_id, hold.token, seconds or hold.lease_s, self._session.token)

    def _renewed(self, hold: Hold, sent_at: float, receipt: bodies.Receipt | None) -> None:
        if hold.state != "held":
            return
        if receipt is None:
            self._arm(hold, UNHEARD_PAUSE_S)
        elif receipt.ok:
            hold.lease_s = receipt.lease_s or hold.lease_s
            hold.lapses_at = sent_at + hold.lease_s
            self._arm(hold, hold.lease_s / RENEWALS)
        elif receipt.error is not None and receipt.error.code in (codes.NOT_HELD, codes.STALE_TOKEN):
            self._lose(hold)
