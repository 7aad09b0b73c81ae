"""Failures that unknot exists for, live, with their names and kinds: what each agent and component is told to be.

tests/replay plays the same from recordings.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.wire.conftest import SOON_LOST_S
from tests.wire.raw import Json, Net, Peer, new_id
from tests.wire.shapes import all_end_in_deadlock

PATIENCE_S = 10.0
RUN = "run_9104"
CLAUSES = "clause_table:bundle_b7"


@asynccontextmanager
async def team(net: Net, *names: str) -> AsyncIterator[dict[str, Peer]]:
    """Scripts that send their heartbeats."""
    async with AsyncExitStack() as beats:
        peers = {name: await net.peer(name, heartbeat_s=0.5) for name in names}
        for peer in peers.values():
            await beats.enter_async_context(peer.beating(0.2))
        yield peers


def lock(net: Net, plain: str) -> Json:
    return {"id": f"{plain}-{net.tag}"}


async def acquire(peer: Peer, *locks: Json, lease_s: float = 60) -> str:
    wait_id = new_id()
    peer.open.add(wait_id)
    receipt = await peer.verb(
        "lock.acquire", id=wait_id, resources=list(locks), lease_s=lease_s, timeout_s=30
    )
    assert receipt["ok"], receipt
    return wait_id


async def held(peer: Peer, *locks: Json, lease_s: float = 60) -> int:
    outcome = await peer.outcome(await acquire(peer, *locks, lease_s=lease_s))
    return int(outcome["fulfilled"]["fencing_token"])


async def judged(net: Net) -> Json:
    """The verdicts on this test's agents, by plain name, and its components."""
    await net.settled()
    answer = await net.api("verdicts", {"limit": 5_000})
    own = {
        name.removesuffix(f"-{net.tag}"): v for name, v in answer["agents"].items() if name.endswith(net.tag)
    }
    return {
        "agents": own,
        "runs": answer["runs"],
        "components": [c for c in answer["components"] if any(a.endswith(net.tag) for a in c["agents"])],
    }


async def becomes(net: Net, **wanted: str | None) -> Json:
    """Each of these agents (``_`` for ``-``) has that verdict before long; the verdicts then."""
    agents = {name.replace("_", "-"): verdict for name, verdict in wanted.items()}
    give_up = time.monotonic() + PATIENCE_S
    while not agents.items() <= (found := await judged(net))["agents"].items():
        assert time.monotonic() < give_up, found["agents"]
        await asyncio.sleep(0.05)
    return found


def kinds(event: Json) -> dict[str, str]:
    return {wait["waiter"].rpartition("-")[0]: wait["kind"] for wait in event["waits"]}


async def run_9104(net: Net, peers: dict[str, Peer], kind: str) -> list[tuple[Peer, str]]:
    """The pair waits for each other, *kind* one way, as an agent the other; the writer for a tool. The pair's waits."""
    reconciler, extractor, writer = (peers[name] for name in ("reconciler", "extractor-2", "writer"))
    await writer.wait_open({"kind": "tool", "id": "ocr"}, run=RUN)
    if kind == "artifact":
        clauses = f"{CLAUSES}-{net.tag}"
        assert (await extractor.verb("artifact.declare", id=clauses))["ok"]
        first = (await reconciler.wait_open({"kind": "artifact", "id": clauses}, run=RUN))["id"]
    else:
        await held(extractor, lock(net, "page"))
        first = await acquire(reconciler, lock(net, "page"))
    second = (await extractor.wait_open({"kind": "agent", "id": reconciler.agent}, run=RUN))["id"]
    return [(reconciler, first), (extractor, second)]


NAMES = ("reconciler", "extractor-2", "writer", "planner", "archivist")


async def test_run_9104_all_are_healthy_and_two_can_never_finish(shadow: Net) -> None:
    async with team(shadow, *NAMES) as peers:
        await run_9104(shadow, peers, "artifact")
        found = await becomes(shadow, reconciler="DEADLOCK", extractor_2="DEADLOCK", writer="WAITING_OUTSIDE")
        rows = [row for row in await shadow.rows("agents") if row["agent"].endswith(shadow.tag)]
    assert len(rows) == 5
    assert all(row["fresh"] for row in rows), "health is a property of a process"
    assert (found["agents"]["planner"], found["agents"]["archivist"]) == ("IDLE", "IDLE")
    assert found["runs"][RUN] == {"verdict": "DEADLOCK", "others": ["WAITING_OUTSIDE"]}
    of_run = [component for component in found["components"] if RUN in component["runs"]]
    assert [component["verdict"] for component in of_run] == ["DEADLOCK", "WAITING_OUTSIDE"]
    edges = {w["agent"].removesuffix(f"-{shadow.tag}"): w["edges"] for c in of_run for w in c["waiters"]}
    assert [(e["kind"], e["evidence"]) for e in edges["reconciler"]] == [("artifact", "observed")]
    assert [(e["kind"], e["evidence"]) for e in edges["extractor-2"]] == [("agent", "reported")]
    assert [(e["kind"], e["id"], e["holders"]) for e in edges["writer"]] == [("tool", "ocr", [])]


