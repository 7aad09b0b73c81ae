"""Who has what outside, as far as this agent knows: waits that others report rest on it."""

import asyncio
from types import TracebackType
from typing import Literal, Self

from unknot._session import Session
from unknot._strands import Strand
from unknot._things import thing
from unknot_schemas import bodies, resources

HoldsKind = Literal["lock", "permits", "artifact", "task"]


class Holder:
    """``async with ctx.holder(…)``: inside, others' waits for the thing rest on who is named here.

    Without ``async with``: ``set`` and ``clear``.
    """

    def __init__(
        self,
        session: Session,
        strand: Strand,
        kind: HoldsKind,
        id: str,
        holder: resources.Holder | None,
        units: int,
        capacity: int | None,
        until: float | None,
    ) -> None:
        self._session = session
        self._strand = strand
        self._kind: HoldsKind = kind
        self._id = thing(id)
        self._holder = holder
        self._units = units
        self._capacity = capacity
        self._until_s = until
        self._until_at: float | None = None
        named = (
            (holder.agent, holder.execution or "")
            if holder is not None
            else ("", strand.execution.id, strand.id)
        )
        self._key = ("holder", self._id, kind, *named)

    async def set(self) -> None:
        """It holds the thing (or can do it) from now on; said again, *until* begins anew."""
        if self._until_s is not None:
            self._until_at = asyncio.get_running_loop().time() + self._until_s
        body = self._report(self._session.token)
        if body is not None:
            await self._session.order("holder.set", body, self._id)
            self._session.standing.say(self._key, "holder.set", self._report)

    async def clear(self) -> None:
        """It does not any more."""
        await self._session.order("holder.clear", self._cleared(), self._id)
        self._session.standing.unsay(self._key)

    async def __aenter__(self) -> Self:
        try:
            await self.set()
        except BaseException:
            self._let_go()  # it may have arrived
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """Without waiting: nothing may stop it, and what comes after it is sent after it."""
        self._session.standing.unsay(self._key)
        if self._session.ended is None:
            self._session.post("holder.clear", self._cleared())

    def _report(self, session: str) -> bodies.Body | None:
        left = None
        if self._until_at is not None:
            left = self._until_at - asyncio.get_running_loop().time()
        if (left is not None and left <= 0) or (self._holder is None and self._strand.is_over):
            return None
        strand = self._strand
        return resources.HolderSet(
            session,
            self._kind,
            self._id,
            holder=self._holder,
            units=self._units,
            capacity=self._capacity,
            until_s=left,
            execution=strand.execution.id,
            strand=strand.id or None,
            detached=strand.detached,
        )

    def _cleared(self) -> bodies.Body:
        strand = self._strand
        return resources.HolderClear(
            self._session.token,
            self._kind,
            self._id,
            holder=self._holder,
            execution=strand.execution.id,
            strand=strand.id or None,
        )
