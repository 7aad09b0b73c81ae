"""Faults of other systems that have to do with locks, permits, tasks and people, each as a law of the wire.

Named after the reports of ``cases/reports.jsonl``.
"""

import asyncio
import time
from typing import Any

import pytest

from tests.wire.conftest import SOON_LOST_S
from tests.wire.raw import Json, Net, Peer, new_id, new_session
from tests.wire.shapes import DEADLOCK, all_end_in_deadlock, check, in_hand, nobody_is_told, notice_of

PATIENCE_S = 10.0
LEASE_S = 2.0


def permits(pool: str, units: int = 1) -> Json:
    return {"id": pool, "kind": "permits", "units": units}


async def pool(net: Net, plain: str, capacity: int) -> str:
    """A pool of this test's own."""
    name = f"{plain}-{net.tag}"
    assert (await net.verb(net.name("ops"), "pool.declare", {"id": name, "capacity": capacity}))["ok"]
    return name


async def acquire(peer: Peer, *resources: Json, **fields: Any) -> str:
    """Ask for them; the id of the wait."""
    fields = {"id": new_id(), "timeout_s": 30, "lease_s": 60, **fields}
    peer.open.add(fields["id"])
    receipt = await peer.verb("lock.acquire", resources=list(resources), **fields)
    assert receipt["ok"], receipt
    return str(fields["id"])


async def granted(peer: Peer, wait_id: str) -> int:
    """It is granted; the token."""
    outcome = await peer.outcome(wait_id, PATIENCE_S)
    assert outcome["outcome"] == "granted", outcome
    return int(outcome["fulfilled"]["fencing_token"])


async def holding(peer: Peer, *resources: Json, **fields: Any) -> str:
    """Ask for what is free; the id of the hold."""
    wait_id = await acquire(peer, *resources, **fields)
    await granted(peer, wait_id)
    return wait_id


async def verdicts(net: Net) -> dict[str, str]:
    """The verdict on each agent of this test, by its plain name."""
    await net.settled()
    agents = (await net.api("verdicts", {"limit": 5_000}))["agents"]
    return {name.removesuffix(f"-{net.tag}"): v for name, v in agents.items() if name.endswith(net.tag)}


async def verdict_becomes(net: Net, plain: str, wanted: str) -> None:
    """The verdict on an agent is *wanted* before long."""
    give_up = time.monotonic() + PATIENCE_S
    while (found := (await verdicts(net)).get(plain)) != wanted:
        assert time.monotonic() < give_up, (plain, found)
        await asyncio.sleep(0.05)


async def lost(net: Net, *peers: Peer) -> None:
    """Their sessions are lost: they fell silent."""
    give_up = time.monotonic() + PATIENCE_S
    gone = {peer.session for peer in peers}
    while gone & {row["session"] for row in (await net.api("agents"))["rows"]}:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


# ---- deadlock


async def test_bug_043_sub_tasks_that_depend_on_each_other_are_told_as_soon_as_they_wait(net: Net) -> None:
    """Tasks are named by holder.set, their dependencies waited for. That a batch is refused before anything starts is
    for whoever keeps work items (the ledger): here nothing is known of a task before somebody does it."""
    workers = [await net.peer(plain, heartbeat_s=0.5) for plain in ("a", "b", "c", "d")]
    tasks = {peer: f"task-{peer.agent}" for peer in workers}
    for peer, task in tasks.items():
        assert (await peer.verb("holder.set", kind="task", id=task))["ok"]
    a, b, c, d = workers
    ends = [
        (x, (await x.wait_open({"kind": "task", "id": tasks[y]}))["id"]) for x, y in ((a, c), (b, a), (c, b))
    ]
    event = await all_end_in_deadlock(*ends, evidence="reported")
    assert event["cycle"] == [peer.agent for peer in (a, c, b, a)]
    own = (await d.wait_open({"kind": "task", "id": tasks[d]}))["id"]
    await all_end_in_deadlock((d, own), evidence="reported", cycle=[d])


