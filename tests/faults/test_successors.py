"""Two gateways of one network: the younger one stays, and what the older one missed it does not do afterwards."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.rig import House, Server, Stable, until
from tests.faults.stories import Stage

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

ASLEEP_S = 3.0
"""Long enough for the agents to have gone over to the successor."""


async def test_a_gateway_that_wakes_when_another_has_taken_over_ends_and_does_nothing_more(
    stable: Stable, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    older = House(stable, server, tmp_path / "old", "shared")
    younger = House(stable, server, tmp_path / "new", "shared")
    await older.open()
    try:
        async with Stage(older).open() as stage:
            promised = stage.ask("elm", "defer", "asked before")
            await stage.has_run("asked before")
            older.freeze()
            await younger.open()
            ends = [stage.ask("elm", "say", f"asked of the younger {at}") for at in range(5)]
            assert [(await end).outcome for end in ends] == ["reply"] * 5
            await asyncio.sleep(ASLEEP_S)
            older.thaw()
            await until(lambda: older.is_dead)
            assert older.code == 1
            assert "another gateway has begun to serve network shared" in older.log
            stage.go.set()
            assert (await promised).outcome == "reply"
            end = await stage.ask("elm", "say", "asked at the end")
            assert end.outcome == "reply"
            await stage.over()
            assert set(stage.runs.values()) == {1}, stage.runs
    finally:
        for house in (older, younger):
            if not house.is_dead:
                house.thaw()
            house.end()
