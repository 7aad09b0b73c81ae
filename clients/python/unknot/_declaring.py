"""What is said about things that others wait for: pools, artifacts, decisions."""

from collections.abc import Callable
from typing import Any

import msgspec

from unknot._asking import payload
from unknot._leases import Lease
from unknot._session import Session
from unknot._strands import Strand
from unknot._things import thing
from unknot.errors import LeaseLost
from unknot_schemas import bodies, resources
from unknot_schemas import errors as codes


class Declaring:
    """For the executions of one session. Each returns when the gateway has it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def permits(self, id: str, capacity: int) -> None:
        """So many permits are there from now on."""

        def make(session: str) -> bodies.Body:
            return resources.PoolDeclare(thing(id), capacity, session)

        await self._say(("pool", id), "pool.declare", make)

    async def artifact(self, strand: Strand, id: str) -> None:
        """*strand* may produce it."""

        def make(session: str) -> bodies.Body | None:
            if strand.is_over:
                return None
            return resources.ArtifactDeclare(
                thing(id),
                session,
                execution=strand.execution.id,
                strand=strand.id or None,
                detached=strand.detached,
            )

        await self._say(_production(strand, id), "artifact.declare", make)

    async def publish(self, id: str, data: Any, under: Lease | None) -> bool:
        """It is there; whether this was the first to say so."""
        raw = payload(data)
        body = resources.ArtifactPublish(thing(id), self._session.token, raw, _token(under))
        try:
            receipt = await self._session.order("artifact.publish", body, f"artifact {id}")
        except LeaseLost:
            if under is not None:
                under._table.lapsed(under._hold.wait_id, under.token)
            raise
        if not receipt.duplicate:
            known = resources.ArtifactPublish(id, "", raw)
            self._session.standing.say(
                ("published", id),
                "artifact.publish",
                lambda session: msgspec.structs.replace(known, session=session),
                len(memoryview(raw)),
            )
        return not receipt.duplicate

    async def withdraw(self, strand: Strand, id: str) -> None:
        """*strand* will not produce it."""
        self._session.standing.unsay(_production(strand, id))
        body = resources.ArtifactWithdraw(
            thing(id), self._session.token, execution=strand.execution.id, strand=strand.id or None
        )
        await self._session.order("artifact.withdraw", body, f"artifact {id}")

    async def forget(self, id: str) -> None:
        """It may be produced anew."""
        self._session.standing.unsay(("published", id))
        await self._session.order(
            "artifact.forget", resources.ArtifactForget(thing(id), self._session.token), f"artifact {id}"
        )

    async def resolve(self, id: str, *, approved: bool, reason: str | None) -> None:
        """The decision on an approval that was asked of this agent."""
        body = resources.ApprovalResolve(
            id, "approved" if approved else "denied", reason, self._session.token
        )
        await self._session.order("approval.resolve", body, f"the decision on {id}")

    async def is_current(self, id: str, token: int) -> bool:
        """Whether *token* is the one of a live hold of lock or pool *id*."""
        body = resources.LockCheck(thing(id), token, self._session.token)
        try:
            await self._session.order("lock.check", body, f"token {token}")
        except LeaseLost:
            return False
        return True

    async def _say(self, key: tuple[str, ...], verb: str, make: Callable[[str], bodies.Body | None]) -> None:
        body = make(self._session.token)
        if body is not None:
            await self._session.order(verb, body, " ".join(key[:2]))
            self._session.standing.say(key, verb, make)


def _production(strand: Strand, id: str) -> tuple[str, ...]:
    return ("artifact", id, strand.execution.id, strand.id)


def _token(under: Lease | None) -> resources.FencingToken | None:
    if under is None:
        return None
    if not under.is_held:
        raise LeaseLost(
            f"{under!r} is held no more: nothing was published", code=codes.STALE_TOKEN, handled="no"
        )
    return resources.FencingToken(under.ids[0], under.token)
