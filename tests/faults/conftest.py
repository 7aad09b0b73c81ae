"""A server and a network for each test; gateways that obey plans of faults."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.rig import House, Server, Stable

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    """Where gateways come from."""
    stable = Stable()
    yield stable
    stable.close()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody harms."""
    server = Server(tmp_path_factory.mktemp("nats"))
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def house(stable: Stable, shared_server: Server, tmp_path: Path) -> Iterator[House]:
    """A gateway in a network of its own, on the shared server; it may still be starting."""
    house = House(stable, shared_server, tmp_path, f"n{next(_numbers)}")
    house.begin()
    yield house
    house.end()


@pytest.fixture(scope="module")
def old_house(
    stable: Stable, shared_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """One for many tests: who takes over from a gateway that was killed in one is killed in the next."""
    folder, network = tmp_path_factory.mktemp("house"), f"old{next(_numbers)}"
    house = House(stable, shared_server, folder, network, UNKNOT_SESSION_LOSS_S="6")
    house.begin()
    yield house
    house.end()
