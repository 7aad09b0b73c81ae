"""What was done is remembered for longer than anybody can still ask for it: a copy never runs."""

import asyncio

import msgspec

from unknot._running import KEPT_S, Running, Work
from unknot._strands import Execution
from unknot_schemas import bodies
from unknot_schemas.limits import CLIENT_GRACE_S

TIMEOUT_S = 0.3


def event() -> bodies.Delivered:
    return bodies.Delivered(
        "r1", "work", "birch", "elm", msgspec.Raw(b"1"), True, 1, deadline_in_s=TIMEOUT_S, seq=1
    )


def held(running: Running) -> Work:
    work = Work(event(), Execution("r1", event()), 0.0)
    running.hold(work)
    return work


def test_an_answer_is_kept_for_as_long_as_its_asker_may_send_again() -> None:
    running = Running()
    work = held(running)
    work.answer = b"2"
    running.finish(work)
    running.sweep(TIMEOUT_S + CLIENT_GRACE_S)
    assert running.arrive(event()) == "answered"
    running.sweep(TIMEOUT_S + KEPT_S + 0.1)
    assert running.arrive(event()) == "new"


def test_a_promise_that_is_over_is_not_begun_again() -> None:
    running = Running()
    held(running).returned = True
    running.sweep(TIMEOUT_S + CLIENT_GRACE_S)
    assert not running.held
    assert running.arrive(event()) == "abandoned"
    running.sweep(TIMEOUT_S + KEPT_S + 0.1)
    assert running.arrive(event()) == "new"


def test_a_promise_that_the_gateway_does_not_count_is_not_begun_again() -> None:
    running = Running()
    held(running).returned = True
    running.disown("r1")
    assert running.arrive(event()) == "abandoned"


async def test_a_promise_that_is_over_holds_up_no_drain() -> None:
    running = Running()
    held(running).returned = True
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(running.emptied())
        await asyncio.sleep(0)
        running.disown("r1")
