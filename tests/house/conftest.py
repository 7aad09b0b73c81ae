"""The wheel, built once, and the two environments that users make of it."""

from pathlib import Path

import pytest

from tests.house.environments import Environment, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def of_an_agent(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without extras."""
    environment = Environment(tmp_path_factory.mktemp("agent"))
    environment.install(str(wheel))
    return environment


@pytest.fixture(scope="session")
def of_a_gateway(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with what the gateway and the command need."""
    environment = Environment(tmp_path_factory.mktemp("gateway"))
    environment.install(f"{wheel}[gateway]")
    return environment
