"""Waits of all kinds against the real gateway: what users do."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

import unknot
import unknot.sync
from tests.sdk.conftest import start_server
from tests.support import gateway as support
from tests.support.gateway import Gateway
from unknot import Agent, Connection, Context, ThreadContext

BEAT_S = 0.5
HANG_S = 30


@asynccontextmanager
async def mains(house: Gateway, *names: str) -> AsyncIterator[list[Connection]]:
    """Scripts that send and wait, and read no events."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                unknot.connect(name, house.nats, network=house.network, heartbeat_s=BEAT_S, serves=False)
            )
            for name in names
        ]


async def scripts(
    house: Gateway, **bodies: Callable[[Connection, asyncio.Barrier], Awaitable[Any]]
) -> dict[str, Any]:
    """Run each body as the main of an agent of that name, in a task of its own; what came of each."""
    together = asyncio.Barrier(len(bodies))

    async def script(name: str) -> Any:
        async with unknot.connect(
            name, house.nats, network=house.network, heartbeat_s=BEAT_S, serves=False
        ) as me:
            try:
                return await bodies[name](me, together)
            except unknot.WaitFailed as failure:
                return failure
            finally:
                await together.wait()  # nobody leaves before all have been told

    async with asyncio.timeout(HANG_S):
        results = await asyncio.gather(*map(script, bodies))
    return dict(zip(bodies, results, strict=True))


def types(results: dict[str, Any]) -> set[type]:
    return {type(result) for result in results.values()}


# ---------------------------------------------------------------------- locks and permits


async def test_a_lock_has_one_holder_at_a_time_and_tokens_grow(house: Gateway) -> None:
    inside = 0
    tokens = []

    async def work(me: Connection) -> None:
        nonlocal inside
        for _ in range(5):
            async with me.lock("page", timeout=HANG_S) as lease:
                inside += 1
                assert inside == 1
                tokens.append(lease.token)
                await asyncio.sleep(0)
                inside -= 1

    async with mains(house, "a", "b", "c") as agents:
        await asyncio.gather(*map(work, agents))
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 15
        assert sum(len(me._links.session.holds) for me in agents) == 0


async def test_several_locks_in_any_order_are_no_deadlock(house: Gateway) -> None:
    async def work(me: Connection, *names: str) -> None:
        for _ in range(5):
            async with me.lock(*names, timeout=HANG_S):
                await asyncio.sleep(0)

    async with mains(house, "a", "b") as (a, b):
        await asyncio.gather(work(a, "x", "y"), work(b, "y", "x"))


async def test_permits_are_counted_and_what_can_never_be_is_refused_at_once(house: Gateway) -> None:
    async with mains(house, "a", "b") as (a, b):
        with pytest.raises(unknot.Refused) as caught:
            await a.permits("gpu").__aenter__()
        assert caught.value.code == "unknown_pool"
        await a.declare_permits("gpu", 3)
        with pytest.raises(unknot.Refused) as caught:
            await a.permits("gpu", 4).__aenter__()
        assert caught.value.code == "over_capacity"
        async with a.permits("gpu", 2), b.permits("gpu", 1):
            with pytest.raises(unknot.WaitExpired) as late:
                await b.permits("gpu", 1, timeout=0.2).__aenter__()
            assert late.value.chain
        async with b.permits("gpu", 3):
            pass


async def test_the_order_of_two_locks_taken_one_by_one_is_a_deadlock(house: Gateway) -> None:
    """Each holds one and waits for the other's: found at once, and whoever is told gives back what it holds."""

    async def work(me: Connection, first: str, then: str, go: asyncio.Barrier) -> str:
        try:
            async with me.lock(first):
                await go.wait()
                async with me.lock(then, timeout=HANG_S):
                    return "both"
        except unknot.DeadlockDetected as knot:
            return " ".join(knot.cycle)

    go = asyncio.Barrier(2)
    async with mains(house, "a", "b") as (a, b):
        async with asyncio.timeout(HANG_S / 2):
            told = await asyncio.gather(work(a, "x", "y", go), work(b, "y", "x", go))
        assert told == ["a b a", "a b a"]
        async with a.lock("x", "y", timeout=5):
            pass


