"""The truth: what is open, held, produced and lost after the steps of a case, in plain dicts.

It knows nothing of the engine. What a step means is said in DESIGN section 4 and in the README of the cases;
where those leave a choice, the comment at the step says which one is taken and why.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Step = Mapping[str, Any]
Condition = tuple[
    Any, ...
]  # ("exec", X) ("artifact", A) ("resource", R, units, place) ("outside",) ("any", (…))
Wait = dict[str, Any]  # {"gen", "waiter", "need", "on", "deadline"}


class World:
    """The state after the steps applied so far; `waits` is in order of opening."""

    def __init__(self) -> None:
        self.now: float = 0
        self.waits: dict[str, Wait] = {}
        self.tombstones: dict[str, int] = {}
        self.generation: dict[str, int] = {}
        self.lost: set[str] = set()
        self.resources: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.aliases: dict[str, str] = {}
        self._queues: dict[str, list[tuple[str, str, int, int]]] | None = (
            None  # read off the waits when asked for
        )

    def apply(self, step: Step) -> None:
        """Apply one step of the case format; `expect` changes nothing."""
        getattr(self, "_" + step["op"])(step)
        self._queues = None

    def name(self, raw: str) -> str:
        """The one name of an execution: without `agent:`, aliases followed."""
        name = raw.removeprefix("agent:")
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def waits_of(self, name: str) -> list[tuple[str, Wait]]:
        """The open waits of an execution."""
        return [(key, wait) for key, wait in self.waits.items() if wait["waiter"] == name]

    def waiting(self) -> set[str]:
        """All executions with an open wait."""
        return {wait["waiter"] for wait in self.waits.values()}

    def queue(self, resource: str) -> list[tuple[str, str, int, int]]:
        """The queue of a resource from its head: (waiter, wait, place in the wait, units)."""
        if self._queues is None:
            self._queues = {}
            for key, wait in self.waits.items():
                for leaf in leaves(wait["on"]):
                    if leaf[0] == "resource":
                        entry = (wait["waiter"], key, leaf[3], leaf[2])
                        self._queues.setdefault(leaf[1], []).append(entry)
        return list(self._queues.get(resource, ()))

    # ------------------------------------------------------------------------------------ waits
    def _wait(self, step: Step) -> None:
        key, gen, waiter = step["id"], step.get("gen", 0), self.name(step["waiter"])
        deadline = step.get("deadline")
        late = deadline is not None and deadline <= self.now
        ended = gen <= self.tombstones.get(key, -1)
        known = key in self.waits and self.waits[key]["gen"] >= gen
        old = gen < self.generation.get(waiter, 0)
        if late or ended or known or old or waiter in self.lost:
            return
        self.waits.pop(key, None)  # a newer generation queues anew
        on = self._conditions(step["on"])
        need = {"all": len(on), "any": 1, "k": step.get("k")}[step.get("mode", "all")]
        self.waits[key] = {"gen": gen, "waiter": waiter, "need": need, "on": on, "deadline": deadline}

    def _conditions(self, raws: list[Step]) -> list[Condition]:
        places = iter(range(1_000))
        return [self._condition(raw, places) for raw in raws]

    def _condition(self, raw: Step, places: Iterator[int]) -> Condition:
        if "exec" in raw:
            return ("exec", self.name(raw["exec"]))
        if "artifact" in raw:
            return ("artifact", raw["artifact"])
        if "resource" in raw:
            return ("resource", raw["resource"], raw.get("units", 1), next(places))
        if "any" in raw:
            return ("any", tuple(self._condition(inner, places) for inner in raw["any"]))
        assert "external" in raw, raw
        return ("outside",)

    def _close(self, step: Step) -> None:
        key = step["id"]
        gen = step.get("gen")
        opened = self.waits.get(key)
        if gen is None:
            gen = opened["gen"] if opened else 0
        if opened and gen < opened["gen"]:
            return  # late: it ended a generation that is gone
        # A close of a newer generation than the open one has overtaken that generation's wait; so the open one is over.
        self.waits.pop(key, None)
        self.tombstones[key] = max(gen, self.tombstones.get(key, gen))

    def _tick(self, step: Step) -> None:
        self.now = max(self.now, step["now"])
        self._keep(lambda wait: wait["deadline"] is None or wait["deadline"] > self.now)

    def _keep(self, alive: Any) -> None:
        self.waits = {key: wait for key, wait in self.waits.items() if alive(wait)}

    # ------------------------------------------------------------------------------- executions
    def _exec(self, step: Step) -> None:
        name, gen = self.name(step["id"]), step.get("gen", 0)
        if gen > self.generation.get(name, 0):
            self.generation[name] = gen
            self.lost.discard(name)
            self._keep(lambda wait: wait["waiter"] != name or wait["gen"] >= gen)

    def _crash(self, step: Step) -> None:
        name = self.name(step["id"])
        self.lost.add(name)
        self._keep(lambda wait: wait["waiter"] != name)

    def _alias(self, step: Step) -> None:
        old, new = self.name(step["from"]), self.name(step["to"])
        if old == new:
            return
        self.aliases[old] = new
        self._rename_waits(old, new)
        for resource in self.resources.values():
            units = resource["held"].pop(old, 0)
            if units:
                resource["held"][new] = resource["held"].get(new, 0) + units
        for artifact in self.artifacts.values():
            artifact["producers"] = {self.name(producer) for producer in artifact["producers"]}
        self._one_life(old, new)

    def _rename_waits(self, old: str, new: str) -> None:
        for wait in self.waits.values():
            wait["on"] = [self._renamed(condition) for condition in wait["on"]]
            if wait["waiter"] == old:
                wait["waiter"] = new

    def _renamed(self, condition: Condition) -> Condition:
        if condition[0] == "exec":
            return ("exec", self.name(condition[1]))
        if condition[0] == "any":
            return ("any", tuple(self._renamed(inner) for inner in condition[1]))
        return condition

    def _one_life(self, old: str, new: str) -> None:
        """Two names that were used apart are one execution: lost when either is, at the newer generation."""
        gen = max(self.generation.pop(old, 0), self.generation.get(new, 0))
        self.generation[new] = gen
        if old in self.lost:
            self.lost.remove(old)
            self.lost.add(new)
        self._keep(lambda wait: wait["waiter"] != new or (wait["gen"] >= gen and new not in self.lost))

    # ------------------------------------------------------------------- resources and artifacts
    def _pool(self, key: str) -> dict[str, Any]:
        """An undeclared resource has no bound that we know of: always enough."""
        return self.resources.setdefault(key, {"capacity": None, "fifo": True, "held": {}})

    def _resource(self, step: Step) -> None:
        pool = self._pool(step["id"])
        pool["capacity"] = step.get("capacity")
        pool["fifo"] = step.get("fifo", True)
        if "held" in step:
            pool["held"] = {}
            for raw, units in step["held"].items():
                self._hold(pool, self.name(raw), units)

    def _hold(self, pool: dict[str, Any], name: str, units: int) -> None:
        held = pool["held"].pop(name, 0) + units
        if held > 0:
            pool["held"][name] = held

    def _grant(self, step: Step) -> None:
        self._hold(self._pool(step["resource"]), self.name(step["holder"]), step.get("units", 1))

    def _release(self, step: Step) -> None:
        pool, name = self._pool(step["resource"]), self.name(step["holder"])
        self._hold(pool, name, -step.get("units", pool["held"].get(name, 0)))

    def _made(self, key: str) -> dict[str, Any]:
        return self.artifacts.setdefault(key, {"producers": set(), "produced": False})

    def _artifact(self, step: Step) -> None:
        self._made(step["id"])["producers"] |= {self.name(raw) for raw in step.get("producers", ())}

    def _produce(self, step: Step) -> None:
        self._made(step["id"])["produced"] = True

    def _withdraw(self, step: Step) -> None:
        self._made(step["id"])["producers"].discard(self.name(step["producer"]))

    def _expect(self, step: Step) -> None:
        """Compared by who runs the case; nothing changes."""


def leaves(conditions: Any) -> Iterator[Condition]:
    """The conditions that are not any-of, in the order written."""
    for condition in conditions:
        if condition[0] == "any":
            yield from leaves(condition[1])
        else:
            yield condition
