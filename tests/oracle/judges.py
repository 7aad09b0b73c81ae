"""Two of three judges of who is stuck, each by its own road; the third is simulation.py. They must agree.

`lost_go_on` says how lost executions count: as able to go on (what is stuck then is deadlocked) or never
(what is stuck only then is orphaned).

The queue of a resource is walked from its head. An entry changes nothing for those behind it when its waiter can go
on, or when its wait is satisfied without it: then it will leave. So whether an entry is served may depend on other
queues, and what is served is the least fixpoint of its own.
"""

from collections.abc import Set
from itertools import combinations

from tests.oracle.world import Condition, World

Entry = tuple[str, int]  # a wait and the place of the resource in it


# ------------------------------------------------------------------- 1. the least fixpoint, naively
def stuck_by_fixpoint(world: World, *, lost_go_on: bool, free: Set[str] = frozenset()) -> set[str]:
    """Start with everyone blocked who waits and nobody served; see who can go on until nobody can. *free* can."""
    blocked = (world.waiting() | (set() if lost_go_on else world.lost)) - free
    served: set[Entry] = set()
    entries = [
        (resource, key, place) for resource in world.resources for _, key, place, _ in world.queue(resource)
    ]
    moved = True
    while moved:
        able = {name for name in blocked - world.lost if _all_satisfied(world, name, blocked, served)}
        more = {entry[1:] for entry in entries if _walk(world, *entry, blocked, served)} - served
        blocked -= able
        served |= more
        moved = bool(able or more)
    return blocked - world.lost


def _all_satisfied(world: World, name: str, blocked: set[str], served: set[Entry]) -> bool:
    return all(_satisfied(world, key, blocked, served) for key, _ in world.waits_of(name))


def _satisfied(world: World, key: str, blocked: set[str], served: set[Entry]) -> bool:
    wait = world.waits[key]
    return bool(sum(_is_true(world, key, each, blocked, served) for each in wait["on"]) >= wait["need"])


def _is_true(world: World, key: str, condition: Condition, blocked: set[str], served: set[Entry]) -> bool:
    match condition:
        case ("exec", name):
            return name not in blocked
        case ("artifact", artifact):
            made = world.artifacts.get(artifact, {"produced": False, "producers": set()})
            return made["produced"] or not made["producers"] or bool(made["producers"] - blocked)
        case ("resource", resource, units, place):
            bound = _bound(world, resource, blocked)
            if bound is not None and world.resources[resource]["fifo"]:
                return (key, place) in served
            return bound is None or bool(units <= bound)
        case ("any", inner):
            return any(_is_true(world, key, each, blocked, served) for each in inner)
        case _:  # outside
            return True


def _bound(world: World, resource: str, blocked: set[str]) -> int | None:
    """The units free or held by whom can go on; None without a bound."""
    pool = world.resources.get(resource)
    if pool is None or pool["capacity"] is None:
        return None
    held = sum(units for name, units in pool["held"].items() if name in blocked)
    return max(0, int(pool["capacity"] - held))


def _walk(world: World, resource: str, key: str, place: int, blocked: set[str], served: set[Entry]) -> bool:
    left = _bound(world, resource, blocked)
    if left is None:
        return True
    for waiter, other, at, wanted in world.queue(resource):
        if (other, at) == (key, place):
            return wanted <= left
        if waiter in blocked and not _satisfied(world, other, blocked, served - {(other, at)}):
            if wanted > left:
                return False
            left -= wanted
    raise AssertionError("a condition that is not in the queue of its resource")


# ---------------------------------------------------------- 2. every subset, the largest that holds
def stuck_by_subsets(world: World, *, lost_go_on: bool) -> set[str]:
    """The largest set of waiting executions in which each has a wait that nobody outside the set can end."""
    waiting = sorted(world.waiting() - world.lost)
    lost = set() if lost_go_on else world.lost
    found: list[set[str]] = []
    for size in range(len(waiting), -1, -1):
        found += [set(each) for each in combinations(waiting, size) if _holds_itself(world, set(each), lost)]
    largest = found[0]
    assert all(each <= largest for each in found), "the sets that hold themselves are closed under union"
    return largest


