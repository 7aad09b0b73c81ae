"""Small stories of requests, with what is right at their end, whatever happened to the gateway meanwhile."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import unknot
from tests.faults.rig import BEAT_S, HANG_S, Ended, House, Spy, all_over, asking, ended, spying, until
from unknot import Agent, Connection, Context


class Stage:
    """Agents in this process, connected. *runs*: how often each handler was started, by what it was given."""

    def __init__(self, house: House, beat_s: float = BEAT_S) -> None:
        self.house = house
        self.beat_s = beat_s
        self.runs: Counter[Any] = Counter()
        self.go = asyncio.Event()
        self.both = asyncio.Barrier(2)
        self.running: Counter[str] = Counter()
        self.knot: dict[str, Ended] = {}
        self.me: dict[str, Connection] = {}
        self.spy: Spy

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Stage"]:
        """With all agents up, and the script ``cli``."""
        await self.house.ready()
        url, network = self.house.server.url, self.house.network
        async with contextlib.AsyncExitStack() as stack:
            self.spy = await stack.enter_async_context(spying(url, network))
            for agent in (self._elm(), self._fir(), self._knot("oak", "ash"), self._knot("ash", "oak")):
                self.me[agent.name] = await stack.enter_async_context(agent.running(url, network=network))
            cli = unknot.connect("cli", url, network=network, serves=False, heartbeat_s=self.beat_s)
            self.me["cli"] = await stack.enter_async_context(cli)
            yield self

    def play(self, story: Callable[["Stage"], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """*story*, begun."""
        return asyncio.create_task(story(self), name=story.__name__)

    async def over(self) -> None:
        """Until nothing is left; nothing may have been said twice, no serial agent may have done two things at once."""
        await all_over(self.spy, *self.me.values())
        self.spy.nothing_was_contradicted()
        assert all(number == 0 for number in self.running.values())

    def ask(
        self, target: str, event_type: str, data: Any = None, timeout: float = HANG_S
    ) -> asyncio.Task[Ended]:
        """The script asks."""
        return asking(self.me["cli"], target, event_type, data, timeout)

    async def has_run(self, what: Any) -> None:
        """Until the handler has been given *what*, or the gateway is dead."""
        await until(lambda: self.runs[what] > 0 or self.house.is_dead)

    @contextlib.contextmanager
    def _alone(self, agent: str, what: Any) -> Iterator[None]:
        self.runs[what] += 1
        self.running[agent] += 1
        assert self.running[agent] == 1, f"{agent} has one slot and runs two handlers"
        try:
            yield
        finally:
            self.running[agent] -= 1

    def _elm(self) -> Agent:
        elm = Agent("elm", heartbeat_s=self.beat_s)

        @elm.on("say")
        async def say(data: Any) -> Any:
            with self._alone("elm", data):
                return data

        @elm.on("say.later")
        async def say_later(data: Any) -> Any:
            with self._alone("elm", data):
                await self.go.wait()
                return data

        @elm.on("defer")
        async def defer(data: Any, ctx: Context) -> None:
            with self._alone("elm", data):
                ctx.defer()
                self.me["elm"]._links.session.tasks.start(self._keep_promise(ctx, data), "promise")

        return elm

    async def _keep_promise(self, ctx: Context, data: Any) -> None:
        await self.go.wait()
        await ctx.reply(data)

    def _fir(self) -> Agent:
        fir = Agent("fir", heartbeat_s=self.beat_s)

        @fir.on("say.never")
        async def say_never(data: Any, ctx: Context) -> str:
            with self._alone("fir", data):
                await ctx.abandoned.wait()
                return "given up"

        return fir

    def _knot(self, name: str, other: str) -> Agent:
        agent = Agent(name, heartbeat_s=self.beat_s, blocking_waits="allow")

        @agent.on("begin")
        async def begin(data: Any, ctx: Context) -> Any:
            with self._alone(name, f"{name} begins"):
                await self.both.wait()
                self.knot[name] = await ended(ctx.send_and_wait(other, "help", timeout=HANG_S), HANG_S)
                return [self.knot[name].outcome, self.knot[name].value]

        @agent.on("help")
        async def help_out(data: Any) -> Any:
            with self._alone(name, f"{name} helps"):
                return "helped"

        return agent


async def reply(stage: Stage) -> None:
    """A request with its reply."""
    end = await stage.ask("elm", "say", "a")
    assert (end.outcome, end.value) == ("reply", "a"), end
    assert stage.runs == {"a": 1}


async def queue(stage: Stage) -> None:
    """A request that waits for a slot."""
    first = stage.ask("elm", "say.later", "a")
    await stage.has_run("a")
    second = stage.ask("elm", "say", "b")
    await stage.spy.waits(2, stage.house)
    stage.go.set()
    ends = [await first, await second]
    assert [(end.outcome, end.value) for end in ends] == [("reply", "a"), ("reply", "b")], ends
    assert stage.runs == {"a": 1, "b": 1}


async def deferred(stage: Stage) -> None:
    """A request whose handler returns first and answers later."""
    asked = stage.ask("elm", "defer", "a")
    await stage.has_run("a")
    second = stage.ask("elm", "say", "b")  # its slot is free
    if not stage.house.is_dead:
        await asyncio.wait({second, asyncio.ensure_future(stage.house.died())}, return_when="FIRST_COMPLETED")
    stage.go.set()
    ends = [await asked, await second]
    assert [(end.outcome, end.value) for end in ends] == [("reply", "a"), ("reply", "b")], ends
    assert stage.runs == {"a": 1, "b": 1}


async def deadlock(stage: Stage) -> None:
    """Two serial agents that need each other: told so, both; one who is told late may meet the other one free."""
    ends = await asyncio.gather(stage.ask("oak", "begin"), stage.ask("ash", "begin"))
    assert [end.outcome for end in ends] == ["reply", "reply"], ends
    said = {"oak": ends[0].value, "ash": ends[1].value}
    assert all(value in (["deadlock", None], ["reply", "helped"]) for value in said.values()), stage.knot
    assert ["deadlock", None] in said.values(), said
    helped = {"oak helps": said["ash"][0] == "reply", "ash helps": said["oak"][0] == "reply"}
    assert stage.runs == {"oak begins": 1, "ash begins": 1} | {who: 1 for who, did in helped.items() if did}


async def wait_any(stage: Stage) -> None:
    """A group of two of which one is enough; the other one is told that nobody waits for it."""
    cli = stage.me["cli"]
    both = [cli.request("elm", "say.later", "a"), cli.request("fir", "say.never", "b")]
    asked = asyncio.create_task(ended(cli.wait_any(both, timeout=HANG_S), HANG_S))
    await stage.has_run("a")
    await stage.has_run("b")
    stage.go.set()
    end = await asked
    assert end.outcome == "reply", end
    assert (end.value.index, end.value.data) == (0, "a")
    assert stage.runs["a"] == 1
    assert stage.runs["b"] <= 1


async def timeout(stage: Stage) -> None:
    """A request that nobody answers in time; whoever runs it is told.

    A gateway may die when it has told so much and no more: then what the handler says to that is an answer like any.
    """
    end = await stage.ask("fir", "say.never", "a", timeout=1.0)
    assert end.outcome == "expired" or end.value == "given up", end
    assert stage.runs["a"] <= 1


async def one_way(stage: Stage) -> None:
    """Two events that nobody answers; the second waits for the slot of the first."""
    stage.go.set()
    for name in ("a", "b"):
        await stage.me["cli"].send("elm", "say.later", name)
    await until(lambda: stage.runs["a"] + stage.runs["b"] == 2)


async def hail(stage: Stage) -> None:
    """A script that expects an event, and reads no others."""
    url, network = stage.house.server.url, stage.house.network
    async with (
        unknot.connect("scout", url, network=network, heartbeat_s=BEAT_S) as scout,
        asyncio.timeout(HANG_S),
    ):
        expecting = asyncio.create_task(scout.expect("hail", timeout=HANG_S))
        await asyncio.sleep(2 * BEAT_S)
        await stage.me["fir"].send("scout", "hail", "hello")
        assert (await expecting).data == "hello"


STORIES = {
    "reply": reply,
    "queue": queue,
    "deferred": deferred,
    "deadlock": deadlock,
    "wait_any": wait_any,
    "timeout": timeout,
}
EFFECTS = {"reply": 2, "queue": 4, "deferred": 4, "deadlock": 13, "wait_any": 5, "timeout": 3}
"""How many effects leave for each story; a test counts them."""
