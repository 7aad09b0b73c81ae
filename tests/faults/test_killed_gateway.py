"""kill -9 of the gateway at every step of a request: one right outcome, one run of the handler, no wait too long."""

import pytest

from tests.faults.rig import House
from tests.faults.stories import EFFECTS, STORIES, Stage


async def lived_in(house: House) -> House:
    """With a gateway that takes messages, whatever the test before has done."""
    if house.is_dead:
        house.begin()
    await house.ready()
    return house


@pytest.mark.parametrize("story", STORIES)
async def test_the_matrix_names_every_effect(old_house: House, story: str) -> None:
    house = await lived_in(old_house)
    async with Stage(house).open() as stage:
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
