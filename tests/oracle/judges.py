"""Three judges of who is stuck, each by its own road: they must agree before the engine is compared with one.

`lost_go_on` says how lost executions count: as able to go on (what is stuck then is deadlocked) or never
(what is stuck only then is orphaned).
"""

import random
from itertools import combinations

from tests.oracle.world import Condition, Wait, World


# ------------------------------------------------------------------- 1. the least fixpoint, naively
def stuck_by_fixpoint(world: World, *, lost_go_on: bool, free: frozenset[str] = frozenset()) -> set[str]:
    """Start with everyone blocked who waits; free whoever can go on, until nobody can. *free* go on anyway."""
    blocked = (world.waiting() | (set() if lost_go_on else world.lost)) - free
    moved = True
    while moved:
        able = {name for name in blocked - world.lost if all_satisfied(world, name, blocked)}
        blocked -= able
        moved = bool(able)
    return blocked - world.lost


def all_satisfied(world: World, name: str, blocked: set[str]) -> bool:
    """Whether every open wait of *name* has enough true conditions while *blocked* stand still."""
    return all(satisfied(world, key, wait, blocked) for key, wait in world.waits_of(name))


def satisfied(world: World, key: str, wait: Wait, blocked: set[str]) -> bool:
    """Whether one wait has enough true conditions."""
    true = sum(is_true(world, key, condition, blocked) for condition in wait["on"])
    return bool(true >= wait["need"])


def is_true(world: World, key: str, condition: Condition, blocked: set[str]) -> bool:
    """Whether one condition of the wait *key* is true while *blocked* stand still."""
    match condition:
        case ("exec", name):
            return name not in blocked
        case ("artifact", artifact):
            made = world.artifacts.get(artifact, {"produced": False, "producers": set()})
            return made["produced"] or not made["producers"] or bool(made["producers"] - blocked)
        case ("resource", resource, units, place):
            return _is_served(world, resource, units, (key, place), blocked)
        case ("any", inner):
            return any(is_true(world, key, each, blocked) for each in inner)
        case _:  # outside
            return True


def _is_served(world: World, resource: str, units: int, entry: tuple[str, int], blocked: set[str]) -> bool:
    pool = world.resources.get(resource)
    if pool is None or pool["capacity"] is None:
        return True
    left = max(0, pool["capacity"] - sum(n for name, n in pool["held"].items() if name in blocked))
    if not pool["fifo"]:
        return bool(units <= left)
    for waiter, key, place, wanted in world.queue(resource):
        if (key, place) == entry:
            return bool(wanted <= left)
        if waiter in blocked:
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
    return all(_held_back(world, name, members | lost) for name in members)


def _held_back(world: World, name: str, blocked: set[str]) -> bool:
    for key, wait in world.waits_of(name):
        false = [c for c in wait["on"] if why_false(world, key, c, blocked) is not None]
        if len(wait["on"]) - len(false) < wait["need"]:
            return True
    return False


def why_false(world: World, key: str, condition: Condition, blocked: set[str]) -> set[str] | None:
    """Whom a false condition rests on (nobody, when no one can ever make it true); None when it is true."""
    kind = condition[0]
    if kind == "any":
        inner = [why_false(world, key, each, blocked) for each in condition[1]]
        return None if None in inner else set().union(*(each for each in inner if each))
    if kind == "exec":
        return {condition[1]} if condition[1] in blocked else None
    if kind == "artifact":
        made = world.artifacts.get(condition[1])
        if made is None or made["produced"] or not made["producers"]:
            return None
        return set(made["producers"]) if made["producers"] <= blocked else None
    if kind == "resource":
        return _why_unserved(world, condition[1], condition[2], (key, condition[3]), blocked)
    return None


def _why_unserved(
    world: World, resource: str, units: int, entry: tuple[str, int], blocked: set[str]
) -> set[str] | None:
    pool = world.resources.get(resource)
    if pool is None or pool["capacity"] is None:
        return None
    holders = blocked & set(pool["held"])
    ahead: list[tuple[str, int]] = []
    if pool["fifo"]:
        queue = world.queue(resource)
        at = [(key, place) for _, key, place, _ in queue].index(entry)
        ahead = [(waiter, wanted) for waiter, _, _, wanted in queue[:at] if waiter in blocked]
    bound = max(0, pool["capacity"] - sum(pool["held"][name] for name in holders))
    # Served is whose units and those of all before it fit: as sums, where the first judge walks.
    wanted = [n for _, n in ahead] + [units]
    if all(sum(wanted[: upto + 1]) <= bound for upto in range(len(wanted))):
        return None
    return holders | {waiter for waiter, _ in ahead}


