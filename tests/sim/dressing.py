"""Things wound around a scenario of requests: what its executions hold, make and wait for besides.

Drawn from a stream of its own, so that the requests of a seed stay what they are.
"""

from collections.abc import Iterator
from random import Random

import msgspec

from tests.sim.scenario import Ask, Item, Op, Scenario, Step, Thing

PLAIN = 0.2
"""Share of scenarios without any."""
SMALL_LEASES_S, SMALL_TIMEOUTS_S = (1.0, 1.5, 3.0), (1.0, 2.5, 5.0, 8.0)
LARGE_LEASES_S, LARGE_TIMEOUTS_S = (3.0, 10.0, 30.0), (5.0, 20.0, 60.0)
"""In large runs heartbeats are ten times slower, and with them what is only reported, or lost."""
IDLE_S = 0.5
"""How long a wait may take that often nobody ends."""
CAPACITIES = {"p0": 2, "p1": 3, "p2": 1}
HUMAN = "human:ada"
LETTERS = ("granted", "release", "clear", "close", "published", "renew")
"""Letters of which the next one may be lost: see ``Server.drops``."""


def with_things(scenario: Scenario, *, is_large: bool) -> Scenario:
    """*scenario*, and things."""
    draw = Random(f"things {scenario.seed}")
    if draw.random() < PLAIN:
        return scenario
    dresser = _Dresser(draw, scenario, is_large=is_large)
    items = [dresser.job(number, item) for number, item in enumerate(scenario.items)]
    return msgspec.structs.replace(
        scenario,
        teams=[
            msgspec.structs.replace(team, reentrant=draw.random() < 0.1, main_runs=draw.random() < 0.3)
            for team in scenario.teams
        ],
        items=sorted([*items, *dresser.drops()], key=lambda item: item.at),
        pools=CAPACITIES,
    )