def _holds_itself(world: World, members: set[str], lost: set[str]) -> bool:
    blocked = members | lost
    unserved = never_served(world, blocked)
    return all(
        any(holds_back(world, key, blocked, unserved) for key, _ in world.waits_of(name)) for name in members
    )


def never_served(world: World, blocked: set[str]) -> set[Entry]:
    """The entries of all queues that are not served while *blocked* stand still: the largest set that holds itself."""
    unserved = {
        (key, place)
        for resource, pool in world.resources.items()
        if pool["fifo"] and pool["capacity"] is not None
        for _, key, place, _ in world.queue(resource)
    }
    while True:
        still = {entry for entry in unserved if not _fits(world, entry, blocked, unserved)}
        if still == unserved:
            return unserved
        unserved = still


def holds_back(world: World, key: str, blocked: set[str], unserved: Set[Entry]) -> bool:
    """Whether a wait lacks true conditions."""
    wait = world.waits[key]
    false = [each for each in wait["on"] if is_false(world, key, each, blocked, unserved)]
    return bool(len(wait["on"]) - len(false) < wait["need"])


def is_false(world: World, key: str, condition: Condition, blocked: set[str], unserved: Set[Entry]) -> bool:
    """Whether one condition of the wait *key* is false."""
    kind = condition[0]
    if kind == "any":
        return all(is_false(world, key, each, blocked, unserved) for each in condition[1])
    if kind == "resource" and (key, condition[3]) not in unserved:
        return _too_many(world, condition[1], condition[2], blocked)
    return kind == "resource" or (
        kind != "outside" and set() < rests_on(world, key, condition, blocked, unserved)
    )


def _too_many(world: World, resource: str, units: int, blocked: set[str]) -> bool:
    """Whether a resource that has no queue has too few units left."""
    pool = world.resources.get(resource)
    if pool is None or pool["capacity"] is None or pool["fifo"]:
        return False
    return bool(
        units > max(0, pool["capacity"] - sum(n for name, n in pool["held"].items() if name in blocked))
    )


def rests_on(
    world: World, key: str, condition: Condition, blocked: set[str], unserved: Set[Entry]
) -> set[str]:
    """Whom a false condition rests on: nobody, when no one can ever make it true. Nobody either when it is true."""
    match condition:
        case ("any", inner):
            return set().union(*(rests_on(world, key, each, blocked, unserved) for each in inner))
        case ("exec", name):
            return {name} & blocked
        case ("artifact", artifact) if artifact in world.artifacts:
            made = world.artifacts[artifact]
            return set(made["producers"]) if made["producers"] <= blocked and not made["produced"] else set()
        case ("resource", resource, _, place) if is_false(world, key, condition, blocked, unserved):
            pool = world.resources[resource]
            ahead = _ahead(world, resource, (key, place), blocked, unserved) if pool["fifo"] else []
            return (blocked & set(pool["held"])) | {waiter for waiter, _ in ahead}
        case _:
            return set()


def _ahead(
    world: World, resource: str, entry: Entry, blocked: set[str], unserved: Set[Entry]
) -> list[tuple[str, int]]:
    """Who stands before *entry* and will not leave, and the units they want."""
    queue = world.queue(resource)
    at = [(key, place) for _, key, place, _ in queue].index(entry)
    return [
        (waiter, wanted)
        for waiter, key, place, wanted in queue[:at]
        if waiter in blocked and holds_back(world, key, blocked, unserved | {(key, place)})
    ]


def _fits(world: World, entry: Entry, blocked: set[str], unserved: Set[Entry]) -> bool:
    """Served is whose units and those of each before it fit: as sums, where the first judge walks."""
    resource, units = next(
        (resource, units)
        for resource in world.resources
        for _, key, place, units in world.queue(resource)
        if (key, place) == entry
    )
    pool = world.resources[resource]
    bound = max(0, pool["capacity"] - sum(n for name, n in pool["held"].items() if name in blocked))
    wanted = [n for _, n in _ahead(world, resource, entry, blocked, unserved)] + [units]
    return all(sum(wanted[: upto + 1]) <= bound for upto in range(len(wanted)))
