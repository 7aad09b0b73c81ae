"""Locks and permits in hand, against a scripted gateway: renewed in time, named, given back, or known to be lost."""

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

import unknot
from tests.sdk.fake import Fake, Seen
from tests.sdk.test_no_leaks import cancelled_at, leftovers
from unknot import Agent, Connection, Context, Lease, _leases, _serving

STALE = {"ok": False, "error": {"code": "stale_token", "message": "an old one"}}
NOT_HELD = {"ok": False, "error": {"code": "not_held", "message": "nothing is held"}}


async def grant(fake: Fake, token: int = 5, lease_s: float = 60, agent: str = "birch") -> Seen:
    """Grant the next wait all that it asks for."""
    wait = await fake.next("wait.open", agent)
    true = list(range(len(wait.body["on"])))
    fulfilled = {"true": true, "fencing_token": token, "lease_s": lease_s}
    await fake.outcome(agent, wait.id, "granted", fulfilled=fulfilled)
    return wait


async def held(fake: Fake, me: Connection, *things: Any, lease_s: float = 60) -> tuple[Lease, str]:
    """A lease, and the id of its wait."""
    waiting = asyncio.ensure_future(me.wait_all([me.acquire(each) for each in things or ("page",)]))
    wait = await grant(fake, lease_s=lease_s)
    return (await waiting)[0], wait.id


async def test_facts_name_what_is_held_and_what_may_have_been_granted(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        assert "holds" not in await fake.facts("birch")
        lease, wait_id = await held(fake, me)
        assert (await fake.facts("birch"))["holds"] == [wait_id]
        waiting = asyncio.ensure_future(me.wait_all([me.acquire("other")]))
        other = await fake.next("wait.open")
        lease.release()
        assert (await fake.facts("birch"))["holds"] == [other.id]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await fake.facts("birch"))["holds"] == []


async def beat(fake: Fake, me: Connection) -> dict[str, Any]:
    me._links.session.transport.on_up()
    return (await fake.next("heartbeat")).body


@asynccontextmanager
async def granting(fake: Fake) -> Any:
    """Everything that is asked for is granted at once."""

    async def grant_all() -> None:
        while True:
            await grant(fake)

    task = asyncio.create_task(grant_all())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# ---------------------------------------------------------------------- granted and given back


