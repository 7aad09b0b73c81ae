"""The steps of the case format as values: what is malformed is refused with the key and the reason."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

Units = Annotated[int, Meta(ge=0)]


class ScriptError(ValueError):
    """A step is malformed; the message says which key and why."""


class Step(Struct, tag_field="op", tag=str.lower, forbid_unknown_fields=True, kw_only=True):
    """One step; `op` is the name of its class in lower case."""


class Leaf(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition: exactly one of its keys, and `units` with `resource`."""

    exec: str | None = None
    artifact: str | None = None
    resource: str | None = None
    units: Units = 1
    external: Any = None
    any: tuple["Leaf", ...] | None = None


class Wait(Step):
    """Execution `waiter` cannot go on until all, one or `k` of the conditions `on` are true."""

    id: str
    waiter: str
    on: tuple[Leaf, ...]
    mode: Literal["all", "any", "k"] = "all"
    k: Units | None = None
    gen: int = 0
    deadline: float | None = None

    @property
    def need(self) -> int:
        """How many conditions must be true."""
        if self.mode == "k":
            assert self.k is not None, "checked on entry"
            return self.k
        return len(self.on) if self.mode == "all" else 1


class Close(Step):
    """The wait ended; without `gen` whatever is open of it."""

    id: str
    gen: int | None = None


class Resource(Step):
    """A pool; without `capacity` it has no bound, without `held` its holders stay as they are."""

    id: str
    capacity: Units | None = None
    held: dict[str, Units] | None = None
    fifo: bool = True


class Grant(Step):
    """`holder` holds `units` more."""

    resource: str
    holder: str
    units: Units = 1


class Release(Step):
    """`holder` holds `units`, or all, less."""

    resource: str
    holder: str
    units: Units | None = None


class Artifact(Step):
    """Alternatives that may produce it, besides those known."""

    id: str
    producers: tuple[str, ...] = ()


class Produce(Step):
    """It is there, for ever."""

    id: str


class Withdraw(Step):
    """A producer gave up."""

    id: str
    producer: str


class Exec(Step):
    """A new attempt starts: waits of older generations are gone."""

    id: str
    gen: int = 0


class Crash(Step):
    """The execution is lost."""

    id: str


class Alias(Step):
    """Two names of one execution; reports show `to`."""

    source: str = msgspec.field(name="from")
    to: str


class Tick(Step):
    """Time passes; it never goes back."""

    now: float


AnyStep = (
    Wait | Close | Resource | Grant | Release | Artifact | Produce | Withdraw | Exec | Crash | Alias | Tick
)


def parse(step: Mapping[str, object]) -> AnyStep:
    """The step as a value; ScriptError when it is malformed."""
    try:
        found: AnyStep = msgspec.convert(step, AnyStep)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{error} in the step {dict(step)!r}") from None
    if isinstance(found, Wait):
        _check_wait(found)
    if isinstance(found, Tick):
        _check_number("now", found.now)
    return found


def _check_wait(step: Wait) -> None:
    if (step.mode == "k") is not (step.k is not None):
        raise ScriptError(f'`k` goes with mode "k", in the wait {step.id!r}')
    if step.deadline is not None:
        _check_number("deadline", step.deadline)
    todo = list(step.on)
    while todo:
        leaf = todo.pop()
        kinds = [leaf.exec, leaf.artifact, leaf.resource, leaf.external, leaf.any]
        if sum(kind is not None for kind in kinds) != 1:
            raise ScriptError(
                f"a condition has exactly one of exec, artifact, resource, external, any, in the wait {step.id!r}"
            )
        todo += leaf.any or ()


def _check_number(key: str, value: float) -> None:
    if not math.isfinite(value):
        raise ScriptError(f"`{key}` must be a finite number, not {value}")
