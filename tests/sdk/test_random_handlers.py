"""Handlers that can always go on, at random, through the client: whatever it looks like, there is no deadlock.

Every handler ends by itself: what it asks of others in a cycle it leaves to a background task, or races
against a clock. So each verdict would be a false one, and the facts that the client reads from its event loop are
what keeps the gateway from giving it.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack

import nats
import pytest

import unknot
from tests.support import gateway as support
from tests.support.gateway import Gateway
from unknot import Agent, Context

AGENTS = 4
REQUESTS = 60
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100))]
NETWORKS = 128
LONGEST_S = 0.03
"""How long a handler stands still by itself."""


@pytest.fixture(scope="module")
def host() -> Iterator[Gateway]:
    with support.running(
        "--log-level", "error", networks=[f"h{number}" for number in range(NETWORKS)]
    ) as gateway:
        yield gateway


class Handlers:
    """Agents that ask each other and never depend on it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.failures: list[BaseException] = []
        self.background: set[asyncio.Task[object]] = set()
        self.agents = [self.agent(f"a{number}") for number in range(AGENTS)]

    def agent(self, name: str) -> Agent:
        agent = Agent(name, concurrency=self.random.choice((1, 1, 2)), blocking_waits="allow")

        @agent.on("work")
        async def work(depth: int, ctx: Context) -> int:
            steps = self.random.choices((self.leaves, self.races, self.gathers), k=2)
            for step in steps if depth else ():
                await step(depth - 1, ctx)
            await asyncio.sleep(self.random.random() * LONGEST_S)
            return depth

        return agent

    def ask(self, depth: int, ctx: Context) -> asyncio.Task[object]:
        """A task that asks somebody, himself perhaps."""
        target = f"a{self.random.randrange(AGENTS)}"
        task = asyncio.create_task(self.asks(target, depth, ctx))
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task

    async def asks(self, target: str, depth: int, ctx: Context) -> object:
        try:
            return await ctx.send_and_wait(target, "work", depth, timeout=20)
        except unknot.WaitFailed as failure:
            self.failures.append(failure)
            return None

    async def leaves(self, depth: int, ctx: Context) -> None:
        """A background task that nobody waits for."""
        self.ask(depth, ctx)

    async def races(self, depth: int, ctx: Context) -> None:
        """The answer or the clock, whichever is first."""
        await asyncio.wait({self.ask(depth, ctx)}, timeout=LONGEST_S)

    async def gathers(self, depth: int, ctx: Context) -> None:
        """Both of two, but not for long: the clock is a task that is waited for, too, and ends them."""
        asking = self.ask(depth, ctx)

        async def clock() -> None:
            await asyncio.sleep(LONGEST_S)
            asking.cancel()

        await asyncio.gather(asking, clock(), return_exceptions=True)


@pytest.mark.parametrize("seed", SEEDS)
async def test_handlers_that_go_on_by_themselves_are_never_told_of_a_deadlock(
    host: Gateway, seed: int
) -> None:
    network, handlers, notices = host.networks.pop(), Handlers(seed), []

    async def notice(message: nats.aio.msg.Msg) -> None:
        notices.append(json.loads(message.data))

    monitor = await nats.connect(host.nats)
    await monitor.subscribe(f"unknot.{network}.notice.>", cb=notice)
    async with AsyncExitStack() as stack:
        for agent in handlers.agents:
            await stack.enter_async_context(agent.running(host.nats, network=network, main_runs=False))
        me = await stack.enter_async_context(
            unknot.connect("tester", host.nats, network=network, serves=False)
        )
        asking = (
            me.send_and_wait(f"a{n % AGENTS}", "work", handlers.random.choice((1, 2)), timeout=30)
            for n in range(REQUESTS)
        )
        answers = await asyncio.gather(*asking)
        while handlers.background:
            await asyncio.wait(handlers.background)
    stats = json.loads((await monitor.request(f"unknot.{network}.api.stats", b"")).data)
    await monitor.close()
    assert len(answers) == REQUESTS
    assert not handlers.failures, handlers.failures[:3]
    assert not notices
    assert stats["counters"].get("suspicions"), "else this shows nothing"
