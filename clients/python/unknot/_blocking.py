"""Waits of all kinds for code that blocks its thread: plain handlers, and unknot.sync."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Literal, TypeVar, overload

from unknot._asking import Answer, Request, Waitable
from unknot._blocking_on import BlocksOn
from unknot._context import Context
from unknot._event import Event
from unknot._holder import HoldsKind
from unknot._leases import Lease
from unknot._sends import Asked
from unknot._things import Acquire, Artifact, Decision
from unknot._visits import Enter, Visit

T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class BlockingLease:
    """A Lease, for the thread that holds it. Used as ``with`` it is given back at the end; so it is by ``release``."""

    def __init__(self, lease: Lease, run: Run) -> None:
        self._lease = lease
        self._run = run

    @property
    def ids(self) -> tuple[str, ...]:
        """What is held: locks and pools."""
        return self._lease.ids

    @property
    def token(self) -> int:
        """As Lease.token."""
        return self._lease.token

    @property
    def is_held(self) -> bool:
        """As Lease.is_held."""
        return bool(self._run(_read(self._lease)))

    def renew(self, lease: float | None = None) -> None:
        """As Lease.renew."""
        self._run(self._lease.renew(lease))

    def release(self) -> None:
        """As Lease.release."""
        self._run(_release(self._lease))

    def __enter__(self) -> "BlockingLease":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._run(self._lease.__aexit__(kind, error, trace))


class BlockingWaits:
    """The part of a ThreadContext and of a SyncConnection that is about waits of all kinds."""

    def _waiting(self) -> Context:
        raise NotImplementedError

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def _begin(self, call: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start *call* on the loop, for this thread."""
        raise NotImplementedError

    # ------------------------------------------------------------------ several at once

    def request(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> Request[Any]:
        """As Context.request."""
        return Request(target, type, data, into=into)

    def artifact(self, id: str, *, into: Any = Any) -> Artifact[Any]:
        """As Context.artifact."""
        return Artifact(id, into=into)

    def acquire(self, id: str, *, units: int | None = None, lease: float | None = None) -> Acquire:
        """As Context.acquire; what it gives is a BlockingLease."""
        return Acquire(id, units=units, lease=lease)

    def decision(self, by: str, data: Any = None) -> Decision:
        """As Context.decision."""
        return Decision(by, data)

    def wait_all(self, things: Sequence[Waitable[T]], *, timeout: float | None = None) -> list[T]:
        """As Context.wait_all."""
        return [self._given(data) for data in self._run(self._waiting().wait_all(things, timeout=timeout))]

    def wait_any(self, things: Sequence[Waitable[T]], *, timeout: float | None = None) -> Answer[T]:
        """As Context.wait_any."""
        answer = self._run(self._waiting().wait_any(things, timeout=timeout))
        return Answer(answer.index, self._given(answer.data))

    def wait_quorum(
        self, things: Sequence[Waitable[T]], need: int, *, timeout: float | None = None
    ) -> list[Answer[T]]:
        """As Context.wait_quorum."""
        answers = self._run(self._waiting().wait_quorum(things, need, timeout=timeout))
        return [Answer(answer.index, self._given(answer.data)) for answer in answers]

    def _given(self, data: Any) -> Any:
        return BlockingLease(data, self._run) if isinstance(data, Lease) else data

    def expect(
        self, what: str | Asked[Any], *, source: str | None = None, timeout: float | None = None
    ) -> Any:
        """As Context.expect."""
        if isinstance(what, Asked):
            return self._run(self._waiting().expect(what, timeout=timeout))
        return self._run(self._waiting().expect(what, source=source, timeout=timeout))

    # ------------------------------------------------------------------ things

    @contextmanager
    def lock(
        self,
        *things: str | Acquire,
        lease: float | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> Iterator[BlockingLease]:
        """As Context.lock, with ``with``."""

        def enter() -> AbstractAsyncContextManager[Lease]:
            return self._waiting().lock(*things, lease=lease, timeout=timeout, reason=reason)

        with self._inside(enter) as granted:
            yield BlockingLease(granted, self._run)

    def permits(
        self,
        id: str,
        units: int = 1,
        *,
        lease: float | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> AbstractContextManager[BlockingLease]:
        """As Context.permits, with ``with``."""
        return self.lock(Acquire(id, units=units, lease=lease), timeout=timeout, reason=reason)

    def declare_permits(self, id: str, capacity: int) -> None:
        """As Context.declare_permits."""
        self._run(self._waiting().declare_permits(id, capacity))

    def is_current(self, id: str, token: int) -> bool:
        """As Context.is_current."""
        return self._run(self._waiting().is_current(id, token))

    @overload
    def wait_for_artifact(self, id: str, *, timeout: float | None = None) -> Any: ...
    @overload
    def wait_for_artifact(self, id: str, *, into: type[T], timeout: float | None = None) -> T: ...
    def wait_for_artifact(self, id: str, *, into: Any = Any, timeout: float | None = None) -> Any:
        """As Context.wait_for_artifact."""
        return self._run(self._waiting().wait_for_artifact(id, into=into, timeout=timeout))

    def declare_artifact(self, id: str) -> None:
        """As Context.declare_artifact."""
        self._run(self._waiting().declare_artifact(id))

    def publish_artifact(self, id: str, data: Any = None, *, under: BlockingLease | None = None) -> bool:
        """As Context.publish_artifact."""
        lease = under._lease if under is not None else None
        return self._run(self._waiting().publish_artifact(id, data, under=lease))

    def withdraw_artifact(self, id: str) -> None:
        """As Context.withdraw_artifact."""
        self._run(self._waiting().withdraw_artifact(id))

    def forget_artifact(self, id: str) -> None:
        """As Context.forget_artifact."""
        self._run(self._waiting().forget_artifact(id))

    def approval(
        self, by: str, data: Any = None, *, timeout: float | None = None, reason: str | None = None
    ) -> Literal[True]:
        """As Context.approval."""
        return self._run(self._waiting().approval(by, data, timeout=timeout, reason=reason))

    def resolve_approval(self, asked: Event | str, approved: bool, *, reason: str | None = None) -> None:
        """As Context.resolve_approval."""
        self._run(self._waiting().resolve_approval(asked, approved, reason=reason))

    # ------------------------------------------------------------------ what only this code knows of

    @contextmanager
    def blocking_on(
        self,
        kind: BlocksOn,
        id: str = "",
        *,
        units: int = 1,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> Iterator[None]:
        """As Context.blocking_on, with ``with``. What fails meanwhile raises at the end: no thread can be stopped."""

        def enter() -> AbstractAsyncContextManager[Any]:
            return self._waiting().blocking_on(kind, id, units=units, timeout=timeout, reason=reason)

        with self._inside(enter):
            yield

    def tool(
        self, name: str, *, timeout: float | None = None, reason: str | None = None
    ) -> AbstractContextManager[None]:
        """As Context.tool, with ``with``."""
        return self.blocking_on("tool", name, timeout=timeout, reason=reason)

    @contextmanager
    def holder(
        self,
        kind: HoldsKind,
        id: str,
        *,
        agent: str | None = None,
        execution: str | None = None,
        units: int = 1,
        capacity: int | None = None,
    ) -> Iterator[None]:
        """As Context.holder, with ``with``."""

        def enter() -> AbstractAsyncContextManager[Any]:
            return self._waiting().holder(
                kind, id, agent=agent, execution=execution, units=units, capacity=capacity
            )

        with self._inside(enter):
            yield

    @contextmanager
    def _inside(self, enter: Enter) -> Iterator[Any]:
        """Inside a block of the event loop, in one task from its beginning to its end, while this thread goes on."""
        visit = Visit(enter)
        staying = self._begin(visit.stay())
        try:
            visit.arrived.wait()
        except BaseException:  # Ctrl-C in the waiting thread withdraws what it waits for
            staying.cancel()
            raise
        if not visit.is_inside:
            staying.result()  # raises why
        try:
            yield visit.given
        except BaseException:
            visit.leave(failed=True)
            staying.exception()  # what the thread raised is what counts
            raise
        visit.leave(failed=False)
        staying.result()


async def _read(lease: Lease) -> bool:
    return lease.is_held


async def _release(lease: Lease) -> None:
    lease.release()