async def test_several_locks_and_permits_are_one_wait_and_one_lease(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        granting = asyncio.create_task(grant(fake))
        async with me.lock(
            "page", me.acquire("gpu", units=2, lease=20), lease=9, timeout=7, reason="why"
        ) as lease:
            wait = await granting
            assert wait.body["on"] == [
                {"kind": "lock", "id": "page", "lease_s": 9},
                {"kind": "permits", "id": "gpu", "units": 2, "lease_s": 20},
            ]
            assert (wait.body["timeout_s"], wait.body["reason"], wait.body.get("need", "all")) == (
                7,
                "why",
                "all",
            )
            assert (lease.ids, lease.token, lease.is_held) == (("page", "gpu"), 5, True)
        released = (await fake.next("lock.release")).body
        assert (released["id"], released["token"]) == (wait.id, 5)
        assert not lease.is_held
        assert not lease.lost.is_set()
        await fake.settled()
        assert fake.seen("wait.close") == []


async def test_a_lock_belongs_to_the_execution_and_the_task_that_asked(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="allow")

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        async def aside() -> None:
            async with ctx.permits("gpu"):
                pass

        async with ctx.lock("page"):
            await asyncio.create_task(aside())

    async with elm.running():
        await fake.deliver("elm", "say", id="e1")
        own, other = await grant(fake, agent="elm"), await grant(fake, agent="elm")
        assert (own.body["execution"], "strand" in own.body) == ("e1", False)
        assert (other.body["execution"], other.body["detached"]) == ("e1", True)
        for _ in range(2):
            await fake.next("lock.release")


async def test_released_early_it_is_released_once(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me)
        async with lease:
            lease.release()
            lease.release()
        await fake.settled()
        assert len(fake.seen("lock.release")) == 1


async def test_cancelled_at_any_suspension_nothing_stays_held(fake: Fake) -> None:
    async def lock(me: Connection) -> None:
        async with me.lock("page", "other"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def mixed(me: Connection) -> None:
        lease: Any = (await me.wait_any([me.acquire("page"), me.request("elm", "say")])).data
        async with lease:
            await asyncio.sleep(0)

    async with unknot.connect("birch") as me, granting(fake):
        before = leftovers(me)
        for call in (lock, mixed):
            for nth in range(1, 20):
                reached = await cancelled_at(call(me), nth)
                await fake.settled()
                assert leftovers(me) == before, f"cancelled at suspension {nth}"
                assert len(me._links.session.holds) == 0
                if not reached:
                    break
            assert nth < 19
        opened = {seen.id for seen in fake.seen("wait.open")}
        ended = {seen.id for verb in ("wait.close", "lock.release") for seen in fake.seen(verb)}
        assert opened <= ended


async def test_a_grant_that_crosses_the_end_of_its_waiter_is_given_back(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.lock("page").__aenter__())
        wait = await fake.next("wait.open")
        outcomes = unknot.errors.bodies
        fulfilled = outcomes.Fulfilled([0], 5, 60.0)
        waiting.cancel()
        me._links.session.pending.settle(outcomes.Outcome(wait.id, "granted", "no", 1, fulfilled=fulfilled))
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await fake.next("lock.release")).body["token"] == 5
        assert len(me._links.session.holds) == 0


async def test_what_is_dropped_is_given_back(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me)
        await fake.settled()
        assert fake.seen("lock.release") == []  # though the task that asked for it has ended
        del lease
        assert (await fake.next("lock.release")).body["token"] == 5


async def test_what_a_handler_leaves_behind_is_not_renewed(fake: Fake) -> None:
    elm = Agent("elm", blocking_waits="allow")
    kept: list[Any] = []

    @elm.on("say")
    async def say(data: object, ctx: Context) -> None:
        kept.extend(await ctx.wait_all([ctx.acquire("page")]))

    async with elm.running():
        await fake.deliver("elm", "say", id="e1")
        await grant(fake, lease_s=3, agent="elm")
        await fake.next("reply")
        assert (await fake.next("lock.release")).body["token"] == 5
        assert fake.seen("lock.renew") == []


# ---------------------------------------------------------------------- renewed


async def test_a_lease_is_renewed_while_it_is_held_and_not_after(fake: Fake) -> None:
    fake.answers["lock.renew"] = {"ok": True, "lease_s": 1.2}
    async with unknot.connect("birch") as me:
        lease, id = await held(fake, me, lease_s=1.2)
        async with lease:
            for _ in range(4):  # longer than the lease
                renewed = (await fake.next("lock.renew")).body
                assert (renewed["id"], renewed["token"], renewed["lease_s"]) == (id, 5, 1.2)
            assert lease.is_held
        await fake.next("lock.release")
        count = len(fake.seen("lock.renew"))
        await asyncio.sleep(0.6)
        assert len(fake.seen("lock.renew")) == count


async def test_a_lease_may_be_renewed_for_longer(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me)
        fake.answers["lock.renew"] = {"ok": True, "lease_s": 90}
        await lease.renew(90)
        assert (await fake.next("lock.renew")).body["lease_s"] == 90
        assert lease.lease_s == 90
        fake.answers["lock.renew"] = NOT_HELD
        with pytest.raises(unknot.LeaseLost):
            await lease.renew()
        assert lease.lost.is_set()
        with pytest.raises(unknot.LeaseLost):
            await lease.renew()
        lease.release()
        await fake.settled()
        assert fake.seen("lock.release") == []


# ---------------------------------------------------------------------- lost


async def test_a_lost_lease_raises_at_the_end_and_cancels_nothing(fake: Fake) -> None:
    done = []

    async def body(lease: Lease, id: str) -> None:
        async with lease:
            lapsed = {"id": id, "resources": [{"id": "page"}], "token": 5}
            await fake.control("birch", "lock.lapsed", lapsed | {"token": 4})
            await fake.settled()
            assert lease.is_held  # another one's word
            await fake.control("birch", "lock.lapsed", lapsed)
            await asyncio.wait_for(lease.lost.wait(), 5)
            await asyncio.sleep(0)
            done.append(lease)

    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.LeaseLost, match="page") as caught:
            await body(*await held(fake, me))
        assert len(done) == 1
        assert caught.value.token == 5
        assert me.counters["leases_lost"] == 1
        await fake.settled()
        assert fake.seen("lock.release") == []


async def test_what_the_body_raises_is_not_hidden_by_the_loss(fake: Fake) -> None:
    async def body(lease: Lease, id: str) -> None:
        async with lease:
            await fake.control("birch", "lock.lapsed", {"id": id, "resources": [], "token": 5})
            await lease.lost.wait()
            raise ZeroDivisionError

    async with unknot.connect("birch") as me:
        with pytest.raises(ZeroDivisionError):
            await body(*await held(fake, me))


@pytest.mark.parametrize("answer", [NOT_HELD, STALE])
async def test_a_refused_renewal_is_a_loss(fake: Fake, answer: dict[str, Any]) -> None:
    fake.answers["lock.renew"] = answer
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me, lease_s=3)
        await asyncio.wait_for(lease.lost.wait(), 2.9)


