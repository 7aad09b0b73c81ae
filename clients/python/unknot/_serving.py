"""Who handles what is delivered: an agent's handlers, or a script's own loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio.to_thread

from unknot import _handlers
from unknot._context import Context, Links, acting
from unknot._handlers import Handler
from unknot._running import Work
from unknot._strands import Execution, enter
from unknot._threads import ThreadContext
from unknot.errors import WaitFailed
from unknot_schemas import bodies
from unknot_schemas.ids import matches

logger = logging.getLogger("unknot")

THREADS_MAX: Final = 256
"""Worker threads for the handlers of a pool without limit."""
BROADCASTS_MAX: Final = 1_024
"""Channel and topic events that wait for their handler; what comes then is dropped and counted."""


class HandlerServer:
    """Runs an agent's handlers. One slot, one task: what is delivered starts at once."""

    def __init__(
        self,
        links: Links,
        handlers: Mapping[str, Handler],
        slots: Mapping[str, int | None],
        approver: Handler | None = None,
    ) -> None:
        self._links = links
        self._handlers = handlers
        self._approver = approver
        self._slots = slots
        threads = sum(THREADS_MAX if limit is None else limit for limit in slots.values())
        self._threads = anyio.CapacityLimiter(threads)
        self._broadcasts: deque[tuple[Handler, bodies.Delivered]] = deque()
        self._broadcasting = False
        self._decisions = 0
        """How many are being made now."""

    def execution(self, event: bodies.Delivered) -> Execution:
        """A new one."""
        handler = self._find(event.type)
        if handler is None:
            return Execution(event.id, event)
        return Execution(event.id, event, handler=handler.name, serial=self._slots[handler.pool] == 1)

    def take(self, work: Work) -> None:
        """Start the handler of *work*."""
        handler = self._find(work.event.type)
        if handler is None:
            self._links.answers.raised(work, LookupError(f"no handler for {work.event.type}"))
            return
        name = f"{self._links.session.agent}: {work.event.type} {work.event.id}"
        self._links.session.tasks.start(self._handle(handler, work), name)

    def broadcast(self, event: bodies.Delivered) -> None:
        """Handle a channel's or topic's event when those before it have been handled; beside the slots."""
        handler = self._find(event.type)
        session = self._links.session
        if handler is None:
            return
        if len(self._broadcasts) >= BROADCASTS_MAX:
            session.counters["slow_consumer"] += 1
            if session.counters["slow_consumer"] == 1:
                logger.warning("agent %s: slow_consumer: channel events are dropped", session.agent)
            return
        self._broadcasts.append((handler, event))
        if not self._broadcasting:
            self._broadcasting = True
            session.tasks.start(self._drain_broadcasts(), f"{session.agent}: channels")

    def decide(self, event: bodies.Delivered) -> None:
        """Call whoever decides, beside the slots; several decisions are made side by side."""
        session = self._links.session
        if self._approver is None:
            logger.warning(
                "agent %s: %s waits for its approval, and nothing here decides: @agent.on_approval",
                session.agent,
                event.source,
            )
        elif self._decisions >= BROADCASTS_MAX:
            session.counters["slow_consumer"] += 1
        else:
            self._decisions += 1
            session.tasks.start(self._decide(self._approver, event), f"{session.agent}: approval {event.id}")

    def _find(self, event_type: str) -> Handler | None:
        if event_type in self._handlers:
            return self._handlers[event_type]
        fitting = (handler for pattern, handler in self._handlers.items() if matches(pattern, event_type))
        return next(fitting, None)

    async def _handle(self, handler: Handler, work: Work) -> None:
        enter(work.execution.own)
        answers = self._links.answers
        try:
            result = await self._call(handler, work)
        except asyncio.CancelledError as why:
            if self._links.session.ended is None:
                answers.raised(work, why)
            raise
        except Exception as why:  # noqa: BLE001  user code: whatever it raises is the answer
            answers.raised(work, why)
            self._log(handler, work, why)
        else:
            if result is not None and work.is_deferred:
                logger.warning("%s: has deferred; what it returned is nobody's answer", handler.name)
            answers.returned(work, result)
        finally:
            work.execution.end()

    async def _call(self, handler: Handler, work: Work) -> Any:
        data = _handlers.read(handler, work.event)
        context = Context(self._links, work.execution, work)
        acting.set(context)
        if handler.is_async:
            called = handler.function(data, context) if handler.takes_context else handler.function(data)
            return await called
        if handler.takes_context:
            call = partial(ThreadContext(context).called, handler.function, data)
        else:
            call = partial(handler.function, data)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._threads)

    async def _drain_broadcasts(self) -> None:
        try:
            while self._broadcasts:
                handler, event = self._broadcasts.popleft()
                await self._beside(handler, event)
        finally:
            self._broadcasting = False

    async def _decide(self, approver: Handler, event: bodies.Delivered) -> None:
        try:
            decision = await self._beside(approver, event)
            if isinstance(decision, bool):
                await self._links.declaring.resolve(event.id, approved=decision, reason=None)
        except WaitFailed as why:  # decided elsewhere, or not waited for any more
            logger.info("agent %s: approval %s: %s", self._links.session.agent, event.id, why)
        finally:
            self._decisions -= 1

    async def _beside(self, handler: Handler, event: bodies.Delivered) -> Any:
        """Call *handler* in an execution that holds no slot; None when it fails."""
        session = self._links.session
        execution = Execution(event.id, event, handler=handler.name)
        session.beside[execution.id] = execution
        work = Work(event, execution, asyncio.get_running_loop().time())
        try:
            enter(execution.own)
            return await self._call(handler, work)
        except Exception as why:  # noqa: BLE001  user code: a one-way event has nobody to tell
            self._log(handler, work, why)
            return None
        finally:
            session.beside.pop(execution.id, None)
            execution.end()

    def _log(self, handler: Handler, work: Work, why: Exception) -> None:
        logger.warning(
            "agent %s: %s failed on %s %s: %r",
            self._links.session.agent,
            handler.name,
            work.event.type,
            work.event.id,
            why,
            exc_info=None if isinstance(why, WaitFailed) else why,
        )
