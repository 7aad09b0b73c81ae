"""Runs tests/adopt/real, where the real frameworks are."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.adopt.environment import FOLDER, with_the_frameworks
from tests.house.documents import Reader, blocks
from tests.house.environments import Environment
from tests.house.tree import ROOT
from tests.support.gateway import paths

pytestmark = [pytest.mark.once, pytest.mark.timeout(900)]

REAL = ROOT / "tests" / "adopt" / "real"


@pytest.mark.parametrize("module", sorted(path.stem for path in REAL.glob("test_*.py")))
def test_with_the_real_package(module: str) -> None:
    done = in_the_environment("-m", "pytest", "-q", "-p", "no:cacheprovider", str(REAL / f"{module}.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.soak
def test_the_adapters_fit_the_types_of_the_real_packages() -> None:
    environment = with_the_frameworks()
    command = [sys.executable, "-m", "mypy", "--python-executable", str(environment.bin / "python")]
    command += ["--cache-dir", str(FOLDER / "mypy"), "clients/python/unknot/adapters"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_the_frameworks_unknot_and_what_they_share_can_be_imported(tmp_path: Path) -> None:
    done = in_the_environment(
        "-c",
        "import sys, unknot, unknot.adapters;"
        "found = {'langgraph', 'agents', 'autogen_core'} & set(sys.modules); sys.exit(len(found))",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_does_what_the_page_says_sees_what_it_says(tmp_path: Path) -> None:
    with Reader(FromTheCheckout(with_the_frameworks().bin.parent), tmp_path) as reader:
        for block in blocks(ROOT / "docs" / "adopt.md"):
            reader.act_on(block)
        assert reader.run("python -c 'import with_openai; print(with_openai.alice.name)'").strip() == "alice"


class FromTheCheckout(Environment):
    """The kept environment has an unknot of the day when it was made."""

    def variables(self) -> Mapping[str, str]:
        return {**super().variables(), "PYTHONPATH": os.pathsep.join(paths())}


def in_the_environment(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return FromTheCheckout(with_the_frameworks().bin.parent).run("python", *arguments, cwd=ROOT)