async def test_a_gateway_that_knows_no_session_yet_takes_no_lease_away(fake: Fake) -> None:
    fake.answers["lock.renew"] = {"ok": False, "error": {"code": "stale_session", "message": "say hello"}}
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me, lease_s=3)
        await fake.next("lock.renew")
        await fake.settled()
        assert lease.is_held


async def test_a_lease_that_nobody_renews_is_lost_by_the_own_clock(fake: Fake) -> None:
    fake.answers["lock.renew"] = None
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me, lease_s=0.3)
        began = time.monotonic()
        await asyncio.wait_for(lease.lost.wait(), 5)
        assert time.monotonic() - began > 0.2
        assert not lease.is_held


async def test_a_loop_that_stood_still_does_not_believe_to_hold(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me, lease_s=0.3)
        time.sleep(0.35)  # noqa: ASYNC251  the law is about this
        assert not lease.is_held
        assert lease.lost.is_set()


async def test_heartbeats_name_what_is_held(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        assert "holds" not in await beat(fake, me)
        lease, id = await held(fake, me, "page", "other")
        [hold] = (await beat(fake, me))["holds"]
        assert (hold["id"], hold["token"], hold["execution"], hold["lease_s"]) == (id, 5, "main", 60)
        assert [part["id"] for part in hold["resources"]] == ["page", "other"]
        lease.release()
        assert (await beat(fake, me))["holds"] == []


async def test_a_hold_that_the_gateway_does_not_know_is_lost(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, id = await held(fake, me)
        fake.answers["heartbeat"] = {"ok": True, "epoch": 1, "unknown_holds": [id, "another"]}
        await beat(fake, me)
        await asyncio.wait_for(lease.lost.wait(), 5)


async def test_a_resumed_session_names_what_it_holds_and_renews_it(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, id = await held(fake, me)
        await fake.next("hello")
        fake.unknown_session, fake.epoch = True, 2
        me._links.session.transport.on_up()
        hello = (await fake.next("hello")).body
        assert hello["resume"]
        assert [hold["id"] for hold in hello["holds"]] == [id]
        assert (await fake.next("lock.renew")).id == id
        assert lease.is_held


async def test_with_the_session_everything_held_is_lost(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me)
    assert lease.lost.is_set()
    assert not lease.is_held


# ---------------------------------------------------------------------- written under


async def test_what_is_published_under_a_lease_carries_its_token(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        lease, _ = await held(fake, me)
        await me.publish_artifact("plan", 1, under=lease)
        assert (await fake.next("artifact.publish")).body["token"] == {"resource": "page", "token": 5}
        fake.answers["artifact.publish"] = STALE
        with pytest.raises(unknot.LeaseLost):
            await me.publish_artifact("plan", 2, under=lease)
        assert lease.lost.is_set()
        count = len(fake.seen("artifact.publish"))
        with pytest.raises(unknot.LeaseLost):
            await me.publish_artifact("plan", 3, under=lease)
        assert len(fake.seen("artifact.publish")) == count


async def test_whoever_takes_writes_may_ask_for_a_token(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        assert await me.is_current("page", 5)
        assert (await fake.next("lock.check")).body["resource"] == "page"
        fake.answers["lock.check"] = STALE
        assert not await me.is_current("page", 5)


# ---------------------------------------------------------------------- bounds


async def test_a_session_holds_no_more_than_its_heartbeats_can_name(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_leases, "HOLDS_MAX", 2)
    async with unknot.connect("birch") as me:
        kept = [await held(fake, me, str(number)) for number in range(2)]
        with pytest.raises(unknot.OverLimit):
            await me.lock("one more").__aenter__()
        assert me._links.session.pending.is_full(1) is False
        kept.pop()[0].release()
        kept.append(await held(fake, me, "one more"))
        monkeypatch.setattr(_leases, "NAMED_CHARS_MAX", 5)
        assert "holds" not in await beat(fake, me)  # says nothing of holds: nothing is taken for given back


async def test_decisions_that_are_being_made_are_bounded(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_serving, "BROADCASTS_MAX", 2)
    elm = Agent("elm")
    go_on = asyncio.Event()

    @elm.on_approval
    async def decide(data: object) -> bool:
        await go_on.wait()
        return True

    async with elm.running() as me:
        for number in range(4):
            asked = {"id": f"w{number}", "by": "birch", "from": "elm", "deadline_in_s": 9.0}
            await fake.control("elm", "approval.requested", asked)
        await fake.settled()
        assert me.counters["slow_consumer"] == 2
        go_on.set()
        assert {(await fake.next("approval.resolve")).id for _ in range(2)} == {"w0", "w1"}