# ------------------------------------------------------------- 3. let the world run, in any order
class _Simulation:
    """Whoever can go on ends; heads of queues are granted what is free; nothing else happens."""

    def __init__(self, world: World, *, lost_go_on: bool) -> None:
        self.waits = dict(world.waits)
        self.held = {key: dict(pool["held"]) for key, pool in world.resources.items()}
        self.granted: dict[str, list[tuple[str, str, int, int]]] = {key: [] for key in world.resources}
        self.queues = {key: world.queue(key) for key in world.resources}
        self.produced = {key for key, made in world.artifacts.items() if made["produced"]}
        self.world, self.ended = world, set[str]()
        self.names = self._names() - (set() if lost_go_on else world.lost)

    def _names(self) -> set[str]:
        names = self.world.waiting() | self.world.lost
        for pool in self.world.resources.values():
            names |= set(pool["held"])
        for made in self.world.artifacts.values():
            names |= made["producers"]
        # A name met only in a condition may be lost to none of these: it ends like everyone without waits.
        return names | {on for wait in self.world.waits.values() for on in _execs(wait["on"])}

    def run(self, order: random.Random) -> set[str]:
        while moves := self._moves():
            kind, what = order.choice(moves)
            if kind == "end":
                self._end(what)
            else:
                self.granted[what].append(self.queues[what].pop(0))
        return {wait["waiter"] for wait in self.waits.values()}

    def _moves(self) -> list[tuple[str, str]]:
        ends = [("end", name) for name in sorted(self.names - self.ended) if self._can_end(name)]
        return ends + [
            ("grant", key) for key, queue in sorted(self.queues.items()) if queue and self._fits(key)
        ]

    def _free(self, resource: str) -> int:
        taken = sum(self.held[resource].values()) + sum(entry[3] for entry in self.granted[resource])
        return max(0, int(self.world.resources[resource]["capacity"]) - taken)

    def _fits(self, resource: str) -> bool:
        pool = self.world.resources[resource]
        unbounded = pool["capacity"] is None
        return pool["fifo"] and (unbounded or self.queues[resource][0][3] <= self._free(resource))

    def _can_end(self, name: str) -> bool:
        return all(
            sum(self._come_true(key, each) for each in wait["on"]) >= wait["need"]
            for key, wait in self.waits.items()
            if wait["waiter"] == name
        )

    def _come_true(self, key: str, condition: Condition) -> bool:
        match condition:
            case ("exec", name):
                return name in self.ended
            case ("artifact", artifact):
                made = self.world.artifacts.get(artifact)
                return made is None or artifact in self.produced or not made["producers"]
            case ("any", inner):
                return any(self._come_true(key, each) for each in inner)
            case ("resource", resource, units, place):
                pool = self.world.resources.get(resource)
                if pool is None or pool["capacity"] is None:
                    return True
                if not pool["fifo"]:
                    return bool(units <= self._free(resource))
                return any(entry[1:3] == (key, place) for entry in self.granted[resource])
            case _:  # outside
                return True

    def _end(self, name: str) -> None:
        self.ended.add(name)
        self.waits = {key: wait for key, wait in self.waits.items() if wait["waiter"] != name}
        for resource, held in self.held.items():
            held.pop(name, None)
            for entries in (self.granted, self.queues):
                entries[resource] = [entry for entry in entries[resource] if entry[0] != name]
        self.produced |= {key for key, made in self.world.artifacts.items() if name in made["producers"]}


def _execs(conditions: list[Condition] | tuple[Condition, ...]) -> set[str]:
    names = {each[1] for each in conditions if each[0] == "exec"}
    return names.union(*(_execs(each[1]) for each in conditions if each[0] == "any"))


def stuck_by_simulation(world: World, order: random.Random, *, lost_go_on: bool) -> set[str]:
    """Who still waits when nothing moves any more; the same in every order."""
    return _Simulation(world, lost_go_on=lost_go_on).run(order)
