"""What the detectors of others got wrong, each as a law."""

import itertools

import pytest

from unknot_gateway.core.graph import Graph, Node, any_of, execution, resource

BUDGETS = pytest.mark.parametrize("budget", [0, 1, 2_000])


def nodes(graph: Graph, names: str) -> list[Node]:
    return [graph.add(name) for name in names]


def drained(graph: Graph, steps: int = 1_000) -> Graph:
    while not graph.drain(steps):
        pass
    return graph


@BUDGETS
def test_a_chase_from_a_tail_stops_at_the_ring(budget: int) -> None:
    graph = Graph(budget)
    a, b, c = nodes(graph, "abc")
    graph.open(b, (execution(c),))
    graph.open(c, (execution(b),))
    wait = graph.open(a, (execution(b),))
    (core,) = drained(graph).cores()
    assert core.members == (b, c)
    assert graph.tail_of(core) == [a]
    assert graph.chain(wait, 10) == [a, b, c]


@BUDGETS
def test_visited_twice_is_not_a_cycle(budget: int) -> None:
    graph = Graph(budget)
    top, left, right, bottom = nodes(graph, "tlrb")
    graph.open(left, (execution(bottom),))
    graph.open(right, (execution(bottom),))
    graph.open(top, (execution(left), execution(right)))
    assert drained(graph).stuck() == set()


@BUDGETS
def test_a_second_wait_of_a_waiter_does_not_overwrite_the_first(budget: int) -> None:
    graph = Graph(budget)
    a, b, c = nodes(graph, "abc")
    graph.open(a, (execution(b),))
    second = graph.open(a, (execution(c),))
    graph.close(second)
    graph.open(b, (execution(a),))
    assert drained(graph).stuck() == {a, b}


@BUDGETS
def test_a_holder_that_changes_without_a_new_wait_can_close_a_deadlock(budget: int) -> None:
    graph = Graph(budget)
    a, b, c = nodes(graph, "abc")
    lock = graph.add_resource("lock", 1, fifo=True)
    graph.grant(lock, c)
    graph.open(a, (resource(lock),))
    graph.open(b, (execution(a),))
    assert drained(graph).stuck() == set()
    graph.release(lock, c)
    graph.grant(lock, b)
    assert drained(graph).stuck() == {a, b}


@BUDGETS
def test_all_being_blocked_is_found_without_another_arrival(budget: int) -> None:
    graph = Graph(budget)
    a, b, c = nodes(graph, "abc")
    wait = graph.open(a, (any_of(execution(b), execution(c)),))
    graph.open(b, (execution(a),))
    assert drained(graph).found() == []
    graph.change(wait, 0, execution(b))
    (core,) = drained(graph).found()
    assert core.members == (a, b)


def test_many_waiters_and_many_owners_are_one_resource_not_their_product() -> None:
    graph = Graph()
    lock = graph.add_resource("lock", 1, fifo=True)
    waiters = [graph.add(f"w{at:04}") for at in range(500)]
    for waiter in waiters:
        graph.open(waiter, (resource(lock),))
    for owner in waiters[:10]:  # each of them also waits, so each grant blocks everybody else
        graph.grant(lock, owner)
        drained(graph)
        assert owner in graph.stuck()
        graph.release(lock, owner)
        assert graph.stuck() == set()


@BUDGETS
def test_a_new_attempt_of_a_victim_that_deadlocks_again_is_found_again(budget: int) -> None:
    graph = Graph(budget)
    a, b = nodes(graph, "ab")
    graph.open(a, (execution(b),))
    first = graph.open(b, (execution(a),))
    (before,) = drained(graph).found()
    graph.close(first)
    assert graph.found() == []
    graph.open(b, (execution(a),))
    (after,) = drained(graph).found()
    assert after.members == before.members
    assert after.waits != before.waits


def test_a_search_that_meets_its_budget_is_no_deadlock_and_is_finished_later() -> None:
    graph = Graph(check_steps=50)
    chain = [graph.add(f"n{at:04}") for at in range(1_000)]
    for waiter, target in itertools.pairwise(chain):
        graph.open(waiter, (execution(target),))
    before = graph.suspects
    graph.open(chain[-1], (execution(graph.add("running")),))
    assert graph.stuck() == set()
    drained(graph)
    assert graph.stuck() == set()
    graph.open(chain[-1], (execution(chain[0]),))
    assert graph.suspects > before
    assert graph.stuck() == set()
    assert drained(graph).stuck() == set(chain)


def test_a_ring_of_any_length_is_found_at_once() -> None:
    graph = Graph(check_steps=20_000)
    ring = [graph.add(f"n{at:05}") for at in range(5_000)]
    for waiter, target in zip(ring, [*ring[1:], ring[0]], strict=True):
        graph.open(waiter, (execution(target),))
    (core,) = graph.found()
    assert core.cycle == tuple(ring)


def test_which_member_comes_first_is_decided_by_label_alone() -> None:
    shown = set()
    for order in ("abc", "cab", "bca"):
        graph = Graph()
        made = {name: graph.add(name) for name in order}
        for name, target in ("ab", "bc", "ca"):
            graph.open(made[name], (execution(made[target]),))
        (core,) = graph.cores()
        shown.add(tuple(graph.label(node) for node in core.cycle))
    assert shown == {("a", "b", "c")}
