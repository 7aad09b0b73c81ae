"""Deadlocks that come again: how often the same cycle of agents was decided on lately."""

from collections import OrderedDict, deque
from typing import Final

from unknot_gateway.core.limits import Limits

_INSTANTS_MAX: Final = 64
"""Decisions counted of one cycle."""

Cycle = tuple[str, ...]
"""Agents, from the least one; first == last."""


class Repeats:
    """Owner of the instants of decisions, by cycle."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._decided: OrderedDict[Cycle, deque[float]] = OrderedDict()

    def note(self, cycle: list[str], now: float) -> None:
        """*cycle* was decided on."""
        key = tuple(cycle)
        instants = self._decided.setdefault(key, deque(maxlen=_INSTANTS_MAX))
        instants.append(now)
        self._decided.move_to_end(key)
        while len(self._decided) > self._limits.cycles_max:
            self._decided.popitem(last=False)

    def livelocks(self, now: float) -> dict[Cycle, int]:
        """Cycles that are retried, and how often they were decided on within the window; the latest first."""
        found: dict[Cycle, int] = {}
        since = now - self._limits.livelock_window_s
        for cycle, instants in reversed(self._decided.items()):
            if instants[-1] < since:
                break  # all others are older
            count = sum(instant >= since for instant in instants)
            if count >= self._limits.livelock_decisions:
                found[cycle] = count
        return found
