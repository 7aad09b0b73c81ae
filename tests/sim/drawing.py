"""Scenarios drawn from a seed."""

from random import Random
from typing import get_args

from msgspec import Struct

from tests.sim.dressing import with_things
from tests.sim.scenario import NOTE, Ask, FaultKind, Item, Op, Scenario, Step, Team


class Size(Struct, frozen=True):
    """How large a run is: agents, jobs a minute, seconds, faults a minute."""

    agents: int
    jobs_per_min: float
    seconds: float
    faults_per_min: float
    heartbeat_s: float = 1.0
    session_loss_s: float = 5.0
    depth: int = 3


SMALL = Size(agents=5, jobs_per_min=150, seconds=10, faults_per_min=20)
SOAK = Size(
    agents=50,
    jobs_per_min=15,
    seconds=600,
    faults_per_min=1.0,
    heartbeat_s=10.0,
    session_loss_s=30.0,
    depth=4,
)

NEAR = 5
TIMEOUTS_S = (10.0, 20.0, 20.0, 20.0)
SHORT_S = (0.3, 1.0, 2.5)
FAULTS: dict[str, tuple[FaultKind, ...]] = {
    "calm": (),
    "lossy": ("loss", "stall"),
    "cut": ("cut", "deaf", "mute", "stall", "loss", "blackout"),
    "crash": ("crash", "leave", "replace", "restart"),
    "stopped": ("pause", "freeze", "restart"),
    "all": get_args(FaultKind)[:-1],
}


def scenario(seed: int, size: Size = SMALL) -> Scenario:
    """The scenario of *seed*: requests, and things wound around them."""
    return with_things(_Maker(seed, size).make(), is_large=size.agents > NEAR)


