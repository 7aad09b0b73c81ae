"""Messages are lost on the way, in both directions: heartbeats cure all of it, each outcome comes once.

One of each kind here, and a few seeds, with real processes; the simulator (tests/sim) has them in all combinations.
"""

import asyncio
from collections.abc import Iterator

import pytest

import unknot
from tests.faults.rig import BEAT_S, House, Server, Stable, asking
from tests.faults.stories import STORIES, Stage, hail, one_way

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

FROM_THE_GATEWAY = [
    ("event", "reply"),
    ("event", "queue"),
    ("event", "deadlock"),
    ("event", "one_way"),
    ("outcome", "reply"),
    ("outcome", "deferred"),
    ("outcome", "deadlock"),
    ("outcome", "wait_any"),
    ("event+pulse", "reply"),
    ("outcome+pulse", "reply"),
    ("confirm", "deadlock"),
    ("agent.wait.deadlock_detected", "deadlock"),
    ("receipt", "one_way"),
]
FOR_THE_GATEWAY = [
    ("request", "reply"),
    ("request", "queue"),
    ("request", "deadlock"),
    ("request", "wait_any"),
    ("reply", "reply"),
    ("reply", "queue"),
    ("reply", "deferred"),
    ("defer", "deferred"),
    ("done", "one_way"),
    ("facts", "deadlock"),
    ("request+heartbeat", "reply"),
    ("reply+heartbeat", "queue"),
    ("wait.open", "hail"),
    ("send", "one_way"),
]
ALL = {**STORIES, "one_way": one_way, "hail": hail}


@pytest.fixture(scope="module")
def lossy_house(
    stable: Stable, shared_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """One for all tests here."""
    house = House(stable, shared_server, tmp_path_factory.mktemp("house"), "lossy")
    house.begin()
    yield house
    house.end()


@pytest.mark.parametrize(("kind", "story"), FROM_THE_GATEWAY)
async def test_what_the_gateway_says_may_be_lost(lossy_house: House, kind: str, story: str) -> None:
    async with Stage(lossy_house).open() as stage:
        await lossy_house.arm(lose_out=kind.split("+"))
        await ALL[story](stage)
        await stage.over()
        assert {f"lost {each}" for each in kind.split("+")} <= set(lossy_house.trace)


@pytest.mark.parametrize(("verb", "story"), FOR_THE_GATEWAY)
async def test_what_agents_say_may_be_lost(lossy_house: House, verb: str, story: str) -> None:
    async with Stage(lossy_house).open() as stage:
        await lossy_house.arm(lose_in=verb.split("+"))
        await ALL[story](stage)
        await stage.over()
        assert {f"lost {each}" for each in verb.split("+")} <= set(lossy_house.trace)


@pytest.mark.parametrize("lost", ["hello", "welcome"])
async def test_a_hello_and_its_answer_may_be_lost(lossy_house: House, lost: str) -> None:
    await lossy_house.ready()
    await lossy_house.arm(lose_in=[lost], lose_out=[lost])
    async with Stage(lossy_house).open() as stage:
        await STORIES["reply"](stage)
        await stage.over()
        assert f"lost {lost}" in lossy_house.trace


@pytest.mark.parametrize("seed", range(3))
async def test_some_of_all_messages_may_be_lost(lossy_house: House, seed: int) -> None:
    await lose_some(lossy_house, seed)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
async def test_some_of_all_messages_may_be_lost_many_times(lossy_house: House) -> None:
    for seed in range(3, 200):
        await lose_some(lossy_house, seed)


async def lose_some(lossy_house: House, seed: int) -> None:
    """Fourteen requests at once; one in thirty messages is lost, drawn from *seed*.

    An answer that is lost four times is none (asks_again_max): once in a hundred thousand requests here.
    """
    async with Stage(lossy_house).open() as stage:
        await lossy_house.arm(share=0.03, seed=seed)
        stage.go.set()
        asked = [stage.ask("elm", "say.later", number) for number in range(12)]
        others = [stage.ask("oak", "help"), stage.ask("ash", "help")]
        ends = await asyncio.gather(*asked)
        assert [(end.outcome, end.value) for end in ends] == [("reply", number) for number in range(12)], ends
        ends = await asyncio.gather(*others)
        assert [end.value for end in ends] == ["helped", "helped"], ends
        await lossy_house.arm()
        await stage.over()
        assert set(stage.runs.values()) == {1}


async def test_abandoned_may_be_lost_and_the_answer_is_nobodys(lossy_house: House) -> None:
    async with Stage(lossy_house).open() as stage:
        await lossy_house.arm(lose_out=["request.abandoned"])
        end = await stage.ask("elm", "say.later", "given up", timeout=0.5)
        assert end.outcome == "expired"
        queued = stage.ask("elm", "say", "next")
        await asyncio.sleep(0.2)
        assert not queued.done(), "its handler runs, and has the slot"
        stage.go.set()
        assert (await queued).value == "next"
        await stage.over()
        async with unknot.connect(
            "birch", lossy_house.server.url, network=lossy_house.network, heartbeat_s=BEAT_S, serves=False
        ) as birch:
            assert (await asking(birch, "elm", "say", "afterwards")).value == "afterwards"
