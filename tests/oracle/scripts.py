"""Scripts of steps on few names, so that collisions are frequent; drawn by hypothesis or by a seeded generator."""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from hypothesis import strategies as st

Step = dict[str, Any]
T = TypeVar("T")

EXECS = ["A", "B", "C", "D", "E"]
ALIASES = {"a2": "A", "b2": "B"}  # an alias always means the same, so that only when it is said varies
NAMES = [*EXECS, *EXECS, "agent:A", "a2", "b2"]
WAITS = [f"w{n}" for n in range(9)]
QUEUED = ["lock", "permits"]  # walked first in, first out
SLOTS = ["slots"]  # whoever fits is served
ARTIFACTS = ["plan", "text"]


class Style(NamedTuple):
    """What a script is mostly made of."""

    names: list[str]
    waits: list[str]
    sizes: list[int]  # conditions of a wait
    kinds: list[str]  # of conditions


MIXED = Style(
    NAMES,
    WAITS,
    [1, 1, 1, 1, 2, 2, 2, 3, 3, 4],
    ["exec"] * 8 + ["resource"] * 5 + ["artifact"] * 2 + ["external", *["any"] * 3],
)
# Long ways to go: many executions, of which most wait for one other.
CHAINS = Style(
    [*NAMES, *"FGHJKLMN"], [f"w{n}" for n in range(40)], [1] * 6 + [2, 3], ["exec"] * 12 + ["any", "resource"]
)
# Long queues: many waiters, few resources.
QUEUES = Style(
    [*EXECS, *"FGH"], [f"w{n}" for n in range(20)], [1, 1, 1, 2], ["resource"] * 5 + ["exec"] * 3 + ["any"]
)
STYLES = [MIXED, MIXED, CHAINS, QUEUES]


