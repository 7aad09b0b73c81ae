"""One agent floods: it is shed and named, everybody else is answered, and revoking its user ends it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.identity.rig import SUBJECTS, House, Party, housing
from tests.support.gateway import ROOT, paths
from unknot_schemas.subjects import NOTICE_OVER_LIMIT

FLOOD_ENDS_S = 30.0
PATIENCE_S = 30.0
"""Hang limit: a flood takes all that a small machine has."""
QUOTA = "5"


@contextmanager
def flooding(house: House) -> Iterator[subprocess.Popen[bytes]]:
    """User ``flood`` at work, in a process of its own, at a pace far beyond the quota."""
    where = [house.url, SUBJECTS.network, "2000", "flood", house.passwords["flood"]]
    flooder = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.flooder", *where],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(paths())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield flooder
    finally:
        flooder.kill()
        flooder.wait()


@pytest.fixture
def flooded_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("UNKNOT_REQUESTS_PER_S", QUOTA)
    with housing(tmp_path) as house:
        house.users("add", "flood")
        yield house


async def answered(birch: Party, elm: Party, sessions: tuple[str, str], number: int) -> None:
    """A request of birch comes to elm, and elm's answer back."""
    mine, its = sessions
    body = {"unknot": 1, "id": f"q{number}", "session": mine, "timeout_s": PATIENCE_S}
    await birch.client.publish(SUBJECTS.event("birch", "request", "elm", "work"), json.dumps(body).encode())
    event = await elm.hears(SUBJECTS.deliver("elm", its, ""))
    await event.respond(b'{"unknot":1,"session":"%b","data":1}' % its.encode())
    outcome = json.loads((await birch.hears(SUBJECTS.outcome("birch", mine))).data)
    assert outcome["outcome"] == "reply"


async def shed(ops: Party) -> int:
    """How much of the flood has been shed so far."""
    answer = await ops.client.request(SUBJECTS.api("stats"), b"", timeout=PATIENCE_S)
    return int(json.loads(answer.data)["counters"].get("shell.shed.flood", 0))


async def test_who_floods_is_shed_and_named_others_are_answered_and_revoking_it_ends_it(
    flooded_house: House,
) -> None:
    house = flooded_house
    async with (
        house.party("birch") as birch,
        house.party("elm") as elm,
        house.party("eye") as eye,
        house.party("ops") as ops,
    ):
        sessions = await birch.greets(), await elm.greets()
        assert await eye.subscribes(SUBJECTS.notice(">"))
        with flooding(house) as flooder:
            notice = json.loads((await eye.hears(SUBJECTS.notice(NOTICE_OVER_LIMIT))).data)
            assert notice["agent"] == "flood"
            assert notice["shed"] > 0
            for number in range(3):
                await answered(birch, elm, sessions, number)
            assert await shed(ops) > 0
            await asyncio.to_thread(house.users, "revoke", "flood")
            await asyncio.to_thread(flooder.wait, FLOOD_ENDS_S)
        after = await shed(ops)
        await answered(birch, elm, sessions, 9)
        assert await shed(ops) == after
