"""What is due when: one heap, cancelled entries skipped, compacted when they are many."""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

_SLACK: Final = 1_024
"""Cancelled entries tolerated beyond the live ones."""


class Due(NamedTuple):
    """Something whose instant has come."""

    kind: str
    key: Hashable


class Deadlines:
    """At most one instant for each (kind, key)."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, Hashable], tuple[float, int]] = {}
        self._heap: list[tuple[float, int, str, Hashable]] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, due: tuple[str, Hashable]) -> bool:
        return due in self._at

    def set(self, kind: str, key: Hashable, at: float) -> None:
        """Let (kind, key) be due at *at*, and at no other instant."""
        self._entries += 1
        self._at[kind, key] = (at, self._entries)
        heappush(self._heap, (at, self._entries, kind, key))
        if not self._entries % _SLACK and len(self._heap) > 2 * len(self._at) + _SLACK:
            self._compact()

    def drop(self, kind: str, key: Hashable) -> None:
        """Let (kind, key) never be due; nothing happens if it was not."""
        self._at.pop((kind, key), None)

    def next_at(self) -> float | None:
        """The earliest instant; None if nothing is due ever."""
        heap = self._heap
        while heap:
            at, entry, kind, key = heap[0]
            if self._at.get((kind, key)) == (at, entry):
                return at
            heappop(heap)
        return None

    def take(self, now: float) -> Iterator[Due]:
        """Yield and forget what is due at *now*; what is set meanwhile for a passed instant is yielded too."""
        while (at := self.next_at()) is not None and at <= now:
            _, _, kind, key = heappop(self._heap)
            del self._at[kind, key]
            yield Due(kind, key)

    def _compact(self) -> None:
        self._heap = [(at, entry, kind, key) for (kind, key), (at, entry) in self._at.items()]
        heapify(self._heap)
