"""Agents flood as fast as a process can send: nobody else is lost, all are answered, and then all is as before.

What the gateway cannot read would queue in the server in front of everybody's messages (`shell/siege.py`).
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

import unknot
from tests.benchmarks.flooder import KINDS
from tests.sdk.conftest import start_server
from tests.support import gateway as support
from tests.support.gateway import ROOT, Gateway, paths
from unknot import Agent
from unknot_schemas import Subjects
from unknot_schemas.subjects import NOTICE_OVER_LIMIT

pytestmark = pytest.mark.once

SESSION_LOSS_S = 6.0
BEAT_S = 0.5
FLOODED_S = 7.0
"""Longer than a session that is not heard lives."""
PATIENCE_S = 60.0
"""Hang limit: a flood takes all that a small machine has."""
NO_END = "0"
IN_CI = ("posts", "heartbeats", "garbage")


@contextmanager
def flooding(url: str, network: str, kind: str, agent: str = "flood") -> Iterator[None]:
    """A process that sends as much as the server takes."""
    where = [url, network, NO_END, "--agent", agent, "--kind", kind]
    flooder = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.flooder", *where],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(paths())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert flooder.stdout is not None
        assert flooder.stdout.readline() == b"ready\n"
        yield
    finally:
        flooder.kill()
        flooder.communicate()


@pytest.fixture
def house() -> Iterator[Gateway]:
    with support.running(environment={"UNKNOT_SESSION_LOSS_S": str(SESSION_LOSS_S)}) as gateway:
        yield gateway


async def talk(me: unknot.Connection, seconds: float) -> int:
    """Ask elm again and again; how often it has answered."""
    until, answered = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        assert await me.send_and_wait("elm", "say", answered, timeout=PATIENCE_S) == answered
        answered += 1
    return answered


def elm() -> Agent:
    agent = Agent("elm", heartbeat_s=BEAT_S)

    @agent.on("say")
    async def say(data: int) -> int:
        return data

    return agent


class Monitor:
    """Reads the gateway's counters, and whom its notices name."""

    def __init__(self, client: nats.NATS, network: str) -> None:
        self.client, self.subjects = client, Subjects(network)
        self.named: set[str] = set()

    async def begin(self) -> None:
        async def on_notice(message: Any) -> None:
            self.named.add(json.loads(message.data)["agent"])

        await self.client.subscribe(self.subjects.notice(NOTICE_OVER_LIMIT), cb=on_notice)
        await self.client.flush()

    async def counters(self) -> dict[str, int]:
        answer = await self.client.request(self.subjects.api("stats"), b"", timeout=PATIENCE_S)
        counters: dict[str, int] = json.loads(answer.data)["counters"]
        return counters

    async def until_calm(self) -> None:
        """Until no siege is on any more."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.counters()).get("shell.besieging"):  # noqa: ASYNC110  another process counts
                await asyncio.sleep(0.2)


async def nobody_is_hurt(url: str, network: str, kind: str, flooders: tuple[str, ...]) -> None:
    client = await nats.connect(url)
    monitor = Monitor(client, network)
    try:
        await monitor.begin()
        async with (
            elm().running(url, network=network) as its,
            unknot.connect("birch", url, network=network, heartbeat_s=BEAT_S, serves=False) as me,
        ):
            sessions = [one._links.session.token for one in (its, me)]
            await talk(me, 0.1)
            with ExitStack() as floods:
                for flooder in flooders:
                    floods.enter_context(flooding(url, network, kind, flooder))
                assert await talk(me, FLOODED_S)
                async with unknot.connect(
                    "newcomer", url, network=network, serves=False, timeout=PATIENCE_S
                ) as new:
                    await talk(new, 0.0)
                assert await talk(me, 0.1)
            assert [one._links.session.token for one in (its, me)] == sessions
            assert (await monitor.counters())["shell.besieged"] >= 1
            assert monitor.named == set(flooders)
            await monitor.until_calm()
            shed = (await monitor.counters()).get("shell.shed", 0)
            assert await talk(me, 0.1)
            assert (await monitor.counters()).get("shell.shed", 0) == shed
    finally:
        await client.close()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in IN_CI else pytest.mark.soak) for kind in KINDS]
)
async def test_a_flood_of_whatever_kind_hurts_nobody_else(house: Gateway, kind: str) -> None:
    await nobody_is_hurt(house.nats, house.network, kind, ("flood",))


async def test_several_that_flood_at_once_hurt_nobody_else(house: Gateway) -> None:
    await nobody_is_hurt(house.nats, house.network, "posts", ("flood", "deluge"))


async def test_a_gateway_that_begins_in_a_flood_serves_all_others(tmp_path: Path) -> None:
    server, url = start_server(tmp_path)
    try:
        with flooding(url, "default", "posts"), support.running(nats=url):
            async with (
                elm().running(url, timeout=PATIENCE_S),
                unknot.connect("birch", url, timeout=PATIENCE_S, serves=False) as me,
            ):
                assert await talk(me, 1.0)
    finally:
        server.terminate()
        server.wait()
