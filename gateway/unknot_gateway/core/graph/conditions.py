"""What a wait waits for: handles, and conditions as small immutable values."""

from typing import NewType

from msgspec import Struct

Node = NewType("Node", int)
Wait = NewType("Wait", int)
Resource = NewType("Resource", int)
Artifact = NewType("Artifact", int)
Label = str | tuple[str, ...]

TRUE, FALSE, EXECUTION, ARTIFACT, RESOURCE, ANY = range(6)
"""Kinds of conditions."""


class Condition(Struct, frozen=True, gc=False):
    """One condition: its kind, the handle it names, the units it needs, the alternatives of an any-of."""

    kind: int
    target: int = 0
    units: int = 0
    options: tuple["Condition", ...] = ()


OUTSIDE = Condition(TRUE)
"""Always true: a tool, a human, a timer, what nobody knows."""
NEVER = Condition(FALSE)
"""Never true: spent."""


def execution(node: Node) -> Condition:
    """True while *node* can go on, and once it is removed."""
    return Condition(EXECUTION, node)


def artifact(handle: Artifact) -> Condition:
    """True once it is produced, while no producer is known, and while some producer can go on."""
    return Condition(ARTIFACT, handle)


def resource(handle: Resource, units: int = 1) -> Condition:
    """True when *units* of it can be had, and once it is removed."""
    return Condition(RESOURCE, handle, units)


def any_of(*conditions: Condition) -> Condition:
    """True when one of *conditions* is; without any, never. Flat: an any-of in an any-of is one any-of.

    A resource among them keeps its place in the queue, whatever the others are.
    """
    flat: list[Condition] = []
    for condition in conditions:
        flat.extend(condition.options if condition.kind == ANY else (condition,))
    if OUTSIDE in flat and all(option.kind != RESOURCE for option in flat):
        return OUTSIDE
    options = tuple(option for option in flat if option.kind != FALSE)
    if not options:
        return NEVER
    return options[0] if len(options) == 1 else Condition(ANY, options=options)


def leaves(condition: Condition) -> tuple[Condition, ...]:
    """The conditions that are no any-of, in the order written."""
    return condition.options if condition.kind == ANY else (condition,)