async def test_a_lease_that_ends_passes_to_the_next_and_the_old_token_counts_no_more(house: Gateway) -> None:
    async with mains(house, "a", "b") as (a, b):
        old = (await a.wait_all([a.acquire("page", lease=1)]))[0]
        a._links.session.holds._arm = lambda hold, delay: None  # type: ignore[method-assign]  a holder that is stuck
        hold = old._hold
        assert hold.timer is not None
        hold.timer.cancel()
        async with b.lock("page", timeout=HANG_S) as new:
            assert new.token > old.token
            await asyncio.wait_for(old.lost.wait(), 5)
            assert await b.is_current("page", new.token)
            assert not await b.is_current("page", old.token)
            with pytest.raises(unknot.LeaseLost):
                await a.publish_artifact("plan", 1, under=old)
            assert await b.publish_artifact("plan", 2, under=new)
        assert await a.wait_for_artifact("plan") == 2


async def test_what_a_handler_still_holds_is_given_back_when_it_returns(house: Gateway) -> None:
    elm = Agent("elm")
    kept: list[Any] = []

    @elm.on("take")
    async def take(data: object, ctx: Context) -> None:
        kept.extend(await ctx.wait_all([ctx.acquire("page")]))

    async with elm.running(house.nats, network=house.network), mains(house, "a") as (me,):
        await me.send_and_wait("elm", "take")
        async with me.lock("page", timeout=5):
            pass


# ---------------------------------------------------------------------- artifacts, approvals


async def test_an_artifact_comes_to_all_who_wait_and_to_all_who_come_later(house: Gateway) -> None:
    async with mains(house, "a", "b") as (a, b):
        await a.declare_artifact("plan")
        waiting = asyncio.create_task(b.wait_for_artifact("plan", into=list[int]))
        await asyncio.sleep(0.05)
        assert await a.publish_artifact("plan", [1, 2])
        assert not await b.publish_artifact("plan", [3])
        assert await waiting == [1, 2]
        assert await a.wait_for_artifact("plan") == [1, 2]
        await b.forget_artifact("plan")
        assert await b.publish_artifact("plan", [3])
        assert await a.wait_for_artifact("plan") == [3]


async def test_who_waits_for_what_its_own_waiter_produces_is_told(house: Gateway) -> None:
    def wants(own: str, other: str) -> Any:
        async def body(me: Connection, together: asyncio.Barrier) -> Any:
            await me.declare_artifact(own)
            await together.wait()
            return await me.wait_for_artifact(other, timeout=HANG_S)

        return body

    told = await scripts(house, a=wants("plan", "draft"), b=wants("draft", "plan"))
    assert types(told) == {unknot.DeadlockDetected}


async def test_an_agent_approves_or_denies(house: Gateway) -> None:
    boss = Agent("boss")

    @boss.on_approval
    async def decide(order: dict[str, int]) -> bool:
        return order["sum"] < 10

    async with boss.running(house.nats, network=house.network), mains(house, "a") as (me,):
        assert await me.approval("boss", {"sum": 9}, timeout=HANG_S)
        with pytest.raises(unknot.Denied):
            await me.approval("boss", {"sum": 11}, timeout=HANG_S)


async def test_a_reason_comes_with_a_no_and_a_stranger_may_not_decide(house: Gateway) -> None:
    async with (
        mains(house, "a", "b") as (me, stranger),
        unknot.connect("boss", house.nats, network=house.network) as boss,
    ):
        asking = asyncio.create_task(me.approval("boss", "the plan", timeout=HANG_S))
        async for event in boss.events():
            with pytest.raises(unknot.Refused):
                await stranger.resolve_approval(event, True)
            await boss.resolve_approval(event, False, reason="too early")
            break
        with pytest.raises(unknot.Denied) as caught:
            await asking
        assert caught.value.reason == "too early"
        with pytest.raises(unknot.Refused):
            await boss.resolve_approval(event, True)


