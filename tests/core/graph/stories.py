"""Random operations on a mirrored graph: few things, so that they meet."""

import random
from collections.abc import Callable

from tests.core.graph.mirror import Leaf, Mirror

NODES_MAX = 7


def step(mirror: Mirror, pick: random.Random) -> None:
    """One operation."""
    if len(mirror.nodes) < 3:
        mirror.add()
    operation = pick.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
    operation(mirror, pick)


def _node(mirror: Mirror, pick: random.Random) -> int:
    return pick.choice(sorted(mirror.nodes))


def _leaf(mirror: Mirror, pick: random.Random, *, nested: bool = True) -> Leaf:
    kind = pick.choices(["exec", "resource", "artifact", "any", "outside", "never"], [10, 6, 2, 3, 1, 0.3])[0]
    if kind == "resource" and mirror.pools:
        return ("resource", pick.choice(sorted(mirror.pools)), pick.choice([1, 1, 1, 2]))
    if kind == "artifact" and mirror.makers:
        return ("artifact", pick.choice(sorted(mirror.makers)))
    if kind == "any" and nested:
        return ("any", [_leaf(mirror, pick, nested=False) for _ in range(pick.choice([1, 2, 2, 3]))])
    return (kind,) if kind in ("outside", "never") else ("exec", _node(mirror, pick))


def _add(mirror: Mirror, pick: random.Random) -> None:
    if len(mirror.nodes) < NODES_MAX:
        mirror.add()


def _remove(mirror: Mirror, pick: random.Random) -> None:
    mirror.remove(_node(mirror, pick))


def _lose(mirror: Mirror, pick: random.Random) -> None:
    mirror.lose(_node(mirror, pick))


def _open(mirror: Mirror, pick: random.Random) -> None:
    on = [_leaf(mirror, pick) for _ in range(pick.choice([1, 1, 1, 1, 2, 2, 3]))]
    mirror.open(_node(mirror, pick), on, pick.choice([None, None, *range(1, len(on) + 1)]))


def _close(mirror: Mirror, pick: random.Random) -> None:
    if mirror.waits:
        mirror.close(pick.choice(sorted(mirror.waits)))


def _change(mirror: Mirror, pick: random.Random) -> None:
    if mirror.waits:
        wait = pick.choice(sorted(mirror.waits))
        mirror.change(wait, pick.randrange(len(mirror.waits[wait][1])), _leaf(mirror, pick))


def _pool(mirror: Mirror, pick: random.Random) -> None:
    capacity = pick.choice([0, 1, 1, 2, 3, None])
    if len(mirror.pools) < 3:
        mirror.add_pool(capacity, pick.choice([True, True, False]))
    elif pick.random() < 0.2:
        mirror.remove_pool(pick.choice(sorted(mirror.pools)))
    else:
        mirror.set_capacity(pick.choice(sorted(mirror.pools)), capacity)


def _grant(mirror: Mirror, pick: random.Random) -> None:
    if mirror.pools:
        mirror.grant(pick.choice(sorted(mirror.pools)), _node(mirror, pick), pick.choice([1, 1, 2]))


def _release(mirror: Mirror, pick: random.Random) -> None:
    if mirror.pools:
        mirror.release(pick.choice(sorted(mirror.pools)), _node(mirror, pick), pick.choice([None, 1]))


def _artifact(mirror: Mirror, pick: random.Random) -> None:
    if len(mirror.makers) < 3:
        mirror.add_artifact()
    made = pick.choice(sorted(mirror.makers))
    action = pick.choice([mirror.add_producer] * 4 + [mirror.withdraw] * 3 + [None])
    if action is None:
        mirror.produce(made)
    else:
        action(made, _node(mirror, pick))


OPERATIONS: dict[Callable[[Mirror, random.Random], None], float] = {
    _add: 4,
    _remove: 2,
    _lose: 1,
    _open: 30,
    _close: 8,
    _change: 10,
    _pool: 5,
    _grant: 8,
    _release: 5,
    _artifact: 6,
}
