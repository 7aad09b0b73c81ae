"""The engine beside the oracle, step by step; where they differ, the script as a case of the case format."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tests.oracle.cores import Truth, truth
from tests.oracle.scripts import Step
from tests.oracle.world import World

BUDGETS: tuple[int | None, ...] = (0, 1, None)  # everything deferred, nearly everything, the default


class Engine(Protocol):
    """What is driven: `unknot_gateway.core.graph.script.Script`, or a broken copy of it."""

    def apply(self, step: Step, /) -> None: ...
    def drain(self) -> None: ...
    def report(self) -> Any: ...


class Disagreement(AssertionError):
    """The engine's report differs from the truth; the message is the case as JSON."""

    def __init__(self, law: str, steps: Sequence[Step], expected: Truth, got: Truth) -> None:
        case = {
            "name": law,
            "tags": [],
            "why": f"got {json.dumps(got)}",
            "steps": [*steps, expected_step(expected)],
        }
        super().__init__(json.dumps(case))
        self.steps = list(steps)
        self.case = case


def expected_step(expected: Truth) -> Step:
    """The `expect` step of a truth."""
    return {"op": "expect", **expected}


def as_truth(report: Any) -> Truth:
    """An engine's report in the shape of the oracle's."""
    return {
        "deadlocked": list(report.deadlocked),
        "cycles": [list(cycle) for cycle in report.cycles],
        "cores": [list(core) for core in report.cores],
        "tail": list(report.tail),
        "orphaned": list(report.orphaned),
    }


def compare(engine: Engine, steps: Sequence[Step], drained: Iterable[bool] | None) -> None:
    """Apply *steps* to both; raise Disagreement where the engine says more than the truth, or drained something else.

    *drained* says after which steps the engine works off its suspects, which it always does after the last; None:
    after every step.
    """
    world = World()
    pauses = [True] * len(steps) if drained is None else [*drained][: len(steps)]
    pauses += [False] * (len(steps) - len(pauses))
    for at, step in enumerate(steps):
        world.apply(step)
        engine.apply(step)
        expected = truth(world)
        said = steps[: at + 1]
        nothing_but_the_truth(said, expected, as_truth(engine.report()))
        if pauses[at] or at == len(steps) - 1:
            engine.drain()
            the_whole_truth(said, expected, as_truth(engine.report()))


def nothing_but_the_truth(steps: Sequence[Step], expected: Truth, got: Truth) -> None:
    """Before the suspects are worked off a report may say less, never more."""
    dead, seen = set(expected["deadlocked"]), set(got["deadlocked"])
    in_cores = {name for core in got["cores"] for name in core}
    # Who is not yet known to be deadlocked may be known to be behind a lost one already.
    behind = set(got["orphaned"]) - set(expected["orphaned"]) - dead
    if not seen <= dead or not in_cores <= seen or behind:
        raise Disagreement("more than the truth before draining", steps, expected, got)


def the_whole_truth(steps: Sequence[Step], expected: Truth, got: Truth) -> None:
    """Once drained the report is the truth."""
    if got != expected:
        raise Disagreement("not the truth once drained", steps, expected, got)


def exact_at_once(engine: Engine, steps: Sequence[Step]) -> None:
    """Raise Disagreement unless the report is the truth after every step without any draining."""
    world = World()
    for at, step in enumerate(steps):
        world.apply(step)
        engine.apply(step)
        expected, got = truth(world), as_truth(engine.report())
        if got != expected:
            raise Disagreement("not the truth at once", steps[: at + 1], expected, got)


def shrink(steps: Sequence[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """A shorter script that still fails: steps left out, then conditions and keys."""
    least = list(steps)
    while True:
        for shorter in _shorter(least):
            if fails(shorter):
                least = shorter
                break
        else:
            return least


def _shorter(steps: list[Step]) -> Iterable[list[Step]]:
    for size in (8, 4, 2, 1):
        for at in range(0, len(steps), size):
            yield steps[:at] + steps[at + size :]
    for at, step in enumerate(steps):
        for simpler in _simpler(step):
            yield [*steps[:at], simpler, *steps[at + 1 :]]


def _simpler(step: Step) -> Iterable[Step]:
    for key in ("deadline", "gen", "units"):
        if key in step:
            yield {name: value for name, value in step.items() if name != key}
    on = step.get("on", [])
    for at, condition in enumerate(on):
        if len(on) > 1 and step.get("mode") != "k":
            yield {**step, "on": on[:at] + on[at + 1 :]}
        if "any" in condition:
            yield from ({**step, "on": [*on[:at], inner, *on[at + 1 :]]} for inner in condition["any"])
        if condition.get("units", 1) != 1:
            yield {**step, "on": [*on[:at], {**condition, "units": 1}, *on[at + 1 :]]}
