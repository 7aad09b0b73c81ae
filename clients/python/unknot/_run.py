"""Agents as a program: run until a signal, then let go of nothing that was begun."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Sequence
from typing import Final

from unknot._agent import Agent

logger = logging.getLogger("unknot")

DRAIN_S: Final = 10.0
"""How long handlers may go on after the signal."""


def run(*agents: Agent, url: str | None = None, network: str | None = None, drain_s: float = DRAIN_S) -> None:
    """Run *agents* until SIGTERM or Ctrl-C: then no new work, *drain_s* seconds for what is running, goodbye.

    Unreachable when no server or gateway answers at the start; afterwards the connection comes back by itself.
    """
    asyncio.run(_run(agents, url, network, drain_s))


async def _run(agents: Sequence[Agent], url: str | None, network: str | None, drain_s: float) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        for agent in agents:
            running = agent.running(url, network=network, main_runs=False, drain_s=drain_s)
            me = await stack.enter_async_context(running)
            closed = asyncio.create_task(me.closed(), name=f"unknot: {agent.name} closed")
            stack.callback(closed.cancel)
            closed.add_done_callback(lambda _closed: stop.set())
            logger.info("agent %s is up", agent.name)
        await stop.wait()