@pytest.mark.parametrize("kind", ["artifact", "lock"])
async def test_run_9104_is_ended_for_the_two_and_for_nobody_else(net: Net, kind: str) -> None:
    async with team(net, *NAMES) as peers:
        ends = await run_9104(net, peers, kind)
        event = await all_end_in_deadlock(
            *ends, evidence="reported", cycle=[peers["extractor-2"], peers["reconciler"]]
        )
        assert kinds(event) == {"reconciler": kind, "extractor-2": "agent"}
        assert (await judged(net))["agents"]["writer"] == "WAITING_OUTSIDE"
        assert not peers["writer"].inbox.left("outcome")


async def test_the_review_waits_for_the_browser_and_the_browser_for_the_review(net: Net) -> None:
    async with team(net, "a", "b") as peers:
        a, b = peers.values()
        review = f"review-42-{net.tag}"
        await held(a, lock(net, "browser-9"))
        await b.verb("artifact.declare", id=review)
        first = (await a.wait_open({"kind": "artifact", "id": review}))["id"]
        assert (await judged(net))["agents"] == {"a": "CONTENTION", "b": "PROGRESSING"}
        second = await acquire(b, lock(net, "browser-9"))
        event = await all_end_in_deadlock((a, first), (b, second), cycle=[a, b])
        assert kinds(event) == {"a": "artifact", "b": "lock"}


async def test_the_same_is_found_where_agents_only_report(net: Net) -> None:
    """Nothing of it is in the gateway: who has the browser and who writes the review is only said."""
    async with team(net, "a", "b") as peers:
        a, b = peers.values()
        review, browser = f"review-42-{net.tag}", f"browser-9-{net.tag}"
        assert (await a.verb("holder.set", kind="lock", id=browser))["ok"]
        assert (await a.verb("holder.set", kind="artifact", id=review, holder={"agent": b.agent}))["ok"]
        first = (await a.wait_open({"kind": "artifact", "id": review}))["id"]
        second = (await b.wait_open({"kind": "lock", "id": browser}))["id"]
        event = await all_end_in_deadlock((a, first), (b, second), evidence="reported", cycle=[a, b])
        assert kinds(event) == {"a": "artifact", "b": "lock"}


async def test_a_supervisor_that_waits_for_all_while_one_asks_it_to_confirm(net: Net) -> None:
    async with team(net, "supervisor", "one", "two", "three") as peers:
        supervisor, one, two, three = peers.values()
        group = {"id": new_id(), "n": 3, "need": 3}
        tasks = {peer: await supervisor.request(peer, group=group) for peer in (one, two, three)}
        approval = new_id()
        two.open.add(approval)
        assert (
            await two.verb("approval.request", **{"id": approval, "from": supervisor.agent, "timeout_s": 30})
        )["ok"]
        event = await all_end_in_deadlock((supervisor, tasks[two]), (two, approval), cycle=[supervisor, two])
        assert kinds(event) == {"supervisor": "reply", "two": "approval"}


async def test_a_crashed_holder_is_no_cycle_and_its_lease_cures_it(hasty: Net) -> None:
    async with team(hasty, "reconciler", "writer") as peers:
        reconciler, writer = peers.values()
        extractor = await hasty.peer("extractor-2", heartbeat_s=0.5)
        token = await held(extractor, lock(hasty, "page"), lease_s=SOON_LOST_S + 2)
        wait_id = await acquire(reconciler, lock(hasty, "page"))
        await writer.request(reconciler)
        await becomes(hasty, reconciler="CONTENTION", writer="CONTENTION")
        found = await becomes(hasty, reconciler="ORPHANED", writer="ORPHANED")
        [component] = found["components"]
        assert component["verdict"] == "ORPHANED"
        [page] = [w["edges"][0] for w in component["waiters"] if w["agent"] == reconciler.agent]
        assert page["holders"] == [f"{extractor.agent}/main (lost)"]
        outcome = await reconciler.outcome(wait_id, PATIENCE_S)
        assert outcome["outcome"] == "granted"
        assert outcome["fulfilled"]["fencing_token"] > token
        await becomes(hasty, reconciler="PROGRESSING", writer="CONTENTION")


async def test_a_reported_holder_that_crashes_orphans_until_its_report_is_over(hasty: Net) -> None:
    async with team(hasty, "reconciler") as peers:
        reconciler = peers["reconciler"]
        extractor = await hasty.peer("extractor-2", heartbeat_s=0.5)
        page = lock(hasty, "page")["id"]
        assert (await extractor.verb("holder.set", kind="lock", id=page, until_s=SOON_LOST_S + 2))["ok"]
        await reconciler.wait_open({"kind": "lock", "id": page})
        await becomes(hasty, reconciler="CONTENTION")
        await becomes(hasty, reconciler="ORPHANED")
        await becomes(hasty, reconciler="WAITING_OUTSIDE")
