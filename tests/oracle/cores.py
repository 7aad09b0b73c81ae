"""Cores, canonical cycles, tails and orphans by brute force, as the case format writes them."""

from collections.abc import Set
from itertools import combinations
from typing import TypedDict

from tests.oracle.judges import holds_back, is_false, never_served, rests_on, stuck_by_fixpoint
from tests.oracle.world import World

Edges = dict[str, set[str]]


class Truth(TypedDict):
    """What a report must say: every list sorted."""

    deadlocked: list[str]
    cycles: list[list[str]]
    cores: list[list[str]]
    tail: list[str]
    orphaned: list[str]


def truth(world: World) -> Truth:
    """The whole report of the state."""
    deadlocked = stuck_by_fixpoint(world, lost_go_on=True)
    links = edges(world, deadlocked)
    cores = [set(core) for core in cores_of(world, links)]
    behind = stuck_by_fixpoint(world, lost_go_on=False) if world.lost else deadlocked
    return {
        "deadlocked": sorted(deadlocked),
        "cycles": sorted(cycle_of(core, links) for core in cores),
        "cores": sorted(sorted(core) for core in cores),
        "tail": sorted(deadlocked.difference(*cores)),
        "orphaned": sorted(behind - deadlocked),
    }


def edges(world: World, blocked: set[str]) -> Edges:
    """From each blocked execution to whom the false conditions of its unsatisfied waits rest on.

    A false condition of a wait that is satisfied without it holds nobody back, so it is no edge.
    """
    found: Edges = {name: set() for name in blocked}
    if not blocked:
        return found
    unserved = never_served(world, blocked)
    for key, wait in world.waits.items():
        if wait["waiter"] in blocked and holds_back(world, key, blocked, unserved):
            for condition in wait["on"]:
                if is_false(world, key, condition, blocked, unserved):
                    found[wait["waiter"]] |= rests_on(world, key, condition, blocked, unserved)
    return found


def cores_of(world: World, links: Edges) -> list[frozenset[str]]:
    """The largest strongly connected parts of the graph of the stuck that are stuck when everyone else can go on."""
    todo = [set(links)]
    found: list[frozenset[str]] = []
    while todo:
        for part in _strong_parts(_within(links, todo.pop())):
            alone = _stuck_alone(world, part)
            # Partly stuck: somebody who waits for an outsider tied the part together. The rest may hide a core.
            found += [part] if alone == part else []
            todo += [alone] if alone != part else []
    return found


def cores_by_subsets(world: World, links: Edges) -> set[frozenset[str]]:
    """The same from the words: of all subsets that are strongly connected and stuck by themselves, the largest."""
    every = [frozenset(each) for size in range(len(links)) for each in combinations(links, size + 1)]
    found = {
        part
        for part in every
        if _strong_parts(_within(links, part)) == [part] and _stuck_alone(world, part) == part
    }
    return {part for part in found if not any(part < other for other in found)}


def _stuck_alone(world: World, part: frozenset[str]) -> set[str]:
    return stuck_by_fixpoint(world, lost_go_on=True, free=frozenset(world.waiting() - part))


def _within(links: Edges, part: Set[str]) -> Edges:
    return {name: links[name] & part for name in part}


def _strong_parts(links: Edges) -> list[frozenset[str]]:
    """Strongly connected parts that hold a cycle: two or more members, or one that points to itself."""
    reach = {name: _reach(links, name) for name in links}
    parts = {frozenset(to for to in reach[name] if name in reach.get(to, ())) for name in links}
    return sorted((part for part in parts if part), key=sorted)


def _reach(links: Edges, start: str) -> set[str]:
    """Who is reached in one step or more."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for to in links.get(todo.pop(), set()):
            if to not in seen:
                seen.add(to)
                todo.append(to)
    return seen


def cycle_of(core: set[str], links: Edges) -> list[str]:
    """The shortest cycle, of those the lexicographically least, written from its least member."""
    for length in range(1, len(core) + 1):
        found = [cycle for start in sorted(core) for cycle in _cycles_from(start, length, core, links)]
        if found:
            return min(found)
    raise AssertionError("a core without a cycle")


def _cycles_from(start: str, length: int, core: set[str], links: Edges) -> list[list[str]]:
    """All cycles of that length whose least member is *start*."""
    paths = [[start]]
    for _ in range(length - 1):
        paths = [
            [*path, to] for path in paths for to in links[path[-1]] & core if to > start and to not in path
        ]
    return [path for path in paths if start in links[path[-1]]]