class Chooser(Protocol):
    """Where the choices come from."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def by_seed(seed: int) -> Chooser:
    """Choices of a seeded generator: the same in every run."""
    return random.Random(seed).choice


def _condition(pick: Chooser, style: Style, *, nested: bool = True) -> Step:
    kind = pick(style.kinds)
    if kind == "artifact":
        return {"artifact": pick(ARTIFACTS)}
    if kind == "resource":
        return {"resource": pick(QUEUED + SLOTS), "units": pick([1, 1, 1, 2, 3])}
    if kind == "any" and nested:
        inner = range(pick([1, 2, 2, 3]))
        return {"any": [_condition(pick, style, nested=pick([False] * 4 + [True])) for _ in inner]}
    return {"external": "tool:ocr"} if kind == "external" else {"exec": pick(style.names)}


def _wait(pick: Chooser, style: Style) -> Step:
    on = [_condition(pick, style) for _ in range(pick(style.sizes))]
    step: Step = {"op": "wait", "id": pick(style.waits), "waiter": pick(style.names), "on": on}
    mode = pick(["all", "any", "k"]) if len(on) > 1 else pick(["all", "all", "any", None])
    if mode is not None:
        step["mode"] = mode
    if mode == "k":
        step["k"] = pick(range(1, len(on) + 1))
    if gen := pick([0, 0, 0, 1, 1, 2]):
        step["gen"] = gen
    if deadline := pick([0] * 5 + [5, 10]):
        step["deadline"] = deadline
    return step


def _close(pick: Chooser, style: Style) -> Step:
    gen = pick([None, None, 0, 1, 2])
    return {"op": "close", "id": pick(style.waits)} | ({} if gen is None else {"gen": gen})


def _resource(pick: Chooser, style: Style) -> Step:
    key = pick(QUEUED + SLOTS)
    step: Step = {"op": "resource", "id": key, "capacity": pick([1, 1, 1, 2, 2, 3, 0, None])}
    if key in SLOTS:
        step["fifo"] = False
    if pick([True, True, False]):
        step["held"] = {pick(EXECS): pick([1, 1, 2]) for _ in range(pick([0, 1, 1, 2]))}
    return step


def _grant(pick: Chooser, style: Style) -> Step:
    step = {"op": "grant", "resource": pick(QUEUED + SLOTS), "holder": pick(style.names)}
    return step | ({"units": units} if (units := pick([0, 1, 1, 2])) else {})


def _release(pick: Chooser, style: Style) -> Step:
    step = {"op": "release", "resource": pick(QUEUED + SLOTS), "holder": pick(style.names)}
    return step | ({"units": units} if (units := pick([0, 0, 1, 2])) else {})


def _artifact(pick: Chooser, style: Style) -> Step:
    return {
        "op": "artifact",
        "id": pick(ARTIFACTS),
        "producers": [pick(style.names) for _ in range(pick([0, 1, 1, 2]))],
    }


def _produce(pick: Chooser, style: Style) -> Step:
    return {"op": "produce", "id": pick(ARTIFACTS)}


def _withdraw(pick: Chooser, style: Style) -> Step:
    return {"op": "withdraw", "id": pick(ARTIFACTS), "producer": pick(style.names)}


def _exec(pick: Chooser, style: Style) -> Step:
    return {"op": "exec", "id": pick(style.names), "gen": pick([1, 1, 2, 3])}


def _crash(pick: Chooser, style: Style) -> Step:
    return {"op": "crash", "id": pick(style.names)}


def _alias(pick: Chooser, style: Style) -> Step:
    old = pick(sorted(ALIASES))
    return {"op": "alias", "from": old, "to": ALIASES[old]}


def _tick(pick: Chooser, style: Style) -> Step:
    return {"op": "tick", "now": pick([1, 4, 5, 7, 10])}


# Waits first: hypothesis shrinks towards the first, and a wait is what a short failing script consists of.
_STEPS: list[Callable[[Chooser, Style], Step]] = (
    [_wait] * 32
    + [_grant] * 4
    + [_resource] * 4
    + [_close] * 4
    + [_artifact] * 3
    + [_release] * 3
    + [_withdraw] * 2
) + [_exec, _exec, _crash, _alias, _produce, _tick]


def step(pick: Chooser, style: Style) -> Step:
    """One step of the case format, any operation."""
    return pick(_STEPS)(pick, style)


def script_by_seed(seed: int, length: int) -> list[Step]:
    """The script of a seed; it starts with bounded resources, so that they bite from the first wait on."""
    pick = by_seed(seed)
    style = pick(STYLES)
    return [*_opening(pick, style), *(step(pick, style) for _ in range(length))]


def _opening(pick: Chooser, style: Style) -> list[Step]:
    bounds = [_resource(pick, style) for _ in range(pick([0, 2, 3]))]
    return bounds + [_artifact(pick, style) for _ in range(pick([0, 1, 2]))]


@st.composite
def _drawn(draw: st.DrawFn, make: Callable[[Chooser, Style], Any], style: Style = MIXED) -> Any:
    def pick(options: Sequence[T]) -> T:
        return draw(st.sampled_from(options))

    return make(pick, style)


@st.composite
def scripts(draw: st.DrawFn, max_length: int = 24) -> list[Step]:
    """Scripts of all operations."""
    style = draw(st.sampled_from(STYLES))
    least = draw(st.sampled_from([1, 12, 18]))
    steps = st.lists(_drawn(step, style), min_size=min(least, max_length), max_size=max_length)
    return [*draw(_drawn(_opening, style)), *draw(steps)]


def inserts() -> st.SearchStrategy[list[Step]]:
    """Steps that only add, and to different things: bounds of resources, holders, producers, waits."""
    return st.lists(_drawn(_insert), max_size=16, unique_by=_added)


def _insert(pick: Chooser, style: Style) -> Step:
    found = pick([_wait] * 6 + [_resource, _grant, _artifact])(pick, style)
    return {name: value for name, value in found.items() if name not in ("deadline", "gen", "held")}


def _added(insert: Step) -> Any:
    """Waits and bounds of one id would replace each other; whatever else is added adds up."""
    return (insert["op"], insert["id"]) if insert["op"] in ("wait", "resource") else object()