async def test_a_person_approves_by_the_api(house: Gateway) -> None:
    async with mains(house, "a") as (me,):
        client = await nats.connect(house.nats)
        try:
            for decision in ("approved", "denied"):
                asking = asyncio.create_task(me.approval("human:eva", {"sum": 9}, timeout=HANG_S))
                id = await _asked_of_people(client, house.network)
                body = json.dumps({"id": id, "decision": decision, "reason": "so"}).encode()
                await client.request(f"unknot.{house.network}.api.approval.resolve", body, timeout=5)
                if decision == "approved":
                    assert await asking is True
                else:
                    with pytest.raises(unknot.Denied) as caught:
                        await asking
                    assert caught.value.reason == "so"
        finally:
            await client.close()


async def _asked_of_people(client: Any, network: str) -> str:
    """The id of the only open approval."""
    async with asyncio.timeout(5):
        while True:
            answer = await client.request(f"unknot.{network}.api.approvals", b"{}", timeout=5)
            rows = json.loads(answer.data)["rows"]
            if rows:
                return str(rows[0]["id"])


# ---------------------------------------------------------------------- mixes, cycles


async def test_a_mix_is_over_by_what_comes_first(house: Gateway) -> None:
    elm = Agent("elm")

    @elm.on("say")
    async def say(data: str) -> str:
        return data

    async with elm.running(house.nats, network=house.network), mains(house, "a", "b") as (a, b):
        asked = await a.ask("elm", "say", "asked")
        everything = [a.request("elm", "say", "hi"), asked, a.acquire("page"), a.artifact("plan")]
        waiting = asyncio.create_task(a.wait_all(everything, timeout=HANG_S))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await b.publish_artifact("plan", "p")
        said, answer, lease, plan = await waiting
        assert (said, answer, plan) == ("hi", "asked", "p")
        assert isinstance(lease, unknot.Lease)
        async with lease:
            other = b.wait_any([b.acquire("page"), b.request("elm", "say", "other")], timeout=HANG_S)
            assert (await other).data == "other"
        async with b.lock("page", timeout=5):
            pass


async def test_a_cycle_through_four_kinds_is_found_and_told_to_all(house: Gateway) -> None:
    """a waits for b's answer, b for c's lock, c for d's artifact, d for a permit that a holds."""
    b = Agent("b", blocking_waits="allow")

    @b.on("say")
    async def say(data: object, ctx: Context) -> None:
        async with ctx.lock("page", timeout=HANG_S):
            pass

    async def a(me: Connection, together: asyncio.Barrier) -> Any:
        await me.declare_permits("gpu", 1)
        async with me.permits("gpu"):
            await together.wait()
            return await me.send_and_wait("b", "say", timeout=HANG_S)

    async def c(me: Connection, together: asyncio.Barrier) -> Any:
        async with me.lock("page"):
            await together.wait()
            return await me.wait_for_artifact("plan", timeout=HANG_S)

    async def d(me: Connection, together: asyncio.Barrier) -> Any:
        await me.declare_artifact("plan")
        await together.wait()
        async with me.permits("gpu", timeout=HANG_S):
            return None

    async with b.running(house.nats, network=house.network, main_runs=False):
        told = await scripts(house, a=a, c=c, d=d)
    assert types(told) == {unknot.DeadlockDetected}
    for knot in told.values():
        assert knot.cycle == ("a", "b", "c", "d", "a")


async def test_two_that_receive_from_each_other_are_told(house: Gateway) -> None:
    def receives(other: str) -> Any:
        async def body(me: Connection, together: asyncio.Barrier) -> Any:
            await together.wait()
            return await me.receive(asyncio.Queue[int](), producer=other)

        return body

    assert types(await scripts(house, a=receives("b"), b=receives("a"))) == {unknot.DeadlockDetected}


async def test_who_may_be_answered_from_outside_is_never_told_of_a_deadlock(house: Gateway) -> None:
    async with mains(house, "a", "b") as (a, b), a.holder("lock", "disk"), b.holder("lock", "tape"):
        queue: asyncio.Queue[int] = asyncio.Queue()
        waits = [
            asyncio.create_task(a.receive(queue, "webhook")),
            asyncio.create_task(b.wait_any([b.decision("human:eva"), b.acquire("free"), b.artifact("x")])),
        ]
        await asyncio.sleep(3 * BEAT_S)
        assert not waits[0].done()
        (await waits[1]).data.release()
        queue.put_nowait(1)
        assert await waits[0] == 1


