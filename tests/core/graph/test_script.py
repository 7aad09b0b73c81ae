"""A malformed step is refused with the key and the reason, and changes nothing."""

from typing import Any

import pytest

from unknot_gateway.core.graph.script import Script, ScriptError

WAIT: dict[str, Any] = {"op": "wait", "id": "w", "waiter": "A", "on": [{"exec": "A"}]}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"id": "w"}, "op"),
        ({"op": "expect"}, "expect"),
        ({"op": "close"}, "id"),
        ({"op": "close", "id": 7}, r"\$\.id"),
        (WAIT | {"colour": "red"}, "colour"),
        (WAIT | {"mode": "some"}, r"\$\.mode"),
        (WAIT | {"mode": "k"}, "`k`"),
        (WAIT | {"k": 1}, "`k`"),
        (WAIT | {"deadline": float("nan")}, "deadline"),
        (WAIT | {"on": [{"exec": "A", "artifact": "T"}]}, "exactly one"),
        (WAIT | {"on": [{"any": [{}]}]}, "exactly one"),
        (WAIT | {"on": [{"resource": "r", "units": -1}]}, r"units"),
        ({"op": "resource", "id": "r", "capacity": -1}, "capacity"),
        ({"op": "resource", "id": "r", "capacity": 1, "held": {"A": "1"}}, "held"),
        ({"op": "tick", "now": float("inf")}, "now"),
    ],
)
def test_a_malformed_step_says_which_key_and_why(step: dict[str, Any], why: str) -> None:
    script = Script()
    with pytest.raises(ScriptError, match=why):
        script.apply(step)
    assert script.report().deadlocked == []


def test_a_pool_that_stops_being_a_queue_serves_whoever_fits() -> None:
    script = Script()
    pool: dict[str, Any] = {"op": "resource", "id": "p", "capacity": 1}
    script.apply(pool)
    script.apply({"op": "wait", "id": "big", "waiter": "A", "on": [{"resource": "p", "units": 2}]})
    script.apply({"op": "wait", "id": "small", "waiter": "B", "on": [{"resource": "p"}]})
    assert script.report().deadlocked == ["A", "B"]
    script.apply(pool | {"fifo": False})
    assert script.report().deadlocked == ["A"]


def test_a_stuck_node_that_is_about_to_be_let_go_does_not_hide_another() -> None:
    script = Script(20)
    permit, lock = {"resource": "permits"}, {"resource": "lock", "units": 2}
    script.apply({"op": "resource", "id": "lock", "capacity": 1})
    script.apply({"op": "resource", "id": "permits", "capacity": 1, "held": {"C": 1}})
    on: list[tuple[str, str, list[Any]]] = [
        ("w1", "F", [{"any": [permit, {"exec": "G"}]}]),
        ("w2", "D", [permit, {"any": [{"exec": "A"}, {"resource": "slots"}]}]),
        ("w3", "F", [permit]),
        ("w4", "D", [permit]),
        ("w5", "F", [{"resource": "slots"}]),
    ]
    for name, waiter, conditions in on:
        script.apply({"op": "wait", "id": name, "waiter": waiter, "on": conditions})
    assert script.report().deadlocked == ["D", "F"]
    script.apply({"op": "wait", "id": "w3", "waiter": "E", "on": [lock], "gen": 2})
    script.drain()
    assert script.report().deadlocked == ["D", "E"]
