"""A copy of the engine with one thing broken on purpose."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import unknot_gateway.core.graph as engine

HERE = Path(engine.__file__).parent


@contextmanager
def broken_engine(folder: Path, name: str, file: str, old: str, new: str) -> Iterator[Any]:
    """The `Script` class of a copy in *folder* in whose *file* the one occurrence of *old* is *new*.

    The copy is a package of its own name, so that the engine itself stays whole.
    """
    _write_copy(folder / name, name, file, old, new)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(f"{name}.script").Script
    finally:
        sys.path.remove(str(folder))
        for module in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[module]


def _write_copy(package: Path, name: str, file: str, old: str, new: str) -> None:
    package.mkdir()
    for source in HERE.glob("*.py"):
        text = source.read_text()
        if source.name == file:
            assert text.count(old) == 1, (
                f"{file} has changed: {old!r} occurs {text.count(old)} times; break it anew"
            )
            text = text.replace(old, new)
        (package / source.name).write_text(text.replace(engine.__name__, name))
