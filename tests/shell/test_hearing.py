"""The owners' clock: it stands still while nobody can be heard, and goes on from there."""

from tests.support.gateway import Gateway
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.hearing import CATCH_UP_PACE, CATCH_UP_S, DOUBT_S, PROOF_S, Echo, Hearing


class World:
    """A clock and a server, by hand."""

    def __init__(self) -> None:
        self.time = 100.0
        self.brings = True
        self.proofs = 0
        self.hearing = Hearing(lambda: self.time, self.proof)

    async def proof(self) -> bool:
        self.proofs += 1
        return self.brings

    async def after(self, seconds: float, *, heard: bool = False, more: bool = False) -> bool:
        self.time += seconds
        self.hearing.turned(heard=heard)
        return await self.hearing.lets_time_pass(more=more)


async def test_as_long_as_messages_come_nothing_is_asked_for() -> None:
    world = World()
    for _ in range(10):
        assert await world.after(DOUBT_S / 2, heard=True)
    assert world.proofs == 0
    assert world.hearing.now() == world.time


async def test_after_a_silence_time_passes_when_the_server_has_brought_a_message_back() -> None:
    world = World()
    assert await world.after(2 * DOUBT_S)
    assert world.proofs == 1
    assert world.hearing.now() == world.time


async def test_while_nobody_can_be_heard_the_clock_stands_still_and_then_goes_on() -> None:
    world = World()
    world.brings = False
    assert not await world.after(2 * DOUBT_S)
    stood_at = world.hearing.now()
    assert not await world.after(60.0)
    assert world.hearing.now() == stood_at
    world.brings = True
    assert not await world.after(60.0), "first comes what has come meanwhile"
    assert world.hearing.now() == stood_at
    assert await world.after(DOUBT_S / 2)
    assert world.hearing.now() == stood_at + DOUBT_S / 2


async def test_messages_that_come_are_a_proof_too() -> None:
    world = World()
    world.brings = False
    assert not await world.after(2 * DOUBT_S)
    stood_at = world.hearing.now()
    assert not await world.after(CATCH_UP_S / 2, heard=True), "these may be the last of before"
    assert not await world.after(CATCH_UP_S, heard=True), "first comes what has come meanwhile"
    assert await world.after(DOUBT_S / 2, heard=True)
    assert world.hearing.now() == stood_at + DOUBT_S / 2


async def test_a_process_that_stood_still_has_not_waited_for_anybody() -> None:
    world = World()
    world.hearing.turned(heard=True)
    before = world.hearing.now()
    world.time += 60.0
    world.hearing.rang(late_s=59.0)
    assert world.hearing.now() == before + 1.0
    assert not await world.after(0.0), "first comes what has come meanwhile"
    assert await world.after(0.1)


async def test_a_clock_never_runs_back_however_late_a_timer_is() -> None:
    world = World()
    world.hearing.turned(heard=True)
    before = world.hearing.now()
    world.time += 2 * DOUBT_S
    world.hearing.rang(late_s=1_000.0)
    assert world.hearing.now() >= before


async def test_what_has_come_meanwhile_holds_time_up_for_a_while_only() -> None:
    world = World()
    world.hearing.turned(heard=True)
    world.time += 60.0
    world.hearing.rang(late_s=60.0)
    assert not await world.after(0.0, heard=True, more=True)
    assert not await world.after(DOUBT_S / 2, heard=True, more=True)
    assert await world.after(CATCH_UP_S, heard=True, more=True)


async def test_without_a_proof_every_clock_is_right() -> None:
    times = [100.0]
    hearing = Hearing(lambda: times[0])
    times[0] += 3_600.0
    hearing.rang(late_s=3_000.0)
    assert await hearing.lets_time_pass(more=True)
    assert hearing.now() == times[0]


async def test_who_hears_late_counts_time_until_what_it_has_heard() -> None:
    world = World()
    world.time += 1.0
    began_at = world.time
    world.hearing.press()
    world.time += 3.0
    assert world.hearing.now() == began_at
    world.hearing.heard_until(began_at + 0.5, pressed=True)
    assert world.hearing.now() == began_at + 0.5
    world.time += 1.0
    assert await world.after(0.0, heard=True), "what is due by that clock is due"
    for _ in range(20):
        world.time += 0.1
        world.hearing.heard_until(world.time, pressed=False)
    assert world.hearing.now() == world.time
    assert not world.hearing.is_late


async def test_after_a_long_time_without_a_word_the_clock_of_one_who_hears_late_runs_and_does_not_leap() -> (
    None
):
    world = World()
    world.hearing.press()
    world.hearing.heard_until(world.time, pressed=True)
    stood_at = world.hearing.now()
    world.time += 1.0
    world.hearing.heard_until(world.time - 1.0, pressed=True)
    world.time += 60.0
    world.hearing.heard_until(world.time - 60.0, pressed=True)
    world.time += 0.1
    world.hearing.heard_until(world.time, pressed=False)
    assert stood_at <= world.hearing.now() <= stood_at + 2 * PROOF_S * CATCH_UP_PACE
    assert world.hearing.is_late, "not yet in time"


async def test_what_was_lost_unread_with_a_connection_is_time_that_did_not_pass() -> None:
    world = World()
    world.hearing.press()
    heard_until = world.hearing.now()
    world.time += 5.0
    world.hearing.skip()
    assert world.hearing.now() == heard_until
    assert not world.hearing.is_late
    world.time += 1.0
    assert world.hearing.now() == heard_until + 1.0


async def test_a_clock_that_is_late_never_runs_back_nor_ahead() -> None:
    world = World()
    world.hearing.press()
    before = world.hearing.now()
    for sent_at in (before - 5.0, before + 1_000.0):
        world.hearing.heard_until(sent_at, pressed=True)
        assert before <= world.hearing.now() <= world.time
    world.hearing.rang(late_s=30.0)
    assert world.hearing.now() >= before


async def test_a_message_to_oneself_comes_back_behind_all_that_came_before(gateway: Gateway) -> None:
    bus = NatsBus(gateway.nats)
    await bus.open()
    came: list[bytes] = []
    try:
        await bus.listen("n.in.>", lambda message: came.append(message.data))
        for number in range(100):
            await bus.connection.publish("n.in.a", b"%d" % number)
        assert await Echo(bus)()
        assert came == [b"%d" % number for number in range(100)]
    finally:
        await bus.close()
    assert not await Echo(bus)(), "a closed connection brings nothing"
