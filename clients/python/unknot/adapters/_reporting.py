"""Reports that never stand in the way: what cannot be reported is counted, and the work goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from unknot._blocking_on import BlockingOn, BlocksOn
from unknot._context import Context
from unknot._holder import Holder, HoldsKind
from unknot._pending import Wait
from unknot._session import Session
from unknot.errors import UnknotError
from unknot_schemas import bodies


class Reported(BlockingOn):
    """As ``blocking_on``, but only a deadlock ends it."""

    def __init__(self, session: Session, waiting: BlockingOn) -> None:
        super().__init__(waiting._begin, waiting._give_up, expires=False)
        self._session = session
        self._is_for_item = True  # what has come is not thrown away for what is said of the wait

    async def __aenter__(self) -> "Reported":
        try:
            await super().__aenter__()
        except UnknotError:
            self._session.counters["reports_lost"] += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wait is not None:
            await super().__aexit__(kind, error, trace)

    def _ended(self, outcome: bodies.Outcome) -> None:
        if outcome.outcome == "deadlock":
            super()._ended(outcome)
        else:
            self._session.counters["reports_lost"] += 1


def reported(context: Context, kind: BlocksOn, id: str, reason: str | None) -> Reported:
    """``async with``: the running task stands still for that."""
    return Reported(context._links.session, context.blocking_on(kind, id, reason=reason))


@contextmanager
def doing(context: Context, kind: HoldsKind, id: str) -> Iterator[None]:
    """Inside, the running task has that, or does it."""
    holder = context.holder(kind, id)
    has(context, holder)
    try:
        yield
    finally:
        holder._let_go()


def has(context: Context, holder: Holder) -> None:
    """Say *holder*, without waiting for anybody to hear it; what comes after it is sent after it."""
    session = context._links.session
    body = holder._report(session.token)
    if body is not None and session.ended is None:
        session.post("holder.set", body)
        session.standing.say(holder._key, "holder.set", holder._report)


class Parked:
    """Work in which no task stands, until somebody outside lets it go on; its wait is seen all the same."""

    def __init__(
        self, context: Context, kind: BlocksOn, id: str, reason: str | None, task: str | None
    ) -> None:
        self._context, self._session = context, context._links.session
        self._begin = context.blocking_on(kind, id, reason=reason)._begin
        self._task = context.holder("task", task) if task is not None else None
        context._execution.own.task = None
        self._wait: Wait | None = self._begun()
        if self._task is not None:
            has(context, self._task)

    def end(self) -> None:
        """It goes on, elsewhere."""
        wait, self._wait = self._wait, None
        if wait is not None:
            self._session.give_up(wait)
        if self._task is not None:
            self._task._let_go()
        execution = self._context._execution
        self._session.beside.pop(execution.id, None)
        execution.end()

    def _begun(self) -> Wait | None:
        try:
            return self._begin(self._ended)
        except UnknotError:
            self._session.counters["reports_lost"] += 1
            return None

    def _ended(self, outcome: bodies.Outcome) -> None:
        if self._wait is not None:  # people take longer than any wait may
            self._wait = self._begun() if outcome.outcome == "expired" else None
