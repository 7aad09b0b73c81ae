"""A siege keeps what one agent floods out of the way on which the others are heard."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import nats
import pytest
from nats.aio.client import Client

from tests.shell.rig import SUBJECTS, EchoKernel, MemoryBus, owner, until
from tests.support.gateway import Gateway
from unknot_gateway.shell import siege as siege_module
from unknot_gateway.shell import streets as streets_module
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.limits import FLOOD_PART, FLOOD_WEIGHT, STREET_BUDGET
from unknot_gateway.shell.parsing import Incoming
from unknot_gateway.shell.siege import Siege
from unknot_gateway.shell.streets import Street, Twins, streets

CALM_S = 0.4
HANG_S = 30.0


class Besieged:
    """A siege on a real server; *heard*: what came through."""

    def __init__(self, bus: NatsBus, siege: Siege, heard: list[Incoming], shed: list[Incoming]) -> None:
        self.bus, self.siege, self.heard, self.shed = bus, siege, heard, shed
        self.known: list[str] = ["birch", "elm"]

    def flood(self, agent: str = "flood") -> None:
        self.siege.saw_shed(agent, FLOOD_WEIGHT)

    async def over(self) -> None:
        async with asyncio.timeout(HANG_S):
            while self.siege.floods:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def of(self, agent: str) -> list[bytes]:
        head = f"{SUBJECTS.root}.in.{agent}."
        return [message.data for message in self.heard if message.subject.startswith(head)]


@pytest.fixture
async def besieged(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Besieged]:
    monkeypatch.setattr(siege_module, "CALM_S", CALM_S)
    bus, heard, shed = NatsBus(gateway.nats), list[Incoming](), list[Incoming]()
    await bus.open()
    async with owner(MemoryBus(), EchoKernel()) as at_work:
        monkeypatch.setattr(at_work, "shed", shed.append)
        await bus.listen(SUBJECTS.inbound, heard.append)
        known: list[str] = []
        siege = Siege(bus, at_work, SUBJECTS.inbound, heard.append, lambda: known)
        made = Besieged(bus, siege, heard, shed)
        known += made.known
        await bus.barrier()
        yield made
        await siege.close()
    await bus.close()


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[Client]:
    made = await nats.connect(gateway.nats)
    yield made
    await made.close()


async def sent(client: Client, subjects: Iterable[str], number: int, body: bytes | None = None) -> None:
    for subject in subjects:
        await client.publish(subject, b"%d" % number if body is None else body)


def subject(agent: str, rest: str = "send.elm.work") -> str:
    return f"{SUBJECTS.root}.in.{agent}.{rest}"


@pytest.mark.parametrize("body", [None, b"the same"])
async def test_a_siege_that_begins_lets_somebody_in_and_ends_loses_and_doubles_nothing_and_keeps_the_order(
    besieged: Besieged, client: Client, body: bytes | None
) -> None:
    numbers = iter(range(1_000_000))
    steady = [subject("birch"), subject("elm", "heartbeat"), subject("newcomer", "request.elm.work")]
    going = True

    async def traffic() -> None:
        while going:
            await sent(client, steady, next(numbers), body)
            await asyncio.sleep(0.001)

    at_it = asyncio.create_task(traffic())
    await until(lambda: len(besieged.heard) > 30)
    for _ in range(2):
        besieged.flood()
        await asyncio.sleep(2 * CALM_S)
        await besieged.over()
        await asyncio.sleep(CALM_S)
    going = False
    await at_it
    count = next(numbers)
    await client.flush()
    await until(lambda: len(besieged.heard) >= 3 * count)
    await besieged.bus.barrier()
    wanted = [b"%d" % number if body is None else body for number in range(count)]
    for agent in ("birch", "elm", "newcomer"):
        assert besieged.of(agent) == wanted
    assert besieged.shed == []


async def test_who_floods_is_heard_by_samples_and_shed_there_as_long_as_it_goes_on(
    besieged: Besieged, client: Client
) -> None:
    besieged.flood()
    await until(lambda: "elm" in besieged.siege._inside and besieged.siege._twins is None)
    besieged.heard.clear()
    for _ in range(20):
        for number in range(1_000):
            await client.publish(subject("flood"), b"%d" % number)
        await sent(client, [subject("birch"), subject("flood", "heartbeat")], 1)
        await asyncio.sleep(CALM_S / 10)
    await client.flush()
    assert "flood" in besieged.siege.floods
    await until(lambda: len(besieged.of("birch")) == 20)
    assert {message.subject for message in besieged.shed} <= {subject("flood"), subject("flood", "heartbeat")}
    assert STREET_BUDGET <= len(besieged.shed) < 20_000
    assert besieged.of("flood").count(b"1") > 10, "what it does not flood is heard"
    await besieged.over()
    besieged.heard.clear()
    await until_heard(besieged, client, subject("flood"))
    await until_heard(besieged, client, subject("elm"))


async def until_heard(besieged: Besieged, client: Client, on: str) -> None:
    """What is sent on *on* comes through, by the one subscription or whatever is in its place."""
    async with asyncio.timeout(HANG_S):
        while not any(message.subject == on for message in besieged.heard):
            await client.publish(on, b"again")
            await asyncio.sleep(0.01)


async def test_a_connection_that_begins_anew_ends_the_siege_and_everybody_is_heard(
    besieged: Besieged, client: Client
) -> None:
    besieged.flood()
    await until(lambda: "elm" in besieged.siege._inside and besieged.siege._twins is None)
    transport = besieged.bus.connection._transport
    assert transport is not None
    transport.close()  # type: ignore[no-untyped-call]
    await besieged.over()
    for agent in ("birch", "stranger", "flood"):
        await until_heard(besieged, client, subject(agent))
    assert not [number for number in besieged.bus.puts if not number.isdigit()]


async def test_whoever_is_shed_little_beside_a_flood_is_not_kept_out(besieged: Besieged) -> None:
    besieged.siege.saw_shed("flood", 2 * FLOOD_WEIGHT)
    besieged.siege.saw_shed("birch", FLOOD_WEIGHT // FLOOD_PART - 1)
    assert set(besieged.siege.floods) == {"flood"}


async def test_of_more_agents_than_a_siege_can_name_the_others_are_heard_by_the_streets(
    besieged: Besieged, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siege_module, "KNOWN_MAX", 1)
    besieged.flood()
    await until(lambda: "birch" in besieged.siege._inside and besieged.siege._twins is None)
    for agent in ("birch", "elm", "stranger"):
        await until_heard(besieged, client, subject(agent))
    assert "elm" not in besieged.siege._inside


def test_a_street_takes_its_budget_and_is_begun_anew_when_that_is_used_up() -> None:
    street = next(streets(SUBJECTS.inbound))
    assert street.subject == f"{SUBJECTS.root}.in.*.ask.>"
    assert street.open("a").endswith(b"UNSUB a %d\r\n" % STREET_BUDGET)
    street.came = 7
    assert street.beat("a") == b"UNSUB a %d\r\n" % (STREET_BUDGET + 7)
    street.came = STREET_BUDGET + 7
    assert street.beat("b").startswith(f"SUB {street.subject} b\r\n".encode())
    assert not street.is_flooded, "nobody who floods was there"


def test_a_street_that_brings_copies_of_what_is_heard_anyway_takes_more() -> None:
    street = Street("send", "s")
    street.open("a")
    street.familiar = street.came = STREET_BUDGET
    assert street.beat("b").endswith(b"UNSUB b %d\r\n" % (3 * STREET_BUDGET))


def test_of_twins_one_is_taken_whichever_comes_first_and_however_many_are_alike() -> None:
    twins, one = Twins(), Incoming("s", "", b"1")
    assert [twins.is_second(one, step) for step in (1, 1, -1, -1, -1, 1)] == [
        False, False, True, True, False, True,
    ]  # fmt: skip


def test_beyond_twins_max_a_message_may_be_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streets_module, "TWINS_MAX", 1)
    twins = Twins()
    for data in (b"1", b"2"):
        assert not twins.is_second(Incoming("s", "", data), 1)
    assert twins.is_second(Incoming("s", "", b"1"), -1)
    assert not twins.is_second(Incoming("s", "", b"2"), -1)
