"""Connections for scripts and tests: main's own context, and the loop that reads its events."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from unknot._context import Context, Links
from unknot._event import Event
from unknot._lifeline import Lifeline
from unknot._login import Login
from unknot._names import agent_name, channel_names, instance_name, server_url, subjects_of, topic_patterns
from unknot._reading import MainReader
from unknot._receiving import Receiver, Server
from unknot._session import Profile, Session
from unknot.errors import UnknotError, WaitFailed
from unknot_schemas import bodies


class Connection(Context):
    """An agent's main, connected: everything that a Context can, and ``events``."""

    def __init__(self, links: Links, reader: MainReader | None) -> None:
        super().__init__(links, links.session.main, None)
        self._reader = reader

    @property
    def session(self) -> str:
        """Token of this life of this process."""
        return self._links.session.token

    @property
    def counters(self) -> dict[str, int]:
        """What was ignored, repeated, dropped or sent again since the start."""
        return dict(self._links.session.counters)

    @property
    def denied(self) -> WaitFailed | None:
        """Why the NATS server lets this agent in no more; None while it does."""
        return self._links.session.denied

    async def closed(self) -> None:
        """Until this session takes part no more: closed, or replaced by another one."""
        await self._links.session.over.wait()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Read events one at a time: this loop serves as one serial main.

        Answer with ``reply(data, to=event)``. Reading on without having answered promises a later answer.
        """
        if self._reader is None:
            raise UnknotError(f"agent {self.agent} has handlers; events() is for scripts: unknot.connect")
        async with aclosing(self._reader.events()) as events:
            async for event in events:
                self._work = self._reader.work
                yield event


@asynccontextmanager
async def opened(
    profile: Profile,
    url: str | None,
    network: str | None,
    timeout: float,
    serve: Callable[[Links], Server],
    drain_s: float = 0.0,
    login: Login | None = None,
) -> AsyncIterator[Connection]:
    """A session from hello to bye."""
    subjects = subjects_of(network)
    known = (login or Login()).resolved()
    session = Session(profile, server_url(url, known.url), subjects, known)
    links = Links(session)
    server = serve(links)
    receiver = Receiver(session, server)
    lifeline = Lifeline(session, receiver.receive)
    if isinstance(server, MainReader):
        server.attend(lifeline)
    try:
        await lifeline.open(timeout)
        for channel in profile.channels:
            await session.transport.listen(subjects.channel(channel, ">"), receiver.receive_broadcast)
        for topic in profile.topics:
            await session.transport.listen(subjects.topic(topic), receiver.receive_broadcast)
        yield Connection(links, server if isinstance(server, MainReader) else None)
        if drain_s > 0 and session.ended is None:
            await lifeline.drain(drain_s)
    finally:
        await lifeline.close()


@asynccontextmanager
async def connect(  # noqa: PLR0913  each is a choice of its own, most are seldom made
    name: str,
    url: str | None = None,
    *,
    serves: bool = True,
    network: str | None = None,
    channels: Sequence[str] = (),
    topics: Sequence[str] = (),
    timeout: float = 10.0,
    heartbeat_s: float | None = None,
    login: Login | None = None,
    instance: str | None = None,
    exclusive: bool = False,
) -> AsyncIterator[Connection]:
    """Connect a script as agent *name* (url: else UNKNOT_URL, NATS_URL, the local server).

    *login*: its user on the server; else UNKNOT_USER, UNKNOT_PASSWORD and so on. Refused when the server refuses it.

    It is one serial main that may read ``events()``; ``serves=False`` says that it never does: requests to it are
    refused. *instance*: the next one with the same name takes its place at once; *exclusive*: this one takes the
    place of all others of the agent. Unreachable when no server or no gateway answers in *timeout* seconds.
    """
    profile = Profile(
        agent=agent_name(name),
        pools=[bodies.Pool(1, main=True)] if serves else [],
        channels=channel_names(channels),
        topics=topic_patterns(topics),
        heartbeat_s=heartbeat_s,
        instance=instance_name(instance),
        exclusive=exclusive,
        blocking_waits="allow",
    )
    async with opened(profile, url, network, timeout, MainReader, login=login) as me:
        yield me
