"""From a path to a parsed file. What cannot be read or parsed is a sentence, never an exception."""

import ast
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from unknot_gateway.audit.limits import FILE_BYTES_MAX

_SKIPPED: Final = frozenset({"__pycache__", "node_modules"})


class Unreadable(Exception):
    """A file cannot be audited; the message says why."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.line = line


def files(path: Path) -> Iterator[Path]:
    """*path* itself, or all Python files below it, sorted; not in hidden folders, virtual environments and caches."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED and not name.startswith(".") and not (here / name / "pyvenv.cfg").exists()
        )
        yield from (here / name for name in sorted(names) if name.endswith((".py", ".pyi", ".pyw")))


def content(path: Path) -> bytes:
    """The bytes of a file; raises Unreadable."""
    try:
        with path.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from error
    if len(found) > FILE_BYTES_MAX:
        raise Unreadable(f"is larger than {FILE_BYTES_MAX} bytes")
    return found


def parsed(text: bytes) -> ast.Module:
    """The tree of a file; raises Unreadable. Nothing of it is imported or run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the code that is read, not of this
            return ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(f"is no Python: {error.msg}", error.lineno or 1) from error
    except (ValueError, LookupError) as error:  # null bytes, unknown or wrong encodings
        raise Unreadable(f"is no Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("is nested too deeply") from error
