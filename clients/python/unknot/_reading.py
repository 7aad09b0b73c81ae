"""A script that reads its events in a loop of its own: one serial main."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from unknot._context import Links
from unknot._event import Event
from unknot._lifeline import Lifeline
from unknot._running import Work
from unknot._serving import BROADCASTS_MAX
from unknot._strands import Execution
from unknot_schemas import bodies
from unknot_schemas.ids import matches

BEATS_UNREAD: Final = 2
"""Heartbeats after the end of the loop before its pool is withdrawn; a next loop may begin meanwhile."""


class MainReader:
    """A script's own loop: what is delivered waits until the loop reads it."""

    def __init__(self, links: Links) -> None:
        self._links = links
        links.waits.take_unread = self.take_unread
        self._unread: deque[Work] = deque()
        self._arrived = asyncio.Event()
        self.work: Work | None = None
        """What the loop has read last."""
        self._loops = 0
        self._beats_unread = 0
        self._lifeline: Lifeline | None = None

    def attend(self, lifeline: Lifeline) -> None:
        """The session's pool depends on this loop: see ``_beat``."""
        self._lifeline = lifeline
        lifeline.on_beat = self._beat

    def execution(self, event: bodies.Delivered) -> Execution:
        """Main itself handles what it reads."""
        del event
        return self._links.session.main

    def take(self, work: Work) -> None:
        """*work* waits to be read, unless it passed an expect of its event on the way: then it is that one's."""
        if self._links.session.satisfy(work.event) is None:
            self._put(work)
        else:
            self._links.answers.read_on(work)

    def take_unread(self, pattern: str, source: str | None) -> bodies.Delivered | None:
        """Read the first event of this type (and source) that the loop has not read yet; None when there is none.

        Not those of channels and topics: they hold no slot, and whoever expected them when they came had them.
        """
        for work in self._unread:
            event = work.event
            fits = matches(pattern, event.type) and source in (None, event.source)
            if fits and not work.returned and not work.abandoned.is_set():
                self._unread.remove(work)
                self._links.answers.read_on(work)
                return event
        return None

    def broadcast(self, event: bodies.Delivered) -> None:
        """A channel's or topic's event waits to be read, too."""
        if len(self._unread) >= BROADCASTS_MAX:
            self._links.session.counters["slow_consumer"] += 1
            return
        work = Work(event, self._links.session.main, asyncio.get_running_loop().time())
        work.returned = True  # it holds no slot: nothing is to be said when it has been read
        self._put(work)

    def decide(self, event: bodies.Delivered) -> None:
        """The loop reads it like any other event, and decides by ``resolve_approval``."""
        self.broadcast(event)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Each event when the loop reads on."""
        assert self._lifeline is not None
        self._loops += 1
        main = self._links.session.main
        main.reader = asyncio.current_task()
        try:
            if not self._lifeline.pools:
                await self._lifeline.renew([bodies.Pool(1, main=True)], "main reads events again")
            while True:
                self.work = work = await self._next()
                try:
                    yield Event(work.event)
                finally:
                    if self._links.session.ended is None:
                        self._links.answers.read_on(work)
        finally:
            main.reader = None
            self._loops -= 1
            self._beats_unread = 0

    def _beat(self) -> None:
        """A loop that has ended is not waited for: after two intervals its pool is withdrawn, when nothing is owed."""
        session, lifeline = self._links.session, self._lifeline
        assert lifeline is not None
        if self._loops or self.work is None or not lifeline.pools:
            return
        self._beats_unread += 1
        owed = len(session.running.held) - sum(not work.returned for work in self._unread)
        if self._beats_unread >= BEATS_UNREAD and not owed and not len(session.pending):
            self._unread.clear()
            session.tasks.start(lifeline.renew([], "main has stopped reading events"), "withdraw")

    def _put(self, work: Work) -> None:
        self._unread.append(work)
        self._arrived.set()

    async def _next(self) -> Work:
        while True:
            while self._unread:
                work = self._unread.popleft()
                if not work.abandoned.is_set():
                    return work
                self._links.answers.drop(work)
            self._arrived.clear()
            await self._arrived.wait()
