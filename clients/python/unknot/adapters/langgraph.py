"""LangGraph: runs of graphs as work of an agent; needs ``unknot[langgraph]``.

    graphs = Graphs(me)                                          # me: unknot.connect(…, serves=False)
    builder.add_node("ask_bob", step(ask_bob, "agent", "bob"))   # a node that stands still for bob
    builder.add_node("search", step(search, "tool"))             # one that stands still for a tool
    await graphs.run(builder.compile(), {"topic": "knots"})

Whatever a node calls is a part of its run; but a graph that it calls by ``run`` is work of that graph's own agent.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from langgraph.types import Interrupt

from unknot._connection import Connection
from unknot.adapters._reporting import Parked
from unknot.adapters._work import parked, working

PARKED_MAX: Final = 1_000
"""Threads of one connection that are known to wait for a human; the oldest is forgotten first."""


class Runs(Protocol):
    """A compiled graph, also a remote one."""

    async def ainvoke(self, given: Any, config: Any = None, /, **options: Any) -> Any:
        """Run it to its end, or to its next interrupt."""
        ...


class Graphs:
    """Runs of graphs by the agent *me*. *human*: who is asked when one is interrupted."""

    def __init__(self, me: Connection, human: str = "operator") -> None:
        self._me = me
        self._human = human
        self._parked: OrderedDict[str, Parked] = OrderedDict()

    async def run(
        self,
        graph: Runs,
        given: Any,
        config: Mapping[str, Any] | None = None,
        *,
        task: str | None = None,
        **options: Any,
    ) -> Any:
        """``await graph.ainvoke(…)``, reported; *task*: the name by which others wait for it (see ``working``).

        After an interrupt its thread waits for a human, until it is run again or forgotten.
        """
        thread = str((config or {}).get("configurable", {}).get("thread_id", ""))
        self.forget(thread)
        async with working(self._me, task):
            result = await graph.ainvoke(given, config, **options)
        interrupts = interrupts_of(result)
        if thread and interrupts:
            self._park(thread, task, ", ".join(str(each.value)[:100] for each in interrupts[:8]))
        return result

    def forget(self, thread: str) -> None:
        """The thread waits for nobody any more: it is run elsewhere, or never again."""
        waiting = self._parked.pop(thread, None)
        if waiting is not None:
            waiting.end()

    def _park(self, thread: str, task: str | None, reason: str) -> None:
        self._parked[thread] = parked(self._me, "human", self._human, reason, task)
        while len(self._parked) > PARKED_MAX:
            self.forget(next(iter(self._parked)))


def interrupts_of(result: object) -> Sequence[Interrupt]:
    """What a run was interrupted for; none when it has ended."""
    if isinstance(result, Mapping):
        return tuple(result.get("__interrupt__", ()))
    return tuple(getattr(result, "interrupts", ()))
