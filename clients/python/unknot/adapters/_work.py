"""One piece of work that a framework does for an agent: an execution of that agent, and the tasks in it.

The task that calls the framework is the execution's own. Those in which the framework runs nodes and tools, while that
call stands still for them, are joined strands (``branch``). Whatever else runs in it is a detached strand: what it
waits for counts only where it is seen that the own task awaits it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar

from unknot import _strands
from unknot._blocking_on import BlocksOn
from unknot._connection import Connection
from unknot._context import Context
from unknot._session import Session
from unknot._strands import Execution, Strand
from unknot.adapters._reporting import Parked, Reported, doing, reported
from unknot.errors import UnknotError
from unknot_schemas.ids import MAIN

_current: ContextVar["Work | None"] = ContextVar("unknot_work", default=None)


class Work:
    """A piece of work that is being done."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def execution(self) -> Execution:
        """The execution that does it."""
        return self.context._execution

    def standing(self, kind: BlocksOn, id: str, reason: str | None = None) -> Reported:
        """``async with``: the running task of it stands still for that."""
        return reported(self.context, kind, id, reason)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """The running task is one that the own task stands still for, until the end of the block."""
        own, task = self.execution.own, asyncio.current_task()
        assert task is not None
        if self.execution.of_task(task) is not None:
            yield  # the own one, or known for what it is
            return
        with _as(self.execution.add(task, detached=False)):
            own.open += 1
            own.claims += 1  # but when its task can be run, it does not stand
            try:
                yield
            finally:
                own.open -= 1
                own.claims -= 1


def current() -> Work | None:
    """The work that the running task belongs to."""
    return _current.get()


def context() -> Context | None:
    """What the running task's work may report: ``blocking_on``, ``holder``; None outside of any ``working``."""
    work = _current.get()
    return work.context if work is not None else None


@asynccontextmanager
async def working(me: Connection, task: str | None = None, *, called: bool = True) -> AsyncIterator[Context]:
    """``async with``: what this task does inside is work of the agent *me*, and it does nothing else meanwhile.

    It is the agent's main: one piece of work at a time, what others wait for when they wait for the agent. With *task*
    it is an execution of its own, of which there may be many: what others wait for when they wait for that task. Inside
    other work it is a call: an execution of its own, for which that work stands still, unless *called* is False.
    """
    caller = _current.get() if called else None
    if caller is not None and task is None:
        task = me._links.session.new_id()
    async with AsyncExitStack() as stack:
        if caller is not None and task is not None:
            await stack.enter_async_context(caller.standing("task", task, f"calls {me.agent}"))
        work = stack.enter_context(_begun(me, task))
        if task is not None:
            stack.enter_context(doing(work.context, "task", task))
        yield work.context


def parked(me: Connection, kind: BlocksOn, id: str, reason: str, task: str | None) -> Parked:
    """Work that nobody does until it is ended, or goes on elsewhere; *task*: what others wait for by that name."""
    session = me._links.session
    execution = Execution(session.new_id())
    session.beside[execution.id] = execution
    context = Context(me._links, execution, None)
    with _as(execution.own):
        return Parked(context, kind, id, reason, task)


@contextmanager
def _begun(me: Connection, task: str | None) -> Iterator[Work]:
    session = me._links.session
    execution = session.main if task is None else Execution(session.new_id())
    if execution.id in session.beside:
        raise UnknotError(
            f"agent {me.agent} does one piece of work at a time: a connection for each that runs beside others, or"
            " working(me, task=…)"
        )
    session.beside[execution.id] = execution
    before = execution.own.task
    entered = _current.set(Work(Context(me._links, execution, None)))
    try:
        with _as(execution.own):
            work = _current.get()
            assert work is not None
            yield work
    finally:
        _current.reset(entered)
        _ended(session, execution, before)


def _ended(session: Session, execution: Execution, before: _strands.AnyTask | None) -> None:
    del session.beside[execution.id]
    if execution.id == MAIN:
        execution.own.task = before
    else:
        execution.end()


@contextmanager
def _as(strand: Strand) -> Iterator[None]:
    before = _strands._current.get()
    _strands.enter(strand)
    try:
        yield
    finally:
        _strands._current.set(before)
