"""The built wheel in environments that hold nothing else: what a user gets."""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from tests.house.tree import ROOT


def build_wheel(into: Path) -> None:
    """Build the distribution as `make wheel` does."""
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(into), str(ROOT)],
        cwd=ROOT,
    )


class Environment:
    """A virtual environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"

    @classmethod
    def make(cls, folder: Path, *requirements: str) -> Self:
        """A new one with *requirements* at the pinned versions and nothing else."""
        venv.create(folder, with_pip=False, symlinks=True)
        made = cls(folder)
        python = str(made.bin / "python")
        pinned = ["install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), *requirements]
        if find_spec("pip"):
            run([sys.executable, "-m", "pip", "--python", python, *pinned])
        else:  # the environment that the tests run in was made by uv
            run(["uv", "pip", *pinned, "--python", python])
        return made

    def run(self, program: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Run a *program* of this environment; its exit code is the caller's to look at."""
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
        )

    def variables(self) -> Mapping[str, str]:
        """The environment variables of somebody who activated it."""
        hidden = {"PYTHONPATH", "VIRTUAL_ENV", "NATS_URL", "NATS_SERVER_BIN"}
        kept = {
            name: text for name, text in os.environ.items() if name not in hidden and "UNKNOT_" not in name
        }
        return kept | {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}


def run(command: Sequence[str], cwd: Path | None = None) -> None:
    """Run *command*; if it fails, fail with what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
