"""Artifacts: who may produce them, who waits for them, and those that are there."""

from collections import OrderedDict

import msgspec
from msgspec import Struct, field

from unknot_gateway.core.graph import OUTSIDE, Artifact, Condition, artifact
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import OpenWait, Strand
from unknot_gateway.core.resources.ties import Tie, Ties
from unknot_gateway.core.waiting import Waiting


class Wanted(Struct, eq=False):
    """An artifact that is not there yet, and which somebody may produce or waits for."""

    id: str
    handle: Artifact
    producers: "dict[Strand, Production]" = field(default_factory=dict)
    reported: set[Strand] = field(default_factory=set)
    """Producers that somebody has named (see holders)."""
    waits: dict[OpenWait, list[int]] = field(default_factory=dict)
    """Who waits for it, with the places of the conditions."""


class Production(Tie, eq=False):
    """One strand's promise to produce an artifact, unless it ends before."""

    wanted: Wanted


class Artifacts:
    """Owner of all artifacts, wanted and published."""

    def __init__(self, limits: Limits, waiting: Waiting, ties: Ties) -> None:
        self._limits = limits
        self._waiting = waiting
        self._ties = ties
        self._wanted: dict[str, Wanted] = {}
        self._published: OrderedDict[str, msgspec.Raw] = OrderedDict()
        self.published_bytes = 0
        self.productions = 0

    @property
    def wanted(self) -> int:
        """How many are not there yet."""
        return len(self._wanted)

    @property
    def published(self) -> int:
        """How many are there."""
        return len(self._published)

    def data_of(self, name: str) -> msgspec.Raw | None:
        """What was published as *name*; None if nothing was, or it is forgotten."""
        return self._published.get(name)

    def find(self, name: str) -> Wanted | None:
        """The artifact that is wanted and not there yet."""
        return self._wanted.get(name)

    def need(self, name: str) -> Wanted:
        """The same; made when it is new."""
        wanted = self._wanted.get(name)
        if wanted is None:
            wanted = Wanted(name, self._waiting.graph.add_artifact(("artifact", name)))
            self._wanted[name] = wanted
        return wanted

    # -- producers

    def has_room(self, name: str, strand: Strand | None) -> bool:
        """Whether *strand* may be declared as a producer of *name*: one that is known is none more."""
        wanted = self._wanted.get(name)
        is_known = wanted is not None and strand in wanted.producers
        return is_known or self.productions < self._limits.productions_max

    def declare(self, name: str, strand: Strand) -> None:
        """*strand* may produce *name*."""
        wanted = self.need(name)
        if strand not in wanted.producers:
            self.productions += 1
            wanted.producers[strand] = production = Production(strand, wanted)
            self._ties.add(production)
            self._waiting.graph.add_producer(wanted.handle, strand.node)
            self._waiting.is_touched = True

    def withdraw(self, production: Production) -> None:
        """Its strand will not produce it."""
        wanted = production.wanted
        self.productions -= 1
        del wanted.producers[production.strand]
        if production.strand not in wanted.reported:
            self._waiting.graph.withdraw(wanted.handle, production.strand.node)
        self._waiting.is_touched = True
        self._ties.drop(production)
        self.forget_if_unwanted(wanted)

    # -- waits

    def enter(self, wait: OpenWait, index: int, name: str) -> Condition:
        """*wait* needs it; what the graph makes of that."""
        if name in self._published:
            wait.taken.add(index)
            self._hand(wait, name)
            return OUTSIDE
        wanted = self.need(name)
        wanted.waits.setdefault(wait, []).append(index)
        return artifact(wanted.handle)

    def leave(self, wait: OpenWait, name: str) -> None:
        """*wait* is over."""
        wanted = self._wanted.get(name)
        if wanted is not None and wanted.waits.pop(wait, None) is not None:
            self.forget_if_unwanted(wanted)

    def _hand(self, wait: OpenWait, name: str) -> None:
        if wait.got is None:
            wait.got = {}
        wait.got[name] = self._published[name]

    # -- the thing itself

    def publish(self, name: str, data: msgspec.Raw) -> list[OpenWait]:
        """It is there: the waits that have waited for it."""
        self._published[name] = data
        self.published_bytes += weight_of(data)
        wanted = self._wanted.pop(name, None)
        if wanted is None:
            return []
        for production in list(wanted.producers.values()):
            self.productions -= 1
            self._ties.drop(production)
        for wait, indexes in wanted.waits.items():
            wait.taken.update(indexes)
            self._hand(wait, name)
        self._waiting.graph.produce(wanted.handle)
        self._waiting.is_touched = True
        return list(wanted.waits)

    def make_room(self) -> bool:
        """Forget the oldest if there are too many, or too many bytes; whether it had to be."""
        limits, published = self._limits, self._published
        if len(published) <= limits.artifacts_max and self.published_bytes <= limits.artifact_bytes_max:
            return False
        return self.forget(next(iter(published)))

    def forget(self, name: str) -> bool:
        """It may be produced anew; False if it is not there."""
        data = self._published.pop(name, None)
        if data is not None:
            self.published_bytes -= weight_of(data)
        return data is not None

    def forget_if_unwanted(self, wanted: Wanted) -> None:
        """Nobody produces it and nobody waits for it: it is nothing."""
        if not (wanted.producers or wanted.reported or wanted.waits):
            del self._wanted[wanted.id]
            self._waiting.graph.produce(wanted.handle)


def weight_of(data: msgspec.Raw) -> int:
    """Bytes that *data* has."""
    return memoryview(data).nbytes
