"""Laws of the graph's own door, besides what the comparison with the naive fixpoint covers."""

import itertools

import pytest

from unknot_gateway.core.graph import NEVER, OUTSIDE, Graph, any_of, artifact, execution, resource


def deadlock(graph: Graph) -> tuple[int, int]:
    """Two that wait for each other; their waits."""
    a, b = graph.add("a"), graph.add("b")
    return graph.open(a, (execution(b),)), graph.open(b, (execution(a),))


def test_closing_twice_or_what_was_never_open_changes_nothing() -> None:
    graph = Graph()
    a, b = graph.add("a"), graph.add("b")
    wait = graph.open(a, (execution(b),))
    graph.close(wait)
    graph.close(wait)
    graph.close(type(wait)(99_999))
    graph.change(wait, 0, NEVER)
    assert len(graph) == 0
    assert graph.waiter_of(wait) is None
    assert graph.false_conditions(wait) == []
    assert graph.chain(wait, 5) == []


def test_handles_of_what_is_gone_change_nothing_and_hold_nobody_up() -> None:
    graph = Graph()
    a, b = graph.add("a"), graph.add("b")
    lock, made = graph.add_resource("lock", 0, fifo=True), graph.add_artifact("plan")
    graph.open(a, (execution(b), resource(lock), artifact(made)))
    graph.produce(made)
    graph.remove(b)
    assert graph.stuck() == {a}
    graph.remove_resource(lock)
    assert graph.stuck() == set()
    graph.remove(b)
    graph.lose(b)
    graph.grant(lock, a)
    graph.release(lock, a)
    graph.set_capacity(lock, 3)
    graph.add_producer(made, a)
    graph.withdraw(made, a)
    graph.produce(made)
    late = graph.open(b, (execution(a),))
    assert graph.waiter_of(late) is None
    assert graph.waits_of(b) == ()


@pytest.mark.parametrize("end", ["changed", "closed"])
def test_who_is_stuck_after_what_it_waited_for_is_gone_waits_on_and_ends_as_any_other(end: str) -> None:
    """A session's slots go with it, while a wait for one of them and for something else goes on."""
    graph = Graph()
    a, b, c = graph.add("a"), graph.add("b"), graph.add("c")
    lock = graph.add_resource("lock", 1, fifo=True)
    graph.grant(lock, c)
    wait = graph.open(a, (resource(lock), execution(b)))
    graph.remove_resource(lock)
    graph.open(b, (execution(a),))
    assert graph.stuck() == {a, b}
    if end == "changed":
        graph.change(wait, 0, OUTSIDE)
        assert graph.stuck() == {a, b}
    graph.close(wait)
    assert graph.stuck() == set()


def test_two_waits_that_close_each_other_are_found_without_draining() -> None:
    graph = Graph()
    waits = deadlock(graph)
    (core,) = graph.found()
    assert core.waits == waits
    assert graph.suspects == 0


def test_a_wait_that_can_never_be_satisfied_is_stuck_but_no_core() -> None:
    graph = Graph()
    a, b = graph.add("a"), graph.add("b")
    graph.open(a, (NEVER, OUTSIDE))
    graph.open(b, (execution(a), OUTSIDE), need=3)
    assert graph.stuck() == {a, b}
    assert graph.cores() == []


def test_a_condition_that_changes_keeps_its_place_in_the_queue() -> None:
    graph = Graph()
    a, b, h = (graph.add(name) for name in "abh")
    lock = graph.add_resource("lock", 1, fifo=True)
    first = graph.open(a, (OUTSIDE, execution(b)))
    graph.open(b, (resource(lock),))
    assert graph.stuck() == set()
    graph.change(first, 0, resource(lock))  # older than the wait of b, so ahead of it
    assert graph.stuck() == {a, b}
    graph.change(first, 0, OUTSIDE)
    assert graph.stuck() == set()
    assert h not in graph.stuck()


def test_an_any_of_inside_a_quorum_counts_as_one_condition() -> None:
    graph = Graph()
    a, b, c = (graph.add(name) for name in "abc")
    graph.open(b, (execution(a),))
    graph.open(a, (any_of(OUTSIDE, execution(c)), execution(b), NEVER), need=2)
    assert graph.stuck() == {a, b}


