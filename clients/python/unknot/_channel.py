"""A channel as its members see it: posts for all of them, replies and reactions that name a post."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from unknot import _posts
from unknot._asking import bad_id
from unknot._event import Event
from unknot._posts import Post
from unknot._sends import Asked
from unknot.errors import Refused
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import agent_id, is_pattern

if TYPE_CHECKING:
    from unknot._context import Context

T = TypeVar("T")


class Channel:
    """One channel, for the execution that uses it.

    A post goes to all members but its sender; it is delivered at most once and takes no slot. Waiting here needs
    membership: ``Agent(channels=…)``, ``Agent.channel`` or ``connect(channels=…)``.
    """

    def __init__(self, name: str, acting: "Callable[[], Context]") -> None:
        self.name = name
        self._acting = acting

    async def post(self, type: str, data: Any = None, *, metadata: dict[str, Any] | None = None) -> Post:
        """Tell all members, and go on; gives the post when the gateway has it. Keep it to wait for its answers."""
        return await self._post(type, data, None, metadata)

    async def reply(self, post: Post | Event, data: Any = None) -> Post:
        """Answer a post with one of type ``<its type>.reply`` that names it.

        Refused for a post that awaits its answer (``post_and_wait``): return that, or ``ctx.reply``.
        """
        if isinstance(post, Event) and post.requires_response:
            raise Refused(
                f"{post.type!r} of {post.source!r} awaits one answer: return it from the handler, or ctx.reply()",
                code=codes.BAD_REQUEST,
                handled="no",
            )
        return await self._post(_posts.reply_type(post.type), data, post.id, None)

    async def react(self, post: Post | Event, reaction: str, data: Any = None) -> Post:
        """Name a post in a small event of type ``reaction.<reaction>``."""
        return await self._post(f"{_posts.REACTION}.{reaction}", data, post.id, None)

    @overload
    async def post_and_wait(self, type: str, data: Any = None, *, timeout: float | None = None) -> Any: ...
    @overload
    async def post_and_wait(
        self, type: str, data: Any = None, *, into: type[T], timeout: float | None = None
    ) -> T: ...
    async def post_and_wait(
        self, type: str, data: Any = None, *, into: Any = Any, timeout: float | None = None
    ) -> Any:
        """Ask all members and wait for the first answer; the others are told that theirs is not wanted any more.

        A request to each member's slots: it rests on their executions, and fails as ``send_and_wait`` does.
        """
        return await self._acting().send_and_wait(f"@{self.name}", type, data, into=into, timeout=timeout)

    async def wait_for_post(
        self, type: str = ">", *, source: str | None = None, timeout: float | None = None
    ) -> Event:
        """Wait for the next post of this type (or pattern) that names no other, from *source* alone if given.

        Who may post is known to nobody, so this is no edge: it ends with the post, or as WaitExpired.
        """
        if not is_pattern(type):
            raise bad_id(f"{type!r} is no event type or pattern: lower-case dotted words, * and >")
        fits = _posts.plain(self.name, type, self._sender(source))
        return await self._wait("post", type, fits, source, timeout)

    async def wait_for_reply(
        self, post: Post | Event | Asked[Any], *, source: str | None = None, timeout: float | None = None
    ) -> Event:
        """Wait for the next reply to *post*, from *source* alone if given.

        To an own Post: one that has come already counts, each once. To an Event: from now on. No edge, as
        ``wait_for_post``. An Asked (``ctx.ask("@channel", …)``) rests on the members: WaitFailed as of ``expect``.
        """
        if isinstance(post, Asked):
            if source is not None:
                raise TypeError("who is asked answers: wait_for_reply(asked) takes no source")
            await self._acting().expect(post, timeout=timeout)
            assert post.outcome is not None
            assert post.outcome.event is not None, "it was answered"
            return Event(post.outcome.event)
        fits = _posts.replies(self.name, post.id, self._sender(source))
        return await self._wait("post_reply", post.id, fits, source, timeout, _own(post))

    async def wait_for_reaction(
        self,
        post: Post | Event,
        reaction: str = ">",
        *,
        source: str | None = None,
        timeout: float | None = None,
    ) -> Event:
        """Wait for the next such reaction (or pattern) to *post*; which have come already counts as with replies."""
        if not is_pattern(f"{_posts.REACTION}.{reaction}"):
            raise bad_id(f"{reaction!r} is no reaction or pattern: lower-case dotted words, * and >")
        fits = _posts.reactions(self.name, post.id, reaction, self._sender(source))
        return await self._wait("reaction", f"{post.id} {reaction}", fits, source, timeout, _own(post))

    async def _post(self, type: str, data: Any, names: str | None, metadata: dict[str, Any] | None) -> Post:
        context = self._acting()
        return await context._links.sends.post(context._strand(), self.name, type, data, names, metadata)

    async def _wait(
        self,
        kind: str,
        what: str,
        fits: _posts.Fits,
        source: str | None,
        timeout: float | None,
        own: Post | None = None,
    ) -> Event:
        context = self._acting()
        if self.name not in context._links.session.profile.channels:
            raise Refused(
                f"agent {context.agent} is no member of channel {self.name!r} and hears nothing of it:"
                f" channels=[{self.name!r}]",
                code=codes.NOT_SUBSCRIBED,
                handled="no",
            )
        condition = bodies.WaitCondition(kind, f"@{self.name} {what}", source=source)
        return await context._links.waits.post(context._strand(), condition, fits, timeout, own)

    def _sender(self, source: str | None) -> str | None:
        sender = agent_id(source) if source is not None else None
        if source is not None and sender is None:
            raise bad_id(f"{source!r} cannot name an agent")
        return sender

    def __repr__(self) -> str:
        return f"Channel({self.name!r})"


class BlockingChannel:
    """A channel for code without an event loop, and for handlers that are plain functions."""

    def __init__(self, channel: Channel, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.name = channel.name
        self._channel = channel
        self._run = run

    def post(self, type: str, data: Any = None, *, metadata: dict[str, Any] | None = None) -> Post:
        """As Channel.post."""
        post: Post = self._run(self._channel.post(type, data, metadata=metadata))
        return post

    def reply(self, post: Post | Event, data: Any = None) -> Post:
        """As Channel.reply."""
        reply: Post = self._run(self._channel.reply(post, data))
        return reply

    def react(self, post: Post | Event, reaction: str, data: Any = None) -> Post:
        """As Channel.react."""
        reacted: Post = self._run(self._channel.react(post, reaction, data))
        return reacted

    def post_and_wait(
        self, type: str, data: Any = None, *, into: Any = Any, timeout: float | None = None
    ) -> Any:
        """As Channel.post_and_wait."""
        return self._run(self._channel.post_and_wait(type, data, into=into, timeout=timeout))

    def wait_for_post(
        self, type: str = ">", *, source: str | None = None, timeout: float | None = None
    ) -> Event:
        """As Channel.wait_for_post."""
        event: Event = self._run(self._channel.wait_for_post(type, source=source, timeout=timeout))
        return event

    def wait_for_reply(
        self, post: Post | Event | Asked[Any], *, source: str | None = None, timeout: float | None = None
    ) -> Event:
        """As Channel.wait_for_reply."""
        event: Event = self._run(self._channel.wait_for_reply(post, source=source, timeout=timeout))
        return event

    def wait_for_reaction(
        self,
        post: Post | Event,
        reaction: str = ">",
        *,
        source: str | None = None,
        timeout: float | None = None,
    ) -> Event:
        """As Channel.wait_for_reaction."""
        call = self._channel.wait_for_reaction(post, reaction, source=source, timeout=timeout)
        event: Event = self._run(call)
        return event


def _own(post: Post | Event) -> Post | None:
    return post if isinstance(post, Post) else None
