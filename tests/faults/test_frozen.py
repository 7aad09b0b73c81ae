"""SIGSTOP: whoever stands still harms nobody else, and wakes without harm."""

import asyncio
import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unknot
from tests.faults.rig import BEAT_S, SLACK_S, House, Program, Server, Stable, asking, ended, spying, until
from tests.faults.stories import Stage
from unknot import Agent, Context
from unknot_schemas.limits import CLIENT_GRACE_S

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

LOSS_S = 4.0

WORKER = """
import asyncio, pathlib
from unknot import Agent

worker = Agent("worker", heartbeat_s=0.5)


@worker.on("work")
async def work(task: dict) -> str:
    with pathlib.Path("runs").open("a") as runs:
        runs.write(task["name"] + "\\n")
    await asyncio.sleep(task["s"])
    return task["name"]
"""


@pytest.fixture
def brisk(stable: Stable, server: Server, tmp_path: Path) -> Iterator[House]:
    """A house on a server of its own, where a session is lost after four seconds of silence."""
    house = House(stable, server, tmp_path, "brisk", UNKNOT_SESSION_LOSS_S=str(LOSS_S))
    house.begin()
    yield house
    server.thaw()
    house.end()


@pytest.fixture
async def worker(brisk: House, tmp_path: Path) -> Any:
    """A worker in a process of its own."""
    await brisk.ready()
    (tmp_path / "team.py").write_text(WORKER)
    program = await Program(tmp_path, brisk, "team:worker").start()
    yield program
    program.end()


def runs(folder: Path) -> list[str]:
    """What the worker has begun."""
    path = folder / "runs"
    return path.read_text().split() if path.exists() else []


async def test_bug_090_the_own_clock_ends_a_wait_while_the_gateway_is_frozen(brisk: House) -> None:
    async with Stage(brisk).open() as stage:
        short = stage.ask("fir", "say.never", "short", timeout=2.0)
        patient = stage.ask("elm", "say.later", "patient")
        await stage.has_run("short")
        await stage.has_run("patient")
        brisk.freeze()
        end = await short
        assert end.outcome == "expired"
        assert 2.0 <= end.took_s <= 2.0 + CLIENT_GRACE_S + SLACK_S
        late = stage.ask("elm", "say", "asked of a frozen one", timeout=1.0)
        assert (await late).outcome == "expired"
        await asyncio.sleep(LOSS_S)
        stage.go.set()  # the answer goes out while the gateway stands still
        brisk.thaw()
        end = await patient
        assert (end.outcome, end.value) == ("reply", "patient"), (
            "nobody was lost: it was the gateway that slept"
        )
        end = await stage.ask("elm", "say", "afterwards")
        assert (end.outcome, end.value) == ("reply", "afterwards")
        await stage.over()
        assert (await stage.spy.api("stats"))["counters"].get("sessions.lost", 0) == 0
        assert stage.runs == {"short": 1, "patient": 1, "afterwards": 1}, (
            "what was given up is not begun any more"
        )


async def test_what_has_ended_by_itself_is_no_deadlock_to_a_gateway_that_wakes(brisk: House) -> None:
    """While it slept the second of two agents has begun to wait for the first one, and has given up."""
    await brisk.ready()
    go_on = {"oak": asyncio.Event(), "ash": asyncio.Event()}
    ends: dict[str, str] = {}

    def member(name: str, other: str, timeout: float) -> Agent:
        agent = Agent(name, heartbeat_s=BEAT_S, blocking_waits="allow")

        @agent.on("begin")
        async def begin(data: Any, ctx: Context) -> None:
            await go_on[name].wait()
            ends[name] = (await ended(ctx.send_and_wait(other, "help", timeout=timeout), timeout)).outcome

        @agent.on("help")
        async def help_out(data: Any) -> str:
            return "helped"

        return agent

    url, network = brisk.server.url, brisk.network
    async with (
        member("oak", "ash", 20).running(url, network=network) as oak,
        member("ash", "oak", 0.3).running(url, network=network) as ash,
        unknot.connect("cli", url, network=network, heartbeat_s=BEAT_S, serves=False) as me,
        spying(url, network) as spy,
    ):
        begun = [asking(me, "oak", "begin"), asking(me, "ash", "begin")]
        go_on["oak"].set()
        await spy.waits(3, brisk)
        brisk.freeze()
        go_on["ash"].set()
        await until(lambda: "ash" in ends)
        brisk.thaw()
        assert [(await each).outcome for each in begun] == ["reply", "reply"]
        assert ends == {"oak": "reply", "ash": "expired"}
        assert oak.counters.get("deadlocks", 0) + ash.counters.get("deadlocks", 0) == 0


async def test_an_agent_that_stands_still_for_less_than_a_session_may_fails_nobody(
    brisk: House, worker: Program, tmp_path: Path
) -> None:
    async with unknot.connect(
        "cli", brisk.server.url, network=brisk.network, heartbeat_s=BEAT_S, serves=False
    ) as me:
        waiting = asking(me, "worker", "work", {"name": "a", "s": 0.3})
        await until(lambda: runs(tmp_path) == ["a"])
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(2 * BEAT_S + 0.8)  # two heartbeats are missing
        assert not waiting.done()
        worker.signal(signal.SIGCONT)
        end = await waiting
        assert (end.outcome, end.value) == ("reply", "a")
        assert runs(tmp_path) == ["a"]


async def test_an_agent_that_stands_still_too_long_is_lost_and_comes_back_as_somebody_new(
    brisk: House, worker: Program, tmp_path: Path
) -> None:
    async with unknot.connect(
        "cli", brisk.server.url, network=brisk.network, heartbeat_s=BEAT_S, serves=False
    ) as me:
        waiting = asking(me, "worker", "work", {"name": "a", "s": 0.3}, timeout=300)
        await until(lambda: runs(tmp_path) == ["a"])
        worker.signal(signal.SIGSTOP)
        end = await waiting
        assert end.outcome == "responder_lost", end
        assert end.error is not None
        assert end.error.handled in ("maybe", "yes")
        assert LOSS_S - BEAT_S - 0.1 <= end.took_s <= LOSS_S + SLACK_S
        worker.signal(signal.SIGCONT)
        again = await asking(me, "worker", "work", {"name": "b", "s": 0})
        assert (again.outcome, again.value) == ("reply", "b")
        assert runs(tmp_path) == ["a", "b"], "its late answer was nobody's"


@pytest.mark.filterwarnings("ignore:unclosed <StreamWriter")  # nats-py leaves those that got no answer
@pytest.mark.parametrize("seconds", [1.0, 9.0])
async def test_a_server_that_stands_still_costs_time_and_nothing_else(brisk: House, seconds: float) -> None:
    """The longer one is cut off by everybody (pings), for longer than a session may be silent."""
    async with Stage(brisk).open() as stage:
        before = [stage.ask("elm", "say.later", "running"), stage.ask("elm", "say", "queued")]
        await stage.spy.waits(2, brisk)
        brisk.server.freeze()
        during = stage.ask("elm", "say", "during")
        await asyncio.sleep(seconds / 2)
        stage.go.set()
        await asyncio.sleep(seconds / 2)
        brisk.server.thaw()
        ends = [await waiting for waiting in (*before, during)]
        assert [(end.outcome, end.value) for end in ends] == [
            ("reply", name) for name in ("running", "queued", "during")
        ]
        end = await stage.ask("elm", "say", "after")
        assert (end.outcome, end.value) == ("reply", "after")
        await stage.over()
        assert (await stage.spy.api("stats"))["counters"].get("sessions.lost", 0) == 0
        assert set(stage.runs.values()) == {1}
    gc.collect()
