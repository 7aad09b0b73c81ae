"""What of one wait over several things has come: facts in, is it over? And what is said again. No network."""

import asyncio
import itertools
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot import _standing
from unknot._come import Come
from unknot._standing import Standing
from unknot_schemas import bodies, resources


def outcome(kind: Any, true: list[int] | None = None) -> bodies.Outcome:
    fulfilled = bodies.Fulfilled(true) if true is not None else None
    return bodies.Outcome("w", kind, "no", 1, fulfilled=fulfilled)


class Woken:
    """As much of a future as a waiter needs; it may be done once."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_result(self, result: None) -> None:
        assert not self.is_done, "woken twice"
        self.is_done = True


def come(n: int, need: int, asked: set[int]) -> Come:
    made = Come(n, need, cast("asyncio.Future[None]", Woken()))
    made.asked = asked
    made.wire = list(range(n))
    return made


@given(st.data())
@settings(max_examples=100)
def test_it_is_over_exactly_when_enough_came_or_can_come_no_more(data: st.DataObject) -> None:
    """Requests only, in any order: need answers are enough, one failure too many ends it, and nothing else does."""
    n = data.draw(st.integers(1, 6))
    need = data.draw(st.integers(1, n))
    order = data.draw(st.permutations(range(n)))
    answers = data.draw(st.lists(st.sampled_from(["reply", "failed"]), min_size=n, max_size=n))
    wait = come(n, need, set(range(n)))
    replied = failed = 0
    for place, kind in zip(order, answers, strict=True):
        wait.answered(place, outcome(kind))
        replied += kind == "reply"
        failed += kind == "failed"
        assert wait.is_over == (replied >= need or failed > n - need)
        assert wait.future.done() == wait.is_over
        if wait.is_over:
            return


def test_a_grant_is_over_when_the_answers_that_it_speaks_of_are_here() -> None:
    for order in itertools.permutations(["grant", 0, 1]):
        wait = come(4, 3, {0, 1})
        for number, step in enumerate(order):
            assert not wait.is_over
            if step == "grant":
                wait.ended(outcome("granted", [0, 1, 2]), None)
            else:
                wait.answered(cast("int", step), outcome("reply"))
            assert wait.is_over == (number == 2)
        assert wait.true == [0, 1, 2]


@pytest.mark.parametrize("kind", ["deadlock", "expired", "refused", "denied", "cancelled", "over_limit"])
def test_a_failure_of_the_wait_is_its_end_whatever_has_come(kind: str) -> None:
    wait = come(3, 2, {0})
    wait.answered(0, outcome("reply"))
    wait.ended(outcome(kind), None)
    assert wait.is_over
    assert len(wait.true) < wait.need


def test_places_are_those_of_the_branches_though_the_gateway_was_told_of_fewer() -> None:
    wait = come(4, 2, {0, 2})
    wait.answered(2, outcome("reply"))
    wait.wire = [0, 1, 3]
    wait.ended(outcome("produced", [2]), None)
    assert wait.true == [2, 3]


# ---------------------------------------------------------------------- said again


def said(name: str) -> Any:
    return lambda session: resources.PoolDeclare(name, 1, session)


def names(standing: Standing) -> list[str]:
    return [cast("resources.PoolDeclare", body).id for _, body in standing.again("s")]


def test_the_last_word_about_a_thing_is_said_again_and_what_is_over_is_not() -> None:
    standing = Standing()
    for name in ("a", "b", "c"):
        standing.say((name,), "pool.declare", said(name))
    standing.say(("a",), "pool.declare", said("a2"))
    standing.unsay(("b",))
    standing.unsay(("b",))
    standing.say(("over",), "pool.declare", lambda _session: None)
    assert names(standing) == ["c", "a2"]
    assert len(standing) == 2


def test_what_is_said_again_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_standing, "STANDING_MAX", 10)
    monkeypatch.setattr(_standing, "STANDING_BYTES_MAX", 100)
    standing = Standing()
    for number in range(25):
        standing.say((str(number),), "pool.declare", said(str(number)))
    assert names(standing) == [str(number) for number in range(15, 25)]
    standing.say(("big",), "pool.declare", said("big"), 60)
    standing.say(("bigger",), "pool.declare", said("bigger"), 70)
    assert names(standing) == ["bigger"]
    standing.say(("too big",), "pool.declare", said("too big"), 101)
    assert names(standing) == []