def test_any_of_is_flat_and_knows_its_limits() -> None:
    graph = Graph()
    x, y = execution(graph.add("x")), execution(graph.add("y"))
    assert any_of() == NEVER
    assert any_of(x) == x
    assert any_of(x, OUTSIDE) == OUTSIDE
    assert any_of(any_of(x, y), NEVER) == any_of(x, y)


def test_lost_nodes_make_orphans_until_they_are_revived() -> None:
    graph = Graph()
    a, b, e = (graph.add(name) for name in "abe")
    lock = graph.add_resource("lock", 1, fifo=True)
    graph.grant(lock, e)
    graph.open(a, (resource(lock),))
    graph.open(b, (execution(a),))
    graph.lose(e)
    assert (graph.stuck(), graph.orphaned()) == (set(), {a, b})
    graph.revive(e)
    assert graph.orphaned() == set()


def test_a_tentative_wait_counts_and_a_second_look_can_leave_it_out() -> None:
    graph = Graph()
    a, b = graph.add("a"), graph.add("b")
    graph.open(a, (execution(b),))
    doubtful = graph.open(b, (execution(a),), tentative=True)
    (core,) = graph.found()
    assert graph.is_tentative(doubtful)
    assert graph.second_look(core.members, running=(), ignore=()) == [core]
    assert graph.second_look(core.members, running=(), ignore=(doubtful,)) == []
    assert graph.second_look(core.members, running=(a,), ignore=()) == []
    assert graph.cores() == [core]


def test_the_chain_of_a_wait_ends_where_it_hangs() -> None:
    graph = Graph()
    a, b, c, d = (graph.add(name) for name in "abcd")
    lock = graph.add_resource("lock", 1, fifo=True)
    graph.grant(lock, d)
    graph.open(b, (OUTSIDE, execution(c)))
    graph.open(c, (resource(lock),))
    wait = graph.open(a, (execution(b),))
    assert graph.chain(wait, 10) == [a, b, c, d]
    assert graph.chain(wait, 2) == [a, b]


def test_a_core_of_a_waiting_pool_names_the_waits_that_lead_into_it() -> None:
    graph = Graph()
    a, b, other = (graph.add(name) for name in ("a", "b", "other"))
    pool = graph.add_resource("slots", 1, fifo=False)
    graph.grant(pool, b)
    into = graph.open(a, (resource(pool),))
    graph.open(a, (execution(other),))
    closing = graph.open(b, (execution(a),))
    (core,) = graph.cores()
    assert core.waits == (into, closing)
    assert graph.false_conditions(into) == [0]


@pytest.mark.parametrize("steps", [1, 1_000])
def test_a_sweep_of_a_healthy_graph_finds_nothing_and_ends(steps: int) -> None:
    graph = Graph()
    nodes = [graph.add(f"n{at:03}") for at in range(300)]
    for waiter, target in itertools.pairwise(nodes):
        graph.open(waiter, (execution(target),))
    graph.start_sweep()
    slices = 1
    while not graph.drain(steps):
        slices += 1
    assert graph.found() == []
    assert slices > 100 or steps > 1


def test_long_chains_and_wide_queues_need_no_recursion() -> None:
    graph = Graph(check_steps=0)
    nodes = [graph.add(f"n{at:06}") for at in range(6_000)]
    lock = graph.add_resource("lock", 1, fifo=True)
    graph.grant(lock, nodes[0])
    for waiter, target in itertools.pairwise(nodes[:3_001]):
        graph.open(waiter, (execution(target),))
    for waiter in nodes[3_000:]:
        graph.open(waiter, (resource(lock),))
    while not graph.drain(5_000):
        pass
    assert len(graph.stuck()) == 6_000
    (core,) = graph.found()
    assert len(core.members) == 3_001
    assert len(graph.tail_of(core)) == 2_999
    graph.remove(nodes[1_000])
    assert graph.found() == []
    assert graph.stuck() == set()
