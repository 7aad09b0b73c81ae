"""A gateway whose users are those of a file, shared by the tests of one process."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.identity.rig import House, Party, housing


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Agents birch, elm, flint (of channel reviews), grove (may ask flint alone); a monitor, an operator, a spy."""
    with housing(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def own_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The same, for a test that changes it."""
    with housing(tmp_path_factory.mktemp("own")) as house:
        yield house


@pytest.fixture
async def elm(house: House) -> AsyncIterator[Party]:
    """Who tries to be somebody else."""
    async with house.party("elm") as party:
        yield party


@pytest.fixture
async def birch(house: House) -> AsyncIterator[Party]:
    """Who must not be disturbed."""
    async with house.party("birch") as party:
        yield party


@pytest.fixture
async def spy(house: House) -> AsyncIterator[Party]:
    """Sees all that is sent under ``unknot``."""
    async with house.party("spy") as party:
        yield party
