"""Deploys under load: nothing is lost, nothing runs twice, everything is answered."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import unknot
from tests.faults.rig import BEAT_S, SLACK_S, Ended, House, Program, asking, until
from tests.faults.stories import Stage
from unknot import Agent, Connection

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

LANES = 8
INSTANCES = 3

TEAM = """
import asyncio, os, pathlib
from unknot import Agent

worker = Agent("worker", concurrency=4, heartbeat_s=0.5)


def note(what: object) -> None:
    with pathlib.Path("runs").open("a") as runs:
        runs.write(f"{what} {os.getpid()}\\n")


@worker.on("work")
async def work(number: int) -> int:
    note(number)
    await asyncio.sleep(0.02)
    return number


@worker.on("work.until")
async def work_until(name: str) -> int:
    note(name)
    while not pathlib.Path(name).exists():
        await asyncio.sleep(0.01)
    return os.getpid()
"""


def runs(folder: Path) -> list[tuple[str, int]]:
    """What was begun, and by which process."""
    path = folder / "runs"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, int(pid)) for name, pid in map(str.split, lines)]


class Load:
    """Lanes of numbered requests, one after the other. *again*: whether a number that ended so is asked once more."""

    def __init__(
        self, me: Connection, target: str, again: Callable[[Ended], bool] = lambda _end: False
    ) -> None:
        self.me = me
        self.target = target
        self.ends: dict[int, list[Ended]] = {}
        self._again = again
        self._stop = False
        self._lanes = [asyncio.create_task(self._lane(lane)) for lane in range(LANES)]

    async def _lane(self, lane: int) -> None:
        number = lane
        while not self._stop:
            ends = self.ends[number] = [await asking(self.me, self.target, "work", number)]
            while self._again(ends[-1]):
                ends.append(await asking(self.me, self.target, "work", number))
            number += LANES

    async def more(self, n: int) -> None:
        """Until *n* more requests have ended."""
        wanted = len(self.ends) + n
        await until(lambda: len(self.ends) >= wanted)

    async def end(self) -> None:
        """Begin no more; until all have ended."""
        self._stop = True
        await asyncio.gather(*self._lanes)

    @property
    def wrong(self) -> dict[int, list[Ended]]:
        """What did not end with its own answer."""
        last = {number: ends[-1] for number, ends in self.ends.items()}
        return {n: self.ends[n] for n, end in last.items() if (end.outcome, end.value) != ("reply", n)}


@asynccontextmanager
async def instances(folder: Path, house: House, n: int) -> AsyncIterator[list[Program]]:
    """*n* processes of the worker; others may be put into the list."""
    await house.ready()
    (folder / "team.py").write_text(TEAM)
    programs = [Program(folder, house, "team:worker") for _ in range(n)]
    try:
        await asyncio.gather(*(program.start() for program in programs))
        yield programs
    finally:
        for program in programs:
            program.end()


async def test_a_rolling_restart_of_three_instances_loses_nothing(house: House, tmp_path: Path) -> None:
    async with (
        instances(tmp_path, house, INSTANCES) as programs,
        unknot.connect(
            "cli", house.server.url, network=house.network, heartbeat_s=BEAT_S, serves=False
        ) as me,
    ):
        load = Load(me, "worker")
        for old in programs[:INSTANCES]:
            await load.more(60)
            old.signal(signal.SIGTERM)
            assert await old.ended() == 0
            await load.more(60)
            programs.append(await Program(tmp_path, house, "team:worker").start())
        await load.more(60)
        await load.end()
        assert not load.wrong
        begun = Counter(name for name, _ in runs(tmp_path))
        assert begun == dict.fromkeys(map(str, load.ends), 1), "each once"
        assert len({pid for _, pid in runs(tmp_path)}) == 2 * INSTANCES, "all have worked"


async def test_instances_that_come_and_go_lose_nothing(house: House) -> None:
    """Each leaves at another moment: also when something is on its way to it that it does not hold yet."""
    await house.ready()
    url, network = house.server.url, house.network
    begun: Counter[int] = Counter()

    def worker() -> Agent:
        agent = Agent("worker", concurrency=2, heartbeat_s=BEAT_S)

        @agent.on("work")
        async def work(number: int) -> int:
            begun[number] += 1
            return number

        return agent

    async with (
        worker().running(url, network=network),
        unknot.connect("cli", url, network=network, heartbeat_s=BEAT_S, serves=False) as me,
    ):
        load = Load(me, "worker")
        for visit in range(40):
            async with worker().running(url, network=network, drain_s=10):
                await asyncio.sleep(0.001 * (visit % 10))
        await load.end()
        assert not load.wrong
        assert begun == dict.fromkeys(load.ends, 1), "each once"


async def test_an_instance_that_is_stopped_finishes_what_it_holds_and_takes_nothing_new(
    house: House, tmp_path: Path
) -> None:
    async with (
        instances(tmp_path, house, 1) as programs,
        unknot.connect(
            "cli", house.server.url, network=house.network, heartbeat_s=BEAT_S, serves=False
        ) as me,
    ):
        old = programs[0]
        first = asking(me, "worker", "work.until", "first")
        await until(lambda: runs(tmp_path) == [("first", old.pid)])
        old.signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        second = asyncio.create_task(me.send_and_wait("worker", "work", 2, timeout=20, wait_for_target=20))
        await asyncio.sleep(0.5)
        assert not first.done(), "what it holds goes on"
        assert not second.done()
        programs.append(await Program(tmp_path, house, "team:worker").start())
        assert await second == 2, "what is new goes to its successor"
        (tmp_path / "first").touch()
        assert (await first).value == old.pid
        assert await old.ended() == 0
        assert runs(tmp_path) == [("first", old.pid), ("2", programs[1].pid)]


async def test_a_rolling_restart_of_the_gateway_ends_every_request_once(house: House, tmp_path: Path) -> None:
    """Who is told that the gateway was stopped asks again; nobody else need do anything."""
    async with (
        instances(tmp_path, house, 2),
        unknot.connect(
            "cli", house.server.url, network=house.network, heartbeat_s=BEAT_S, serves=False
        ) as me,
    ):
        load = Load(me, "worker", again=lambda end: end.outcome == "gateway_stopped")
        for _ in range(3):
            await load.more(50)
            assert await house.stop() == 0
            await house.open()
        await load.more(50)
        await load.end()
        assert not load.wrong
        begun = Counter(name for name, _ in runs(tmp_path))
        assert all(1 <= begun[str(number)] <= len(ends) for number, ends in load.ends.items())
        asked_once = {str(number) for number, ends in load.ends.items() if len(ends) == 1}
        assert {begun[name] for name in asked_once} == {1}


async def test_bug_019_a_gateway_that_is_stopped_ends_what_is_open_and_its_successor_hears_no_stale_answer(
    house: House,
) -> None:
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(Stage(house).open())
        wide = Agent("wide", concurrency=3, heartbeat_s=BEAT_S)

        @wide.on("work")
        async def work(data: Any) -> Any:
            stage.runs[data] += 1
            await stage.go.wait()
            return f"stale {data}"

        stage.me["wide"] = await stack.enter_async_context(
            wide.running(house.server.url, network=house.network)
        )
        asked = [stage.ask("wide", "work", number) for number in range(3)]
        await until(lambda: stage.runs == {0: 1, 1: 1, 2: 1})
        assert await house.stop() == 0
        async with asyncio.timeout(SLACK_S):  # they left before it ended
            ends = await asyncio.gather(*asked)
        assert [end.outcome for end in ends] == ["gateway_stopped"] * 3
        await house.open()
        next_one = stage.ask("wide", "work", "next")
        await asyncio.sleep(2 * BEAT_S)
        assert stage.runs["next"] == 0, "three slots are taken still"
        stage.go.set()  # the old handlers answer now
        end = await next_one
        assert (end.outcome, end.value) == ("reply", "stale next")
        await stage.over()
        assert set(stage.runs.values()) == {1}
