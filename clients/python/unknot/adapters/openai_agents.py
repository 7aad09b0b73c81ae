"""OpenAI Agents SDK: runs as work of an agent; needs ``unknot[openai-agents]``.

    alice = reporting(alice, {"ask_bob": ("agent", "bob")})      # all other tools are outside
    result = await run(me, alice, "a draft, please")             # me: unknot.connect(…, serves=False)

The tools are wrapped, not hooked: RunHooks hear of the start of every tool, but not of the end of one that failed or was
cancelled. A handoff is no wait: the run goes on as another agent, and whoever waits for it waits for the same run.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from agents import Agent, FunctionTool, Runner, RunResult, RunState, TResponseInputItem
from agents.tool import Tool

from unknot._blocking_on import BlocksOn
from unknot._connection import Connection
from unknot.adapters._steps import step
from unknot.adapters._work import current, working

T = TypeVar("T")

Waits = Mapping[str, tuple[BlocksOn, str]]
"""What a tool stands still for, by its name: kind and id, as ``blocking_on`` has them."""


def reporting(agent: Agent[T], waits: Waits | None = None) -> Agent[T]:
    """A copy of *agent* whose function tools report what they stand still for; those not in *waits*: a tool."""
    return agent.clone(tools=[_reporting(tool, waits or {}) for tool in agent.tools])


def _reporting(tool: Tool, waits: Waits) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool  # the model's side runs it, or it has no function to wrap: it is seen as running
    kind, id = waits.get(tool.name, ("tool", tool.name))
    return replace(tool, on_invoke_tool=step(tool.on_invoke_tool, kind, id))


async def run(
    me: Connection,
    agent: Agent[T],
    input: str | list[TResponseInputItem] | RunState[T],
    *,
    task: str | None = None,
    **options: Any,
) -> RunResult:
    """``await Runner.run(agent, input, …)``, reported; *task*: the name by which others wait for it."""
    async with working(me, task):
        return await Runner.run(agent, input, **options)


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
