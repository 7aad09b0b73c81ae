"""A real gateway on a real NATS server for tests; needs ``unknot[gateway]``.

    import pytest_asyncio
    from unknot import testing
    from team import reviewer, writer

    @pytest_asyncio.fixture
    async def gateway():
        async with testing.gateway() as gateway:
            yield gateway

    async def test_a_draft_is_reviewed(gateway):
        async with gateway.running(reviewer, writer) as me:
            assert (await me.send_and_wait("reviewer", "review", {"topic": "knots"}))["ok"]

One gateway may serve many tests: ``running`` gives each a network of its own, so names never meet.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from unknot._agent import Agent
from unknot._connection import Connection, connect

START_S: Final = 20.0
STOP_S: Final = 10.0
LOG_LINES_MAX: Final = 1_000
NETWORKS: Final = 64
"""Networks of one test gateway; after that many ``running`` blocks the first ones are used again."""


class GatewayFailed(Exception):
    """The gateway did not start; the text is what it logged."""


class Gateway:
    """A running gateway. *url*: of its NATS server."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.url: str = ready["nats"]
        self.networks: list[str] = ready["networks"]
        self.pid: int = ready["pid"]
        self.log: list[str] = []
        """What it has logged, the last lines of it."""
        self._free = itertools.cycle(self.networks)

    @asynccontextmanager
    async def running(
        self, *agents: Agent, me: str = "tester", serves: bool = False
    ) -> AsyncIterator[Connection]:
        """Run *agents* in this program, in a network of their own; gives a connection as agent *me*."""
        network = next(self._free)
        async with contextlib.AsyncExitStack() as stack:
            for agent in agents:
                await stack.enter_async_context(agent.running(self.url, network=network, main_runs=False))
            yield await stack.enter_async_context(connect(me, self.url, serves=serves, network=network))


@asynccontextmanager
async def gateway(*arguments: str) -> AsyncIterator[Gateway]:
    """Start ``unknot serve`` on a free port, and end it; *arguments*: further ones, such as "--policy", "shadow"."""
    networks = [f"--network=test{number}" for number in range(NETWORKS)]
    command = [
        sys.executable,
        "-m",
        "unknot_gateway",
        "serve",
        "--json",
        "--port",
        "0",
        *networks,
        *arguments,
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    log: list[str] = []
    reading = asyncio.create_task(_read(process.stderr, log))
    try:
        yield await _started(process, log)
    finally:
        await _end(process)
        await reading


async def _started(process: asyncio.subprocess.Process, log: list[str]) -> Gateway:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line.startswith(b"{"):
        raise GatewayFailed("the gateway did not start:\n" + "".join(log))
    started = Gateway(json.loads(line))
    started.log = log
    return started


async def _read(lines: asyncio.StreamReader | None, log: list[str]) -> None:
    assert lines is not None
    async for line in lines:
        log.append(line.decode(errors="replace"))
        del log[:-LOG_LINES_MAX]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()
