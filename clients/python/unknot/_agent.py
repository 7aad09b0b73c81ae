"""Agents: declared at import time, run by ``unknot.run``, the command, or inside a test."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast, get_args

from msgspec.structs import replace

from unknot import _handlers
from unknot._channel import Channel
from unknot._connection import Connection, opened
from unknot._context import Context, acting
from unknot._handlers import Handler
from unknot._login import Login
from unknot._names import agent_name, channel_name, channel_names, instance_name, topic_patterns
from unknot._serving import HandlerServer
from unknot._session import BlockingWaits, Profile
from unknot.errors import UnknotError
from unknot_schemas import bodies, subjects
from unknot_schemas.ids import is_pattern
from unknot_schemas.limits import POOL_TYPES_MAX, POOLS_MAX, SLOTS_MAX

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_POOL: Final = ""


class Agent:
    """A named peer and its handlers.

    *concurrency*: how many events it handles at a time, all handlers together (None: no limit). *pools*: further
    slots by name, for handlers that must not wait behind the others. *reentrant*: a request whose chain already
    runs here needs no slot. *blocking_waits*: whether handlers may block on other agents: "allow", "warn" once
    where it can deadlock, "forbid"; env UNKNOT_BLOCKING_WAITS decides when it is not given.

    Several processes may serve one agent side by side. *instance*: which of them this one is: the next process with
    the same name takes its place at once, instead of when it has been silent for long. *exclusive*: this one takes the
    place of all others.
    """

    def __init__(  # noqa: PLR0913  each is a choice of its own, most are seldom made
        self,
        name: str,
        concurrency: int | None = 1,
        *,
        pools: Mapping[str, int | None] | None = None,
        channels: Sequence[str] = (),
        topics: Sequence[str] = (),
        reentrant: bool = False,
        blocking_waits: BlockingWaits | None = None,
        heartbeat_s: float | None = None,
        instance: str | None = None,
        exclusive: bool = False,
    ) -> None:
        self.name = agent_name(name)
        self._slots: dict[str, int | None] = {DEFAULT_POOL: concurrency, **(pools or {})}
        self._channels = channel_names(channels)
        self._topics = topic_patterns(topics)
        self._reentrant = reentrant
        self._blocking_waits = waits_mode(blocking_waits)
        self._heartbeat_s = heartbeat_s
        self._instance = instance_name(instance)
        self._exclusive = exclusive
        self._handlers: dict[str, Handler] = {}
        self._approver: Handler | None = None
        self._running: list[Connection] = []
        for pool, slots in self._slots.items():
            if slots is not None and not 1 <= slots <= SLOTS_MAX:
                raise ValueError(
                    f"agent {name}: pool {pool!r} needs 1 to {SLOTS_MAX} slots, or None; got {slots}"
                )
        if len(self._slots) > POOLS_MAX:
            raise ValueError(f"agent {name}: at most {POOLS_MAX} pools")

    def on(self, event_type: str, *, pool: str = DEFAULT_POOL) -> Callable[[Function], Function]:
        """Handle events of this type (or NATS pattern): ``(data)`` or ``(data, ctx)``, async or plain.

        What it returns is the answer; what it raises is outcome ``failed``.
        """
        if not is_pattern(event_type):
            raise ValueError(f"{event_type!r} is no event type or pattern: lower-case dotted words, * and >")
        if event_type in self._handlers:
            raise ValueError(f"agent {self.name} has a handler for {event_type!r} already")
        if pool not in self._slots:
            raise ValueError(
                f"agent {self.name} has no pool {pool!r}: Agent({self.name!r}, pools={{{pool!r}: 1}})"
            )
        if sum(handler.pool == pool for handler in self._handlers.values()) >= POOL_TYPES_MAX:
            raise ValueError(f"agent {self.name}: at most {POOL_TYPES_MAX} types in one pool: use a pattern")

        def register(function: Function) -> Function:
            self._handlers[event_type] = _handlers.describe(function, event_type, pool)
            return function

        return register

    def on_approval(self, function: Function) -> Function:
        """Decide what others wait to be approved: ``(data)`` or ``(data, ctx)``, with ``ctx.event.source`` who asks.

        True is yes, False is no. None (also when it raises): not decided, ``ctx.resolve_approval`` may do so later. It
        takes no slot, and every live session of the agent is asked: the first decision counts.
        """
        if self._approver is not None:
            raise ValueError(f"agent {self.name} has one that decides already")
        self._approver = _handlers.describe(function, subjects.CONTROL_APPROVAL, DEFAULT_POOL)
        return function

    def channel(self, name: str) -> Channel:
        """Make this agent a member of channel *name*, and give the channel for use in its handlers.

        In a handler it acts for what runs there; elsewhere for the main of the one place where the agent runs.
        """
        channel = channel_name(name)
        self._channels = channel_names(list(dict.fromkeys((*self._channels, channel))))
        return Channel(channel, self._acting)

    def _acting(self) -> Context:
        context = acting.get()
        if context is not None and context.agent == self.name:
            return context
        if len(self._running) != 1:
            raise UnknotError(
                f"agent {self.name} runs in {len(self._running)} places of this program: outside of its handlers"
                " use ctx.channel() or connect()"
            )
        return self._running[0]

    @asynccontextmanager
    async def running(
        self,
        url: str | None = None,
        *,
        network: str | None = None,
        timeout: float = 10.0,
        main_runs: bool = True,
        drain_s: float = 0.0,
        login: Login | None = None,
        instance: str | None = None,
    ) -> AsyncIterator[Connection]:
        """Serve inside this program; gives what ``connect`` gives, for the same agent.

        *main_runs*: whether code outside of handlers sends. *drain_s*: how long handlers may go on at the end.
        *login*: the agent's user on the server; else UNKNOT_USER, UNKNOT_PASSWORD and so on. *instance*: instead of
        the agent's own.
        """
        profile = self._profile(main_runs)
        if instance is not None:
            profile = replace(profile, instance=instance_name(instance))
        async with opened(
            profile,
            url,
            network,
            timeout,
            lambda links: HandlerServer(links, self._handlers, self._slots, self._approver),
            drain_s,
            login,
        ) as me:
            self._running.append(me)
            try:
                yield me
            finally:
                self._running.remove(me)

    def _profile(self, main_runs: bool) -> Profile:
        types: dict[str, list[str]] = {}
        for handler in self._handlers.values():
            types.setdefault(handler.pool, []).append(handler.pattern)
        return Profile(
            agent=self.name,
            pools=[bodies.Pool(self._slots[pool], patterns) for pool, patterns in types.items()],
            main_runs=main_runs,
            channels=self._channels,
            topics=self._topics,
            reentrant=self._reentrant,
            exclusive=self._exclusive,
            instance=self._instance,
            heartbeat_s=self._heartbeat_s,
            blocking_waits=self._blocking_waits,
        )

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


def waits_mode(given: BlockingWaits | None) -> BlockingWaits:
    """*given*, else what UNKNOT_BLOCKING_WAITS says, else "warn"."""
    mode = given or os.environ.get("UNKNOT_BLOCKING_WAITS") or "warn"
    if mode not in get_args(BlockingWaits):
        raise ValueError(f"blocking waits are {get_args(BlockingWaits)}; got {mode!r}")
    return cast("BlockingWaits", mode)
