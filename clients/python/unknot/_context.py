"""The execution made visible: everything that a handler or a script can do."""

from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, TypeVar, overload

from unknot import _gather
from unknot._answers import Answers
from unknot._asking import Request
from unknot._channel import Channel
from unknot._declaring import Declaring
from unknot._event import Event
from unknot._mixed import Mixed
from unknot._names import channel_name
from unknot._opening import Opening
from unknot._outbound import Outbound
from unknot._requests import Requests
from unknot._running import Abandoned, Work
from unknot._sends import Asked, OnError, OnReply, Sends
from unknot._session import Session
from unknot._standing_still import StandingStill
from unknot._strands import Execution, Strand, current
from unknot._waits import Waits
from unknot.errors import UnknotError
from unknot_schemas import bodies
from unknot_schemas import errors as codes

T = TypeVar("T")

acting: "ContextVar[Context | None]" = ContextVar("unknot_context", default=None)
"""The context of the handler that runs here."""


class Links:
    """What all executions of one session share."""

    __slots__ = ("answers", "declaring", "mixed", "requests", "sends", "session", "waits")

    def __init__(self, session: Session) -> None:
        self.session = session
        outbound = Outbound(session)
        self.requests = Requests(session, outbound)
        self.sends = Sends(session, outbound)
        opening = Opening(session, outbound)
        self.waits = Waits(session, outbound, opening)
        self.mixed = Mixed(session, outbound, self.sends, opening)
        self.declaring = Declaring(session)
        self.answers = Answers(session)


class Context(StandingStill):
    """The execution that handles one event, or a script's main: sends, waits, answers.

    A task that a handler starts itself is a strand of its own that blocks nobody; ``gather`` makes strands that
    the execution waits for.
    """

    def __init__(self, links: Links, execution: Execution, work: Work | None) -> None:
        self._links = links
        self._execution = execution
        self._work = work

    @property
    def agent(self) -> str:
        """The agent whose execution this is."""
        return self._links.session.agent

    @property
    def event(self) -> Event:
        """The event that is handled."""
        return Event(self._in_hand().event)

    @property
    def abandoned(self) -> Abandoned:
        """Set (with ``.reason``) when nobody waits for this answer any more. Nothing is stopped by force."""
        return self._in_hand().abandoned

    # ------------------------------------------------------------------ requests

    @overload
    async def send_and_wait(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        timeout: float | None = None,
        wait_for_target: float | None = None,
        metadata: dict[str, Any] | None = None,
        accept_uncorrelated: bool | str = False,
    ) -> Any: ...
    @overload
    async def send_and_wait(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        into: type[T],
        timeout: float | None = None,
        wait_for_target: float | None = None,
        metadata: dict[str, Any] | None = None,
        accept_uncorrelated: bool | str = False,
    ) -> T: ...
    async def send_and_wait(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        into: Any = Any,
        timeout: float | None = None,
        wait_for_target: float | None = None,
        metadata: dict[str, Any] | None = None,
        accept_uncorrelated: bool | str = False,
    ) -> Any:
        """Ask *target* (an agent, or ``@channel``: the first answer counts) and wait for its answer, read into *into*.

        *timeout* in seconds (60; at most 3 600). *wait_for_target*: how long the target may be absent (5 s, at most
        *timeout*). *accept_uncorrelated*: an event of type ``<type>.reply`` (or of this type or pattern) from the
        target is the answer, too, though it names no request; where two requests could be meant, none is taken.
        Raises WaitFailed: DeadlockDetected, WaitExpired, HandlerFailed, Unreachable, …
        """
        return await self._links.requests.send_and_wait(
            self._strand(),
            Request(target, type, data, into=into),
            timeout,
            wait_for_target,
            metadata,
            accept_uncorrelated,
        )

    @overload
    def request(self, target: str, type: str, data: Any = None) -> Request[Any]: ...
    @overload
    def request(self, target: str, type: str, data: Any = None, *, into: type[T]) -> Request[T]: ...
    def request(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> Request[Any]:
        """Describe a request for ``wait_all``, ``wait_any`` or ``wait_quorum``; nothing is sent yet."""
        return Request(target, type, data, into=into)

    async def gather(self, *branches: Awaitable[Any]) -> list[Any]:
        """Run *branches* at once as strands that this one waits for; a failure cancels the others and raises."""
        return await _gather.gather(self._strand(), branches)

    # ------------------------------------------------------------------ without standing still

    async def send(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        timeout: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Send a one-way event and give its id when the gateway has it; *timeout*: how long it may wait for a slot."""
        return await self._links.sends.send(self._strand(), Request(target, type, data), timeout, metadata)

    async def publish(self, type: str, data: Any = None, *, metadata: dict[str, Any] | None = None) -> str:
        """Send an event without target, for whoever listens; gives its id when the gateway has it."""
        return await self._links.sends.publish(self._strand(), type, data, metadata)

    @overload
    async def ask(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        timeout: float | None = None,
        on_reply: OnReply | None = None,
        on_error: OnError | None = None,
    ) -> Asked[Any]: ...
    @overload
    async def ask(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        into: type[T],
        timeout: float | None = None,
        on_reply: OnReply | None = None,
        on_error: OnError | None = None,
    ) -> Asked[T]: ...
    async def ask(
        self,
        target: str,
        type: str,
        data: Any = None,
        *,
        into: Any = Any,
        timeout: float | None = None,
        on_reply: OnReply | None = None,
        on_error: OnError | None = None,
    ) -> Asked[Any]:
        """Send a request and go on. Its answer is had by ``expect``, or goes to *on_reply*, a failure to *on_error*.

        Those run as a task of this execution that blocks nobody; they may answer what has been deferred.
        """
        request: Request[Any] = Request(target, type, data, into=into)
        return await self._links.sends.ask(self._strand(), request, timeout, on_reply, on_error)

    def channel(self, name: str) -> Channel:
        """The channel *name*, for this execution. Anybody may post and ask; members alone hear what others post."""
        return Channel(channel_name(name), lambda: self)

    # ------------------------------------------------------------------ answers

    async def reply(
        self, data: Any = None, *, to: Event | str | None = None, error: str | None = None
    ) -> None:
        """Answer the event in hand (or *to*) before the handler returns, or after ``defer``; *error*: it failed.

        Refused when it has been answered, is not held here, or a stray task answers without ``defer``.
        """
        work = self._work_for(to)
        failure = bodies.Error(codes.HANDLER_FAILED, error) if error is not None else None
        self._links.answers.reply(work, data, failure)

    def defer(self, *, to: Event | str | None = None, by: str | None = None) -> None:
        """Promise that the answer comes later, by ``reply``; *by*: the execution of this agent that will give it."""
        self._links.answers.defer(self._work_for(to), by)

    def _in_hand(self) -> Work:
        if self._work is None:
            raise UnknotError("main has no event in hand before events() has given one")
        return self._work

    def _work_for(self, to: Event | str | None) -> Work:
        event = self.event if to is None else to
        id = event.id if isinstance(event, Event) else event
        work = self._links.session.running.held.get(id)
        return self._links.answers.check(work, self._strand(), id)

    def _strand(self) -> Strand:
        return current(self._execution)
