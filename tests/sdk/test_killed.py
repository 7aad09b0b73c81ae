"""An agent whose process is killed is gone at once; one that only loses its connection for a moment is not."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import unknot
from tests.support.gateway import Gateway, paths
from unknot import Agent
from unknot_schemas.limits import SESSION_LOSS_S

PROGRAM = """
import asyncio
import unknot

elm = unknot.Agent("elm")

@elm.on("say")
async def say(data):
    print("taken", flush=True)
    await asyncio.sleep(3600)

unknot.run(elm)
"""
HANG_S = 20


async def test_bug_013_who_waits_for_an_agent_that_is_killed_is_told_at_once(
    house: Gateway, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {
        "PYTHONPATH": os.pathsep.join(paths()),
        "UNKNOT_URL": house.nats,
        "UNKNOT_NETWORK": house.network,
    }
    program = await asyncio.create_subprocess_exec(
        sys.executable, file, env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with unknot.connect("birch", house.nats, network=house.network, serves=False) as birch:
            waiting = asyncio.ensure_future(
                birch.send_and_wait("elm", "say", timeout=300, wait_for_target=HANG_S)
            )
            assert program.stdout is not None
            async with asyncio.timeout(HANG_S):
                assert await program.stdout.readline() == b"taken\n"
            program.kill()
            with pytest.raises(unknot.ResponderLost, match="its connection has ended"):
                async with asyncio.timeout(SESSION_LOSS_S / 2):
                    await waiting
    finally:
        if program.returncode is None:
            program.kill()
        await program.communicate()


async def test_a_moment_without_connection_costs_nothing(house: Gateway) -> None:
    elm = Agent("elm")
    go_on = asyncio.Event()
    begun = asyncio.Event()

    @elm.on("say")
    async def say(data: Any) -> Any:
        begun.set()
        await go_on.wait()
        return data

    async with (
        elm.running(house.nats, network=house.network) as running,
        unknot.connect("birch", house.nats, network=house.network, serves=False) as birch,
    ):
        waiting = asyncio.ensure_future(birch.send_and_wait("elm", "say", "heard", timeout=HANG_S))
        await begun.wait()
        transport = running._links.session.transport
        before = transport.connection
        socket = transport._nats._transport  # type: ignore[union-attr]
        socket.close()  # type: ignore[union-attr]
        await asyncio.sleep(1.5)  # longer than the grace: it is back long before
        assert transport.connection != before
        assert running.counters["reconnects"] == 1
        go_on.set()
        assert await waiting == "heard"
        assert running.counters.get("resumed", 0) == 0
