"""Many requests at once, some given up, some late: no answer is wrong, lost or doubled, and nothing is left."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import unknot
from tests.support.gateway import Gateway
from unknot import Agent, Connection, Context

REQUESTS = 1_500
LANES = 100


async def test_every_answer_belongs_to_its_request(gateway: Gateway) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    runs: Counter[int] = Counter()
    elm = Agent("elm", concurrency=LANES)

    @elm.on("echo")
    async def echo(data: dict[str, Any], ctx: Context) -> int:
        number = int(data["n"])
        runs[number] += 1
        await asyncio.sleep(data["after"])
        if data["fails"]:
            raise ValueError(str(number))
        return number

    ended: Counter[str] = Counter()

    async def one(me: Connection, number: int) -> None:
        late = chance.random() < 0.2
        fails = chance.random() < 0.1
        cancels = chance.random() < 0.1
        data = {"n": number, "after": 0.3 if late else chance.random() * 0.01, "fails": fails}
        task = asyncio.ensure_future(me.send_and_wait("elm", "echo", data, timeout=0.15 if late else 30))
        if cancels:
            await asyncio.sleep(chance.random() * 0.02)
            task.cancel()
        try:
            assert await task == number
            ended["reply"] += 1
        except unknot.HandlerFailed as failure:
            ended["failed" if failure.message == f"ValueError: {number}" else "wrong"] += 1
        except unknot.WaitExpired:
            assert late
            ended["expired"] += 1
        except asyncio.CancelledError:
            assert cancels
            ended["cancelled"] += 1

    async def lane(me: Connection, numbers: Any) -> None:
        for number in numbers:
            await one(me, number)

    network = gateway.network
    async with (
        elm.running(gateway.nats, network=network),
        unknot.connect("birch", gateway.nats, network=network, serves=False) as me,
    ):
        numbers = iter(range(REQUESTS))
        await asyncio.gather(*(lane(me, numbers) for _ in range(LANES)))
        session = me._links.session
        assert sum(ended.values()) == REQUESTS, f"seed {seed}"
        assert set(ended) == {"reply", "failed", "expired", "cancelled"}, f"seed {seed}: {ended}"
        assert max(runs.values()) == 1, f"seed {seed}: a handler ran twice"
        assert len(session.pending) == 0
        assert session.main.own.open == 0
        assert me.counters.get("expired_locally", 0) == 0, "each end was the gateway's word"


async def test_a_crowd_of_handlers_that_ask_each_other_is_answered(gateway: Gateway) -> None:
    """No false deadlock: agents with slots enough, chains that cross, gathers, races and background tasks."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    names = ["birch", "elm", "flint", "grove"]
    background: list[asyncio.Task[Any]] = []
    agents = []
    for name in names:
        agent = Agent(name, concurrency=None)

        @agent.on("say")
        async def say(depth: int, ctx: Context) -> int:
            if depth == 0:
                return 1
            branches = [
                ctx.send_and_wait(chance.choice(names), "say", depth - 1, timeout=30) for _ in range(2)
            ]
            match chance.randrange(5):
                case 0:
                    return sum(await ctx.gather(*branches))
                case 1:
                    return sum(await asyncio.gather(*branches))
                case 2:
                    tasks = [asyncio.create_task(branch) for branch in branches]
                    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in rest:
                        task.cancel()
                    await asyncio.gather(*rest, return_exceptions=True)
                    return sum(task.result() for task in done) * 2 // len(done)
                case 3:
                    background.append(asyncio.create_task(branches[0]))
                    return await branches[1] * 2
                case _:
                    for branch in branches:
                        branch.close()
                    wanted = [ctx.request(chance.choice(names), "say", depth - 1) for _ in range(2)]
                    return sum(await ctx.wait_all(wanted, timeout=30))

        agents.append(agent)
    network = gateway.network
    async with (
        agents[0].running(gateway.nats, network=network),
        agents[1].running(gateway.nats, network=network),
        agents[2].running(gateway.nats, network=network),
        agents[3].running(gateway.nats, network=network),
        unknot.connect("me", gateway.nats, network=network, serves=False) as me,
    ):
        answers = await asyncio.gather(*(me.send_and_wait("elm", "say", 4, timeout=50) for _ in range(8)))
        assert set(answers) == {16}, f"seed {seed}"
        await asyncio.gather(*background, return_exceptions=True)
        assert me.counters.get("deadlocks", 0) == 0


@pytest.mark.parametrize("members", [3, 12])
async def test_a_ring_of_handlers_is_told_and_names_exactly_its_members(
    gateway: Gateway,
    members: int,
) -> None:
    found: list[unknot.DeadlockDetected] = []
    agents = [Agent(f"a{n:02}", blocking_waits="allow") for n in range(members)]
    for n, agent in enumerate(agents):
        after = agents[(n + 1) % members].name

        @agent.on("say")
        async def say(data: object, ctx: Context, after: str = after) -> object:
            try:
                return await ctx.send_and_wait(after, "say", timeout=50)
            except unknot.DeadlockDetected as deadlock:
                found.append(deadlock)
                raise

    network = gateway.network
    async with (
        _all_running(agents, gateway.nats, network),
        unknot.connect("me", gateway.nats, network=network, serves=False) as me,
    ):
        with pytest.raises(unknot.HandlerFailed):
            await me.send_and_wait("a00", "say", timeout=50)
    assert len(found) == members
    assert {deadlock.cycle for deadlock in found} == {tuple(agent.name for agent in [*agents, agents[0]])}
    assert len({deadlock.incident for deadlock in found}) == 1


@asynccontextmanager
async def _all_running(agents: list[Agent], url: str, network: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent.running(url, network=network, main_runs=False))
        yield
