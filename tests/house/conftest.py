"""The wheel, and the two environments that users make of it: each made once, for all workers of a run."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.environments import Environment, build_wheel


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    folder = made_once(shared / "wheel", build_wheel)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def of_an_agent(shared: Path, wheel: Path) -> Environment:
    """The wheel without extras."""
    return Environment(made_once(shared / "agent", lambda folder: Environment.make(folder, str(wheel))))


@pytest.fixture(scope="session")
def of_a_gateway(shared: Path, wheel: Path) -> Environment:
    """The wheel with what the gateway and the command need."""
    return Environment(
        made_once(shared / "gateway", lambda folder: Environment.make(folder, f"{wheel}[gateway]"))
    )


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """*folder*, after whoever came first has made it whole."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_suffix(".done")
        if not done.exists():
            make(folder)
            done.touch()
    return folder
