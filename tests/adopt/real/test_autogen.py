"""AutoGen itself: agents that answer each other, agents that take messages one by one, tools, cancellation."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_agentchat.teams._group_chat._sequential_routed_agent import SequentialRoutedAgent
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, message_handler
from autogen_core.tools import FunctionTool

from tests.adopt.rig import Network, ends
from unknot import Connection, DeadlockDetected
from unknot.adapters import Lock, context, step
from unknot.adapters.autogen import ReportingRuntime

Acts = Callable[["Speaker | Turns", "Say", MessageContext], Awaitable[str]]


@dataclass
class Say:
    text: str


class Speaker(RoutedAgent):
    """Handles messages side by side."""

    def __init__(self, acts: Acts) -> None:
        super().__init__("a speaker")
        self._acts = acts

    @message_handler
    async def say(self, message: Say, ctx: MessageContext) -> Say:
        return Say(await self._acts(self, message, ctx))


class Turns(SequentialRoutedAgent):
    """Handles messages one by one."""

    def __init__(self, acts: Acts) -> None:
        super().__init__("one that takes turns", [Say])
        self._acts = acts

    @message_handler
    async def say(self, message: Say, ctx: MessageContext) -> Say:
        return Say(await self._acts(self, message, ctx))


def who(name: str) -> AgentId:
    return AgentId(name, "default")


async def ask(speaker: Speaker | Turns, other: str, text: str, **options: Any) -> str:
    answer = await speaker.send_message(Say(text), who(other), **options)
    return str(answer.text)


@asynccontextmanager
async def talking(
    network: Network, kind: type[Speaker] | type[Turns], **agents: Acts
) -> AsyncIterator[tuple[ReportingRuntime, dict[str, Connection]]]:
    """A runtime with *agents*, each with a connection of its own."""
    names = list(agents)
    async with network.connect(names[0]) as one, network.connect(names[-1]) as other:
        connections = {names[0]: one, names[-1]: other}
        runtime = ReportingRuntime(connections)
        for name, acts in agents.items():
            await kind.register(runtime, name, lambda acts=acts: kind(acts))
        runtime.start()
        try:
            yield runtime, connections
        finally:
            with warnings.catch_warnings():
                await runtime.stop()


async def says_done(speaker: Any, message: Say, ctx: MessageContext) -> str:
    return "done"


def asks(other: str) -> Acts:
    """Asks *other* when it is told to, and answers at once when it is asked."""

    async def act(speaker: Any, message: Say, ctx: MessageContext) -> str:
        return "an answer" if message.text == "asked back" else await ask(speaker, other, "asked")

    return act


async def asks_back(speaker: Any, message: Say, ctx: MessageContext) -> str:
    return await ask(speaker, "writer", "asked back")


async def test_two_that_take_turns_and_ask_each_other_are_told(network: Network) -> None:
    async with talking(network, Turns, writer=asks("reviewer"), reviewer=asks_back) as (runtime, _):
        with pytest.raises(DeadlockDetected):
            await runtime.send_message(Say("begin"), who("writer"))
        notice = await network.found()
        assert set(notice["cycle"]) == {"writer", "reviewer"}
        assert notice["evidence"] == "reported"
        assert {(wait["waiter"], wait["kind"]) for wait in notice["waits"]} == {
            ("writer", "task"),  # for the reviewer's answer
            ("reviewer", "task"),  # for the writer's
            ("writer", "lock"),  # for the writer's turn
        }
        await network.until(lambda waits: not waits)


async def test_after_it_both_take_further_messages(network: Network) -> None:
    async with talking(network, Turns, writer=asks("reviewer"), reviewer=asks_back) as (runtime, connections):
        for _ in range(2):
            with pytest.raises(DeadlockDetected):
                await runtime.send_message(Say("begin"), who("writer"))
        answer = await runtime.send_message(Say("asked back"), who("writer"))
        assert answer.text == "an answer"
        assert [me._links.session.beside for me in connections.values()] == [{}, {}]


async def test_the_same_talk_among_agents_that_answer_meanwhile_is_no_deadlock(network: Network) -> None:
    async with talking(network, Speaker, writer=asks("reviewer"), reviewer=asks_back) as (runtime, _):
        answers = [runtime.send_message(Say("begin"), who("writer")) for _ in range(20)]
        assert {answer.text for answer in await asyncio.gather(*answers)} == {"an answer"}
        await network.for_beats(1)
    assert network.notices == []


async def test_a_ring_with_a_tool_in_it_is_none(network: Network) -> None:
    found = asyncio.Event()

    async def search(what: str) -> str:
        """Search."""
        await found.wait()
        return f"{what}: found"

    tool = FunctionTool(step(search, "tool"), "searches", name="search")
    assert list(tool.schema["parameters"]["properties"]) == ["what"]

    async def act(speaker: Any, message: Say, ctx: MessageContext) -> str:
        return str(await tool.run_json({"what": message.text}, ctx.cancellation_token))

    async with talking(network, Turns, writer=asks("reviewer"), reviewer=act) as (runtime, _):
        answer = asyncio.create_task(runtime.send_message(Say("begin"), who("writer")))
        # A second one waits for the writer's turn, so that all kinds are in the chain.
        second = asyncio.create_task(runtime.send_message(Say("asked back"), who("writer")))
        await network.until(lambda waits: {wait["kind"] for wait in waits} == {"task", "lock", "tool"})
        await network.for_beats()
        found.set()
        assert (await answer).text == "asked: found"
        assert (await second).text == "an answer"
    assert network.notices == []


async def test_locks_and_answers_make_one_graph(network: Network) -> None:
    page = Lock("page")

    async def writes(speaker: Any, message: Say, ctx: MessageContext) -> str:
        async with page:
            return await ask(speaker, "reviewer", "asked")

    async def reads(speaker: Any, message: Say, ctx: MessageContext) -> str:
        assert context() is not None
        async with page:
            return "read"

    async with talking(network, Speaker, writer=writes, reviewer=reads) as (runtime, _):
        with pytest.raises(DeadlockDetected):
            await runtime.send_message(Say("begin"), who("writer"))
        notice = await network.found()
        assert notice["cycle"] == ["reviewer", "writer", "reviewer"]
        assert {wait["kind"] for wait in notice["waits"]} == {"task", "lock"}
        assert not page.locked()


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_a_message_that_ends_badly_is_waited_for_no_more(network: Network, how: str) -> None:
    fails, token = asyncio.Event(), CancellationToken()

    async def fail(speaker: Any, message: Say, ctx: MessageContext) -> str:
        await fails.wait()
        raise ValueError(how)

    async def begin(speaker: Any, message: Say, ctx: MessageContext) -> str:
        return await ask(speaker, "reviewer", "asked", cancellation_token=token)

    async with talking(network, Speaker, writer=begin, reviewer=fail) as (runtime, connections):
        asked = asyncio.create_task(runtime.send_message(Say("begin"), who("writer")))
        await network.until(len)
        fails.set() if how == "raises" else token.cancel()
        [ended] = await ends(asked)
        assert isinstance(ended, ValueError if how == "raises" else asyncio.CancelledError)
        await network.until(lambda waits: not waits)
        fails.set()
    assert [me._links.session.beside for me in connections.values()] == [{}, {}]


async def test_what_is_published_stands_for_nobody(network: Network) -> None:
    async with talking(network, Speaker, writer=says_done, reviewer=says_done) as (runtime, _):
        assert (await runtime.send_message(Say("begin"), who("writer"))).text == "done"
    assert network.notices == []
