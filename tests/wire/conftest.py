"""A gateway for all tests of the wire (several networks in one process) and raw connections to it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support import gateway as support
from tests.support.gateway import Gateway
from tests.wire.raw import Net, connect
from unknot_gateway.core.limits import Limits
from unknot_schemas import Subjects

CONFIG = """
[network.shadow]
policy = "shadow"
[network.refuse]
policy = "refuse"
[network.concurrent]
assume_serial = false
"""
NETWORKS = ("wire", "other", "shadow", "refuse", "concurrent")
SOON_LOST_S = 1.5


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway that the tests of one process share."""
    config = tmp_path_factory.mktemp("wire") / "unknot.toml"
    config.write_text(CONFIG)
    with support.running("--config", str(config), networks=NETWORKS) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def hasty_house(house: Gateway) -> Iterator[Gateway]:
    """A gateway that gives a silent session up soon."""
    environment = {"UNKNOT_SESSION_LOSS_S": str(SOON_LOST_S)}
    with support.running(nats=house.nats, networks=["hasty"], environment=environment) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def prefixed_house(house: Gateway) -> Iterator[Gateway]:
    """A gateway with another prefix."""
    environment = {"UNKNOT_PREFIX": "knots.all"}
    with support.running(nats=house.nats, environment=environment) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def strict_house(house: Gateway) -> Iterator[Gateway]:
    """A gateway as it runs outside of development: an agent's reply subjects are under its own inbox."""
    with support.running(
        nats=house.nats, networks=["strict"], environment={"UNKNOT_ANY_INBOX": "false"}
    ) as own:
        yield own


@pytest.fixture
async def strict(strict_house: Gateway) -> AsyncIterator[Net]:
    """A connection to it that publishes and listens, and asks nothing by itself."""
    net = await connect(strict_house.nats, Subjects("strict"))
    yield net
    await net.nc.close()


@pytest.fixture
async def net(house: Gateway) -> AsyncIterator[Net]:
    """A connection to the shared gateway, policy fail_all."""
    async for net in connected(house, "wire"):
        yield net


@pytest.fixture
async def other_network(house: Gateway) -> AsyncIterator[Net]:
    """A second network of the shared gateway."""
    async for net in connected(house, "other"):
        yield net


@pytest.fixture
async def shadow(house: Gateway) -> AsyncIterator[Net]:
    """A network under policy shadow."""
    async for net in connected(house, "shadow"):
        yield net


@pytest.fixture
async def refuse(house: Gateway) -> AsyncIterator[Net]:
    """A network under policy refuse."""
    async for net in connected(house, "refuse"):
        yield net


@pytest.fixture
async def concurrent(house: Gateway) -> AsyncIterator[Net]:
    """A network with ``assume_serial = false``."""
    async for net in connected(house, "concurrent"):
        yield net


@pytest.fixture
async def hasty(hasty_house: Gateway) -> AsyncIterator[Net]:
    """A network whose silent sessions are lost after SOON_LOST_S."""
    async for net in connected(hasty_house, "hasty"):
        yield net


@pytest.fixture
async def prefixed(prefixed_house: Gateway) -> AsyncIterator[Net]:
    """A network whose subjects have another prefix."""
    async for net in connected(prefixed_house, "default", "knots.all"):
        yield net


class Mortal:
    """A gateway on the shared server, which may be killed and started again."""

    network = "mortal"

    def __init__(self, nats: str) -> None:
        self._nats = nats
        self.gateway = support.start(nats=nats, networks=[self.network])

    def restart(self) -> None:
        """Killed, and a new one in its place."""
        self.gateway.kill()
        self.gateway = support.start(nats=self._nats, networks=[self.network])


@pytest.fixture(scope="session")
def mortal(house: Gateway) -> Iterator[Mortal]:
    """A gateway that the test may kill."""
    own = Mortal(house.nats)
    yield own
    own.gateway.stop()


@pytest.fixture
async def mortal_net(mortal: Mortal) -> AsyncIterator[Net]:
    """A connection to the gateway that the test may kill."""
    async for net in connected(mortal.gateway, mortal.network):
        yield net


@pytest.fixture(scope="session")
def queue_max() -> int:
    """How many events the gateway queues for one agent."""
    return Limits().queue_max


async def connected(gateway: Gateway, network: str, prefix: str = "unknot") -> AsyncIterator[Net]:
    """A connection for the length of a test."""
    net = await connect(gateway.nats, Subjects(network, prefix))
    yield net
    await net.close()
