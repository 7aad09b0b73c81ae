"""The third judge of who is stuck: let the world run, in any order, until nothing moves."""

import random

from tests.oracle.world import Condition, World

Entry = tuple[str, str, int, int]  # waiter, wait, place in the wait, units


def stuck_by_simulation(world: World, order: random.Random, *, lost_go_on: bool) -> set[str]:
    """Who still waits when nothing moves any more; the same in every order."""
    return _Simulation(world, lost_go_on=lost_go_on).run(order)


class _Simulation:
    """Whoever can go on ends; whoever stands first in a queue is granted what is free; nothing else happens."""

    def __init__(self, world: World, *, lost_go_on: bool) -> None:
        self.waits = dict(world.waits)
        self.held = {key: dict(pool["held"]) for key, pool in world.resources.items()}
        self.queues: dict[str, list[Entry]] = {key: world.queue(key) for key in world.resources}
        self.granted = set[Entry]()
        self.produced = {key for key, made in world.artifacts.items() if made["produced"]}
        self.world, self.ended = world, set[str]()
        self.names = self._names() - (set() if lost_go_on else world.lost)

    def _names(self) -> set[str]:
        names = self.world.waiting() | self.world.lost
        for pool in self.world.resources.values():
            names |= set(pool["held"])
        for made in self.world.artifacts.values():
            names |= made["producers"]
        return names | {on for wait in self.world.waits.values() for on in _execs(wait["on"])}

    def run(self, order: random.Random) -> set[str]:
        while moves := self._ends() + self._grants():
            what = order.choice(moves)
            if isinstance(what, str):
                self._end(what)
            else:
                self.granted.add(what)
        return {wait["waiter"] for wait in self.waits.values()}

    def _ends(self) -> list[str]:
        return [name for name in sorted(self.names - self.ended) if self._can_end(name)]

    def _can_end(self, name: str) -> bool:
        return all(self._enough(key) for key, wait in self.waits.items() if wait["waiter"] == name)

    def _enough(self, key: str, without: Entry | None = None) -> bool:
        wait = self.waits[key]
        return bool(sum(self._came_true(key, each, without) for each in wait["on"]) >= wait["need"])

    def _came_true(self, key: str, condition: Condition, without: Entry | None) -> bool:
        match condition:
            case ("exec", name):
                return name in self.ended
            case ("artifact", artifact):
                made = self.world.artifacts.get(artifact)
                return made is None or artifact in self.produced or not made["producers"]
            case ("any", inner):
                return any(self._came_true(key, each, without) for each in inner)
            case ("resource", resource, units, place):
                pool = self.world.resources.get(resource)
                if pool is None or pool["capacity"] is None:
                    return True
                if not pool["fifo"]:
                    return bool(units <= self._free(resource))
                return (self.waits[key]["waiter"], key, place, units) in self.granted - {without}
            case _:  # outside
                return True

    def _free(self, resource: str) -> int:
        return max(0, int(self.world.resources[resource]["capacity"]) - sum(self.held[resource].values()))

    def _grants(self) -> list[Entry]:
        """Who could be granted now; in one queue several when those before are about to leave it."""
        bounded = [
            key for key, pool in self.world.resources.items() if pool["fifo"] and pool["capacity"] is not None
        ]
        return [entry for key in bounded for entry in self._grantable(key) if entry not in self.granted]

    def _grantable(self, resource: str) -> list[Entry]:
        free, found = self._free(resource), list[Entry]()
        for entry in self.queues[resource]:
            if entry[3] <= free:
                found.append(entry)
            if self._enough(entry[1], without=entry):
                continue  # its wait is over without this: it leaves, and gives back what it was granted
            if entry not in self.granted:
                break
            free -= entry[3]
        return found

    def _end(self, name: str) -> None:
        self.ended.add(name)
        self.waits = {key: wait for key, wait in self.waits.items() if wait["waiter"] != name}
        for resource, held in self.held.items():
            held.pop(name, None)
            self.queues[resource] = [entry for entry in self.queues[resource] if entry[0] != name]
        self.produced |= {key for key, made in self.world.artifacts.items() if name in made["producers"]}


def _execs(conditions: list[Condition] | tuple[Condition, ...]) -> set[str]:
    names = {each[1] for each in conditions if each[0] == "exec"}
    return names.union(*(_execs(each[1]) for each in conditions if each[0] == "any"))
