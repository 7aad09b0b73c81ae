"""Locks and permits that are held here: each lease is renewed in time, or known to be lost.

held -> released    given back: by whoever holds it, or because the task that asked for it has ended
held -> lost        the lease is over: by the own clock, by the gateway's word, or with the session

The own clock counts from the moment when a renewal was sent that the gateway has confirmed: nobody here believes to
hold what the gateway has given to another.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

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


class Lease:
    """Locks and permits that were granted together, under one fencing token.

    Given back at the end of ``async with``, or by ``release``; renewed by itself until then, at a third of its time.
    A lease can be lost all the same: the event loop stood still, or no gateway was there for too long. Then ``lost``
    is set, and the end of the block raises LeaseLost; the block itself is never cancelled, for to stop halfway may be
    worse than to end. Look at ``lost``, or write with ``token``: whoever takes the writes can tell that it is an old
    one.
    """

    def __init__(
        self,
        table: "Holds",
        wait_id: str,
        strand: Strand,
        granted: Sequence[holds.ResourceUnits],
        fulfilled: holds.Fulfilled,
    ) -> None:
        assert fulfilled.fencing_token is not None, "a grant has one"
        self._table = table
        self._wait_id = wait_id
        self._strand = strand
        self._state: Literal["held", "released", "lost"] = "held"
        self._lapses_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._resources = list(granted)
        self.token: int = fulfilled.fencing_token
        """Grows with every grant of the network; a write under an older one is to be refused."""
        self.lease_s: float = fulfilled.lease_s or LEASE_DEFAULT_S
        """How long it lasts from each renewal."""
        self.lost = asyncio.Event()
        """Set when it is held no more without having been given back."""

    @property
    def ids(self) -> tuple[str, ...]:
        """What is held: locks and pools."""
        return tuple(each.id for each in self._resources)

    @property
    def is_held(self) -> bool:
        """Whether it is neither given back nor lost."""
        self._table.check(self)
        return self._state == "held"

    async def renew(self, lease: float | None = None) -> None:
        """Begin the lease anew: *lease* seconds from now on (else as before). LeaseLost when it is over."""
        await self._table.renew(self, lease)

    def release(self) -> None:
        """Give it back now; again, or when it is lost, nothing happens."""
        self._table.release(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.check(self)
        self._table.release(self)
        if self._state == "lost" and kind is None:
            raise self._lost()

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            f"the lease of {', '.join(self.ids[:8])} (token {self.token}) is over, and another may hold it now: a"
            " longer lease=, and nothing that blocks the event loop",
            code=codes.NOT_HELD,
            detail={"token": self.token},
        )

    def __repr__(self) -> str:
        return f"Lease({', '.join(self.ids)}, token={self.token}, {self._state})"


class Holds:
    """The leases of one session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._leases: dict[str, Lease] = {}
        self._has_held = False
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def is_full(self) -> bool:
        """Whether no further lease can be named by heartbeats."""
        return len(self._leases) >= HOLDS_MAX

    def granted(
        self,
        wait_id: str,
        strand: Strand,
        granted: Sequence[holds.ResourceUnits],
        fulfilled: holds.Fulfilled,
    ) -> Lease:
        """The lease that the wait *wait_id* of *strand* was granted; it is renewed from now on."""
        lease = Lease(self, wait_id, strand, granted, fulfilled)
        lease._lapses_at = self._loop.time() + lease.lease_s
        self._leases[wait_id] = lease
        self._has_held = True
        self._arm(lease, lease.lease_s / RENEWALS)
        return lease

    def named(self) -> list[holds.Hold] | None:
        """All that is held; None when nothing ever was, or it does not fit."""
        chars = sum(len(id) for lease in self._leases.values() for id in lease.ids)
        if not self._has_held or chars > NAMED_CHARS_MAX:
            return None
        return [
            holds.Hold(
                lease._wait_id,
                lease.token,
                lease._resources,
                execution=lease._strand.execution.id,
                strand=lease._strand.id or None,
                detached=lease._strand.detached,
                lease_s=lease.lease_s,
            )
            for lease in self._leases.values()
        ]

    def check(self, lease: Lease) -> None:
        """It is lost when its time is over by the own clock, though no timer has come yet to say so."""
        if lease._state == "held" and self._loop.time() >= lease._lapses_at:
            self._lose(lease)

    def release(self, lease: Lease) -> None:
        """Give it back, if it is held."""
        if lease._state == "held":
            self._drop(lease, "released")
            session = self._session
            session.post("lock.release", resources.LockRelease(lease._wait_id, lease.token, session.token))

    async def renew(self, lease: Lease, seconds: float | None) -> None:
        """Begin the lease anew and wait until the gateway has said so; LeaseLost when it is over."""
        self.check(lease)
        if lease._state != "held":
            raise lease._lost()
        sent_at = self._loop.time()
        body = self._renewal(lease, seconds)
        try:
            receipt = await self._session.order("lock.renew", body, f"the renewal of {lease.ids[0]}")
        except LeaseLost:
            self._lose(lease)
            raise lease._lost() from None
        self._renewed(lease, sent_at, receipt)

    def lapsed(self, wait_id: str, token: int) -> None:
        """The gateway says that this lease is over."""
        lease = self._leases.get(wait_id)
        if lease is not None and lease.token == token:
            self._lose(lease)

    def unknown(self, wait_ids: Iterable[str]) -> None:
        """The gateway knows nothing of these holds (any more)."""
        for wait_id in wait_ids:
            lease = self._leases.get(wait_id)
            if lease is not None:
                self._lose(lease)

    def lose_all(self) -> None:
        """The session is over, and all that it held."""
        for lease in list(self._leases.values()):
            self._lose(lease)

    def renew_all(self) -> None:
        """Renew at once: another gateway has taken over."""
        for lease in list(self._leases.values()):
            self._beat(lease)

    # -- inside

    def _lose(self, lease: Lease) -> None:
        self._drop(lease, "lost")
        self._session.counters["leases_lost"] += 1
        lease.lost.set()

    def _drop(self, lease: Lease, state: Literal["released", "lost"]) -> None:
        lease._state = state
        self._leases.pop(lease._wait_id, None)
        if lease._timer is not None:
            lease._timer.cancel()
            lease._timer = None

    def _arm(self, lease: Lease, delay: float) -> None:
        if lease._timer is not None:
            lease._timer.cancel()
        at = min(self._loop.time() + delay, lease._lapses_at)
        lease._timer = self._loop.call_at(at, self._beat, lease)

    def _beat(self, lease: Lease) -> None:
        """Renew in time; a task that has ended without giving back does so now."""
        self.check(lease)
        if lease._state != "held":
            return
        if lease._strand.is_over:
            self.release(lease)
            return
        answered = partial(self._renewed, lease, self._loop.time())
        self._arm(lease, lease.lease_s / RENEWALS)
        self._session.ask("lock.renew", self._renewal(lease, None), answered)

    def _renewal(self, lease: Lease, seconds: float | None) -> resources.LockRenew:
        return resources.LockRenew(lease._wait_id, lease.token, seconds or lease.lease_s, self._session.token)

    def _renewed(self, lease: Lease, sent_at: float, receipt: bodies.Receipt | None) -> None:
        if lease._state != "held":
            return
        if receipt is None:
            self._arm(lease, UNHEARD_PAUSE_S)
        elif receipt.ok:
            lease.lease_s = receipt.lease_s or lease.lease_s
            lease._lapses_at = sent_at + lease.lease_s
            self._arm(lease, lease.lease_s / RENEWALS)
        elif receipt.error is not None and receipt.error.code in (codes.NOT_HELD, codes.STALE_TOKEN):
            self._lose(lease)
