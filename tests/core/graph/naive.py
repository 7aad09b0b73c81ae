"""The least fixpoint of a mirror's record, from the words of the design, with nothing clever in it."""

from collections.abc import Collection

from tests.core.graph.mirror import Leaf, Mirror

Place = tuple[int, int]


def stuck(
    mirror: Mirror, *, lost_go_on: bool = True, running: Collection[int] = (), ignore: Collection[int] = ()
) -> set[int]:
    """Who can never go on, when *running* do and the waits in *ignore* do not count; lost nodes are not among them."""
    return _Naive(mirror, set(ignore)).run(lost_go_on, set(running))


def flat(on: list[Leaf]) -> list[tuple[int, Leaf]]:
    """The conditions that are no any-of, each with its spot."""
    return [
        (index * 100 + at, leaf)
        for index, top in enumerate(on)
        for at, leaf in enumerate(top[1] if top[0] == "any" else [top])
    ]


class _Naive:
    def __init__(self, mirror: Mirror, ignore: set[int]) -> None:
        self.mirror = mirror
        self.waits = {wait: each for wait, each in mirror.waits.items() if wait not in ignore}
        self.served: set[Place] = set()
        self.blocked: set[int] = set()

    def run(self, lost_go_on: bool, running: set[int]) -> set[int]:
        lost = self.mirror.lost
        self.blocked = {node for node, _, _ in self.waits.values()} - running
        self.blocked |= set() if lost_go_on else lost
        while True:
            more = {place for pool in self.mirror.pools for place in self._served(pool)} - self.served
            able = {node for node in self.blocked - lost if self._goes(node)}
            self.served |= more
            self.blocked -= able
            if not more and not able:
                return self.blocked - lost

    def _served(self, pool: int) -> list[Place]:
        capacity, fifo, held = self.mirror.pools[pool]
        queue = [
            (wait, spot, leaf[2])
            for wait, (_, on, _) in sorted(self.waits.items())
            for spot, leaf in flat(on)
            if leaf[:2] == ("resource", pool)
        ]
        if capacity is None:
            return [(wait, spot) for wait, spot, _ in queue]
        left = max(0, capacity - sum(units for node, units in held.items() if node in self.blocked))
        found = []
        for wait, spot, units in queue:
            if units <= left:
                found.append((wait, spot))
            if fifo and self._stays(wait, spot):
                if units > left:
                    break
                left -= units
        return found

    def _stays(self, wait: int, spot: int) -> bool:
        in_the_way = self.waits[wait][0] in self.blocked
        return in_the_way and not self._satisfied(wait, self.served - {(wait, spot)})

    def _goes(self, node: int) -> bool:
        mine = [wait for wait, (waiter, _, _) in self.waits.items() if waiter == node]
        return all(self._satisfied(wait, self.served) for wait in mine)

    def _satisfied(self, wait: int, served: set[Place]) -> bool:
        _, on, need = self.waits[wait]
        true = {spot // 100 for spot, leaf in flat(on) if self._true(wait, spot, leaf, served)}
        return len(true) >= (len(on) if need is None else need)

    def _true(self, wait: int, spot: int, leaf: Leaf, served: set[Place]) -> bool:
        if leaf[0] == "exec":
            return leaf[1] not in self.blocked
        if leaf[0] == "artifact":
            makers = self.mirror.makers[leaf[1]]
            return not makers or bool(makers - self.blocked)
        if leaf[0] == "resource":
            return leaf[1] not in self.mirror.pools or (wait, spot) in served
        return bool(leaf[0] == "outside")
