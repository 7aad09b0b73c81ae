"""WIRE section 3, the client's half: one waiter for one id, ended by exactly its own Outcome."""

import asyncio
import time
from dataclasses import dataclass

import pytest

import unknot
from tests.sdk.fake import Fake
from unknot import Connection


@dataclass
class Draft:
    topic: str
    text: str = ""


def tables(me: Connection) -> tuple[int, int]:
    return len(me._links.session.pending), me._links.session.transport.waiting_calls


async def test_a_request_says_who_waits_and_for_how_long(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("agent:elm", "say", {"n": 1}, timeout=3))
        seen = await fake.next("request")
        assert (seen.agent, seen.target, seen.type, seen.reply) == ("birch", "elm", "say", "")
        assert seen.body["data"] == {"n": 1}
        assert seen.body["session"] == fake.session("birch")
        assert seen.body["timeout_s"] == 3
        assert seen.body["wait_for_target_s"] == 3  # the default patience of 5 s never exceeds the timeout
        assert seen.body["execution"] == "main"
        assert seen.body["detached"] is True  # ensure_future made a task that is not main's own
        await fake.answer(seen, {"n": 2})
        assert await waiting == {"n": 2}
        assert tables(me) == (0, 0)


async def test_answers_in_reverse_order_reach_their_own_callers(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = [asyncio.ensure_future(me.send_and_wait("elm", "say", n)) for n in range(20)]
        requests = [await fake.next("request") for _ in range(20)]
        for request in reversed(requests):
            await fake.answer(request, request.body["data"])
        assert await asyncio.gather(*waiting) == list(range(20))


async def test_the_answer_is_read_into_the_type_asked_for(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", Draft("knots"), into=Draft))
        await fake.answer(await fake.next("request"), {"topic": "knots", "text": "tied"})
        assert await waiting == Draft("knots", "tied")


@pytest.mark.parametrize(
    ("outcome", "code", "kind"),
    [
        ("failed", "handler_failed", unknot.HandlerFailed),
        ("deadlock", "deadlock", unknot.DeadlockDetected),
        ("expired", "expired", unknot.WaitExpired),
        ("unreachable", "unreachable", unknot.Unreachable),
        ("responder_lost", "responder_lost", unknot.ResponderLost),
        ("refused", "not_subscribed", unknot.Refused),
        ("cancelled", "cancelled", unknot.Cancelled),
        ("over_limit", "over_limit", unknot.OverLimit),
    ],
)
async def test_each_failure_is_a_type_of_its_own(
    fake: Fake, outcome: str, code: str, kind: type[unknot.WaitFailed]
) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        error = {"code": code, "message": "why and what now", "detail": {}}
        await fake.outcome("birch", request.id, outcome, error=error)
        with pytest.raises(kind) as caught:
            await waiting
        assert (caught.value.code, caught.value.request_id) == (code, request.id)


async def test_a_deadlock_names_its_cycle_and_its_remedy(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        detail = {
            "incident": "i7",
            "cycle": ["birch", "elm", "birch"],
            "request_ids": [request.id, "r2"],
            "victim": None,
            "remedy": "elm: concurrency=2",
        }
        error = {"code": "deadlock", "message": "deadlock: birch -> elm -> birch", "detail": detail}
        await fake.outcome("birch", request.id, "deadlock", error=error)
        with pytest.raises(unknot.DeadlockDetected) as caught:
            await waiting
        found = caught.value
        assert (found.cycle, found.incident) == (("birch", "elm", "birch"), "i7")
        assert (found.request_ids, found.victim) == ((request.id, "r2"), None)
        assert str(found) == "deadlock: birch -> elm -> birch; elm: concurrency=2"


async def test_the_first_outcome_counts_whatever_its_epoch_and_a_second_changes_nothing(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        await fake.answer(request, 1, epoch=99)
        await fake.outcome("birch", request.id, "expired")
        await fake.answer(request, 2)
        assert await waiting == 1
        await fake.settled()
        assert me.counters["outcomes_ignored"] == 2


async def test_bug_004_a_late_answer_is_not_the_answer_to_the_next_request(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        first = asyncio.ensure_future(me.send_and_wait("elm", "say", "r1"))
        r1 = await fake.next("request")
        await fake.outcome("birch", r1.id, "expired")
        with pytest.raises(unknot.WaitExpired):
            await first
        second = asyncio.ensure_future(me.send_and_wait("elm", "say", "r2"))
        r2 = await fake.next("request")
        await fake.answer(r1, "late")
        await fake.answer(r2, "right")
        assert await second == "right"


async def test_bug_090_the_own_clock_ends_a_wait_one_second_after_its_timeout(fake: Fake) -> None:
    """The report asks for the timeout itself; WIRE section 3 gives the gateway one second to say why."""
    async with unknot.connect("birch") as me:
        began = time.monotonic()
        with pytest.raises(unknot.WaitExpired):
            await me.send_and_wait("elm", "say", timeout=0.1)
        assert 1.1 <= time.monotonic() - began < 1.6
        cancel = await fake.next("request.cancel")
        assert cancel.body["id"] == (await fake.next("request")).id
        assert tables(me) == (0, 0)


async def test_a_cancelled_waiter_is_gone_and_the_gateway_is_told(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert tables(me) == (0, 0)
        assert (await fake.next("request.cancel")).body["id"] == request.id


@pytest.mark.parametrize(
    ("target", "type", "data", "code"),
    [
        ("elm", "Say", None, "bad_id"),
        ("elm", "a..b", None, "bad_id"),
        ("elm\n", "say", None, "bad_id"),
        ("gateway", "say", None, "bad_id"),
        ("@agent:elm", "say", None, "bad_id"),
        ("elm", "x" * 129, None, "bad_id"),
        ("elm", "say", "x" * 600_000, "too_large"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is_sent(
    fake: Fake, target: str, type: str, data: object, code: str
) -> None:
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Refused) as caught:
            await me.send_and_wait(target, type, data)
        assert (caught.value.code, caught.value.handled) == (code, "no")
        assert tables(me) == (0, 0)


@pytest.mark.parametrize("timeout", [None, float("nan"), float("inf"), 0, -1])
async def test_a_timeout_that_is_no_positive_number_is_the_default(fake: Fake, timeout: float | None) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=timeout))
        request = await fake.next("request")
        assert request.body["timeout_s"] == 60
        assert request.body["wait_for_target_s"] == 5
        await fake.answer(request)
        assert await waiting is None


async def test_a_closed_connection_leaves_nobody_waiting(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.next("request")
    with pytest.raises(unknot.Cancelled):
        await waiting
    assert (await fake.next("bye")).body == {"session": fake.session("birch")}
