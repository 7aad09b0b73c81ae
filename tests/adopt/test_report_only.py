"""Agents that keep their own messaging and report only what they wait for: exact verdicts too."""

import asyncio
import json
from typing import Any

import nats
import pytest

from tests.adopt.rig import Network, ends, network_of
from tests.support.gateway import Gateway, running
from unknot import Connection, DeadlockDetected


class Inboxes:
    """Messaging that unknot knows nothing of."""

    def __init__(self) -> None:
        self._of: dict[str, asyncio.Queue[str]] = {}

    def of(self, name: str) -> asyncio.Queue[str]:
        return self._of.setdefault(name, asyncio.Queue())


async def ask(me: Connection, inboxes: Inboxes, other: str) -> str:
    """Ask *other* and stand still until it answers; who stands still so answers nobody."""
    inboxes.of(other).put_nowait(f"{me.agent} asks")
    async with me.blocking_on("agent", other, reason="its answer"):
        return await inboxes.of(f"answers:{me.agent}").get()


async def test_two_that_ask_each_other_over_queues_are_told_and_the_evidence_is_reported(
    network: Network,
) -> None:
    inboxes = Inboxes()

    async def agent(name: str, other: str) -> str:
        async with network.connect(name) as me:
            return await ask(me, inboxes, other)

    ended = await ends(agent("reconciler", "extractor-2"), agent("extractor-2", "reconciler"))
    assert [type(each) for each in ended] == [DeadlockDetected, DeadlockDetected]
    notice = await network.found()
    assert notice["cycle"] == ["extractor-2", "reconciler", "extractor-2"]
    assert notice["evidence"] == "reported"
    assert {(wait["waiter"], wait["kind"], wait["target"]) for wait in notice["waits"]} == {
        ("reconciler", "agent", "extractor-2"),
        ("extractor-2", "agent", "reconciler"),
    }


async def test_two_that_ask_each_other_over_subjects_of_their_own_are_told(
    network: Network, gateway: Gateway
) -> None:
    async def agent(name: str, other: str) -> Any:
        own = await nats.connect(gateway.nats)
        try:
            answers = await own.subscribe(f"team.{gateway.network}.{name}.answers")
            async with network.connect(name) as me:
                await own.publish(f"team.{gateway.network}.{other}", b"?")
                async with me.blocking_on("agent", other):
                    return await answers.next_msg(timeout=60)
        finally:
            await own.close()

    ended = await ends(agent("a", "b"), agent("b", "a"))
    assert [type(each) for each in ended] == [DeadlockDetected, DeadlockDetected]


async def test_run_9104_the_artifact_is_its_producers_and_the_ocr_job_is_nobodys(network: Network) -> None:
    table, answered = asyncio.Event(), asyncio.Event()
    ocr: asyncio.Queue[str] = asyncio.Queue()

    async def reconciler() -> None:
        async with network.connect("reconciler") as me, me.blocking_on("artifact", "clause_table:bundle_b7"):
            await table.wait()

    async def extractor() -> None:
        async with (
            network.connect("extractor-2") as me,
            me.holder("artifact", "clause_table:bundle_b7"),
            me.blocking_on("agent", "reconciler"),
        ):
            await answered.wait()

    async def writer() -> str:
        async with network.connect("writer") as me, me.tool("ocr:bundle_b7"):
            return await ocr.get()

    writing = asyncio.create_task(writer())
    ended = await ends(reconciler(), extractor())
    assert [type(each) for each in ended] == [DeadlockDetected, DeadlockDetected]
    notice = await network.found()
    assert notice["cycle"] == ["extractor-2", "reconciler", "extractor-2"]
    assert {wait["kind"] for wait in notice["waits"]} == {"artifact", "agent"}
    assert not writing.done()
    ocr.put_nowait("text")
    assert await writing == "text"


