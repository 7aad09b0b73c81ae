"""The public door of the client is what it says it is."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import unknot

pytestmark = pytest.mark.once

MENTIONED = re.compile(r"(?<!\*)\*([a-z_]+)\*(?!\*)")  # *name* in a docstring: a parameter or a field


def members(owner: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties that *owner* itself defines."""
    for name, member in vars(owner).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"{owner.__name__}.{name}", member


def public() -> dict[str, object]:
    """All that the door offers, members of its classes included."""
    offered: dict[str, object] = {name: getattr(unknot, name) for name in unknot.__all__}
    classes = [found for found in offered.values() if inspect.isclass(found)]
    return offered | {name: member for owner in classes for name, member in members(owner)}


def test_all_is_what_the_package_shows() -> None:
    shown = {
        name
        for name, found in vars(unknot).items()
        if not name.startswith("_") and not isinstance(found, ModuleType)
    }
    assert set(unknot.__all__) - {"testing"} == shown


def test_the_names_of_the_design_are_there() -> None:
    failures = {
        "UnknotError", "WaitFailed", "DeadlockDetected", "WaitExpired", "HandlerFailed", "Unreachable", "ResponderLost",
        "Refused", "Cancelled", "OverLimit",
    }  # fmt: skip
    assert {"Agent", "Context", "connect", *failures} <= set(unknot.__all__)
    execution = {
        "send", "ask", "send_and_wait", "publish", "expect", "reply", "defer", "gather", "wait_all", "wait_any",
        "wait_quorum", "blocking_on", "event",
    }  # fmt: skip
    assert execution <= set(dir(unknot.Context))


def test_every_public_name_has_a_contract() -> None:
    undescribed = [
        name for name, found in public().items() if is_described(found) and not inspect.getdoc(found)
    ]
    assert undescribed == []


def test_a_contract_speaks_only_of_parameters_that_exist() -> None:
    wrong = [
        f"{name}: *{word}*"
        for name, found in public().items()
        for word in MENTIONED.findall(inspect.getdoc(found) or "")
        if word not in known_to(found)
    ]
    assert wrong == []


def is_described(found: object) -> bool:
    """Python keeps no docstring for an alias of a type."""
    return inspect.isroutine(found) or inspect.isclass(found) or isinstance(found, property | ModuleType)


def known_to(found: object) -> set[str]:
    """Parameters and fields that the docstring of *found* may speak of."""
    names = set(dir(found)) | set(getattr(found, "__annotations__", ()))
    if callable(found):
        names |= set(inspect.signature(found).parameters)
    return names
