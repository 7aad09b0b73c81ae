"""AutoGen: each message that an agent handles as work of that agent; needs ``unknot[autogen]``.

    runtime = ReportingRuntime({"writer": writer, "reviewer": reviewer})    # AutoGen's agent type: unknot.connect(…)

An agent of AutoGen handles its messages side by side, so one that waits for an answer answers others meanwhile: only
the handling of that one message stands still, and only that is reported. Agents of AgentChat that take messages one by
one (SequentialRoutedAgent) are seen as what they are: their turn is a lock.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from autogen_core import (
    Agent,
    AgentId,
    AgentType,
    CancellationToken,
    MessageContext,
    SingleThreadedAgentRuntime,
)

from unknot._connection import Connection
from unknot.adapters._lock import Lock
from unknot.adapters._work import current, working

T = TypeVar("T", bound=Agent)


class ReportingRuntime(SingleThreadedAgentRuntime):
    """A SingleThreadedAgentRuntime that reports who waits for whose answer.

    *agents*: the connection of each agent type; of other types nothing is reported. Of the AgentChat teams that make
    agents of their own, name the types to see them.
    """

    def __init__(self, agents: Mapping[str, Connection], **options: Any) -> None:
        super().__init__(**options)
        self._reported = dict(agents)

    async def send_message(
        self,
        message: Any,
        recipient: AgentId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
    ) -> Any:
        """As its parent; whoever sends stands still until the answer."""
        id = message_id or str(uuid4())
        send = super().send_message(
            message, recipient, sender=sender, cancellation_token=cancellation_token, message_id=id
        )
        work = current()
        if work is None:
            return await send
        async with work.standing("task", id, f"{type(message).__name__} to {recipient}"):
            return await send

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        """As its parent; what the factory makes is reported."""
        name = type if isinstance(type, str) else type.type

        async def make() -> T:
            made = agent_factory()
            agent: T = await made if inspect.isawaitable(made) else made
            self._report(agent, name)
            return agent

        return await super().register_factory(type, make, expected_class=expected_class)

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """As its parent; the instance is reported."""
        registered = await super().register_agent_instance(agent_instance, agent_id)
        self._report(agent_instance, agent_id.type)
        return registered

    def _report(self, agent: Agent, name: str) -> None:
        me = self._reported.get(name)
        if me is None:
            return
        handle = agent.on_message

        async def on_message(message: Any, ctx: MessageContext) -> Any:
            # The runtime's own task has started this one, whatever work it was started in: it is nobody's call.
            async with working(me, ctx.message_id if ctx.is_rpc else str(uuid4()), called=False):
                return await handle(message, ctx)

        agent.on_message = on_message  # type: ignore[method-assign]  # on_message is final, so no subclass can
        if hasattr(agent, "_fifo_lock"):
            agent._fifo_lock = Lock(f"turn:{agent.id}:{id(agent):x}")
