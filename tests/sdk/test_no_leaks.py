"""No waiter is left behind: cancelled at any suspension, every table is as before and the gateway is told."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import pytest

import unknot
from tests.sdk.fake import Fake
from unknot import Connection
from unknot_schemas import bodies


async def ask_and_expect(me: Connection) -> Any:
    return await me.expect(await me.ask("elm", "say"))


async def ask_and_all(me: Connection) -> Any:
    return await me.wait_all([await me.ask("elm", "say"), me.artifact("plan")])


async def lock(me: Connection) -> None:
    async with me.lock("page", me.acquire("gpu", units=2)):
        raise AssertionError("nobody grants it")


async def hold(me: Connection) -> None:
    async with me.holder("task", "t1"):
        await asyncio.sleep(0)


async def block(me: Connection) -> None:
    async with me.blocking_on("human", "h1"):
        await asyncio.sleep(0)
        await asyncio.sleep(3600)


CALLS: dict[str, Callable[[Connection], Coroutine[Any, Any, Any]]] = {
    "send_and_wait": lambda me: me.send_and_wait("elm", "say", 1),
    "wait_any": lambda me: me.wait_any([me.request("elm", "say"), me.request("oak", "say")]),
    "wait_all": lambda me: me.wait_all([me.request("elm", "say"), me.request("oak", "say")]),
    "wait_quorum": lambda me: me.wait_quorum([me.request("elm", "say"), me.request("oak", "say")], 1),
    "gather": lambda me: me.gather(me.send_and_wait("elm", "say"), me.send_and_wait("oak", "say")),
    "expect": lambda me: me.expect("thread.>", source="elm"),
    "blocking_on": block,
    "ask": lambda me: me.ask("elm", "say"),
    "ask and expect": ask_and_expect,
    "send": lambda me: me.send("elm", "say"),
    "lock": lock,
    "permits": lambda me: me.permits("gpu", 2).__aenter__(),
    "wait_for_artifact": lambda me: me.wait_for_artifact("plan"),
    "approval": lambda me: me.approval("human:eva", {"sum": 9}),
    "receive": lambda me: me.receive(asyncio.Queue[int](), producer="elm"),
    "wait_any of a mix": lambda me: me.wait_any(
        [me.request("elm", "say"), me.artifact("a"), me.acquire("b")]
    ),
    "wait_all with an ask": ask_and_all,
    "holder": hold,
    "declare_artifact": lambda me: me.declare_artifact("plan"),
    "publish_artifact": lambda me: me.publish_artifact("plan", 1),
    "declare_permits": lambda me: me.declare_permits("gpu", 2),
    "publish": lambda me: me.publish("said"),
}


class CancelAt(Awaitable[Any]):
    """Runs a coroutine and cancels its task at the coroutine's n-th suspension."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], nth: int) -> None:
        self._coroutine = coroutine
        self._nth = nth
        self.suspensions = 0

    def __await__(self) -> Generator[Any, None, Any]:
        inner = self._coroutine
        step: Callable[[], Any] = partial(inner.send, None)
        while True:
            try:
                waited = step()
            except StopIteration as done:
                return done.value
            self.suspensions += 1
            if self.suspensions == self._nth:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield waited
                step = partial(inner.send, None)
            except BaseException as why:  # noqa: BLE001  whatever is thrown in belongs to the coroutine
                step = partial(inner.throw, why)


async def cancelled_at(call: Coroutine[Any, Any, Any], nth: int) -> bool:
    """Whether *call* was cancelled at its n-th suspension, or (False) has fewer."""
    stepped = CancelAt(call, nth)

    async def run() -> Any:
        return await stepped

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=0.1)
    reached = stepped.suspensions >= nth
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return reached


def leftovers(me: Connection) -> dict[str, int]:
    session = me._links.session
    return {
        "open": len([entry for entry in session.pending if entry.strand is not None]),
        "expected": len(session.pending._expected),
        "own": session.main.own.open,
        "strands": sum(strand.open for strand in session.main.strands.values()),
        "calls": session.transport.waiting_calls,
    }


@pytest.mark.parametrize("name", CALLS)
async def test_cancelled_at_any_suspension_it_leaves_nothing(fake: Fake, name: str) -> None:
    async with unknot.connect("birch") as me:
        before = leftovers(me)
        for nth in range(1, 50):
            reached = await cancelled_at(CALLS[name](me), nth)
            await fake.settled()
            assert leftovers(me) == before, f"cancelled at suspension {nth}"
            if not reached:
                break
        assert nth < 49
        opened = [seen.id for verb in ("request", "wait.open", "holder.set") for seen in fake.seen(verb)]
        closed = [
            seen.id for verb in ("request.cancel", "wait.close", "holder.clear") for seen in fake.seen(verb)
        ]
        assert set(opened) <= set(closed)
        assert len(fake.seen("holder.set")) == len(fake.seen("holder.clear"))


async def test_an_ask_cancelled_before_its_receipt_is_withdrawn(fake: Fake) -> None:
    fake.answers["ask"] = None
    async with unknot.connect("birch") as me:
        asking = asyncio.ensure_future(me.ask("elm", "say"))
        seen = await fake.next("ask")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await fake.next("request.cancel")).id == seen.id
        assert len(me._links.session.pending) == 0


async def test_cancelled_when_its_outcome_is_there_already_it_sends_no_cancel(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        me._links.session.pending.settle(bodies.Outcome(request.id, "reply", "yes", 1))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await fake.settled()
        assert fake.seen("request.cancel") == []
        assert leftovers(me)["open"] == 0


async def test_bug_088_timed_out_requests_leave_no_trace(fake: Fake) -> None:
    """The report's 100 000 requests to a mute agent, a thousand of them here: every table is empty again."""
    async with unknot.connect("birch") as me:
        waiting = [me.send_and_wait("elm", "say", timeout=0.01) for _ in range(1_000)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {unknot.WaitExpired}
        session = me._links.session
        assert (len(session.pending), session.pending.deadlines, session.transport.waiting_calls) == (0, 0, 0)
        await asyncio.sleep(0)
        assert len(session.main.strands) == 0


async def test_deadlines_of_what_was_answered_do_not_pile_up(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        session = me._links.session
        for _ in range(5_000):
            waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=3600))
            await asyncio.sleep(0)
            session.pending.settle(bodies.Outcome(next(iter(session.pending)).id, "reply", "yes", 1))
            await waiting
        assert session.pending.deadlines <= 1_001