async def test_locks_outside_are_known_by_who_says_that_it_holds_them(house: Gateway) -> None:
    def stands(own: str, other: str) -> Any:
        async def body(me: Connection, together: asyncio.Barrier) -> Any:
            async with me.holder("lock", own):
                await together.wait()
                async with me.blocking_on("lock", other, timeout=HANG_S):
                    await asyncio.sleep(3600)

        return body

    assert types(await scripts(house, a=stands("x", "y"), b=stands("y", "x"))) == {unknot.DeadlockDetected}


# ---------------------------------------------------------------------- code that blocks its thread


def test_a_program_without_a_loop_holds_locks_too(house: Gateway) -> None:
    with (
        unknot.sync.connect("a", house.nats, network=house.network, serves=False) as a,
        unknot.sync.connect("b", house.nats, network=house.network, serves=False) as b,
    ):
        b.declare_permits("gpu", 2)
        with a.lock("page", timeout=5) as lease, a.permits("gpu", 2):
            assert lease.is_held
            lease.renew(20)
            with pytest.raises(unknot.WaitExpired), b.lock("page", timeout=0.2):
                raise AssertionError
            entered = []

            def other() -> None:
                with a.lock("other", timeout=5), a.tool("ocr"):
                    entered.append(True)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join(10)
            assert entered
        assert not lease.is_held
        held = b.wait_any([b.acquire("page"), b.artifact("never")], timeout=5).data
        with held:  # type: ignore[union-attr]
            assert a.publish_artifact("plan", 1, under=None)
        assert b.wait_for_artifact("plan", into=int, timeout=5) == 1
        with pytest.raises(ZeroDivisionError), a.lock("page", timeout=5):
            raise ZeroDivisionError
        with b.lock("page", timeout=5):
            pass


async def test_a_plain_handler_holds_a_lock_in_its_thread(house: Gateway) -> None:
    elm = Agent("elm", concurrency=4)
    inside: list[int] = []

    @elm.on("say")
    def say(n: int, ctx: ThreadContext) -> int:
        with ctx.lock("page", timeout=HANG_S):
            inside.append(n)
            assert len(inside) == 1
            inside.remove(n)
        return n

    async with elm.running(house.nats, network=house.network), mains(house, "a") as (me,):
        answers = await asyncio.gather(*(me.send_and_wait("elm", "say", n) for n in range(8)))
        assert answers == list(range(8))


# ---------------------------------------------------------------------- a gateway that dies


async def test_what_is_held_declared_and_published_outlives_the_gateway(tmp_path: Path) -> None:
    server, url = start_server(tmp_path)
    first = second = None
    try:
        first = await asyncio.to_thread(support.start, nats=url, networks=["n"])
        house = first
        house.network = "n"
        async with mains(house, "a", "b") as (a, b):
            await a.declare_permits("gpu", 2)
            await a.publish_artifact("plan", "p")
            async with a.lock("page", lease=30) as lease, a.permits("gpu", 2):
                queued = asyncio.create_task(b.lock("page", timeout=HANG_S).__aenter__())
                permits = asyncio.create_task(b.permits("gpu", 1, timeout=HANG_S).__aenter__())
                await asyncio.sleep(0.1)
                await asyncio.to_thread(first.kill)
                late = asyncio.create_task(b.wait_for_artifact("plan", timeout=HANG_S))
                second = await asyncio.to_thread(support.start, nats=url, networks=["n"])
                async with asyncio.timeout(HANG_S):
                    assert await late == "p"
                assert lease.is_held
                assert await b.is_current("page", lease.token)
                assert not queued.done()
                assert not permits.done()
            async with asyncio.timeout(HANG_S):
                assert (await queued).token > lease.token
                await permits
    finally:
        for gateway in (first, second):
            if gateway is not None:
                await asyncio.to_thread(gateway.stop) if gateway is second else gateway.process.wait()
        server.terminate()
        server.wait()
