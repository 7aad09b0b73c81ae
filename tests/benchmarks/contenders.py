"""Who is measured: plain NATS, the bare relay, the gateway with raw agents, the gateway through the SDK."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import nats
from msgspec import Struct
from nats.aio.msg import Msg

from tests.benchmarks.load import Lane, Start
from tests.benchmarks.machine import gateway, program, python
from tests.benchmarks.raw_agent import Event, RawAgent, raw_agent
from unknot import Agent, Context

LANES_MAX = 512
SLOTS = 1024
KIND = "bench.echo"


class Contender(Struct):
    """One way to carry a request; *middle*: the pid of the process between the agents, None if there is none."""

    name: str
    start: Start
    middle: int | None


@contextlib.asynccontextmanager
async def plain(url: str) -> AsyncIterator[Contender]:
    """Plain NATS request/reply by nats-py's own request()."""
    asker, answerer = await nats.connect(url), await nats.connect(url)

    async def echo(msg: Msg) -> None:
        await msg.respond(msg.data)

    async def start(lane: int, run: Lane) -> None:
        data = b'{"lane":%d}' % lane

        async def ask() -> None:
            assert (await asker.request(KIND, data, timeout=30)).data == data

        await run(ask)

    await answerer.subscribe(KIND, cb=echo)
    await answerer.flush()
    try:
        yield Contender("plain NATS", start, None)
    finally:
        await asker.close()
        await answerer.close()


@contextlib.asynccontextmanager
async def relay(url: str) -> AsyncIterator[Contender]:
    """A bare relay process; the agents are those of the gateway's row."""
    command = python("tests.benchmarks.relay", url, "relay")
    async with program(*command) as process, raw_pair(url, "relay") as start:
        yield Contender("bare relay", start, process.pid)


@contextlib.asynccontextmanager
async def unknot(url: str) -> AsyncIterator[Contender]:
    """The gateway process, agents on bare nats-py."""
    async with gateway(url, "bench") as pid, raw_pair(url, "bench") as start:
        yield Contender("unknot", start, pid)


@contextlib.asynccontextmanager
async def unknot_sdk(url: str) -> AsyncIterator[Contender]:
    """The gateway process, agents through the SDK: each lane is a handler that asks again and again."""
    answerer, asker = Agent("answerer", SLOTS), Agent("asker", SLOTS, blocking_waits="allow")
    lanes: asyncio.Queue[tuple[int, Lane, asyncio.Future[None]]] = asyncio.Queue()

    @answerer.on(KIND)
    async def echo(number: int) -> int:
        return number

    @asker.on("bench.start")
    async def handle(_: None, ctx: Context) -> None:
        while True:
            number, run, over = await lanes.get()

            async def ask(number: int = number) -> None:
                assert await ctx.send_and_wait("answerer", KIND, number) == number

            await run(ask)
            over.set_result(None)

    async def start(lane: int, run: Lane) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lanes.put_nowait((lane, run, over))
        await over

    async with (
        gateway(url, "sdk") as pid,
        answerer.running(url, network="sdk"),
        asker.running(url, network="sdk") as me,
    ):
        for _ in range(LANES_MAX):
            await me.send("asker", "bench.start")
        yield Contender("unknot, SDK", start, pid)


@contextlib.asynccontextmanager
async def raw_pair(url: str, network: str) -> AsyncIterator[Start]:
    """An asker that handles LANES_MAX events at once and an answerer: each lane asks as one handled event."""

    async def echo(event: Event) -> None:
        await answerer.reply(event.id, bytes(event.data))

    answerer = await raw_agent(url, network, "answerer", SLOTS, echo)
    asker = await raw_agent(url, network, "asker", SLOTS)
    starter = await raw_agent(url, network, "starter", None)
    try:
        executions = await _held(starter, asker)

        async def start(lane: int, run: Lane) -> None:
            data = b'{"lane":%d}' % lane

            async def ask() -> None:
                outcome = await (await asker.request("answerer", KIND, data, executions[lane]))
                assert outcome.event is not None, outcome
                assert bytes(outcome.event.data) == data, outcome

            await run(ask)

        yield start
        assert not asker.surprises, asker.surprises[:3]
        await asker.done(executions)
    finally:
        for agent in (asker, answerer, starter):
            await agent.stop()


async def _held(starter: RawAgent, asker: RawAgent) -> list[str]:
    executions = [await starter.send("asker", "bench.start", None) for _ in range(LANES_MAX)]
    while len(asker.held) < LANES_MAX:
        asker.held_came.clear()
        await asker.held_came.wait()
    return executions


def own_pid() -> int:
    """The process of the agents: this one."""
    return os.getpid()