async def test_bug_040_no_report_while_a_permit_will_be_free(net: Net) -> None:
    """A pool that is made larger before the last of it is waited for is none that is used up."""
    birch, elm, flint, grove = [await net.peer(plain) for plain in ("birch", "elm", "flint", "grove")]
    workers = await pool(net, "workers", 2)
    for peer in (birch, elm):
        await holding(peer, permits(workers))
    requests = [await birch.request(flint), await elm.request(grove)]
    first = await acquire(flint, permits(workers))
    await pool(net, "workers", 3)
    await granted(flint, first)
    second = await acquire(grove, permits(workers))
    await nobody_is_told(net, birch, elm, flint, grove)
    third = await acquire(flint, permits(workers))
    ends = [(birch, requests[0]), (elm, requests[1]), (grove, second), (flint, third)]
    event = await all_end_in_deadlock(*ends)
    assert event["members_total"] == 4


# ---- capacity


async def test_bug_048_a_job_that_waits_for_a_job_of_its_own_full_pool_is_told_at_once(net: Net) -> None:
    elm, flint = await net.peer("elm"), await net.peer("flint")
    coders = await pool(net, "coders", 1)
    await holding(elm, permits(coders))
    request = await elm.request(flint)
    wait = await acquire(flint, permits(coders))
    event = await all_end_in_deadlock((elm, request), (flint, wait), cycle=[elm, flint])
    assert {(w["kind"], w["target"]) for w in event["waits"]} == {("reply", flint.agent), ("permits", coders)}


async def test_bug_048_a_handler_that_asks_its_own_only_slot_is_told_at_once(net: Net) -> None:
    cli, coders = await net.peer("cli"), await net.worker("coders")
    j1 = await in_hand(cli, coders)
    j2 = await coders.request(coders, execution=j1["id"])
    await all_end_in_deadlock((coders, j2), cycle=[coders])


async def test_bug_050_owners_of_one_permit_each_that_ask_for_a_second_are_a_knot(shadow: Net) -> None:
    """Whoever asks after them is behind it. (Who asked before them is in it: first in first out, they wait for it.)"""
    notices = await shadow.listen(shadow.subjects.notice(DEADLOCK))
    owners = [await shadow.peer(f"owner{number}") for number in range(5)]
    sixth = await shadow.peer("sixth")
    browser = await pool(shadow, "browser", 5)
    for peer in owners:
        await holding(peer, permits(browser))
    ids = sorted([await acquire(peer, permits(browser)) for peer in owners])
    event = await notice_of(notices, ids[0])
    check(event, ids, "observed")
    assert event["members_total"] == 5
    assert {(w["kind"], w["target"]) for w in event["waits"]} == {("permits", browser)}
    await acquire(sixth, permits(browser))
    await verdict_becomes(shadow, "sixth", "DEADLOCK")
    components = (await shadow.api("verdicts"))["components"]
    in_core = {w["agent"]: w["in_core"] for c in components for w in c["waiters"]}
    assert in_core[sixth.agent] is False
    assert {in_core[peer.agent] for peer in owners} == {True}


async def test_bug_050_all_or_none_at_once_is_no_knot(net: Net) -> None:
    owners = [await net.peer(f"owner{number}") for number in range(5)]
    browser = await pool(net, "browser", 5)
    waits = [await acquire(peer, permits(browser, 2)) for peer in owners]
    for peer, wait_id in zip(owners, waits, strict=True):
        await granted(peer, wait_id)
        assert (await peer.verb("lock.release", id=wait_id))["ok"]
    await nobody_is_told(net, *owners)


@pytest.mark.parametrize("way", ["release", "lease", "bye", "answer", "capacity", "deadlock"])
async def test_bug_051_whatever_frees_a_permit_wakes_the_queue(net: Net, way: str) -> None:
    cli, birch, elm = await net.peer("cli"), await net.worker("birch"), await net.peer("elm")
    jobs = await pool(net, "jobs", 1)
    event = await in_hand(cli, birch)
    hold_id = await holding(birch, permits(jobs), execution=event["id"], lease_s=1 if way == "lease" else 60)
    wait_id = await acquire(elm, permits(jobs))
    match way:
        case "release":
            await birch.verb("lock.release", id=hold_id)
        case "bye":
            await birch.bye()
        case "answer":
            await birch.answer(event)
        case "capacity":
            await pool(net, "jobs", 2)
        case "deadlock":
            flint = await net.worker("flint")
            first = await birch.request(flint, execution=event["id"])
            inner = await flint.event()
            second = await flint.request(birch, execution=inner["id"])
            await all_end_in_deadlock((birch, first), (flint, second), cycle=[birch, flint])
            await birch.answer(event)
        case _:
            assert way == "lease"
    await granted(elm, wait_id)


