"""Which task is which strand of which execution, and what the execution's own task stands waiting for."""

import asyncio
import secrets
from asyncio import tasks as asyncio_tasks
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from unknot.errors import UnknotError
from unknot_schemas import bodies

AnyTask = asyncio.Task[Any]

T = TypeVar("T")

_TOKEN: Final = secrets.token_urlsafe(6)
_numbers = iter(range(1, 2**63))


def _new_strand_id() -> str:
    return f"{_TOKEN}{next(_numbers):x}"


class Strand:
    """One task inside an execution: its own ("" ), a joined child or a detached one."""

    __slots__ = ("claims", "detached", "execution", "expecting", "expects", "id", "open", "task")

    def __init__(
        self, execution: "Execution", id: str = "", *, detached: bool = False, task: AnyTask | None = None
    ) -> None:
        self.execution = execution
        self.id = id
        self.detached = detached
        self.task = task
        self.open = 0
        """How many blocking requests and waits of it are open."""
        self.claims = 0
        """How many of these are waits of the agent's own code: it may have got what it awaits, and not run yet."""
        self.expecting = 0
        """How many of these are waits for an event."""
        self.expects = False
        """Whether it has waited for an event: it may do so again, and is one more reader then."""

    @property
    def in_handler(self) -> bool:
        """Whether the execution itself stands still while this strand waits, and holds a slot meanwhile."""
        return not self.detached and not self.execution.is_main

    @property
    def is_ready(self) -> bool:
        """Whether what its task awaits is there already, so that it only has to be run."""
        return is_ready(self.task)

    @property
    def is_over(self) -> bool:
        """Whether its execution has ended, and its own task, too. Main's never is."""
        has_ended = self.execution.own is _GONE
        return has_ended and (not self.id or self.task is None or self.task.done())


class Execution:
    """The handling of one event, or a session's main."""

    __slots__ = (
        "handler",
        "id",
        "is_main",
        "own",
        "reader",
        "run",
        "serial",
        "strands",
        "traceparent",
        "tracestate",
    )

    def __init__(
        self, id: str, event: bodies.Delivered | None = None, *, handler: str = "", serial: bool = False
    ) -> None:
        self.id = id
        self.handler = handler
        self.serial = serial
        """Whether it holds the only slot of its pool."""
        self.is_main = event is None
        self.run = event.run if event else None
        self.traceparent = event.traceparent if event else None
        self.tracestate = event.tracestate if event else None
        self.own = Strand(self)
        self.reader: AnyTask | None = None
        """Of main: the task that reads the loop of events."""
        self.strands: dict[AnyTask, Strand] = {}
        """Live strands besides the own task."""

    def add(self, task: AnyTask, *, detached: bool) -> Strand:
        """A new strand for *task*; forgotten when the task is done."""
        strand = Strand(self, _new_strand_id(), detached=detached, task=task)
        self.strands[task] = strand
        task.add_done_callback(self._forget)
        return strand

    def of_task(self, task: AnyTask) -> Strand | None:
        """The strand that *task* is; None when it has sent nothing so far."""
        if self.own.task is task:
            return self.own
        return self.strands.get(task)

    def end(self) -> None:
        """Its own task has returned. Lets go of it, so that nothing is left to the garbage collector."""
        self.own.task = None
        self.own = _GONE

    def _forget(self, task: AnyTask) -> None:
        strand = self.strands.pop(task, None)
        if strand is not None:
            strand.task = None


_GONE: Final = Strand(Execution.__new__(Execution))
"""The own task of every execution that has ended: it keeps nobody waiting."""

_current: ContextVar[Strand | None] = ContextVar("unknot_strand", default=None)


def enter(strand: Strand) -> None:
    """From here on the running task is *strand*."""
    strand.task = asyncio.current_task()
    _current.set(strand)


async def acting_for(strand: Strand, call: Coroutine[Any, Any, T]) -> T:
    """Run *call* as *strand*, whose own task meanwhile waits for a thread, or is one."""
    before = strand.task
    enter(strand)
    try:
        return await call
    finally:
        strand.task = before


def current(execution: Execution) -> Strand:
    """The strand of *execution* that the running task is; a task seen for the first time is a detached one."""
    task = asyncio.current_task()
    if task is None:
        raise UnknotError("unknot is used from tasks of an event loop; unknot.sync is for code without one")
    strand = _current.get()
    inside = strand is not None and strand.execution is execution
    if strand is not None and inside and strand.task is task:
        return strand
    known = execution.of_task(task)
    if known is not None:
        return known
    if not inside and execution.is_main and (execution.own.task is None or execution.own.task.done()):
        execution.own.task = task  # who opened the connection is gone (a fixture): main is who uses it now
        return execution.own
    child = execution.add(task, detached=True)
    if strand is None or inside:
        _current.set(child)
    return child


def _has_failed(child: "asyncio.Future[Any]") -> bool:
    return child.done() and (child.cancelled() or child.exception() is not None)


def _awaited_by(task: AnyTask | None) -> list[AnyTask] | None:
    """Child tasks that *task* cannot go on without; None when it runs, is ready, or cannot be read."""
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done():
        return None
    if isinstance(waiter, asyncio.Task):
        return [waiter]
    if isinstance(waiter, asyncio_tasks._GatheringFuture):  # type: ignore[attr-defined]
        children = waiter._children
        if any(map(_has_failed, children)):
            return None  # it is about to be told
        left = [child for child in children if not child.done()]
        if left and all(isinstance(child, asyncio.Task) for child in left):
            return left
    return None


def is_ready(task: AnyTask | None) -> bool:
    """Whether *task*, or a child task that it stands waiting for, has only to be run; False when there is none."""
    todo: list[Any] = [task]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        waiter = getattr(each, "_fut_waiter", None)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if waiter is None or waiter.done():
            return not each.done()
        if isinstance(waiter, asyncio.Task):
            todo.append(waiter)
        elif isinstance(waiter, asyncio_tasks._GatheringFuture):  # type: ignore[attr-defined]
            todo += [child for child in waiter._children if isinstance(child, asyncio.Task)]
    return False


def _others_serve(execution: Execution) -> bool:
    """Whether a task besides the own one takes events in, now or when what it asked for itself has come."""
    reader = execution.reader
    if reader is not None and reader is not execution.own.task and not reader.done():
        return True
    readers = (strand for strand in execution.strands.values() if strand.detached and strand.expects)
    return any(not strand.open or strand.open > strand.expecting for strand in readers)


def facts(execution: Execution) -> bodies.Strands:
    """What of *execution* can go on now, and which child tasks it stands waiting for (read from the event loop)."""
    alive: dict[str, None] = {}
    awaited: dict[str, None] = {}
    standing = [execution.own, *(strand for strand in execution.strands.values() if not strand.detached)]
    for strand in standing:
        if not strand.open:
            _look(execution, strand, alive, awaited)
        elif strand.claims and strand.is_ready:
            alive[strand.id] = None
    if _others_serve(execution):
        alive[""] = None
    return bodies.Strands(list(alive), list(awaited))


def _look(execution: Execution, strand: Strand, alive: dict[str, None], awaited: dict[str, None]) -> None:
    todo: list[tuple[str, AnyTask | None]] = [(strand.id, strand.task)]
    seen: set[int] = set()
    while todo:
        name, task = todo.pop()
        children = _awaited_by(task)
        if children is None or id(task) in seen:
            alive[name] = None
            continue
        seen.add(id(task))
        for child in children:
            known = execution.of_task(child)
            if known is None or not known.open:
                todo.append((known.id if known else strand.id, child))
            elif known.detached:
                awaited[known.id] = None
