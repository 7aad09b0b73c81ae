"""Three judges that share no road to the answer must give the same one, before any engine is compared."""

import random

import pytest

from tests.oracle.cores import cores_by_subsets, cores_of, edges
from tests.oracle.judges import stuck_by_fixpoint, stuck_by_subsets
from tests.oracle.scripts import script_by_seed
from tests.oracle.simulation import stuck_by_simulation
from tests.oracle.world import World


def _worlds(seeds: range, length: int) -> list[World]:
    found = []
    for seed in seeds:
        world = World()
        for step in script_by_seed(seed, length):
            world.apply(step)
        found.append(world)
    return found


@pytest.mark.parametrize("lost_go_on", [True, False])
@pytest.mark.parametrize("length", [6, 12, 25])
def test_fixpoint_subsets_and_simulation_agree_on_who_is_stuck(length: int, lost_go_on: bool) -> None:
    for seed, world in enumerate(_worlds(range(200), length)):
        stuck = stuck_by_fixpoint(world, lost_go_on=lost_go_on)
        assert stuck_by_subsets(world, lost_go_on=lost_go_on) == stuck, seed
        for order in range(3):
            run = stuck_by_simulation(world, random.Random(order), lost_go_on=lost_go_on)
            assert run == stuck, (seed, order)


@pytest.mark.parametrize("length", [8, 16, 25])
def test_cores_by_condensation_are_the_largest_strong_parts_stuck_by_themselves(length: int) -> None:
    for seed, world in enumerate(_worlds(range(200), length)):
        links = edges(world, stuck_by_fixpoint(world, lost_go_on=True))
        assert set(cores_of(world, links)) == cores_by_subsets(world, links), seed


def test_the_scripts_reach_what_they_are_made_for() -> None:
    worlds = _worlds(range(300), 20)
    stuck = [stuck_by_fixpoint(world, lost_go_on=True) for world in worlds]
    orphaned = [
        stuck_by_fixpoint(world, lost_go_on=False) - dead for world, dead in zip(worlds, stuck, strict=True)
    ]
    cores = [cores_of(world, edges(world, dead)) for world, dead in zip(worlds, stuck, strict=True)]
    assert 60 < sum(map(bool, stuck)) < 240
    assert sum(map(bool, orphaned)) > 10
    assert sum(len(found) > 1 for found in cores) >= 3
    assert sum(bool(dead.difference(*found)) for dead, found in zip(stuck, cores, strict=True)) > 20
