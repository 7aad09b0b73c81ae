"""The project's own files, as git sees them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Import package -> its folder.
PACKAGES = {
    "unknot_schemas": ROOT / "schemas" / "unknot_schemas",
    "unknot": ROOT / "clients" / "python" / "unknot",
    "unknot_gateway": ROOT / "gateway" / "unknot_gateway",
}


@cache
def files(*patterns: str) -> tuple[Path, ...]:
    """All files that are tracked or would be (not ignored), below ROOT; of these, those that match *patterns*."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """Every Python file of the three packages, parsed."""
    for path in files("*.py"):
        if any(path.is_relative_to(folder) for folder in PACKAGES.values()):
            yield path, ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    """Where *path* is, as a reader would say it."""
    return path.relative_to(ROOT).as_posix()