async def test_bug_052_what_has_ended_holds_no_slot(net: Net) -> None:
    """Six delegations end, nobody closes anything, and the seventh is taken; busy slots are those not ended."""
    birch, workers = await net.peer("birch"), await net.worker("workers", 6)

    async def busy() -> int:
        rows = await net.rows("agents")
        return next(int(row["busy"]) for row in rows if row["agent"] == workers.agent)

    requests = [await birch.request(workers) for _ in range(6)]
    events = [await workers.event() for _ in range(6)]
    assert await busy() == 6
    for left, (request_id, event) in zip(reversed(range(6)), zip(requests, events, strict=True), strict=True):
        await workers.answer(event)
        assert (await birch.outcome(request_id))["outcome"] == "reply"
        assert await busy() == left
    await birch.request(workers)
    await workers.event()
    assert await busy() == 1


async def test_bug_054_permits_of_holders_that_die_are_cancelled_or_raise_come_back(hasty: Net) -> None:
    """Within one lease; and who holds what since when is a question of the api."""
    cli = await hasty.peer("cli", heartbeat_s=0.5)
    killed, cancelled, raises = [
        await hasty.worker(plain, heartbeat_s=0.5) for plain in ("killed", "cancelled", "raises")
    ]
    three = await pool(hasty, "three", 3)
    async with cli.beating(0.2), cancelled.beating(0.2), raises.beating(0.2):
        events = {peer: await in_hand(cli, peer) for peer in (killed, cancelled, raises)}
        for peer, event in events.items():
            await holding(peer, permits(three), execution=event["id"], lease_s=LEASE_S + SOON_LOST_S)
        rows = [row for row in await hasty.rows("holds") if row["target"] == three]
        assert {(row["agent"], row["execution"], row["units"], row["of"]) for row in rows} == {
            (peer.agent, event["id"], 1, 3) for peer, event in events.items()
        }
        assert all(0 <= row["since_s"] < PATIENCE_S and row["lapses_in_s"] > 0 for row in rows)
        await cli.cancel(events[cancelled]["id"])
        await cancelled.control("request.abandoned")
        await cancelled.done(events[cancelled])
        await raises.answer(events[raises], error={"code": "failed", "message": "no"})
        flint = await hasty.peer("flint", heartbeat_s=0.5)
        async with flint.beating(0.2):
            two = await holding(flint, permits(three, 2))
            await flint.verb("lock.release", id=two)
            await lost(hasty, killed)
            all_three = await acquire(flint, permits(three, 3))
            await granted(flint, all_three)
    assert [row["agent"] for row in await hasty.rows("holds") if row["target"] == three] == [flint.agent]


async def test_bug_055_a_worker_that_dies_blocks_neither_its_job_nor_the_reaper_of_its_pool(
    hasty: Net,
) -> None:
    """The slot is free with the session, the permit with its lease, and neither needs anything of that pool. That the
    job is queued again at a higher generation is for whoever keeps work items (the ledger): its asker is told."""
    birch, reaper = await hasty.peer("birch", heartbeat_s=0.5), await hasty.peer("reaper", heartbeat_s=0.5)
    elm = await hasty.worker("elm", heartbeat_s=0.5)
    limited = await pool(hasty, "limited", 1)
    async with birch.beating(0.2), reaper.beating(0.2):
        job = await birch.request(elm)
        await elm.event()
        await holding(elm, permits(limited), execution=job, lease_s=LEASE_S)
        wait_id = await acquire(reaper, permits(limited))
        told = await birch.outcome(job, PATIENCE_S)
        assert (told["outcome"], told["handled"]) == ("responder_lost", "maybe")
        await granted(reaper, wait_id)
        other = await hasty.worker("elm", heartbeat_s=0.5)
        again = await birch.request(elm)
        assert (await other.event())["id"] == again


# ---- locks


async def test_bug_056_a_lock_whose_holder_dies_passes_on_with_its_lease(hasty: Net) -> None:
    elm, birch, flint = [await hasty.peer(plain, heartbeat_s=0.5) for plain in ("elm", "birch", "flint")]
    page = {"id": f"page-{hasty.tag}"}
    async with birch.beating(0.2), flint.beating(0.2):
        async with elm.beating(0.2):
            hold_id = await acquire(elm, page, lease_s=LEASE_S)
            token = await granted(elm, hold_id)
            first, second = await acquire(birch, page), await acquire(flint, page)
            for _ in range(3):
                await asyncio.sleep(LEASE_S / 4)
                assert (await elm.verb("lock.renew", id=hold_id, token=token))["ok"]
        started = time.monotonic()
        assert await granted(birch, first) > token
        assert time.monotonic() - started < LEASE_S + SOON_LOST_S + 1
        await hasty.settled()
        components = (await hasty.api("verdicts", {"limit": 5_000}))["components"]
        [edge] = [
            edge for c in components for w in c["waiters"] for edge in w["edges"] if edge["wait"] == second
        ]
        assert edge["holders"] == [f"{birch.agent}/main"]
        assert not flint.inbox.left("outcome")


