"""kill -9 of the gateway at every step of a request: one right outcome, one run of the handler, no wait too long."""

import pytest

from tests.faults.rig import House
from tests.faults.stories import EFFECTS, STORIES, Stage

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]


async def lived_in(house: House) -> House:
    """With a gateway that takes messages, whatever the test before has done."""
    if house.is_dead:
        house.begin()
    await house.ready()
    return house


@pytest.mark.parametrize("story", STORIES)
async def test_the_matrix_names_every_effect(old_house: House, story: str) -> None:
    house = await lived_in(old_house)
    async with Stage(house, beat_s=30.0).open() as stage:  # a heartbeat may have something repeated
        await house.arm()
        await STORIES[story](stage)
        await stage.over()
        effects = [kind for kind in house.trace if kind not in ("welcome", "pulse")]
        assert len(effects) == EFFECTS[story], effects


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("story", "effect"), [(story, k + 1) for story, n in EFFECTS.items() for k in range(n)]
)
async def test_a_gateway_killed_at_any_effect_costs_nobody_an_answer(
    old_house: House, story: str, effect: int, when: str
) -> None:
    house = await lived_in(old_house)
    async with Stage(house).open() as stage:
        await house.arm(effect=effect, when=when)
        playing = stage.play(STORIES[story])
        await house.died()
        await house.open()
        await playing
        await stage.over()


@pytest.mark.parametrize("story", ["queue", "deadlock"])
@pytest.mark.parametrize("effect", [1, 3, 6, 9])
async def test_its_successor_may_be_killed_while_it_learns_what_is_open(
    old_house: House, story: str, effect: int
) -> None:
    """Welcomes, pulses and all are counted here."""
    await killed_twice(old_house, story, 2, effect)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("story", STORIES)
async def test_both_may_be_killed_at_any_effect(old_house: House, story: str) -> None:
    for first in range(1, EFFECTS[story] + 1):
        for second in range(1, 13):
            await killed_twice(old_house, story, first, second)


async def killed_twice(old_house: House, story: str, first: int, second: int) -> None:
    """Play *story*; the gateway is killed after its effect *first*, and the next one after *second* messages."""
    house = await lived_in(old_house)
    async with Stage(house).open() as stage:
        print(f"{story}: killed after effect {first}, then after {second} messages")  # noqa: T201  shown if it fails
        await house.arm(effect=first)
        playing = stage.play(STORIES[story])
        await house.died()
        house.plan(effect=second, count_all=True)
        house.begin()
        await house.died()
        await house.open()
        await playing
        await stage.over()
