"""Streams that would answer for the agents are seen at the start."""

import nats
import pytest

from unknot_gateway.shell.captures import capturing_streams
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_gateway.shell.settings import Settings


@pytest.mark.parametrize(
    ("subjects", "no_ack", "captures"),
    [
        (["unknot.>"], False, True),
        (["unknot.>"], True, False),
        (["unknot.default.in.*.request.>"], False, True),
        (["unknot.*.out.>"], False, True),
        (["unknot.other.>"], False, False),
        (["orders.>", "unknot.*.notice.>"], False, True),
        (["unknot"], False, False),
    ],
)
async def test_a_stream_that_acknowledges_requests_is_seen(
    subjects: list[str], no_ack: bool, captures: bool
) -> None:
    server = await EmbeddedServer.start()
    try:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="S", subjects=subjects, no_ack=no_ack)
        assert await capturing_streams(client, Settings()) == (["S"] if captures else [])
        await client.close()
    finally:
        await server.stop()