async def test_locks_taken_in_opposite_order_are_a_deadlock(network: Network) -> None:
    page, table = asyncio.Lock(), asyncio.Lock()
    both = asyncio.Barrier(2)

    async def agent(name: str, first: tuple[str, asyncio.Lock], then: tuple[str, asyncio.Lock]) -> None:
        async with network.connect(name) as me, first[1], me.holder("lock", first[0]):
            await both.wait()
            async with me.blocking_on("lock", then[0]):
                await then[1].acquire()
            then[1].release()

    one, two = ("page", page), ("table", table)
    ended = await ends(agent("a", one, two), agent("b", two, one))
    assert DeadlockDetected in [type(each) for each in ended]
    assert {wait["target"] for wait in (await network.found())["waits"]} == {"page", "table"}


@pytest.mark.parametrize("outside", ["tool", "human"])
async def test_a_ring_through_somebody_outside_is_none(network: Network, outside: Any) -> None:
    inboxes = Inboxes()
    come = asyncio.Event()

    async def writer() -> str:
        """Answers reviewer when the tool, or the human, has."""
        async with network.connect("writer") as me:
            async with me.blocking_on(outside, "reviewer"):  # what it is called makes no edge of it
                await come.wait()
            inboxes.of("answers:reviewer").put_nowait("done")
            return "done"

    async def reviewer() -> str:
        async with network.connect("reviewer") as me:
            return await ask(me, inboxes, "writer")

    agents = asyncio.gather(writer(), reviewer())
    await network.until(lambda waits: len(waits) == 2)
    await network.for_beats()
    assert not agents.done()
    come.set()
    assert await agents == ["done", "done"]
    assert network.notices == []


async def test_who_holds_nothing_any_more_is_in_no_ring(network: Network) -> None:
    done = asyncio.Event()

    async def agent() -> None:
        async with network.connect("b") as me:
            async with me.holder("lock", "page"):
                pass
            async with me.blocking_on("agent", "a"):
                await done.wait()

    async with network.connect("a") as a:
        waiting = asyncio.create_task(agent())
        await network.until(lambda waits: len(waits) == 1)
        async with a.blocking_on("lock", "page"):
            await network.for_beats()
        done.set()
        await waiting
    assert network.notices == []


async def test_an_alternative_producer_keeps_a_ring_from_being_one(network: Network) -> None:
    table = asyncio.Event()

    async def reconciler() -> str:
        async with network.connect("reconciler") as me, me.blocking_on("artifact", "table"):
            await table.wait()
            return "read"

    async with (
        network.connect("extractor-1") as one,
        network.connect("extractor-2") as two,
        one.holder("artifact", "table"),
        two.holder("artifact", "table"),
    ):
        waiting = asyncio.create_task(reconciler())
        async with one.blocking_on("agent", "reconciler"):
            await network.until(lambda waits: len(waits) == 2)
            await network.for_beats()
            table.set()
            assert await waiting == "read"
    assert network.notices == []


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_a_wait_that_ends_badly_is_reported_no_more(network: Network, how: str) -> None:
    fails = asyncio.Event()

    async def stands(me: Connection) -> None:
        async with me.blocking_on("agent", "b"):
            await fails.wait()
            raise ValueError(how)

    async with network.connect("a") as a, network.connect("b") as b:
        standing = asyncio.create_task(stands(a))
        await network.until(len)
        fails.set() if how == "raises" else standing.cancel()
        await ends(standing)
        await network.until(lambda waits: not waits)
        async with b.blocking_on("agent", "a"):
            await network.for_beats()
    assert network.notices == []


async def test_in_a_shadow_network_nobody_is_stopped() -> None:
    with running("--policy", "shadow") as gateway:
        async with network_of(gateway) as network:
            inboxes = Inboxes()

            async def agent(name: str, other: str) -> str:
                async with network.connect(name) as me:
                    return await ask(me, inboxes, other)

            agents = asyncio.gather(agent("a", "b"), agent("b", "a"))
            assert (await network.found())["cycle"] == ["a", "b", "a"]
            assert not agents.done()
            for name in ("a", "b"):
                inboxes.of(f"answers:{name}").put_nowait(json.dumps("given by hand"))
            assert await agents == ['"given by hand"'] * 2
