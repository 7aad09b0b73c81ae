"""What of one wait over several things has come. No I/O."""

import asyncio
from collections.abc import Collection

from unknot._leases import Lease
from unknot._pending import COME_TRUE
from unknot_schemas import bodies


class Come:
    """What of one wait has come, by the places of its branches."""

    def __init__(self, n: int, need: int, future: "asyncio.Future[None]") -> None:
        self.n = n
        self.need = need
        self.future = future
        self.asked: Collection[int] = ()
        """Places of requests and asks: their answers come for themselves."""
        self.answers: dict[int, bodies.Outcome] = {}
        """How they have ended, by place."""
        self.wire: list[int] = []
        """Places of the conditions that the gateway was told."""
        self.outcome: bodies.Outcome | None = None
        self.lease: Lease | None = None

    def answered(self, place: int, outcome: bodies.Outcome) -> None:
        """The request at *place* has ended."""
        self.answers.setdefault(place, outcome)
        self.look()

    def ended(self, outcome: bodies.Outcome, lease: Lease | None) -> None:
        """The wait has ended."""
        self.outcome, self.lease = outcome, lease
        self.look()

    def look(self) -> None:
        """Wake the waiter when it is over."""
        if self.is_over and not self.future.done():
            self.future.set_result(None)

    @property
    def is_over(self) -> bool:
        """Whether enough is true, or can be no more."""
        if self.outcome is not None:
            return not self._true or len(self.true) >= self.need
        return len(self.replied) >= self.need or len(self.failed) > self.n - self.need

    @property
    def replied(self) -> list[int]:
        """Places of the requests that were answered."""
        return [place for place, outcome in self.answers.items() if outcome.outcome == "reply"]

    @property
    def failed(self) -> list[int]:
        """Places of the requests that have failed."""
        return [place for place, outcome in self.answers.items() if outcome.outcome != "reply"]

    @property
    def true(self) -> list[int]:
        """Places that are known to be true, and whose answers are here."""
        told = {place for place in self._true if place not in self.asked or place in self.answers}
        return sorted(told | set(self.replied))

    @property
    def _true(self) -> list[int]:
        fulfilled = self.outcome.fulfilled if self.outcome is not None else None
        if fulfilled is None or self.outcome is None or self.outcome.outcome not in COME_TRUE:
            return []
        return [self.wire[index] for index in fulfilled.true if index < len(self.wire)]
