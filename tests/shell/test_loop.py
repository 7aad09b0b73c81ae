"""The owner: order, time, failures, an end."""

import asyncio
import json
import logging
import time

import pytest
import structlog

from tests.shell.rig import EchoKernel, MemoryBus, message, owner, request, until
from unknot_gateway.core.facts import EventSeen, InputRefused, Stopped, TimePassed
from unknot_gateway.shell import limits, logs, loop


def answered(bus: MemoryBus) -> list[str]:
    return [json.loads(payload)["request_id"] for _, payload, _ in bus.published]


async def test_messages_are_handled_in_the_order_they_came() -> None:
    bus = MemoryBus()
    ids = [f"r{number}" for number in range(1_000)]
    async with owner(bus, EchoKernel()) as at_work:
        for id in ids:
            await at_work.take(request(id))
        await until(lambda: len(bus.published) >= len(ids))
    assert answered(bus) == [*ids, "last"]


async def test_one_message_that_cannot_be_handled_leaves_the_next_alone() -> None:
    bus = MemoryBus()
    async with owner(bus, EchoKernel()) as at_work:
        for id, data in (("a", "1"), ("b", '"bomb"'), ("c", "2"), ("d", '"bomb"'), ("e", "3")):
            await at_work.take(request(id, data))
        await until(lambda: len(bus.published) == 3)
    assert answered(bus) == ["a", "c", "e", "last"]
    assert at_work.all_counters["failed"] == 2


async def test_a_timer_rings_when_it_is_due_and_not_before() -> None:
    kernel = EchoKernel()
    async with owner(MemoryBus(), kernel) as at_work:
        due_at = time.monotonic() + 0.05
        rung: list[float] = []
        kernel.on_time = rung.append
        kernel.wakeups = [due_at, due_at + 0.05]
        await at_work.take(request("a"))
        await until(lambda: not kernel.wakeups)
    assert len(rung) == 2
    assert rung[0] >= due_at
    assert rung[1] >= due_at + 0.05


async def test_an_earlier_deadline_moves_the_timer_forward() -> None:
    kernel = EchoKernel()
    async with owner(MemoryBus(), kernel) as at_work:
        kernel.wakeups = [time.monotonic() + 3600]
        await at_work.take(request("a"))
        await until(lambda: len(kernel.facts) == 1)
        kernel.wakeups.append(time.monotonic() + 0.01)
        await at_work.take(request("b"))
        await until(lambda: len(kernel.wakeups) == 1)


async def test_work_left_over_is_done_in_slices_between_messages() -> None:
    """``next_wakeup_at`` in the past means work left: it goes on, and messages are not held up by it."""
    bus, kernel = MemoryBus(), EchoKernel()
    async with owner(bus, kernel) as at_work:
        kernel.wakeups = [0.0]

        def go_on(now: float) -> None:
            slices = sum(isinstance(fact, TimePassed) for fact in kernel.facts)
            kernel.wakeups = [0.0] if slices < 1_000 else []

        kernel.on_time = go_on
        await at_work.take(request("a"))
        await until(lambda: len(kernel.facts) > 10)
        await at_work.take(request("b"))
        await until(lambda: not kernel.wakeups)
    kinds = [type(fact) for fact in kernel.facts]
    assert kinds.count(TimePassed) == 1_000
    assert TimePassed in kinds[kinds.index(EventSeen, 1) :], "b was handled while work was left"


async def test_a_timer_that_always_fails_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "AFTER_FAILURE_S", 0.05)
    kernel, bus = EchoKernel(), MemoryBus()

    def fail(now: float) -> None:
        kernel.wakeups = [0.0]
        raise ValueError("this timer always fails")

    async with owner(bus, kernel) as at_work:
        kernel.wakeups, kernel.on_time = [0.0], fail
        await at_work.take(request("a"))
        began = time.monotonic()
        await until(lambda: at_work.counters["failed"] >= 3)
        await at_work.take(request("b"))
        await until(lambda: len(bus.published) == 2)
        kernel.wakeups = []
        took_s = time.monotonic() - began
    # One at once, one with each message, and else one each time that the pause is over.
    assert sum(isinstance(fact, TimePassed) for fact in kernel.facts) <= 3 + took_s / 0.05


@pytest.mark.parametrize(("bound", "value"), [("TURN_S", 0.0001), ("BATCH_MAX", 10)])
async def test_others_have_their_turn_however_much_waits(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: float
) -> None:
    monkeypatch.setattr(loop, bound, value)
    bus = MemoryBus()
    async with owner(bus, EchoKernel()) as at_work:
        for number in range(2_000):
            await at_work.take(request(f"r{number}"))
        turns = 0
        while len(bus.published) < 2_000:
            await asyncio.sleep(0)
            turns += 1
    assert turns > 10


async def test_a_stop_handles_what_has_come_then_ends_every_open_wait() -> None:
    bus, kernel = MemoryBus(), EchoKernel()
    async with owner(bus, kernel) as at_work:
        for number in range(10):
            await at_work.take(request(f"r{number}"))
    assert answered(bus) == [*(f"r{number}" for number in range(10)), "last"]
    assert isinstance(kernel.facts[-1], Stopped)


async def test_a_failure_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        logs.set_up("info")
        async with owner(MemoryBus(), EchoKernel()) as at_work:
            await at_work.take(request("a", '"bomb"'))
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        structlog.reset_defaults()
    record = json.loads(capsys.readouterr().err)
    assert record["level"] == "error"
    assert "ValueError: a bomb went off" in record["exception"]


async def test_bad_input_is_a_fact_like_any_other() -> None:
    bus, kernel = MemoryBus(), EchoKernel()
    async with owner(bus, kernel) as at_work:
        await at_work.take(message("unknot.echo.in.cli.nope", b"{}"))
        await until(lambda: len(bus.published) == 1)
    assert isinstance(kernel.facts[0], InputRefused)
    assert json.loads(bus.published[0][1])["error"]["code"] == "unknown_verb"


async def test_a_question_is_answered_when_all_before_it_has_been_handled() -> None:
    bus, kernel = MemoryBus(), EchoKernel()
    async with owner(bus, kernel) as at_work:
        for number in range(limits.NEVER_BEHIND + limits.SHARE):
            await at_work.take(request(f"r{number}"))
        assert await at_work.read(lambda now: len(kernel.facts)) == limits.NEVER_BEHIND + limits.SHARE


async def test_a_question_that_fails_says_so_and_leaves_the_owner_at_work() -> None:
    bus = MemoryBus()
    async with owner(bus, EchoKernel()) as at_work:
        with pytest.raises(loop.Unanswered):
            await at_work.read(lambda now: 1 / 0)
        await at_work.take(request("a"))
        await until(lambda: len(bus.published) == 1)
    assert at_work.counters["failed"] == 1
