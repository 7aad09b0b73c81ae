"""What is sent without standing still: one-way events, asks, published events; each has a Receipt."""

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from unknot._asking import Request, Waitable, bad_id, patience, payload, timeout_s
from unknot._outbound import Outbound
from unknot._pending import Entry, Settle
from unknot._posts import Post
from unknot._session import Session
from unknot._strands import Strand
from unknot.errors import WaitFailed, from_outcome
from unknot_schemas import bodies
from unknot_schemas.ids import is_type
from unknot_schemas.limits import SEND_TIMEOUT_DEFAULT_S

T = TypeVar("T")

OnReply = Callable[[Any], Awaitable[None]]
OnError = Callable[[WaitFailed], Awaitable[None]]


class Asked(Waitable[T]):
    """A request that nobody stands still for. Wait for it with ``expect``, or let ``on_reply`` go on."""

    def __init__(self, id: str, request: Request[T]) -> None:
        self.id = id
        self.request = request
        self.outcome: bodies.Outcome | None = None
        """How it ended; None while it is open."""
        self.waiters: list[Settle] = []

    @property
    def is_open(self) -> bool:
        """Whether it has not ended yet."""
        return self.outcome is None

    def __repr__(self) -> str:
        state = "open" if self.outcome is None else self.outcome.outcome
        return f"Asked({self.request.target!r}, {self.request.type!r}, id={self.id!r}, {state})"


class Sends:
    """Sends for the executions of one session."""

    def __init__(self, session: Session, outbound: Outbound) -> None:
        self._session = session
        self._outbound = outbound

    async def send(
        self, strand: Strand, request: Request[Any], timeout: float | None, marks: dict[str, Any] | None
    ) -> str:
        """Send a one-way event; its id when the gateway has it."""
        subject, _ = self._outbound.subject("send", request.target, request.type)
        seconds = SEND_TIMEOUT_DEFAULT_S if timeout is None else timeout_s(timeout)
        return await self._send(strand, self._session.new_id(), subject, request.data, seconds, marks)

    async def post(
        self,
        strand: Strand,
        channel: str,
        event_type: str,
        data: Any,
        names: str | None,
        marks: dict[str, Any] | None,
    ) -> Post:
        """Send an event to a channel, which may name another; what answers it is kept from now on."""
        session = self._session
        subject, _ = self._outbound.subject("send", f"@{channel}", event_type)
        post = Post(session.new_id(), channel, event_type)
        session.posts[post.id] = post  # before it is sent: an answer may be faster than the Receipt
        await self._send(strand, post.id, subject, data, None, marks, names)
        return post

    async def publish(self, strand: Strand, event_type: str, data: Any, marks: dict[str, Any] | None) -> str:
        """Send an event without target; its id when the gateway has it."""
        if not is_type(event_type):
            raise bad_id(f"{event_type!r} is no event type: lower-case dotted words, at most 128 characters")
        session = self._session
        subject = session.subjects.publish(session.agent, event_type)
        return await self._send(strand, session.new_id(), subject, data, None, marks)

    async def _send(
        self,
        strand: Strand,
        id: str,
        subject: str,
        data: Any,
        seconds: float | None,
        marks: dict[str, Any] | None,
        names: str | None = None,
    ) -> str:
        self._session.check_alive()
        patience_s = None if seconds is None else patience(None, seconds)
        body = self._outbound.envelope(strand, id, payload(data), seconds, patience_s, marks, names=names)
        await self._session.receipt(subject, body, id)
        return id

    async def ask(
        self,
        strand: Strand,
        request: Request[T],
        timeout: float | None,
        on_reply: OnReply | None,
        on_error: OnError | None,
    ) -> Asked[T]:
        """Send a request without standing still; the gateway has it when this returns."""
        asked, entry = self.prepare(strand, request, timeout, on_reply, on_error)
        self._outbound.open(entry)
        try:
            await self._session.receipt(entry.subject, entry.payload, asked.id)
        except BaseException:
            self._session.give_up(entry)
            raise
        return asked

    def prepare(
        self,
        strand: Strand,
        request: Request[T],
        timeout: float | None,
        on_reply: OnReply | None = None,
        on_error: OnError | None = None,
    ) -> tuple[Asked[T], Entry]:
        """A request that nobody stands still for, with its entry; neither registered nor sent."""
        session = self._session
        seconds = timeout_s(timeout)
        subject, target = self._outbound.subject("ask", request.target, request.type)
        asked = Asked(session.new_id(), request)
        body = self._outbound.envelope(
            strand, asked.id, payload(request.data), seconds, patience(None, seconds), None
        )
        settle = self._settle(asked, on_reply, on_error)
        at = session.deadline_at(seconds)
        return asked, Entry(asked.id, subject, body, settle, deadline_at=at, strand=None, target=target)

    def _settle(self, asked: Asked[Any], on_reply: OnReply | None, on_error: OnError | None) -> Settle:
        def settle(outcome: bodies.Outcome) -> None:
            asked.outcome = outcome
            for waiter in asked.waiters:
                waiter(outcome)
            asked.waiters.clear()
            if on_reply is not None or on_error is not None:
                go_on = self._go_on(asked, outcome, on_reply, on_error)
                context.run(self._session.tasks.start, go_on, f"outcome of {asked.id}")

        context = contextvars.copy_context()  # the continuation is a child of the execution that asked
        return settle

    async def _go_on(
        self,
        asked: Asked[Any],
        outcome: bodies.Outcome,
        on_reply: OnReply | None,
        on_error: OnError | None,
    ) -> None:
        """The continuation: a task of the execution that asked, detached from it."""
        if outcome.outcome == "reply":
            if on_reply is not None:
                await on_reply(asked.request.read(outcome))
        elif on_error is not None:
            await on_error(from_outcome(outcome))
