"""Agents as a program: run until a signal, then let go of nothing that was begun."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from unknot._agent import Agent
from unknot._connection import Connection
from unknot._login import Login

logger = logging.getLogger("unknot")

PATIENCE_S: Final = 10.0
"""How long the start waits for a server and a gateway."""
DRAIN_S: Final = 10.0
"""How long handlers may go on after the signal."""


def run(
    *agents: Agent,
    url: str | None = None,
    network: str | None = None,
    timeout: float = PATIENCE_S,
    drain_s: float = DRAIN_S,
    on_up: Callable[[], None] | None = None,
    login: Login | None = None,
    instance: str | None = None,
) -> None:
    """Run *agents* until SIGTERM or Ctrl-C: then no new work, *drain_s* seconds for what is running, goodbye.

    *on_up* is called once all are up. Unreachable when no server or gateway answers within *timeout* seconds at the
    start; afterwards the connection comes back by itself. Returns, too, when another session takes an agent's place.
    *login*: of each agent; ``{agent}`` in the name of a file stands for its name. Refused when the server lets one
    of them in no more. *instance*: of each agent, instead of its own.
    """
    asyncio.run(_until_signal(_Agents(agents, url, network, timeout, drain_s, on_up, login, instance)))


class _Agents(NamedTuple):
    agents: Sequence[Agent]
    url: str | None
    network: str | None
    timeout: float
    drain_s: float
    on_up: Callable[[], None] | None
    login: Login | None
    instance: str | None

    async def serve(self, stop: asyncio.Event, up: asyncio.Event) -> None:
        """Serve until *stop*, or until a session is over for good."""
        running_as: list[Connection] = []
        async with contextlib.AsyncExitStack() as stack:
            for agent in self.agents:
                running = agent.running(
                    self.url,
                    network=self.network,
                    timeout=self.timeout,
                    main_runs=False,
                    drain_s=self.drain_s,
                    login=self.login,
                    instance=self.instance,
                )
                me = await stack.enter_async_context(running)
                running_as.append(me)
                closed = asyncio.create_task(me.closed(), name=f"unknot: {agent.name} closed")
                stack.callback(closed.cancel)
                closed.add_done_callback(lambda _closed: stop.set())
                logger.info("agent %s is up", agent.name)
            up.set()
            if self.on_up is not None:
                self.on_up()
            await stop.wait()
        for me in running_as:
            if me.denied is not None:
                raise me.denied


async def _until_signal(agents: _Agents) -> None:
    stop, up = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    serving = asyncio.create_task(agents.serve(stop, up), name="unknot: agents")
    stopping = asyncio.create_task(stop.wait(), name="unknot: a signal")
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not up.is_set():
        serving.cancel()  # stopped before they were up; what has failed stays failed
    await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()
