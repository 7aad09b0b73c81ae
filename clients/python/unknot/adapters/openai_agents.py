"""OpenAI Agents SDK: runs as work of an agent; needs ``unknot[openai-agents]``.

    ask_bob = function_tool(step(ask_bob, "agent", "bob"))       # a tool that stands still for bob
    search = function_tool(step(search, "tool"))                 # one that stands still for something outside
    result = await run(me, alice, "a draft, please")             # me: unknot.connect(…, serves=False)

It is the function that is wrapped, below the tool: so how a tool fails, what the model is told of it, and who approves
it stay as they are. RunHooks would not do: they hear when a tool starts, but not when one ends by raising or by being
cancelled. A handoff is no wait: the run goes on as another. An agent used as a tool is a part of its caller's run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from agents import Agent, Runner, RunResult, RunState, TResponseInputItem

from unknot._connection import Connection
from unknot.adapters._work import current, working

T = TypeVar("T")


async def run(
    me: Connection,
    agent: Agent[T],
    given: str | list[TResponseInputItem] | RunState[T],
    *,
    task: str | None = None,
    **options: Any,
) -> RunResult:
    """``await Runner.run(agent, given, …)``, reported; *task*: the name by which others wait for it."""
    async with working(me, task):
        return await Runner.run(agent, given, **options)


@asynccontextmanager
async def approving(
    me: Connection, result: RunResult, human: str = "operator", *, task: str | None = None
) -> AsyncIterator[None]:
    """``async with``: inside, a human decides on the interruptions of *result*."""
    names = ", ".join(str(each.tool_name) for each in result.interruptions[:8])
    async with working(me, task):
        work = current()
        assert work is not None
        async with work.standing("human", human, names):
            yield
