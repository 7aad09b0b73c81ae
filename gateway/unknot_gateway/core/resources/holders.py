"""What agents report of things outside: who holds a lock or permits, who can produce an artifact or do a task.

Nobody known is nobody inside: a wait for such a thing is outside. How a queue outside is served is not known either, so
whoever fits can go on.
"""

from typing import Final

from msgspec import Struct, field

from unknot_gateway.core.deadlines import Deadlines
from unknot_gateway.core.graph import OUTSIDE, Artifact, Condition, Resource, artifact, resource
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Session, Strand
from unknot_gateway.core.resources.artifacts import Artifacts
from unknot_gateway.core.resources.ties import Tie, Ties
from unknot_gateway.core.waiting import Waiting
from unknot_schemas import bodies

ThingKey = tuple[str, str]
"""Kind (lock, permits, task, artifact) and name."""
_HELD: Final = ("lock", "permits")
KINDS: Final = frozenset({*_HELD, "task", "artifact"})


class Thing(Struct, eq=False):
    """Something outside. *units*: its lock or permits, *doers*: who can do or produce it, as the graph has them."""

    key: ThingKey
    revision: int = 0
    capacity: int | None = None
    units: Resource | None = None
    doers: Artifact | None = None
    reports: "dict[Strand, Report]" = field(default_factory=dict)
    waits: int = 0


class Report(Tie, eq=False):
    """Somebody has said that *strand* holds units of *thing*, or can do it."""

    thing: Thing
    units: int
    by: Session
    """Who said it last."""


class Holders:
    """Owner of all that is reported of things outside."""

    def __init__(
        self, limits: Limits, waiting: Waiting, deadlines: Deadlines, artifacts: Artifacts, ties: Ties
    ) -> None:
        self._limits = limits
        self._waiting = waiting
        self._deadlines = deadlines
        self._artifacts = artifacts
        self._ties = ties
        self._things: dict[ThingKey, Thing] = {}
        self._revisions = 0
        self._said: dict[Session, dict[Report, None]] = {}
        """By the session that said it."""
        self.reports = 0

    def __len__(self) -> int:
        return len(self._things)

    def find(self, key: ThingKey) -> Thing | None:
        """What is known under that name."""
        return self._things.get(key)

    def has_room(self, key: ThingKey, strand: Strand | None) -> bool:
        """Whether a report that *strand* holds it, or can do it, can be taken: one that is known is none more."""
        thing = self._things.get(key)
        is_known = thing is not None and strand in thing.reports
        return is_known or self.reports < self._limits.reports_max

    def is_reported(self, name: str) -> bool:
        """Whether somebody has named a producer of the artifact *name*."""
        return ("artifact", name) in self._things

    # -- reports

    def set(
        self,
        by: Session,
        key: ThingKey,
        strand: Strand,
        units: int,
        capacity: int | None,
        until: float | None,
    ) -> None:
        """*by* says that *strand* holds *units* of it, or can do it, until *until* at the latest."""
        thing = self._need(key)
        if capacity is not None and key[0] == "permits":
            self._resize(thing, capacity)
        known = thing.reports.get(strand)
        if known is None:
            self.reports += 1
            known = thing.reports[strand] = Report(strand, thing, 0, by)
            self._ties.add(known)
        self._unsay(known)
        known.by = by
        self._said.setdefault(by, {})[known] = None
        self._enter(known, units)
        self._changed(thing)
        if until is None:
            self._deadlines.drop("report", known)
        else:
            self._deadlines.set("report", known, until)

    def until(self, report: Report, at: float) -> None:
        """*report* is forgotten at *at*, unless it is before."""
        if ("report", report) not in self._deadlines:
            self._deadlines.set("report", report, at)

    def clear(self, report: Report) -> None:
        """It is so no more."""
        thing, node = report.thing, report.strand.node
        self.reports -= 1
        self._unsay(report)
        del thing.reports[report.strand]
        if thing.units is not None:
            self._waiting.graph.release(thing.units, node, report.units)
        elif thing.key[0] == "artifact":
            self._unname(thing, report.strand)
        elif thing.doers is not None:
            self._waiting.graph.withdraw(thing.doers, node)
        self._deadlines.drop("report", report)
        self._ties.drop(report)
        self._changed(thing)
        self._forget_if_over(thing)

    def of_others(self, by: Session) -> list[Report]:
        """What *by* has said of other sessions."""
        return [report for report in self._said.get(by, ()) if report.strand.session is not by]

    def _unsay(self, report: Report) -> None:
        said = self._said.get(report.by, {})
        said.pop(report, None)
        if not said:
            self._said.pop(report.by, None)

    def _enter(self, report: Report, units: int) -> None:
        thing, node, graph = report.thing, report.strand.node, self._waiting.graph
        before, report.units = report.units, units
        if thing.units is not None:
            if units > before:
                graph.grant(thing.units, node, units - before)
            else:
                graph.release(thing.units, node, before - units)
        elif thing.key[0] == "artifact":
            if not before:
                wanted = self._artifacts.need(thing.key[1])
                wanted.reported.add(report.strand)
                graph.add_producer(wanted.handle, node)
        elif thing.doers is not None:
            graph.add_producer(thing.doers, node)

    def _unname(self, thing: Thing, strand: Strand) -> None:
        wanted = self._artifacts.find(thing.key[1])
        if wanted is None:
            return  # it has been published
        wanted.reported.discard(strand)
        if strand not in wanted.producers:
            self._waiting.graph.withdraw(wanted.handle, strand.node)
        self._artifacts.forget_if_unwanted(wanted)

    def _resize(self, thing: Thing, capacity: int) -> None:
        thing.capacity = capacity
        if thing.units is not None:
            self._waiting.graph.set_capacity(thing.units, capacity)

    def _changed(self, thing: Thing) -> None:
        self._revisions += 1
        thing.revision = self._revisions
        self._waiting.is_touched = True

    # -- waits

    def enter(self, condition: bodies.WaitCondition) -> Condition:
        """What the graph makes of a wait for it."""
        thing = self._need((condition.kind, condition.id))
        thing.waits += 1
        if thing.doers is not None:
            return artifact(thing.doers)
        if thing.units is None or (thing.capacity is not None and condition.units > thing.capacity):
            return OUTSIDE
        return resource(thing.units, condition.units)

    def leave(self, condition: bodies.WaitCondition) -> None:
        """A wait for it is over."""
        thing = self._things[condition.kind, condition.id]
        thing.waits -= 1
        self._forget_if_over(thing)

    def _need(self, key: ThingKey) -> Thing:
        thing = self._things.get(key)
        if thing is None:
            thing = self._things[key] = Thing(key)
            label = ("outside", *key)
            if key[0] in _HELD:
                thing.capacity = 1 if key[0] == "lock" else None
                thing.units = self._waiting.graph.add_resource(label, thing.capacity, fifo=False)
            elif key[0] == "task":
                thing.doers = self._waiting.graph.add_artifact(label)
        return thing

    def _forget_if_over(self, thing: Thing) -> None:
        if thing.reports or thing.waits:
            return
        del self._things[thing.key]
        if thing.units is not None:
            self._waiting.graph.remove_resource(thing.units)
        elif thing.doers is not None:
            self._waiting.graph.produce(thing.doers)
