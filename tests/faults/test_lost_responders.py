"""Whoever took a request goes away: the asker is told so, and does not wait out its timeout."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import unknot
from tests.faults.rig import BEAT_S, SLACK_S, House, Program, Server, Stable, asking, spying, until
from unknot import Agent, Context

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

LOSS_S = 2.0
AT_ONCE_S = 5.0
"""Far from every timeout here, and no race on a loaded machine."""

DYING = """
import os
from unknot import Agent

elm = Agent("elm", heartbeat_s=0.5)


@elm.on("work")
async def work(data: object) -> None:
    os._exit(9)
"""


@pytest.fixture
def brisk(stable: Stable, shared_server: Server, tmp_path: Path) -> Iterator[House]:
    """A house where a session is lost after two seconds of silence."""
    house = House(stable, shared_server, tmp_path, "losing", UNKNOT_SESSION_LOSS_S=str(LOSS_S))
    house.begin()
    yield house
    house.end()


async def test_bug_013_a_responder_whose_process_has_ended_is_lost_with_its_session(
    brisk: House, tmp_path: Path
) -> None:
    await brisk.ready()
    (tmp_path / "team.py").write_text(DYING)
    url, network = brisk.server.url, brisk.network
    program = Program(tmp_path, brisk, "team:elm")
    async with (
        unknot.connect("birch", url, network=network, heartbeat_s=BEAT_S, serves=False) as birch,
        spying(url, network) as spy,
    ):
        try:
            await program.start()
            end = await asking(birch, "elm", "work", timeout=300)
            assert end.outcome == "responder_lost", end
            assert end.took_s <= LOSS_S + SLACK_S
            assert end.error is not None
            assert end.error.handled in ("maybe", "yes")
            assert (await spy.api("waits"))["total"] == 0, "the edge is gone with it"
            assert await program.ended() == 9
        finally:
            program.end()


async def test_bug_016_a_peer_that_ends_its_turn_without_an_answer_is_no_mystery(house: House) -> None:
    """(a) returned None, (b) read it in its loop and left, (c) deferred and left."""
    await house.ready()
    url, network = house.server.url, house.network
    silent, later = Agent("silent", heartbeat_s=BEAT_S), Agent("later", heartbeat_s=BEAT_S)
    deferred = asyncio.Event()

    @silent.on("work")
    async def return_nothing(data: object) -> None:
        await asyncio.sleep(0.3)

    @later.on("work")
    async def promise(data: object, ctx: Context) -> None:
        ctx.defer()
        deferred.set()

    async def read_and_leave() -> None:
        async with unknot.connect("reader", url, network=network, heartbeat_s=BEAT_S) as me:
            async for _event in me.events():
                await asyncio.sleep(0.3)
                return

    async with unknot.connect("birch", url, network=network, heartbeat_s=BEAT_S, serves=False) as birch:
        async with silent.running(url, network=network):
            end = await asking(birch, "silent", "work", timeout=120)
            assert (end.outcome, end.value) == ("reply", None)
            assert end.took_s < AT_ONCE_S
        reading = asyncio.create_task(read_and_leave())
        end = await asking(birch, "reader", "work", timeout=120)
        assert end.outcome in ("responder_lost", "no_reader"), end
        assert end.took_s < AT_ONCE_S
        await reading
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(later.running(url, network=network))
            waiting = asking(birch, "later", "work", timeout=120)
            await deferred.wait()
            await asyncio.sleep(0.3)
        end = await waiting
        assert end.outcome == "responder_lost", end
        assert end.took_s < AT_ONCE_S
    await until(lambda: not birch._links.session.pending._open)