class _Maker:
    def __init__(self, seed: int, size: Size) -> None:
        self.seed = seed
        self.size = size
        self.random = Random(f"scenario {seed}")
        self.teams = [self._team(number) for number in range(size.agents)]
        self._near = self.teams[:NEAR]
        """Whom a job asks: few, so that they get into each other's way."""
        self.scripts = [f"s{number}" for number in range(1 + size.agents // 20)]
        self.drivers = [f"d{number}" for number in range(2 + size.agents // 10)]

    def make(self) -> Scenario:
        jobs = int(self.size.jobs_per_min * self.size.seconds / 60)
        items = [self._job() for _ in range(jobs)] + self._faults()
        return Scenario(
            seed=self.seed,
            teams=self.teams,
            scripts=self.scripts,
            drivers=self.drivers,
            items=sorted(items, key=lambda item: item.at),
            policy=self.random.choice(("fail_all", "fail_all", "fail_all", "refuse", "shadow")),
            heartbeat_s=self.size.heartbeat_s,
            session_loss_s=self.size.session_loss_s,
            system_account=self.random.random() < 0.5,
        )

    def _team(self, number: int) -> Team:
        draw = self.random
        instances = draw.choice((1, 1, 1, 1, 1, 1, 2, 3))
        return Team(
            name=f"a{number}",
            slots=draw.choice((1, 1, 1, 2, 2, 3, 4)) if instances == 1 else draw.choice((1, 1, 2)),
            heavy=draw.choice((0, 0, 1)),
            channel=number % 3 == 0,
            main_runs=draw.random() < 0.5,
            instances=instances,
            identity=draw.choice(("", "instance", "exclusive" if instances == 1 else "")),
        )

    def _at(self) -> float:
        """Rounded, so that some things begin together."""
        return round(self.random.uniform(0.0, self.size.seconds), 1)

    def _job(self) -> Item:
        if len(self.teams) > NEAR:
            at = self.random.randrange(len(self.teams) - NEAR + 1)
            self._near = self.teams[at : at + NEAR]
        depth = self.size.depth
        kind = self.random.random()
        if kind < 0.8:
            plan = self._noted() if kind < 0.03 else [self._blocking(depth)]
        else:
            plan = self._plan(depth, own=False)
        return Item(at=self._at(), driver=self.random.choice(self.drivers), plan=plan)

    def _noted(self) -> list[Step]:
        """Somebody expects a note, which is on its way."""
        to = self._target()
        sends = [Step("sleep", self.random.choice((0.0, 0.003, 0.02))), Step("send", asks=[Ask(to, NOTE)])]
        expects = Ask(to, "work", [Step("expect", self.random.choice(SHORT_S))])
        return [Step("background", branches=[sends]), Step("ask", TIMEOUTS_S[0], asks=[expects])]

    def _faults(self) -> list[Item]:
        kinds = FAULTS[self.random.choice(tuple(FAULTS))]
        if not kinds:
            return []
        most = self.size.faults_per_min * self.size.seconds / 60
        return [
            self._fault(self.random.choice(kinds)) for _ in range(self.random.randint(1, max(1, int(most))))
        ]

    def _fault(self, kind: FaultKind) -> Item:
        draw, loss_s = self.random, self.size.session_loss_s
        keys = [key for team in self.teams for key in team.keys]
        who = draw.choice(keys if kind == "replace" else keys + self.scripts + self.drivers[:1])
        long_s = 1.5 * loss_s
        s = {
            "loss": draw.uniform(0.5, 3.0),
            "cut": draw.choice((0.5, 2.0, 4.0, long_s)),
            "deaf": draw.choice((0.5, 2.0, long_s)),
            "mute": draw.choice((0.5, 2.0, long_s)),
            "stall": draw.uniform(0.2, 3.0),
            "blackout": draw.choice((0.3, 1.0, 4.0)),
            "crash": draw.uniform(0.1, 3.0),
            "leave": draw.uniform(0.1, 3.0),
            "replace": draw.uniform(0.1, 3.0),
            "pause": draw.choice((0.5, 3.0, long_s)),
            "restart": draw.uniform(0.05, 1.5),
            "freeze": draw.choice((0.2, 1.0, 3.0, long_s)),
        }[kind]
        p = draw.choice((0.01, 0.05, 0.2))
        welcomes = draw.choice((0, 0, 1, 2)) if kind in ("crash", "restart") else 0
        return Item(at=self._at(), fault=kind, who=who, s=round(s, 3), p=p, welcomes=welcomes)

    # -- plans

    def _target(self) -> str:
        if self.random.random() < 0.08:
            return self.random.choice(self.scripts)
        return self.random.choice(self._near + self._near[:3]).name

    def _ask(self, depth: int) -> Ask:
        draw = self.random
        if draw.random() < 0.05:
            return Ask("@crew", "work", self._plan(depth - 1))
        target = self._target()
        types = ["work", "work", "work", "work", "heavy"] if target.startswith("a") else ["work"]
        return Ask(target, draw.choice(types), self._plan(depth - 1))

    def _plan(self, depth: int, *, own: bool = True) -> list[Step]:
        """What an execution does; *own*: it handles an event, and may answer it itself."""
        draw = self.random
        if depth <= 0 or draw.random() < 0.2:
            return [self._sleep()] if draw.random() < 0.7 else []
        plan = [self._step(depth) for _ in range(draw.choice((1, 1, 2)))]
        if own and draw.random() < 0.12:
            plan.insert(draw.randint(0, len(plan)), Step("reply"))
        elif own and draw.random() < 0.12:
            plan.append(
                Step("defer", draw.choice((0.0, 0.05, 0.5)), branches=[self._plan(depth - 1, own=False)])
            )
        elif own and draw.random() < 0.05:
            plan.append(Step("raise"))
        return plan

    def _sleep(self) -> Step:
        return Step("sleep", self.random.choice((0.0, 0.001, 0.005, 0.02, 0.02, 0.1, 1.0)))

    def _step(self, depth: int) -> Step:
        draw = self.random
        kind = draw.random()
        if kind < 0.15:
            return self._sleep()
        if kind < 0.65:
            return self._blocking(depth)
        branches = [[self._step_in(depth)] for _ in range(draw.choice((1, 2, 2, 3)))]
        if kind < 0.74:
            return Step("gather", branches=branches)
        if kind < 0.81:
            return Step("tasks", branches=branches)
        if kind < 0.87:
            return Step("race", branches=[*branches, [Step("sleep", draw.choice((0.01, 0.05, 0.5)))]])
        if kind < 0.92:
            return Step("background", branches=branches[:1])
        if kind < 0.94:
            return Step("give_up", draw.choice((0.002, 0.02, 0.3)), branches=branches[:1])
        if kind < 0.95:
            return Step("send", asks=[self._ask(depth)])
        if kind < 0.97:
            return Step("expect", draw.choice(SHORT_S))
        return Step("send", asks=[Ask(self._target(), NOTE)])

    def _step_in(self, depth: int) -> Step:
        return self._blocking(depth - 1) if self.random.random() < 0.7 else self._sleep()

    def _blocking(self, depth: int) -> Step:
        draw = self.random
        kind = draw.random()
        timeout = draw.choice(SHORT_S if draw.random() < 0.1 else TIMEOUTS_S)
        if kind < 0.72:
            return Step("ask", timeout, asks=[self._ask(depth)], loud=draw.random() < 0.2)
        if kind < 0.82:
            return Step("later", timeout, asks=[self._ask(depth)])
        asks = [self._ask(depth) for _ in range(draw.choice((2, 2, 3)))]
        op: Op = draw.choice(("all", "any", "quorum"))
        need = {"all": len(asks), "any": 1, "quorum": draw.randint(1, len(asks))}[op]
        return Step(op, timeout, asks=asks, need=need)
