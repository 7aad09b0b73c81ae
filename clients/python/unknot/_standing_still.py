"""What an execution may stand still for, and what it says about things that others stand still for."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from unknot._asking import Answer, Request, Waitable
from unknot._blocking_on import BlockingOn, BlocksOn
from unknot._event import Event
from unknot._holder import Holder, HoldsKind
from unknot._leases import Lease
from unknot._sends import Asked
from unknot._strands import Strand
from unknot._things import Acquire, Artifact, Decision, thing
from unknot_schemas import bodies, resources
from unknot_schemas.bodies import CancelMode
from unknot_schemas.limits import TIMEOUT_MAX_S

if TYPE_CHECKING:
    from unknot._context import Links

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Gives(Protocol[T_co]):
    """A queue: an ``asyncio.Queue``, or whatever has its ``get``."""

    def get(self) -> Awaitable[T_co]:
        """The next item."""
        ...


class Receives(Protocol[T_co]):
    """A stream: of anyio, or whatever has its ``receive``."""

    def receive(self) -> Awaitable[T_co]:
        """The next item."""
        ...


class StandingStill:
    """The part of a Context that is about waits of all kinds.

    Whoever waits is known from the code that waits: the execution, and the task in it. Each wait is reported until it
    is over, however it ends. Failures raise: WaitFailed.
    """

    _links: "Links"

    def _strand(self) -> Strand:
        raise NotImplementedError

    # ------------------------------------------------------------------ several at once

    async def wait_all(self, things: Sequence[Waitable[T]], *, timeout: float | None = None) -> list[T]:
        """Wait for all as one wait and give all answers in order; the first failure withdraws the others and raises.

        Of any kind: ``request``, ``artifact``, ``acquire``, ``decision``, and an Asked. Locks and permits among them
        are granted together, as one Lease, when everything else is there.
        """
        if not things:
            return []
        return [answer.data for answer in await self._wait(things, len(things), timeout)]

    async def wait_any(self, things: Sequence[Waitable[T]], *, timeout: float | None = None) -> Answer[T]:
        """Wait for all as one wait and give the first to come; the others are withdrawn. Raises when none can come."""
        return (await self._wait(things, 1, timeout))[0]

    async def wait_quorum(
        self, things: Sequence[Waitable[T]], need: int, *, timeout: float | None = None
    ) -> list[Answer[T]]:
        """Wait for all as one wait and give *need* of them, by index; raises when so many can no longer come."""
        return await self._wait(things, need, timeout)

    async def _wait(self, things: Sequence[Waitable[T]], need: int, timeout: float | None) -> list[Answer[T]]:
        requests = [each for each in things if isinstance(each, Request)]
        if len(requests) == len(things):
            return await self._links.requests.send_group(self._strand(), requests, need, timeout)
        return await self._links.mixed.wait(self._strand(), things, need, timeout)

    @overload
    def artifact(self, id: str) -> Artifact[Any]: ...
    @overload
    def artifact(self, id: str, *, into: type[T]) -> Artifact[T]: ...
    def artifact(self, id: str, *, into: Any = Any) -> Artifact[Any]:
        """Describe an artifact for ``wait_all`` and its like; its data is read into *into*."""
        return Artifact(id, into=into)

    def acquire(self, id: str, *, units: int | None = None, lease: float | None = None) -> Acquire:
        """Describe a lock, or with *units* so many permits, for ``wait_all`` and its like, or ``lock``.

        What it gives is a Lease (*lease* seconds; 30): ``async with`` it, or release it.
        """
        return Acquire(id, units=units, lease=lease)

    def decision(self, by: str, data: Any = None) -> Decision:
        """Describe a decision of *by* (an agent, or ``human:<name>``), who is shown *data*, for ``wait_all`` etc."""
        return Decision(by, data)

    # ------------------------------------------------------------------ events and answers

    @overload
    async def expect(
        self, what: str, *, source: str | None = None, timeout: float | None = None
    ) -> Event: ...
    @overload
    async def expect(self, what: Asked[T], *, timeout: float | None = None) -> T: ...
    async def expect(
        self, what: str | Asked[Any], *, source: str | None = None, timeout: float | None = None
    ) -> Any:
        """Wait for an event of type (or pattern) *what*, or for the answer to an ask. It takes no slot."""
        if isinstance(what, Asked):
            return await self._links.waits.answer(self._strand(), what, timeout)
        return await self._links.waits.event(self._strand(), what, source, timeout)

    # ------------------------------------------------------------------ locks and permits

    @asynccontextmanager
    async def lock(
        self,
        *things: str | Acquire,
        lease: float | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> AsyncIterator[Lease]:
        """``async with``: hold these locks, all or none; with ``acquire(…, units=n)`` among them permits, too.

        *lease*: seconds (30) that they stay with a holder of whom nothing is heard; it is renewed by itself. *timeout*:
        how long to wait for them (60). A lease that was lost inside raises LeaseLost at the end of the block; the block
        is not cancelled: see Lease.
        """
        named = [each if isinstance(each, Acquire) else Acquire(each) for each in things]
        wanted = [Acquire(each.id, units=each.units, lease=each.lease or lease) for each in named]
        answers = await self._links.mixed.wait(self._strand(), wanted, len(wanted), timeout, reason)
        granted: Lease = answers[0].data
        async with granted:
            yield granted

    def permits(
        self,
        id: str,
        units: int = 1,
        *,
        lease: float | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> AbstractAsyncContextManager[Lease]:
        """``async with``: hold *units* permits of the pool *id*; else as ``lock``.

        Refused at once for a pool that nobody has declared (``unknown_pool``), or more than it has (``over_capacity``).
        """
        return self.lock(Acquire(id, units=units, lease=lease), timeout=timeout, reason=reason)

    async def declare_permits(self, id: str, capacity: int) -> None:
        """There are *capacity* permits in the pool *id* from now on; what is held beyond that is owed first."""
        await self._links.declaring.permits(id, capacity)

    async def is_current(self, id: str, token: int) -> bool:
        """Whether *token* is the one under which lock or pool *id* is held now: for whoever takes writes under it."""
        return await self._links.declaring.is_current(id, token)

    # ------------------------------------------------------------------ artifacts

    @overload
    async def wait_for_artifact(self, id: str, *, timeout: float | None = None) -> Any: ...
    @overload
    async def wait_for_artifact(self, id: str, *, into: type[T], timeout: float | None = None) -> T: ...
    async def wait_for_artifact(self, id: str, *, into: Any = Any, timeout: float | None = None) -> Any:
        """Wait until the artifact has been published, and give its data, read into *into*; at once if it has been.

        The wait rests on whoever has declared to produce it; on nobody while nobody has.
        """
        return (await self._links.mixed.wait(self._strand(), [Artifact(id, into=into)], 1, timeout))[0].data

    async def declare_artifact(self, id: str) -> None:
        """This execution may produce the artifact: until it is published or withdrawn, or the execution ends."""
        await self._links.declaring.artifact(self._strand(), id)

    async def publish_artifact(self, id: str, data: Any = None, *, under: Lease | None = None) -> bool:
        """The artifact is there, for good; False when it was there before (the first stays).

        *under*: only if this lease holds still, else LeaseLost.
        """
        return await self._links.declaring.publish(id, data, under)

    async def withdraw_artifact(self, id: str) -> None:
        """This execution will not produce the artifact."""
        await self._links.declaring.withdraw(self._strand(), id)

    async def forget_artifact(self, id: str) -> None:
        """The artifact may be produced anew."""
        await self._links.declaring.forget(id)

    # ------------------------------------------------------------------ approvals

    async def approval(
        self, by: str, data: Any = None, *, timeout: float | None = None, reason: str | None = None
    ) -> Literal[True]:
        """Wait until *by* (an agent, or ``human:<name>``), who is shown *data* and *reason*, has said yes. True.

        A no raises Denied: who forgets to look at the answer goes no further. *timeout*: an hour, unless given. A human
        is outside of the graph; an agent is not, and decides in its ``on_approval``.
        """
        seconds = TIMEOUT_MAX_S if timeout is None else timeout
        await self._links.mixed.wait(self._strand(), [Decision(by, data)], 1, seconds, reason)
        return True

    async def resolve_approval(
        self, asked: Event | str, approved: bool, *, reason: str | None = None
    ) -> None:
        """Decide what this agent was asked to approve: the event (or its id) that ``on_approval`` was given.

        Refused when nobody waits for it any more, or another is to decide.
        """
        id = asked.id if isinstance(asked, Event) else asked
        await self._links.declaring.resolve(id, approved=approved, reason=reason)

    # ------------------------------------------------------------------ what only this code knows of

    def blocking_on(
        self,
        kind: BlocksOn,
        id: str = "",
        *,
        units: int = 1,
        timeout: float | None = None,
        reason: str | None = None,
        cancel_mode: CancelMode = "interruptible",
    ) -> BlockingOn:
        """``async with``: while inside, this execution counts as waiting for that.

        An agent, or a lock, permits, an artifact or a task outside, as far as ``holder`` says whose they are; a tool
        or a human always may answer. With *timeout* the body is cancelled when it is over, and WaitExpired raises; a
        deadlock does so always.
        """
        condition = bodies.WaitCondition(kind, id, units=units)
        return self._links.waits.outside(self._strand(), condition, timeout, reason, cancel_mode)

    def tool(self, name: str, *, timeout: float | None = None, reason: str | None = None) -> BlockingOn:
        """``async with``: while inside, this execution counts as waiting for a tool, which always may answer."""
        return self.blocking_on("tool", name, timeout=timeout, reason=reason)

    @overload
    async def receive(
        self,
        source: Gives[T],
        name: str = "",
        *,
        producer: str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> T: ...
    @overload
    async def receive(
        self,
        source: Receives[T],
        name: str = "",
        *,
        producer: str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> T: ...
    @overload
    async def receive(
        self,
        source: Callable[[], Awaitable[T]] | Awaitable[T],
        name: str = "",
        *,
        producer: str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> T: ...
    async def receive(
        self,
        source: Any,
        name: str = "",
        *,
        producer: str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> Any:
        """The next item of *source*: an asyncio.Queue, a stream, a function that gives an awaitable, or an awaitable.

        While there is none, this execution counts as waiting: for the agent *producer* when it alone can fill it, else
        for a tool called *name*. No item is lost, however the wait ends.
        """
        condition = (
            bodies.WaitCondition("agent", producer)
            if producer is not None
            else bodies.WaitCondition("tool", name or type(source).__name__)
        )
        return await self._links.waits.receive(self._strand(), source, condition, timeout, reason)

    def holder(
        self,
        kind: HoldsKind,
        id: str,
        *,
        agent: str | None = None,
        execution: str | None = None,
        units: int = 1,
        capacity: int | None = None,
        until: float | None = None,
    ) -> Holder:
        """``async with``: while inside, this execution (or *agent*'s) has that lock, permits, artifact or task outside.

        What ``blocking_on`` of others rests on. *capacity*: how many units there are in all. *until*: seconds after
        which it is forgotten by itself. Without ``async with``: ``await holder.set()``, ``await holder.clear()``.
        """
        named = resources.Holder(agent, execution) if agent is not None else None
        return Holder(self._links.session, self._strand(), kind, thing(id), named, units, capacity, until)
