"""A bag: things, each as often as it was put in; small ones cost little. A tuple up to a few, counts beyond."""

from typing import TypeVar

TUPLE_MAX = 8

T = TypeVar("T")
Bag = tuple[T, ...] | dict[T, int]


def joined(bag: Bag[T], item: T) -> Bag[T]:
    """The bag with one more *item*; use the result, the argument may have changed."""
    if isinstance(bag, tuple):
        if len(bag) < TUPLE_MAX:
            return (*bag, item)
        counts = dict.fromkeys(bag, 0)
        for each in bag:
            counts[each] += 1
        bag = counts
    bag[item] = bag.get(item, 0) + 1
    return bag


def without(bag: Bag[T], item: T) -> Bag[T]:
    """The bag with one *item* less; use the result, the argument may have changed."""
    if isinstance(bag, tuple):
        at = bag.index(item)
        return bag[:at] + bag[at + 1 :]
    if bag[item] == 1:
        del bag[item]
    else:
        bag[item] -= 1
    return bag or ()
