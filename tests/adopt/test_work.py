"""What all adapters share: who stands still in work that a framework does, and that reports stop nobody."""

import asyncio
from typing import Any

import pytest

from tests.adopt.rig import Network, ends, network_of
from tests.support.gateway import running
from unknot import DeadlockDetected, UnknotError
from unknot.adapters import Lock, context, step, working
from unknot.adapters._work import parked
from unknot_schemas import bodies


async def nothing() -> str:
    return "done"


async def called_by_a_framework(*steps: Any) -> Any:
    """As frameworks do it: each in a task of its own, awaited by `asyncio.wait`, which nobody can look into."""
    tasks = [asyncio.create_task(each()) for each in steps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for each in ended:
        if isinstance(each, Exception):
            raise each
    return ended


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_run_stands_still_when_every_step_in_it_does(network: Network) -> None:
    async with network.connect("a") as a, network.connect("b") as b:

        async def one() -> None:
            async with working(a):
                await called_by_a_framework(step(for_ever, "agent", "b"), step(for_ever, "agent", "b"))

        async def other() -> None:
            async with working(b):
                await called_by_a_framework(step(for_ever, "agent", "a"))

        ended = await ends(one(), other())
        assert [type(each) for each in ended] == [DeadlockDetected, DeadlockDetected]
    assert (await network.found())["cycle"] == ["a", "b", "a"]


async def test_a_run_with_a_step_that_works_does_not_stand_still(network: Network) -> None:
    go_on = asyncio.Event()
    async with network.connect("a") as a, network.connect("b") as b:

        async def one() -> Any:
            async with working(a):
                return await called_by_a_framework(step(go_on.wait), step(go_on.wait, "agent", "b"))

        runs = asyncio.create_task(one())
        async with b.blocking_on("agent", "a"):
            await network.until(lambda waits: len(waits) == 2)
            await network.for_beats()
            go_on.set()
            assert await runs == [True, True]
    assert network.notices == []


async def test_what_a_task_on_the_side_waits_for_does_not_hold_the_run_up(network: Network) -> None:
    go_on = asyncio.Event()
    async with network.connect("a") as a, network.connect("b") as b:

        async def one() -> str:
            async with working(a) as work:

                async def aside() -> None:
                    async with work.blocking_on("agent", "b"):
                        await for_ever()

                side = asyncio.create_task(aside())
                await go_on.wait()
                side.cancel()
                await ends(side)
                return "done"

        runs = asyncio.create_task(one())
        async with b.blocking_on("agent", "a"):
            await network.until(lambda waits: len(waits) >= 2)
            await network.for_beats()
            go_on.set()
            assert await runs == "done"
    assert network.notices == []


async def test_a_lock_goes_from_hand_to_hand_without_a_false_word(network: Network) -> None:
    page = Lock("page")
    async with network.connect("a") as a, network.connect("b") as b:

        async def takes(me: Any, number: int) -> None:
            async with working(me, f"job-{me.agent}-{number}"):
                for _ in range(50):
                    async with page:
                        await asyncio.sleep(0)

        assert await ends(*(takes(me, number) for me in (a, b) for number in range(4))) == [None] * 8
        await network.until(lambda waits: not waits)
        assert not page.locked()
    assert network.notices == []


async def test_who_calls_stands_still_for_who_is_called(network: Network) -> None:
    async with network.connect("a") as a, network.connect("b") as b:
        async with working(a):
            async with working(b) as inner:
                assert inner.agent == "b"
                [wait] = await network.until(lambda waits: waits)
                assert (wait["waiter"], wait["kind"]) == ("a", "task")
            assert context() is not None
            await network.until(lambda waits: not waits)
        assert context() is None


async def test_two_pieces_of_work_at_once_need_names(network: Network) -> None:
    async with network.connect("a") as a, working(a):
        with pytest.raises(UnknotError, match=r"task="):
            await asyncio.create_task(beside(a))
        async with working(a, "one", called=False):
            pass


async def beside(me: Any) -> None:
    async with working(me, called=False):
        pass


async def test_a_gateway_that_is_gone_stops_no_work() -> None:
    with running() as gateway:
        async with network_of(gateway) as network, network.connect("a") as a, working(a, "job"):
            gateway.kill()
            assert await called_by_a_framework(step(nothing, "agent", "b")) == ["done"]
            async with Lock("page"):
                pass


async def test_what_cannot_be_reported_is_counted_and_done(network: Network) -> None:
    async with network.connect("a") as a:
        pass
    async with working(a):
        assert await step(nothing, "agent", "b")() == "done"
    assert a.counters["reports_lost"] == 1


async def test_people_may_take_longer_than_any_wait(network: Network) -> None:
    async with network.connect("a") as a:
        waiting = parked(a, "human", "eva", "may it?", None)
        [wait] = await network.until(lambda waits: waits)
        a._links.session.pending.settle(bodies.Outcome(wait["id"], "expired", "no", 1))
        [again] = await network.until(lambda waits: [each for each in waits if each["id"] != wait["id"]])
        assert again["target"] == "eva"
        waiting.end()
        waiting.end()
        await network.until(lambda waits: all(each["id"] == wait["id"] for each in waits))
        assert a._links.session.beside == {}
