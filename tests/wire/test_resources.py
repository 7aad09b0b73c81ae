"""Locks, permits, artifacts, approvals and what is outside, with raw clients at a real gateway."""

import asyncio
from typing import Any

import pytest

from tests.wire.conftest import SOON_LOST_S, Mortal
from tests.wire.raw import Json, Net, Peer, new_id
from tests.wire.shapes import all_end_in_deadlock, in_hand, nobody_is_told


def lock(name: str, lease_s: float = 60) -> Json:
    return {"kind": "lock", "id": name, "lease_s": lease_s}


async def acquire(peer: Peer, *wanted: Json | str, **fields: Any) -> str:
    """Ask for locks and permits; the id."""
    wait_id = fields.pop("id", new_id())
    resources = [{"id": one} if isinstance(one, str) else one for one in wanted]
    peer.open.add(wait_id)
    fields = {"timeout_s": 30, "lease_s": 60, **fields}
    receipt = await peer.verb("lock.acquire", id=wait_id, resources=resources, **fields)
    assert receipt["ok"], receipt
    return wait_id


async def granted(peer: Peer, wait_id: str, within: float = 5.0) -> Json:
    """What it was granted."""
    outcome = await peer.outcome(wait_id, within)
    assert outcome["outcome"] == "granted", outcome
    return outcome["fulfilled"]


async def held(peer: Peer, *wanted: Json | str, **fields: Any) -> tuple[str, int]:
    """Id and token of something granted at once."""
    wait_id = await acquire(peer, *wanted, **fields)
    return wait_id, (await granted(peer, wait_id))["fencing_token"]


async def release(peer: Peer, hold_id: str, **fields: Any) -> Json:
    return await peer.verb("lock.release", id=hold_id, **fields)


def name(net: Net, plain: str) -> str:
    """Of something that tests share a gateway for."""
    return f"{plain}-{net.tag}"


async def pool(net: Net, plain: str, capacity: int) -> str:
    """A declared pool of permits."""
    receipt = await net.verb("anybody", "pool.declare", {"id": name(net, plain), "capacity": capacity})
    assert receipt["ok"], receipt
    return name(net, plain)


# ---- locks and permits


async def test_a_lock_is_granted_held_and_passed_on_with_a_higher_token(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    db = name(net, "db")
    first, token = await held(birch, db)
    second = await acquire(elm, db)
    row = await net.wait_row(second)
    assert row is not None
    assert (row["kind"], row["target"], row["state"], row["position"]) == ("lock", db, "queued", 1)
    assert row["holder"] == f"{birch.agent}/{birch.session}"
    assert not row["stuck"]
    assert (await birch.verb("lock.renew", id=first, token=token, lease_s=90))["lease_s"] == 90
    assert (await release(birch, first, token=token))["ok"]
    fulfilled = await granted(elm, second)
    assert fulfilled["fencing_token"] > token
    assert (fulfilled["true"], fulfilled["lease_s"]) == ([0], 60)
    check = {"resource": db, "token": fulfilled["fencing_token"]}
    assert (await net.verb("store", "lock.check", check))["ok"]
    refused = await net.verb("store", "lock.check", {"resource": db, "token": token})
    assert refused["error"]["code"] == "stale_token"


async def test_permits_are_granted_first_in_first_out_by_units(net: Net) -> None:
    birch, elm, oak = await net.peer("birch"), await net.peer("elm"), await net.peer("oak")
    gpu = await pool(net, "gpu", 3)
    first, _ = await held(birch, {"id": gpu, "kind": "permits", "units": 2})
    second = await acquire(elm, {"id": gpu, "kind": "permits", "units": 2})
    third = await acquire(oak, {"id": gpu, "kind": "permits"})
    await net.settled()
    assert not oak.inbox.left("outcome"), "one is free, but elm's turn is first"
    assert (await release(birch, first))["ok"]
    assert (await granted(elm, second))["true"] == [0]
    assert (await granted(oak, third))["true"] == [0]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"kind": "permits", "id": "nowhere"}, "unknown_pool"),
        ({"kind": "permits", "id": "gpu", "units": 4}, "over_capacity"),
        ({"kind": "permits", "id": "gpu", "units": 0}, "bad_units"),
        ({"kind": "lock", "id": "db", "units": 2}, "over_capacity"),
        ({"kind": "lock", "id": "db", "units": "two"}, "bad_request"),
        ({"kind": "window", "id": "db"}, "bad_request"),
        ({"kind": "lock", "id": "a\u0000b"}, "bad_id"),
    ],
)
async def test_what_can_never_be_granted_ends_refused_at_once(net: Net, wanted: Json, code: str) -> None:
    birch = await net.peer("birch")
    await pool(net, "gpu", 3)
    wanted = {**wanted, "id": name(net, wanted["id"])} if wanted["id"] != "a\u0000b" else wanted
    wait_id = new_id()
    receipt = await birch.verb("lock.acquire", id=wait_id, resources=[wanted])
    assert receipt["error"]["code"] == code
    outcome = await birch.outcome(wait_id)
    assert (outcome["outcome"], outcome["error"]["code"]) == ("refused", code)


