"""constraints.txt says which versions this project was tested with: all of them, and no other."""

import re
from collections.abc import Iterator
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOT

pytestmark = pytest.mark.once

LINES = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
]


def needed_by(name: str, extras: frozenset[str], seen: set[str]) -> Iterator[str]:
    """All that *name* with *extras* brings on this machine, directly or not."""
    for text in requires(name) or ():
        wanted = Requirement(text)
        found = canonicalize_name(wanted.name)
        applies = wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        if applies and (key := f"{found}[{','.join(sorted(wanted.extras))}]") not in seen:
            seen.add(key)
            yield found
            yield from needed_by(found, frozenset(wanted.extras), seen)


def test_all_that_work_on_unknot_needs_is_pinned_to_what_is_installed() -> None:
    """Else a new machine gets other versions than this one."""
    pins = {canonicalize_name(name): number for name, number in (line.split("==") for line in LINES)}
    needed = set(needed_by("unknot", frozenset({"dev"}), set())) - {"unknot"}
    assert {name: version(name) for name in needed if pins.get(name) != version(name)} == {}


def test_the_pins_are_plain() -> None:
    """No addresses, hashes or options: where packages come from is for whoever installs them to say."""
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)] == []
