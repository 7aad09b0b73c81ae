"""Verdicts that need more than one look: livelocks, chains that end where nobody is, and who hides whom."""

import time

from tests.wire.raw import PATIENCE_S, Json, Net, Peer, new_id
from tests.wire.shapes import all_end_in_deadlock, in_hand


async def judged(net: Net) -> tuple[dict[str, str | None], list[Json]]:
    """The verdicts on this test's agents by plain name, and its components, worst first."""
    await net.settled()
    answer = await net.api("verdicts", {"limit": 5_000})
    agents = {n.removesuffix(f"-{net.tag}"): v for n, v in answer["agents"].items() if n.endswith(net.tag)}
    return agents, [c for c in answer["components"] if any(a.endswith(net.tag) for a in c["agents"])]


async def acquire(peer: Peer, lock: str) -> str:
    wait_id = new_id()
    peer.open.add(wait_id)
    wanted = {"resources": [{"id": lock}], "timeout_s": 30, "lease_s": 60}
    assert (await peer.verb("lock.acquire", id=wait_id, **wanted))["ok"]
    return wait_id


async def held(peer: Peer, lock: str) -> str:
    wait_id = await acquire(peer, lock)
    assert (await peer.outcome(wait_id))["outcome"] == "granted"
    return wait_id


async def test_a_deadlock_that_is_retried_again_and_again_is_a_livelock(net: Net) -> None:
    birch, elm = await net.peer("birch"), await net.peer("elm")
    one, two = f"one-{net.tag}", f"two-{net.tag}"
    for times in range(3):
        assert (await judged(net))[1] == [], f"after {times} times"
        holds = [(birch, await held(birch, one)), (elm, await held(elm, two))]
        ends = [(birch, await acquire(birch, two)), (elm, await acquire(elm, one))]
        await all_end_in_deadlock(*ends, cycle=[birch, elm])
        for peer, hold_id in holds:
            assert (await peer.verb("lock.release", id=hold_id))["ok"]
    agents, [component] = await judged(net)
    assert agents == {"birch": "LIVELOCK", "elm": "LIVELOCK"}
    assert (component["verdict"], component["decided"]) == ("LIVELOCK", 3)
    assert component["cycles"] == [[birch.agent, elm.agent, birch.agent]]
    await held(birch, one)
    await acquire(elm, one)
    agents, [component] = await judged(net)
    assert (component["verdict"], component["decided"]) == ("LIVELOCK", 3)
    assert [waiter["agent"] for waiter in component["waiters"]] == [elm.agent]


async def test_all_wait_and_some_chain_ends_where_nobody_is(net: Net) -> None:
    """Unclaimed work, an unknown producer, no live agent; each until somebody is there."""
    birch, elm, flint = await net.peer("birch"), await net.peer("elm"), await net.peer("flint")
    gone = await net.peer("gone")
    await gone.bye()
    task, plan = f"task-{net.tag}", f"plan-{net.tag}"
    await birch.wait_open({"kind": "task", "id": task})
    await elm.wait_open({"kind": "artifact", "id": plan})
    await flint.request(gone, wait_for_target_s=30)
    grove = await net.peer("grove")
    await grove.request(birch)
    agents, components = await judged(net)
    assert agents == dict.fromkeys(("birch", "elm", "flint", "grove"), "STARVATION_RISK")
    assert len(components) == 3
    heath = await net.peer("heath")
    await heath.verb("holder.set", kind="task", id=task)
    await heath.verb("artifact.declare", id=plan)
    await net.worker("gone")
    agents, _ = await judged(net)
    assert {agents[name] for name in ("birch", "elm", "flint", "grove")} == {"CONTENTION"}


async def test_one_busy_agent_hides_no_stuck_pair(shadow: Net) -> None:
    cli, busy = await shadow.peer("cli"), await shadow.worker("busy")
    birch, elm = await shadow.peer("birch"), await shadow.peer("elm")
    event = await in_hand(birch, busy)
    await birch.request(elm)
    await elm.request(birch)
    await cli.wait_open({"kind": "reply", "id": (await cli.ask(birch))["id"]}, {"kind": "human", "id": "eva"})
    give_up = time.monotonic() + PATIENCE_S
    while None in (await judged(shadow))[0].values():  # the probe is under way
        assert time.monotonic() < give_up
    agents, [component] = await judged(shadow)
    assert agents == {"cli": "DEADLOCK", "busy": "PROGRESSING", "birch": "DEADLOCK", "elm": "DEADLOCK"}
    assert component["verdict"] == "DEADLOCK"
    assert component["others"] == []
    assert [(w["agent"], w["in_core"]) for w in component["waiters"]] == [
        (birch.agent, True), (cli.agent, False), (elm.agent, True)
    ]  # fmt: skip
    await busy.answer(event)
