"""Random programs that hold things, give up waiting at random and fail at random, on the real gateway.

At no time is more held than there is; whoever is in no knot is never told of one; at the end everything is free.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

import unknot
from tests.support.gateway import Gateway
from unknot import Connection

STEPS = 25
CAPACITY = {"ink": 3, "gpu": 2}
LOCKS = ("a", "b", "c")
HANG_S = 30


class Shelf:
    """What is held, as those who hold it see it."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.token: dict[str, int] = {}

    def take(self, wanted: list[unknot.Acquire], token: int) -> None:
        for each in wanted:
            self.held[each.id] += each.units or 1
            assert self.held[each.id] <= CAPACITY.get(each.id, 1), f"{each.id}: {self.held}"
            if each.units is None:
                assert token > self.token.get(each.id, 0), "a token of a lock that does not grow"
                self.token[each.id] = token

    def give(self, wanted: list[unknot.Acquire]) -> None:
        for each in wanted:
            self.held[each.id] -= each.units or 1


def some(me: Connection, dice: random.Random) -> list[unknot.Acquire]:
    """Some locks and permits, at most so many as there are."""
    names = dice.sample([*LOCKS, *CAPACITY], dice.randint(1, 3))
    return [
        me.acquire(name, units=dice.randint(1, CAPACITY[name]) if name in CAPACITY else None)
        for name in names
    ]


async def step(me: Connection, dice: random.Random, shelf: Shelf, turn: str) -> None:
    wanted = some(me, dice)
    async with asyncio.timeout(dice.choice([0.005, 0.02, HANG_S])):
        if dice.random() < 0.3:  # whatever comes first; an artifact that may come
            things: list[unknot.Waitable[Any]] = [wanted[0], me.artifact(turn), me.decision("human:eva")]
            answer = await me.wait_any(things, timeout=HANG_S)
            if answer.index:
                return
            wanted, lease = wanted[:1], answer.data
        else:
            lease = (await me.wait_all(wanted, timeout=HANG_S))[0]
        async with lease:
            shelf.take(wanted, lease.token)
            try:
                await asyncio.sleep(dice.choice([0, 0.001, 0.01]))
                if dice.random() < 0.2:
                    raise ZeroDivisionError
            finally:
                shelf.give(wanted)


@pytest.mark.parametrize("seed", range(2))
async def test_no_more_is_held_than_there_is_and_all_is_given_back(house: Gateway, seed: int) -> None:
    shelf = Shelf()

    async def script(number: int) -> None:
        dice = random.Random(f"{seed} {number}")
        async with unknot.connect(f"s{number}", house.nats, network=house.network, serves=False) as me:
            for name, capacity in CAPACITY.items():
                await me.declare_permits(name, capacity)
            for count in range(STEPS):
                try:
                    await step(me, dice, shelf, f"{seed}-{number}-{count}")
                except (TimeoutError, ZeroDivisionError):
                    pass
                if dice.random() < 0.2:
                    await me.publish_artifact(f"{seed}-{number}-{count + 1}")
            assert len(me._links.session.holds) == 0
            assert len(me._links.session.pending) == 0
            assert me.counters.get("leases_lost", 0) == 0

    await asyncio.gather(*map(script, range(5)))
    assert +shelf.held == Counter()
    async with unknot.connect("last", house.nats, network=house.network, serves=False) as me:
        everything = [me.acquire(name) for name in LOCKS]
        async with (
            me.lock(*everything, timeout=5),
            me.permits("ink", 3, timeout=5),
            me.permits("gpu", 2, timeout=5),
        ):
            pass
