"""Who may import what: for each room the whole list of what it may, so that whatever is new has to be allowed here.

import-linter (pyproject.toml) holds the same borders over chains of imports; this looks at each import itself, also at
those inside functions.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import PACKAGES, ROOT, modules, name_of

pytestmark = pytest.mark.once

# No clock, no loop, no files, no network, no randomness, no environment: these only compute.
PURE = {
    "__future__", "abc", "array", "base64", "bisect", "collections", "contextlib", "copy", "dataclasses", "enum",
    "fnmatch", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "string", "types",
    "sys.maxsize", "textwrap", "typing",
}  # fmt: skip
STDLIB = set(sys.stdlib_module_names)

# Folder below its package's root -> what it may import. The closest folder counts.
MAY_IMPORT = {
    "unknot_schemas": PURE | {"unknot_schemas", "msgspec"},
    "unknot_schemas/export.py": STDLIB | {"unknot_schemas", "msgspec"},  # a program: it writes files
    "unknot": STDLIB | {"unknot", "unknot_schemas", "msgspec", "anyio", "nats"},
    "unknot/adapters/autogen.py": STDLIB | {"unknot", "autogen_core"},
    "unknot/adapters/langgraph.py": STDLIB | {"unknot", "langgraph"},
    "unknot/adapters/openai_agents.py": STDLIB | {"unknot", "agents"},
    "unknot_gateway": STDLIB | {"unknot_gateway"},
    "unknot_gateway/core": PURE | {"unknot_gateway.core", "unknot_schemas", "msgspec"},
    "unknot_gateway/core/graph": PURE | {"unknot_gateway.core.graph", "msgspec"},
    "unknot_gateway/audit": STDLIB | {"unknot_gateway.audit", "msgspec"},  # it reads what it never imports
    "unknot_gateway/replay": PURE
    | {"unknot_gateway.core.graph", "unknot_gateway.replay", "unknot_schemas", "msgspec"}
    | {"datetime"},  # the calendar, not the clock
    "unknot_gateway/identity": STDLIB | {"unknot_gateway.identity", "unknot_schemas", "msgspec"},
    "unknot_gateway/shell": STDLIB
    | {"unknot_gateway.core", "unknot_gateway.identity", "unknot_gateway.shell", "unknot_schemas"}
    | {"msgspec", "anyio", "nats", "structlog", "uvloop"},
    "unknot_gateway/cli": STDLIB
    | {"unknot_gateway", "unknot", "unknot_schemas"}
    | {"msgspec", "anyio", "nats", "structlog", "uvloop", "click"},
}  # fmt: skip


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that *module* imports, wherever it does."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def room_of(path: Path) -> str:
    """The closest entry of MAY_IMPORT that holds *path*."""
    package, folder = next((name, home) for name, home in PACKAGES.items() if path.is_relative_to(home))
    inside = Path(package) / path.relative_to(folder)
    return next(str(room) for room in (inside, *inside.parents) if str(room) in MAY_IMPORT)


def is_allowed(imported: str, allowed: set[str]) -> bool:
    words = imported.split(".")
    return any(".".join(words[:n]) in allowed for n in range(1, len(words) + 1))


def test_every_room_imports_only_what_it_may() -> None:
    crossed = [
        f"{name_of(path)}:{line}: {room} may not import {imported}"
        for path, module in modules()
        for line, imported in imports(module)
        if not is_allowed(imported, MAY_IMPORT[room := room_of(path)])
    ]
    assert not crossed, "\n".join(crossed)


def test_every_import_is_absolute() -> None:
    """So that the rule above sees it whole."""
    relative = [
        f"{name_of(path)}:{node.lineno}"
        for path, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative, relative


@pytest.mark.parametrize(
    ("room", "code"),
    [
        ("unknot_schemas", "import nats"),
        ("unknot", "from unknot_gateway import core"),
        ("unknot", "def start():\n    import unknot_gateway.core.kernel"),
        ("unknot", "import langgraph"),
        ("unknot/adapters/langgraph.py", "from agents import Runner"),
        ("unknot_gateway/core", "from time import monotonic"),
        ("unknot_gateway/core", "import os.path"),
        ("unknot_gateway/core", "import asyncio"),
        ("unknot_gateway/core", "from unknot_gateway.shell.loop import Loop"),
        ("unknot_gateway/core/graph", "from unknot_gateway.core import facts"),
        ("unknot_gateway/core/graph", "from unknot_schemas.ids import AgentId"),
        ("unknot_gateway/shell", "from unknot_gateway.cli import main"),
        ("unknot_gateway/shell", "import unknot"),
        ("unknot_gateway/identity", "import nats"),
        ("unknot_gateway/identity", "from unknot_gateway.core import limits"),
    ],
)
def test_a_forbidden_import_is_seen(room: str, code: str) -> None:
    assert not all(is_allowed(name, MAY_IMPORT[room]) for _, name in imports(ast.parse(code)))


@pytest.mark.parametrize(
    "banned",
    [
        "anyio",
        "asyncio",
        "datetime",
        "logging",
        "nats",
        "os",
        "random",
        "secrets",
        "structlog",
        "time",
        "uuid",
    ],
)
def test_an_editor_with_ruff_says_at_once_that_the_core_is_pure(banned: str) -> None:
    anywhere_in_core = str(ROOT / "gateway" / "unknot_gateway" / "core" / "graph" / "new.py")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "TID251",
        "--stdin-filename",
        anywhere_in_core,
        "-",
    ]
    done = subprocess.run(
        command, cwd=ROOT, input=f"import {banned}\n", capture_output=True, text=True, check=False
    )
    assert f"`{banned}` is banned" in done.stdout
