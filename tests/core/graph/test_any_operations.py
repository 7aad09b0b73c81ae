"""Whatever is done to a graph, what it says is the least fixpoint; with any budget never more than that."""

import random

import pytest
from hypothesis import settings

from tests.core.graph import naive, stories
from tests.core.graph.mirror import Mirror, shown

STORIES = min(400, settings().max_examples * 3 // 10)
BUDGETS = [0, 1, 7, 2_000]


def drained(mirror: Mirror, steps: int) -> None:
    for _ in range(10_000):
        if mirror.graph.drain(steps):
            return
    raise AssertionError("draining does not end")


@pytest.mark.parametrize("budget", BUDGETS)
def test_nobody_is_called_stuck_who_is_not_and_once_drained_everybody_who_is(budget: int) -> None:
    for seed in range(STORIES):
        pick, mirror = random.Random(seed), Mirror(budget)
        for at in range(40):
            stories.step(mirror, pick)
            truth, graph = naive.stuck(mirror), mirror.graph
            assert mirror.numbers(graph.stuck()) <= truth, (seed, at)
            if pick.random() < 0.3:
                drained(mirror, pick.choice([1, 3, 1_000]))
            if not graph.suspects:
                assert mirror.numbers(graph.stuck()) == truth, (seed, at)
                orphaned = naive.stuck(mirror, lost_go_on=False) - truth
                assert mirror.numbers(graph.orphaned()) == orphaned, (seed, at)


@pytest.mark.parametrize("budget", BUDGETS)
def test_work_in_slices_between_the_changes_misses_nobody(budget: int) -> None:
    for seed in range(STORIES):
        pick, mirror = random.Random(seed), Mirror(budget)
        for at in range(60):
            stories.step(mirror, pick)
            if pick.random() < 0.1:
                mirror.graph.start_sweep()
            mirror.graph.drain(pick.choice([1, 2, 5]))
            assert mirror.numbers(mirror.graph.stuck()) <= naive.stuck(mirror), (seed, at)
        drained(mirror, 1)
        assert mirror.numbers(mirror.graph.stuck()) == naive.stuck(mirror), seed


def test_the_history_of_a_graph_leaves_no_trace_in_its_cores() -> None:
    for seed in range(STORIES):
        pick, mirror = random.Random(seed), Mirror(20)
        for at in range(40):
            stories.step(mirror, pick)
            if pick.random() < 0.2:
                drained(mirror, 50)
                anew = mirror.anew()
                assert shown(mirror.graph, mirror.graph.cores()) == shown(anew, anew.cores()), (seed, at)


def test_found_says_each_core_once_and_again_when_it_changed() -> None:
    for seed in range(STORIES):
        pick, mirror, before = random.Random(seed), Mirror(2_000), set()
        for at in range(40):
            stories.step(mirror, pick)
            drained(mirror, 1_000)
            if pick.random() < 0.5:
                now = set(mirror.graph.cores())
                assert set(mirror.graph.found()) == now - before, (seed, at)
                assert mirror.graph.found() == []
                before = now


def test_a_second_look_is_the_graph_without_what_does_not_count_and_changes_nothing() -> None:
    looks = 0
    for seed in range(3 * STORIES):
        pick, mirror = random.Random(seed), Mirror(2_000)
        for _ in range(40):
            stories.step(mirror, pick)
        drained(mirror, 1_000)
        graph, cores = mirror.graph, mirror.graph.cores()
        for core in cores:
            members = mirror.numbers(core.members)
            running = {node for node in members if pick.random() < 0.15}
            ignore = {wait for wait in mirror.waits if pick.random() < 0.15}
            remain = graph.second_look(
                core.members,
                running=[mirror.handles[node] for node in running],
                ignore=[mirror.handles[wait] for wait in ignore],
            )
            anew = mirror.anew(running, ignore)
            around = {graph.label(node) for node in core.members}
            expected = [each for each in anew.cores() if not around.isdisjoint(map(anew.label, each.members))]
            assert shown(graph, remain) == shown(anew, expected), seed
            looks += 1
        assert graph.cores() == cores, seed
        assert mirror.numbers(graph.stuck()) == naive.stuck(mirror), seed
    assert looks > STORIES / 3
