"""The shared gateway process, for the tests of the whole shell."""

from tests.support.gateway import gateway, gateways  # noqa: F401