class _Dresser:
    def __init__(self, draw: Random, scenario: Scenario, *, is_large: bool) -> None:
        self._draw = draw
        self._is_calm = scenario.is_calm
        self._until = scenario.items[-1].at if scenario.items else 0.0
        self._leases_s = LARGE_LEASES_S if is_large else SMALL_LEASES_S
        self._timeouts_s = LARGE_TIMEOUTS_S if is_large else SMALL_TIMEOUTS_S
        self._agents = [team.name for team in scenario.teams]
        self._near: list[str] = []
        self._own = ""
        self._artifacts: list[str] = []
        """Promised by whoever is above."""
        self._made = 0

    def job(self, number: int, item: Item) -> Item:
        """*item*, a job or a fault, with things in its plan."""
        if item.fault is not None:
            return item
        self._own = f"{number}"
        self._artifacts = []
        self._near = sorted(set(_targets(item.plan))) or self._agents[:5]
        return msgspec.structs.replace(item, plan=self._plan(item.plan))

    def drops(self) -> list[Item]:
        """Letters that are lost."""
        if self._is_calm or self._draw.random() < 0.5:
            return []
        many = self._draw.randint(1, 3)
        return [
            Item(
                round(self._draw.uniform(0.0, self._until), 1),
                fault="drop",
                who=self._draw.choice(LETTERS),
                s=3.0,
            )
            for _ in range(many)
        ]

    # -- plans

    def _plan(self, plan: list[Step]) -> list[Step]:
        draw, found = self._draw, list[Step]()
        for step in plan:
            kind = draw.random()
            if step.op in ("ask", "all", "any", "quorum", "later", "gather", "tasks"):
                found += self._blocking(step, kind)
            elif step.op == "sleep" and kind < 0.5:
                found.append(self._sleeping(step, kind))
            elif step.op == "defer" and kind < 0.5:
                found.append(msgspec.structs.replace(self._inside(step), to_other=True))
            else:
                found.append(self._inside(step))
        return found

    def _blocking(self, step: Step, kind: float) -> list[Step]:
        """Something around a step that waits, or in its place."""
        if kind < 0.16:
            return [self._locked([self._inside(step)])]
        if kind < 0.21:
            return [self._borrowed([self._inside(step)])]
        if kind < 0.28:
            return [self._made_with(step)]
        if kind < 0.40 and step.op in ("ask", "all", "any", "quorum"):
            return [self._mixed(self._inside(step))]
        if kind < 0.48:
            return [self._inside(step), self._waiting()]
        if kind < 0.53:
            return [self._waiting(), self._inside(step)]
        return [self._inside(step)]

    def _inside(self, step: Step) -> Step:
        return msgspec.structs.replace(
            step,
            asks=[Ask(ask.target, ask.type, self._plan(ask.plan)) for ask in step.asks],
            branches=[self._plan(branch) for branch in step.branches],
        )

    def _sleeping(self, step: Step, kind: float) -> Step:
        if kind < 0.15:
            return msgspec.structs.replace(step, op="tool")
        if kind < 0.3:
            return self._locked([step])
        return self._waiting() if kind < 0.42 else self._saying()

    def _saying(self) -> Step:
        ops: tuple[Op, ...] = ("put", "decide", "publish", "hear")
        op = self._draw.choice(ops)
        things = [Thing("artifact", self._artifact())] if op == "publish" else []
        return Step(op, self._draw.choice((0.3, 1.0)), things=things, need=self._draw.choice((0, 1, 1)))

    # -- things

    def _timeout(self) -> float:
        return self._draw.choice(self._timeouts_s)

    def _lock(self) -> Thing:
        """Of this job alone, or of all those around."""
        draw = self._draw
        if draw.random() < 0.3:
            name = draw.choice(tuple(CAPACITIES))
            return Thing("permits", name, draw.randint(1, CAPACITIES[name]))
        where = self._own if draw.random() < 0.5 else self._near[0]
        return Thing("lock", f"l{where}.{draw.randrange(2)}")

    def _locks(self) -> list[Thing]:
        things = [self._lock() for _ in range(self._draw.choice((1, 1, 1, 2)))]
        return list({thing.id: thing for thing in things}.values())

    def _locked(self, branch: list[Step]) -> Step:
        lease = self._draw.choice(self._leases_s)
        return Step("lock", self._timeout(), things=self._locks(), lease=lease, branches=[branch])

    def _borrowed(self, branch: list[Step]) -> Step:
        draw = self._draw
        name = f"x{self._own}.{draw.randrange(2)}" if draw.random() < 0.7 else f"x{self._near[0]}"
        thing = (
            Thing("outside lock", name)
            if draw.random() < 0.7
            else Thing("outside permits", name, draw.randint(1, 2))
        )
        return Step("borrow", self._timeouts_s[-1], things=[thing], branches=[branch])

    def _made_with(self, step: Step) -> Step:
        """An artifact that is there when the step is done; whoever takes part in it may wait for it."""
        self._made += 1
        name = f"made{self._own}.{self._made}"
        self._artifacts.append(name)
        inside = self._inside(step)
        self._artifacts.remove(name)
        keeps = int(self._draw.random() < 0.75)
        return Step("make", things=[Thing("artifact", name)], branches=[[inside]], need=keeps)

    def _artifact(self) -> str:
        if self._artifacts and self._draw.random() < 0.8:
            return self._draw.choice(self._artifacts)
        return f"made{self._own}.{self._draw.randint(1, 3)}"

    def _decision(self) -> Thing:
        draw = self._draw
        by = HUMAN if draw.random() < 0.4 else draw.choice(self._near)
        return Thing(
            "approval", by, s=draw.choice((0.0, 0.02, 0.5)), yes=draw.choice((True, True, False, None))
        )

    def _thing(self) -> Thing:
        kind = self._draw.random()
        if kind < 0.45:
            return self._lock()
        return Thing("artifact", self._artifact()) if kind < 0.85 else self._decision()

    def _waiting(self) -> Step:
        draw = self._draw
        kind = draw.random()
        if kind < 0.25:
            return self._locked([Step("sleep", draw.choice((0.0, 0.02, 0.5)))])
        if kind < 0.55:
            return self._mixed(Step("ask", self._timeout()))
        if kind < 0.72:
            return Step("approve", draw.choice((2 * IDLE_S, self._timeout())), things=[self._decision()])
        if kind < 0.8:
            return self._borrowed([Step("sleep", draw.choice((0.0, 0.02, 0.5)))])
        if kind < 0.9:
            return Step(
                "receive",
                draw.choice((IDLE_S, self._timeout())),
                things=[Thing("agent", draw.choice(self._near))],
            )
        return Step("hear", draw.choice((0.3, 1.0)))

    def _mixed(self, step: Step) -> Step:
        draw = self._draw
        things: dict[str, Thing] = {}
        for _ in range(draw.choice((1, 1, 2, 2, 3))):
            thing = self._thing()
            if thing.kind != "approval" or all(each.kind != "approval" for each in things.values()):
                things[thing.id] = thing
        n = len(step.asks) + len(things)
        need = draw.choice((1, n, n, draw.randint(1, n)))
        return Step(
            "mix",
            step.s,
            asks=step.asks,
            need=need,
            things=list(things.values()),
            lease=draw.choice(self._leases_s),
            branches=[[Step("sleep", draw.choice((0.0, 0.02, 0.3)))]],
        )


def _targets(plan: list[Step]) -> Iterator[str]:
    for step in plan:
        for ask in step.asks:
            if ask.target.startswith("a"):
                yield ask.target
            yield from _targets(ask.plan)
        for branch in step.branches:
            yield from _targets(branch)
