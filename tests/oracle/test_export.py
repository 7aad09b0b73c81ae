"""A graph that is exported and replayed from nothing has the same verdicts, and says so itself."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.compare import BUDGETS
from tests.oracle.examples import share
from tests.oracle.scripts import scripts
from unknot_gateway.core.graph import Wait
from unknot_gateway.core.graph.script import Script


@share(0.05)
@given(steps=scripts(), budget=st.sampled_from(BUDGETS))
def test_an_exported_graph_says_the_same_when_it_is_replayed(steps: list[Any], budget: int | None) -> None:
    first = told(steps, budget)
    exported = first._graph.steps(unnamed, 1_000)
    expected = exported.pop()
    again = told(exported, None).report()
    assert expected.pop("op") == "expect"
    assert {key: getattr(again, key) for key in expected} == expected
    assert again == first.report()


@share(0.05)
@given(steps=scripts(), limit=st.integers(0, 6))
def test_waits_that_can_end_may_be_left_out_and_others_take_the_verdict_with_them(
    steps: list[Any], limit: int
) -> None:
    first = told(steps, None)
    exported = first._graph.steps(unnamed, limit)
    assert sum(step["op"] == "wait" for step in exported) <= limit
    if exported and exported[-1]["op"] == "expect":
        assert told(exported[:-1], None).report() == first.report()


def unnamed(_wait: Wait) -> None:
    return None


def told(steps: list[Any], budget: int | None) -> Script:
    script = Script(budget)
    for step in steps:
        if step["op"] != "expect":
            script.apply(step)
    script.drain()
    return script