async def test_bug_057_an_agent_that_was_given_up_must_come_anew(hasty: Net) -> None:
    """Its locks pass on with their leases, not before: who is lost may still run (DESIGN 4). Until then: ORPHANED."""
    elm, birch = [await hasty.peer(plain, heartbeat_s=0.5) for plain in ("elm", "birch")]
    page = {"id": f"page-{hasty.tag}"}
    hold_id = await acquire(elm, page, lease_s=LEASE_S * 2)
    token = await granted(elm, hold_id)
    async with birch.beating(0.2):
        wait_id = await acquire(birch, page)
        await verdict_becomes(hasty, "birch", "ORPHANED")
        stale = await elm.verb("lock.acquire", id=new_id(), resources=[page])
        assert stale["error"]["code"] == "stale_session"
        renewed = await elm.net.verb(elm.agent, "lock.renew", {"id": hold_id, "token": token})
        assert renewed["error"]["code"] == "not_held"
        assert await granted(birch, wait_id) > token
        for verb in ("lock.release", "lock.renew"):
            late = await elm.net.verb(elm.agent, verb, {"id": hold_id, "token": token})
            assert late["error"]["code"] == "not_held"
        elm.session = new_session()
        await elm.listen()
        await elm.hello(heartbeat_s=0.5)
        again = await acquire(elm, page)
        await birch.verb("lock.release", id=wait_id)
        await granted(elm, again)


# ---- human


async def test_bug_104_who_waits_for_a_human_is_neither_stalled_nor_stuck(net: Net) -> None:
    """A wait lasts an hour at most (WIRE 2), so eight hours are eight of them; who waits behind has its own timeout."""
    birch, elm = await net.peer("birch"), await net.worker("elm")
    request = await birch.request(elm, timeout_s=1)
    event = await elm.event()
    human = {"kind": "human", "id": "h1"}
    receipt = await elm.wait_open(human, execution=event["id"], timeout_s=8 * 3600)
    assert receipt["timeout_s"] == 3600
    assert await verdicts(net) == {"birch": "WAITING_OUTSIDE", "elm": "WAITING_OUTSIDE"}
    outcome = await birch.outcome(request)
    assert outcome["outcome"] == "expired"
    assert "blocked on human h1 via" in outcome["error"]["message"]
    assert outcome["error"]["detail"]["chain"] == [f"{elm.agent}/{request}", "human:h1"]
    await nobody_is_told(net, birch, elm)
    assert await net.wait_row(receipt["id"])


# ---- what can be seen


async def test_bug_111_idle_working_waiting_and_stuck_agents_are_told_apart(shadow: Net) -> None:
    birch, elm, flint = await shadow.peer("birch"), await shadow.worker("elm"), await shadow.worker("flint")
    grove, heath = await shadow.peer("grove"), await shadow.peer("heath")
    await in_hand(birch, elm)
    g, h = await grove.request(heath), await heath.request(grove)
    await verdict_becomes(shadow, "grove", "DEADLOCK")
    assert await verdicts(shadow) == {
        "birch": "CONTENTION",
        "elm": "PROGRESSING",
        "flint": "IDLE",
        "grove": "DEADLOCK",
        "heath": "DEADLOCK",
    }
    answer = await shadow.api("verdicts")
    components = [
        c for c in answer["components"] if f"elm-{shadow.tag}" in c["agents"] or grove.agent in c["agents"]
    ]
    assert [component["verdict"] for component in components] == ["DEADLOCK", "CONTENTION"]
    edges = [edge for c in components for w in c["waiters"] for edge in w["edges"]]
    assert {edge["wait"] for edge in edges} >= {g, h}
    for edge in edges:
        assert edge["kind"] == "reply"
        assert edge["evidence"] == "observed"
        assert edge["age_s"] >= 0
        assert 0 < edge["deadline_in_s"] <= 30
    assert flint.agent not in components[1]["agents"]
