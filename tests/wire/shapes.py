"""Shapes of waiting that the tests of the wire build, and how a deadlock is told to those in it."""

import asyncio
from typing import Any

from tests.wire.raw import PATIENCE_S, Inbox, Json, Net, Peer

DEADLOCK = "agent.wait.deadlock_detected"
BLOCKED_BEHIND = "agent.wait.blocked_behind"
LISTED_MAX = 64

End = tuple[Peer, str]
"""Who waits, and the id of its request or wait."""


async def all_end_in_deadlock(
    *ends: End, within: float = PATIENCE_S, evidence: str = "observed", cycle: list[Peer] | None = None
) -> Json:
    """Each of *ends* is told of one and the same deadlock, by control and by Outcome; the event."""
    outcomes = await asyncio.gather(*(peer.outcome(wait_id, within) for peer, wait_id in ends))
    assert [o["outcome"] for o in outcomes] == ["deadlock"] * len(ends), outcomes
    ids = sorted(wait_id for _, wait_id in ends)
    events = [await peer.control(DEADLOCK, within) for peer in dict.fromkeys(peer for peer, _ in ends)]
    event = events[0]
    assert all(other == event for other in events), "one event for all"
    check(event, ids, evidence)
    for outcome in outcomes:
        assert outcome["error"]["code"] == "deadlock"
        told = outcome["error"]["detail"]
        for field in ("incident", "cycle", "request_ids", "remedy"):
            assert told[field] == event[field], field
    if cycle is not None:
        assert event["cycle"] == [peer.agent for peer in (*cycle, cycle[0])]
    return event


def check(event: Json, ids: list[str], evidence: str) -> None:
    """*event* is a well-formed deadlock of exactly these waits."""
    if len(ids) <= LISTED_MAX:
        assert sorted(wait["id"] for wait in event["waits"]) == ids
    assert event["waits_total"] == len(ids)
    assert set(event["request_ids"]) <= set(ids)
    assert event["evidence"] == evidence
    assert event["remedy"]
    assert event["message"]
    cycle = event["cycle"]
    assert len(cycle) > LISTED_MAX or (cycle[0] == cycle[-1] == min(cycle))


async def nobody_is_told(net: Net, *peers: Peer) -> None:
    """All that was sent has been handled, and none of *peers* heard of a deadlock or lost a wait."""
    await net.settled()
    for peer in peers:
        assert not peer.inbox.left(DEADLOCK), peer.agent
        assert not [o for o in peer.inbox.left("outcome") if o["outcome"] == "deadlock"], peer.agent


def untimed(outcome: Json) -> Json:
    """*outcome* without the instant of its sending, which is for people only."""
    event = {k: v for k, v in outcome.get("event", {}).items() if k != "time"}
    return {**outcome, "event": event}


async def in_hand(asker: Peer, worker: Peer, **fields: Any) -> Json:
    """*worker* handles a request of *asker*; the event that it handles."""
    request_id = await asker.request(worker, **fields)
    event = await worker.event()
    assert event["id"] == request_id
    return event


async def notice_of(notices: Inbox, wait_id: str, within: float = PATIENCE_S) -> Json:
    """The next notice of a deadlock in which this wait is a member."""
    arrival = await notices.take(
        lambda a: wait_id in [w["id"] for w in a.body.get("waits", ())], f"notice about {wait_id}", within
    )
    return arrival.body
