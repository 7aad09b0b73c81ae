"""The shared gateway process, for the tests of the command; no command outlives its test."""

from collections.abc import AsyncIterator

import pytest

from tests.cli.rig import end_all
from tests.support.gateway import gateway, gateways  # noqa: F401


@pytest.fixture(autouse=True)
async def no_command_is_left() -> AsyncIterator[None]:
    """Whatever the test started has ended."""
    yield
    await end_all()