async def test_a_wait_that_runs_out_says_who_holds_what(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    db = name(net, "db")
    await held(birch, db)
    outcome = await elm.outcome(await acquire(elm, db, timeout_s=0.2))
    assert outcome["outcome"] == "expired"
    assert outcome["error"]["detail"]["chain"] == [f"lock:{db}", f"{birch.agent}/main"]


async def test_a_close_or_a_cancel_that_crosses_the_grant_is_a_release(net: Net) -> None:
    birch, elm, oak = await net.peer("birch"), await net.peer("elm"), await net.peer("oak")
    db = name(net, "db")
    first = await acquire(birch, db)
    second, third = await acquire(elm, db), await acquire(oak, db)
    assert (await birch.wait_close(first))["ok"]
    await granted(elm, second)
    assert (await elm.cancel(second))["ok"]
    await granted(oak, third)
    await elm.cancel(third)
    assert (await release(oak, third))["ok"], "another's cancel changes nothing"
    assert (await release(oak, third))["error"]["code"] == "not_held"


async def test_a_cancelled_acquire_ends_cancelled(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    db = name(net, "db")
    await held(birch, db)
    wait_id = await acquire(elm, db)
    await elm.cancel(wait_id)
    assert (await elm.outcome(wait_id))["outcome"] == "cancelled"


async def test_what_a_handler_holds_is_released_by_its_answer(net: Net) -> None:
    cli, birch, elm = await net.peer("cli"), await net.worker("birch"), await net.peer("elm")
    db = name(net, "db")
    event = await in_hand(cli, birch)
    hold_id, _ = await held(birch, db, execution=event["id"])
    wait_id = await acquire(elm, db)
    await birch.answer(event)
    await granted(elm, wait_id)
    assert (await release(birch, hold_id))["error"]["code"] == "not_held"


async def test_the_crash_of_a_holder_orphans_until_the_lease_lapses_and_the_zombie_is_refused(
    hasty: Net,
) -> None:
    birch, elm = await hasty.peer("birch", heartbeat_s=0.5), await hasty.peer("elm", heartbeat_s=0.5)
    db = name(hasty, "db")
    hold_id, token = await held(birch, db, lease_s=SOON_LOST_S * 3)
    wait_id = await acquire(elm, db)
    async with elm.beating():
        seen = set()
        while not elm.inbox.left("outcome"):
            row = await hasty.wait_row(wait_id)
            seen |= {(row["stuck"], row["orphaned"])} if row is not None else set()
            await asyncio.sleep(0.1)
        fulfilled = await granted(elm, wait_id)
    assert seen == {(False, False), (False, True)}, "first birch works, then it is lost"
    assert fulfilled["fencing_token"] > token
    refused = [
        await release(birch, hold_id, token=token),
        await hasty.verb(birch.agent, "lock.release", {"id": hold_id, "token": token}),
        await hasty.verb(birch.agent, "lock.renew", {"id": hold_id, "token": token}),
    ]
    assert [receipt["error"]["code"] for receipt in refused] == ["stale_session", "not_held", "not_held"]
    late = await hasty.peer("birch")
    published = await late.verb(
        "artifact.publish", id=name(hasty, "x"), token={"resource": db, "token": token}
    )
    assert published["error"]["code"] == "stale_token"
    assert not elm.inbox.left("agent.wait.deadlock_detected")


async def test_a_lease_that_is_not_renewed_is_told_to_its_holder(net: Net) -> None:
    birch = await net.peer("birch")
    db = name(net, "db")
    hold_id, token = await held(birch, db, lease_s=1)
    lapsed = await birch.control("lock.lapsed")
    assert lapsed == {"id": hold_id, "resources": [{"id": db}], "token": token}
    pulse = await birch.heartbeat(holds=[{"id": hold_id, "token": token, "resources": [{"id": db}]}])
    assert pulse["unknown_holds"] == [hold_id]


async def test_over_a_restart_what_is_held_is_held(mortal: Mortal, mortal_net: Net) -> None:
    birch, elm = await mortal_net.peer("birch"), await mortal_net.peer("elm")
    db, gpu = name(mortal_net, "db"), await pool(mortal_net, "gpu", 2)
    both = [{"id": db}, {"id": gpu, "kind": "permits", "units": 2}]
    hold_id, token = await held(birch, *both)
    wait_id = await acquire(elm, {"id": gpu, "kind": "permits"})
    await asyncio.to_thread(mortal.restart)
    named = {"id": hold_id, "token": token, "resources": both, "lease_s": 60}
    await elm.hello(resume=True, open=[wait_id])
    await birch.hello(resume=True, holds=[named])
    await acquire(elm, {"id": gpu, "kind": "permits"}, id=wait_id)
    await pool(mortal_net, "gpu", 2)
    assert "unknown_holds" not in await birch.heartbeat(holds=[named])
    await elm.heartbeat()
    await mortal_net.settled()
    assert not elm.inbox.left("outcome")
    assert (await release(birch, hold_id, token=token))["ok"]
    assert (await granted(elm, wait_id))["fencing_token"] > token


# ---- artifacts


async def test_an_artifact_is_produced_once_and_awaited_by_all(net: Net) -> None:
    birch, elm, oak = await net.peer("birch"), await net.peer("elm"), await net.peer("oak")
    report = name(net, "report")
    assert (await birch.verb("artifact.declare", id=report))["ok"]
    first = new_id()
    assert (await elm.verb("artifact.wait", id=first, artifact=report))["ok"]
    second = (await oak.wait_open({"kind": "artifact", "id": report}))["id"]
    assert (await birch.verb("artifact.publish", id=report, data={"pages": [1, 2]}))["ok"]
    for peer, wait_id in ((elm, first), (oak, second)):
        outcome = await peer.outcome(wait_id)
        assert outcome["outcome"] == "produced"
        assert outcome["fulfilled"] == {"true": [0], "artifacts": {report: {"pages": [1, 2]}}}
    assert (await elm.verb("artifact.publish", id=report, data=3))["duplicate"]
    assert (await net.verb("anybody", "artifact.forget", {"id": report}))["ok"]
    third = (await oak.wait_open({"kind": "artifact", "id": report}))["id"]
    await elm.verb("artifact.publish", id=report, data=3)
    assert (await oak.outcome(third))["fulfilled"]["artifacts"] == {report: 3}


# ---- approvals


async def test_an_agent_approves_what_it_is_shown(net: Net) -> None:
    birch, elm, oak = await net.peer("birch"), await net.peer("elm"), await net.peer("oak")
    wait_id = new_id()
    asked = {"id": wait_id, "from": elm.agent, "data": {"cost": 7}, "reason": "deploy", "timeout_s": 30}
    assert (await birch.verb("approval.request", **asked))["ok"]
    shown = await elm.control("approval.requested")
    assert {key: shown[key] for key in ("id", "by", "data", "reason")} == {
        "id": wait_id,
        "by": birch.agent,
        "data": {"cost": 7},
        "reason": "deploy",
    }
    assert 29 < shown["deadline_in_s"] <= 30
    refused = await oak.verb("approval.resolve", id=wait_id, decision="approved")
    assert refused["error"]["code"] == "not_permitted"
    assert (await elm.verb("approval.resolve", id=wait_id, decision="denied", reason="no"))["ok"]
    outcome = await birch.outcome(wait_id)
    assert outcome["outcome"] == outcome["error"]["code"] == "denied"
    assert outcome["error"]["detail"]["reason"] == "no"


async def test_a_human_decides_by_the_api(net: Net) -> None:
    birch = await net.peer("birch")
    notices = await net.listen(net.subjects.notice("approval.requested"))
    wait_id = new_id()
    await birch.verb("approval.request", **{"id": wait_id, "from": "human:eva", "data": [1]})
    shown = await notices.take(lambda arrival: arrival.body["id"] == wait_id, "the notice")
    assert shown.body["from"] == "human:eva"
    refused = await birch.verb("approval.resolve", id=wait_id, decision="approved")
    assert refused["error"]["code"] == "not_permitted"
    [row] = [row for row in await net.rows("approvals") if row["id"] == wait_id]
    assert (row["waiter"], row["by"], row["data"]) == (birch.agent, "human:eva", [1])
    waiting = await net.wait_row(wait_id)
    assert waiting is not None
    assert waiting["kind"] == "approval"
    assert (await net.api("approval.resolve", {"id": wait_id, "decision": "approved"}))["ok"]
    outcome = await birch.outcome(wait_id)
    assert outcome["fulfilled"] == {"true": [0], "decision": "approved"}
    again = await net.api("approval.resolve", {"id": wait_id, "decision": "approved"})
    assert again["error"]["code"] == "unknown_approval"


# ---- knots


async def test_a_cycle_through_four_kinds_across_four_agents(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    heath, oak = await net.peer("heath"), await net.peer("oak")
    db, report, gpu = name(net, "db"), name(net, "report"), await pool(net, "gpu", 1)
    await held(heath, db)
    await held(birch, {"id": gpu, "kind": "permits"})
    await oak.verb("artifact.declare", id=report)
    first = await birch.request(elm)
    second = await acquire(elm, db)
    third = (await heath.wait_open({"kind": "artifact", "id": report}))["id"]
    fourth = await acquire(oak, {"id": gpu, "kind": "permits"})
    ends = ((birch, first), (elm, second), (heath, third), (oak, fourth))
    event = await all_end_in_deadlock(*ends, cycle=[birch, elm, heath, oak])
    assert {wait["waiter"]: (wait["kind"], wait["target"]) for wait in event["waits"]} == {
        birch.agent: ("reply", elm.agent),
        elm.agent: ("lock", db),
        heath.agent: ("artifact", report),
        oak.agent: ("permits", gpu),
    }


@pytest.mark.parametrize("way_out", ["permit", "producer", "tool", "human"])
async def test_with_one_way_out_it_is_none(net: Net, way_out: str) -> None:
    birch, elm, oak = await net.peer("birch"), await net.peer("elm"), await net.peer("oak")
    report, gpu = name(net, "report"), await pool(net, "gpu", 2 if way_out == "permit" else 1)
    await held(birch, {"id": gpu, "kind": "permits"})
    await elm.verb("artifact.declare", id=report)
    if way_out == "producer":
        await oak.verb("artifact.declare", id=report)
    on = [{"kind": "artifact", "id": report}]
    on += [{"kind": way_out, "id": "x"}] if way_out in ("tool", "human") else []
    await birch.wait_open(*on, need="any")
    wait_id = await acquire(elm, {"id": gpu, "kind": "permits"})
    await nobody_is_told(net, birch, elm)
    if way_out == "permit":
        await granted(elm, wait_id)


async def test_what_is_only_reported_is_a_knot_after_a_second_read(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    page = name(net, "page")
    said = await birch.verb("holder.set", kind="lock", id=page, holder={"agent": elm.agent})
    assert said["ok"]
    async with birch.beating(), elm.beating():
        first = (await birch.wait_open({"kind": "lock", "id": page}))["id"]
        second = await elm.request(birch)
        event = await all_end_in_deadlock((birch, first), (elm, second), evidence="reported")
    assert [(w["kind"], w["target"]) for w in event["waits"]] == [("lock", page), ("reply", birch.agent)]


async def test_a_report_that_is_cleared_leaves_the_wait_outside(net: Net) -> None:
    birch, elm = await net.peer("birch", heartbeat_s=0.5), await net.peer("elm", heartbeat_s=0.5)
    page = name(net, "page")
    holder = {"agent": elm.agent}
    await birch.verb("holder.set", kind="task", id=page, holder=holder)
    wait_id = (await birch.wait_open({"kind": "task", "id": page}))["id"]
    await elm.request(birch)
    await birch.verb("holder.clear", kind="task", id=page, holder=holder)
    async with birch.beating(), elm.beating():
        await asyncio.sleep(1.2)
        row = await net.wait_row(wait_id)
    assert row is not None
    assert not row["stuck"]
    await nobody_is_told(net, birch, elm)


# ---- mixed


async def test_a_wait_over_a_mix_ends_by_what_comes_first(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.worker("elm")
    db, report = name(net, "db"), name(net, "report")
    hold_id, _ = await held(elm, db)
    request_id = new_id()
    await birch.ask(elm, id=request_id)
    on = [lock(db), {"kind": "artifact", "id": report}, {"kind": "reply", "id": request_id}]
    wait_id = (await birch.wait_open(*on, need=2))["id"]
    await elm.answer(await elm.event())
    await elm.verb("artifact.publish", id=report, data="x")
    outcome = await birch.outcome(wait_id)
    assert outcome["outcome"] == "produced"
    assert outcome["fulfilled"] == {"true": [1, 2], "artifacts": {report: "x"}}
    await release(elm, hold_id)
    await held(elm, db)
