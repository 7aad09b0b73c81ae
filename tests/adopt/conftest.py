"""A real gateway; every test has a network of its own."""

from collections.abc import AsyncIterator
from importlib.util import find_spec

import pytest

from tests.adopt.rig import Network, network_of
from tests.support.gateway import Gateway, gateway, gateways  # noqa: F401  fixtures

# With the frameworks it is run by test_frameworks.py, in an environment that has them.
collect_ignore_glob = [] if find_spec("autogen_core") else ["real/*"]


@pytest.fixture
async def network(gateway: Gateway) -> AsyncIterator[Network]:  # noqa: F811  the fixture
    async with network_of(gateway) as made:
        yield made
