"""Agents as programs: run until a signal, watched, and usable without a loop."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import unknot
import unknot.sync
from tests.sdk.fake import Fake
from unknot import Agent, _watchdog

PROGRAM = """
import asyncio
import unknot

elm = unknot.Agent("elm")

@elm.on("say")
async def say(data, ctx):
    await asyncio.sleep(data)
    return "finished"

unknot.run(elm, drain_s=5)
"""


async def run_program(folder: Path) -> asyncio.subprocess.Process:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    path = os.pathsep.join(path for path in sys.path if path)
    return await asyncio.create_subprocess_exec(
        sys.executable, file, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_says_goodbye(fake: Fake, tmp_path: Path, number: signal.Signals) -> None:
    process = await run_program(tmp_path)
    try:
        hello = await asyncio.wait_for(_hello(fake), 20)
        assert hello["main_runs"] is False
        await fake.deliver("elm", "say", 0.5)
        await fake.settled()
        process.send_signal(number)
        assert (await fake.next("bye")).body["drain_s"] == 5
        assert (await fake.next("reply")).body["data"] == "finished"
        assert "drain_s" not in (await fake.next("bye")).body
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _hello(fake: Fake) -> dict[str, Any]:
    while "elm" not in fake.sessions:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.02)
    return fake.sessions["elm"]


async def test_a_program_whose_session_was_replaced_ends(fake: Fake, tmp_path: Path) -> None:
    process = await run_program(tmp_path)
    try:
        hello = await asyncio.wait_for(_hello(fake), 20)
        await fake.control("elm", "session.replaced", {"session": hello["session"], "by": "other"})
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_handler_that_blocks_the_event_loop_is_named(
    fake: Fake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watchdog, "THRESHOLD_S", 0.1)
    monkeypatch.setattr(_watchdog.Watchdog.__init__, "__defaults__", (0.1,))
    elm = Agent("elm")

    @elm.on("say")
    async def says_by_blocking(data: object) -> None:
        time.sleep(0.5)  # noqa: ASYNC251  what is to be found

    async with elm.running():
        await fake.deliver("elm", "say", id="e1")
        await fake.next("reply")
    warned = [record.message for record in caplog.records if "event loop was blocked" in record.message]
    assert len(warned) == 1
    assert "elm: say e1" in warned[0]
    assert "says_by_blocking" in warned[0]


async def test_an_idle_or_busy_loop_is_not_warned_of(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    async with unknot.connect("birch"):
        for _ in range(20):
            await asyncio.sleep(0.01)
    assert [record for record in caplog.records if "blocked" in record.message] == []
    assert asyncio.get_running_loop() not in _watchdog._watchdogs


async def test_a_synchronous_script_is_one_serial_main(fake: Fake) -> None:
    def script() -> Any:
        with unknot.sync.connect("birch") as me:
            for event in me.events():
                me.reply(event.data + me.send_and_wait("elm", "add", 1), to=event)
                if event.id == "e2":
                    break
            return me.wait_all([me.request("elm", "add", 1), me.request("elm", "add", 2)])

    running = asyncio.create_task(asyncio.to_thread(script))
    await fake.next("hello")
    await fake.settled()
    for n in (1, 2):
        await fake.deliver("birch", "say", n, id=f"e{n}")
        request = await fake.next("request")
        assert (request.body["execution"], "strand" in request.body) == ("main", False)
        facts = await fake.facts("birch", executions=["main"])
        assert facts["strands"] == {"main": {}}
        await fake.answer(request, 10)
        assert (await fake.next("reply")).body["data"] == n + 10
    for _ in range(2):
        request = await fake.next("request")
        assert request.body["group"]["need"] == 2
        await fake.answer(request, request.body["data"])
    assert await running == [1, 2]


def test_the_import_is_small_and_brings_nothing_of_the_gateway() -> None:
    code = "import sys, unknot; print(' '.join(sorted(name.split('.')[0] for name in sys.modules)))"
    path = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"unknot_gateway", "click", "structlog", "uvloop", "rich", "aiohttp"}


def test_the_door_is_sorted_and_documented() -> None:
    assert unknot.__all__ == sorted(unknot.__all__)
    for name in unknot.__all__:
        exported = getattr(unknot, name)
        assert name == "Handled" or exported.__doc__, name
        if isinstance(exported, type):
            for attribute, value in vars(exported).items():
                if re.match("[a-z]", attribute) and callable(value):
                    assert value.__doc__, f"{name}.{attribute}"
