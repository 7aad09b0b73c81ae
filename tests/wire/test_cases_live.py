"""The given cases of the wait graph, live: raw clients play each on a real gateway, and its answers are compared.

Under policy shadow: what is found is said and nobody's wait ends. Every case can be played; two differ from the page
of the cases in how, not in what is expected. `deadline-in-the-past`: the wire has timeouts, no instants, so the wait
that is over before it begins has the shortest timeout there is, and the next step comes after it.
`generation-bump-clears`: what the old attempt held ends `responder_lost`, so B, who only waits there, is told and waits
no more here.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.wire.player import PATIENCE_S, Player
from tests.wire.raw import Inbox, Json, Net
from tests.wire.shapes import DEADLOCK

CASES = json.loads((Path(__file__).parents[1] / "cases" / "graphs.json").read_text())["cases"]
ORPHANS = [case for case in CASES if any(step["op"] == "crash" for step in case["steps"])]
"""Sessions are lost in them: they are played where that takes a second, not half a minute."""
HERE = [case for case in CASES if case not in ORPHANS]


async def played(net: Net, steps: list[Json], **options: Any) -> Inbox:
    """Play *steps*; the notices that came."""
    notices = await net.listen(net.subjects.notice(DEADLOCK))
    player = Player(net, steps, **options)
    try:
        for step in steps:
            if step["op"] == "expect":
                await expect(player, {key: value for key, value in step.items() if key != "op"})
            else:
                await player.play(step)
        await check(net, player, notices, steps)
    finally:
        await player.close()
    return notices


async def expect(player: Player, wanted: Json) -> None:
    """It becomes so, as the verdicts and the engine say alike."""
    give_up = time.monotonic() + PATIENCE_S
    while (seen := (await player.seen(), await player.engine())) != ({**wanted, "unjudged": []}, wanted):
        assert time.monotonic() < give_up, (seen, wanted)
        await asyncio.sleep(0.02)


async def check(net: Net, player: Player, notices: Inbox, steps: list[Json]) -> None:
    """Each cycle that was expected was noticed, no other, and nobody's wait was ended for it."""
    await net.settled()
    wanted = {tuple(cycle) for step in steps for cycle in step.get("cycles", [])}
    found = {tuple(player.plain(cycle[:-1])) for event in notices.all if (cycle := player.own(event.body))}
    assert found == wanted
    outcomes = [
        arrival.body["outcome"]
        for peer in net.peers
        for arrival in peer.inbox.all
        if arrival.kind == "outcome"
    ]
    assert "deadlock" not in outcomes


@pytest.mark.parametrize("case", HERE, ids=lambda case: case["name"])
async def test_a_given_case_has_its_answers_on_the_wire(shadow: Net, case: Json) -> None:
    await played(shadow, case["steps"])


@pytest.mark.parametrize("case", ORPHANS, ids=lambda case: case["name"])
async def test_a_given_case_with_a_crash_has_its_answers_on_the_wire(hasty: Net, case: Json) -> None:
    await played(hasty, case["steps"], heartbeat_s=0.5)


def test_every_given_case_is_played() -> None:
    assert len(HERE) + len(ORPHANS) == len(CASES) == 36
