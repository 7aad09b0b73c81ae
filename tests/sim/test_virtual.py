"""The virtual clock and its processes."""

import asyncio
from contextvars import copy_context

import pytest

from tests.sim.virtual import PROCESS, START_AT, NothingLeft, virtual_loop


def test_time_passes_only_where_nothing_is_left_to_do() -> None:
    with virtual_loop(1) as loop:

        async def sleep() -> None:
            await asyncio.sleep(3600)

        loop.run_until_complete(sleep())
        assert loop.time() == START_AT + 3600


def test_waiting_for_ever_is_no_hang() -> None:
    with virtual_loop(1) as loop:
        forever = loop.create_future()
        with pytest.raises(NothingLeft):
            loop.run_until_complete(forever)
        forever.cancel()


def test_a_paused_process_does_nothing_and_then_everything_that_was_due_in_order() -> None:
    done: list[tuple[str, float]] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            done.append((PROCESS.get(), asyncio.get_running_loop().time() - START_AT))

    async def play() -> None:
        tasks = []
        for process in ("frozen", "other"):
            context = copy_context()
            context.run(PROCESS.set, process)
            context.run(loop.call_later, 4, lambda: done.append((PROCESS.get(), -1.0)))
            tasks.append(loop.create_task(work(), context=context))
        await asyncio.sleep(1.5)
        loop.pause("frozen")
        await asyncio.sleep(8.5)
        loop.go_on("frozen")
        await asyncio.gather(*tasks)

    with virtual_loop(1) as loop:
        loop.run_until_complete(play())
    assert [at for process, at in done if process == "other"] == [1, 2, 3, -1]
    assert [at for process, at in done if process == "frozen"] == [1, -1, 10, 11]
