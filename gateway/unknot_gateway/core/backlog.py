"""What one fact brings about for thousands of events is done a few at a time, between messages.

An event that waits for its place counts, in the graph, as held up by nobody: who hangs on what is known again when it
has one. New events for the same agent queue behind. What a session that is over leaves behind is cleared away in the
order in which it would be at once.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from unknot_gateway.core.intake import Intake
from unknot_gateway.core.records import Agent, Leg
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies

_T = TypeVar("_T")

_OVER: Final = object()


class _Otherwise(Struct, frozen=True):
    """What becomes of those that nobody serves any more; *up_to*: the last that had been queued by then."""

    error: bodies.Error
    up_to: int


class Backlog:
    """Owner of all that goes on between messages. Small things are over within their fact."""

    def __init__(self, tables: Tables, settle: Settle, intake: Intake) -> None:
        self._t = tables
        self._settle = settle
        self._intake = intake
        self._agents: dict[Agent, _Otherwise | None] = {}
        """Whose events wait to be placed."""
        self._rest: deque[Iterator[None]] = deque()
        """What sessions that are over have left behind."""
        self._left = 0
        self.now = 0.0
        """The instant of the fact that is being handled."""

    def __len__(self) -> int:
        return len(self._agents) + len(self._rest)

    def begin(self, now: float) -> None:
        """A fact is to be handled: it may take so many steps and no more."""
        self.now, self._left = now, self._t.limits.steps_max

    def run(self) -> None:
        """Go on with what has been left, as far as the steps of this fact reach."""
        while self._rest and self._left > 0:
            self._go_on(self._rest.popleft())
        while self._agents and self._left > 0:
            agent = next(iter(self._agents))
            self._place(agent, self._agents.pop(agent))

    def clear(self, work: Iterator[None]) -> None:
        """Do *work*, one step after the other."""
        self._go_on(work)

    def place(self, agent: Agent, otherwise: bodies.Error | None = None) -> None:
        """Place anew all that waits for *agent*. *otherwise*: what becomes of that which nobody serves any more."""
        if self._t.admission.gather(agent, self._t.waiting):
            before = self._agents.pop(agent, None)
            new = _Otherwise(otherwise, next(reversed(agent.unplaced))) if otherwise is not None else None
            self._place(agent, new or before)

    # -- inside

    def _go_on(self, work: Iterator[None]) -> None:
        while self._left > 0:
            self._left -= 1
            if next(work, _OVER) is _OVER:
                return
        self._rest.append(work)

    def _place(self, agent: Agent, otherwise: _Otherwise | None) -> None:
        while agent.unplaced:
            if self._left <= 0:
                self._agents[agent] = otherwise
                return
            self._left -= 1
            leg = self._t.admission.next_unplaced(agent)
            if otherwise is not None and self._is_unserved(leg, otherwise):
                self._settle.reject(leg, otherwise.error, self.now)
            else:
                self._intake.place_again(leg, self.now)
        self._t.sessions.forget_if_gone(agent)

    def _is_unserved(self, leg: Leg, otherwise: _Otherwise) -> bool:
        return leg.order <= otherwise.up_to and not self._t.admission.route(leg.agent, leg.message.type)


def one_by_one(items: Iterable[_T]) -> Iterator[_T]:
    """*items* as they are now; each is let go of before the next: to free thousands at once takes long."""
    left = deque(items)
    while left:
        yield left.popleft()
