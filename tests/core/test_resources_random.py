"""Random schedules: first in first out by a simple model, the gateway's places and the engine agree, nothing leaks."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.resource_stage import ResourceStage, leased
from tests.oracle.examples import share
from unknot_gateway.core.openwaits import need_of
from unknot_gateway.core.records import OpenWait
from unknot_schemas import bodies, resources
from unknot_schemas.ids import EventId

POOLS = {"p": 2, "q": 3}
LOCKS = ("a", "b", "c")
EXECUTIONS = [f"e{number}" for number in range(6)]
ARTIFACTS = ("x", "y")

Op = tuple[Any, ...]

leases = st.sampled_from([*LOCKS, "p*1", "p*2", "q*1", "q*2", "q*3"])
execution = st.sampled_from(EXECUTIONS)
all_of = st.tuples(st.just("all"), execution, st.lists(leases, min_size=1, max_size=3, unique=True))
others = st.sampled_from(["artifact:x", "artifact:y", "tool:t"])
some_of = st.tuples(
    st.just("some"),
    execution,
    st.lists(leases | others, min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
)
release = st.tuples(st.just("release"), st.integers(0, 20))
close = st.tuples(st.just("close"), st.integers(0, 20))
resize = st.tuples(st.just("resize"), st.sampled_from(sorted(POOLS)), st.integers(0, 4))
produces = st.tuples(st.just("produces"), execution, st.sampled_from(ARTIFACTS))
withdraws = st.tuples(st.just("withdraws"), execution, st.sampled_from(ARTIFACTS))
holds_outside = st.tuples(st.just("holds"), execution, st.sampled_from(["m", "n"]))
waits_outside = st.tuples(st.just("outside"), execution, st.sampled_from(["m", "n"]))


class Play(ResourceStage):
    """One agent whose executions do what a schedule says."""

    def __init__(self) -> None:
        super().__init__(policy="shadow")
        self.join("ash", concurrency=100)
        for pool, capacity in POOLS.items():
            self.declare(pool, capacity)
        self._n = 0

    @property
    def open(self) -> list[OpenWait]:
        """Open waits, oldest first."""
        return list(self.kernel.tables.messages.waits.values())

    @property
    def held(self) -> list[Any]:
        """Holds, oldest first."""
        return list(self.kernel.tables.resources.leases._holds.values())

    def do(self, op: Op) -> None:
        """One step."""
        session = self.sessions["ash"]
        match op:
            case ("all", of, names):
                self.wait("ash", self.new_id(), *map(leased, names), execution=of)
            case ("some", of, names, need):
                on = [condition(name) for name in names]
                tools = any(each.kind == "tool" for each in on)
                self.wait(
                    "ash", self.new_id(), *on, need="any" if tools else min(need, len(on)), execution=of
                )
            case ("release", number):
                if self.held:
                    assert self.release("ash", self.held[number % len(self.held)].id).ok
            case ("close", number):
                if self.open:
                    self.say("ash", bodies.WaitClose(self.open[number % len(self.open)].id, session))
            case ("resize", pool, capacity):
                self.declare(pool, capacity)
            case ("produces", of, name):
                self.produces("ash", name, execution=of)
            case ("withdraws", of, name):
                self.say("ash", resources.ArtifactWithdraw(name, session, of))
            case ("holds", of, name):
                self.say("ash", resources.HolderSet(session, "lock", name, execution=of))
            case ("outside", of, name):
                self.wait("ash", self.new_id(), bodies.WaitCondition("lock", name), execution=of)
            case _:
                raise AssertionError(op)

    def new_id(self) -> str:
        """Of a wait."""
        self._n += 1
        return f"w{self._n}"

    def executions(self, nodes: Any) -> set[str]:
        """Names of nodes."""
        return {self.kernel.tables.waiting.strands[node].execution for node in nodes}

    # -- what must hold after each step

    def check(self) -> None:
        """Places are the longest front of each queue that fits, and nobody waits whose need is reached."""
        tables = self.kernel.tables
        for pool in tables.resources.pools.all():
            queue = [*pool.places, *pool.queue]
            order = [(opened(self, ask.wait), ask.index) for ask in queue]
            assert order == sorted(order), "first in, first out"
            free = pool.capacity - pool.held
            fitting = 0
            for ask in queue:
                if ask.units > free:
                    break
                free -= ask.units
                fitting += 1
            assert len(pool.places) == fitting
            assert pool.reserved == sum(ask.units for ask in pool.places)
            holds = tables.resources.leases.of_pool(pool.key)
            assert pool.held == sum(units for hold in holds for its, units in hold.parts if its is pool)
            assert all(ask.index in ask.wait.taken for ask in pool.places)
            assert not any(ask.index in ask.wait.taken for ask in pool.queue)
        for wait in self.open:
            assert len(wait.taken) < need_of(wait.body)

    def to_the_end(self) -> set[str]:
        """Let whoever does not wait finish, again and again; the executions that still wait then."""
        session = self.sessions["ash"]
        while True:
            before = sum(self.kernel.counters.values())
            for wait in self.open:
                if self._comes_true_outside(wait):
                    self.say("ash", bodies.WaitClose(wait.id, session))
            waiting = {wait.body.execution for wait in self.open}
            for execution_id in EXECUTIONS:
                if execution_id not in waiting:
                    self._finish(execution_id)
            if sum(self.kernel.counters.values()) == before:
                return {str(execution_id) for execution_id in waiting}
            self.check()

    def _comes_true_outside(self, wait: OpenWait) -> bool:
        for on in wait.body.on:
            thing = self.kernel.tables.resources.holders.find((on.kind, on.id))
            if on.kind == "tool" or (
                on.kind == "lock" and on.lease_s is None and not (thing and thing.reports)
            ):
                return True
            if on.kind == "artifact":
                wanted = self.kernel.tables.resources.artifacts.find(on.id)
                if wanted is not None and not wanted.producers:
                    self.publish("ash", on.id)  # somebody outside
                    self.kernel.tables.count("test.progress")
        return False

    def _finish(self, execution_id: str) -> None:
        """It publishes what it was to produce, and lets go of everything."""
        all_of = self.kernel.tables.resources
        for tie in all_of.ties.of_execution(*place(self, execution_id)):
            self.kernel.tables.count("test.progress")
            if (wanted := getattr(tie, "wanted", None)) is not None:
                if all_of.artifacts.find(wanted.id) is wanted:
                    self.publish("ash", wanted.id)
            elif (hold_id := getattr(tie, "id", None)) is not None:
                if all_of.leases.find(hold_id) is not None:
                    self.release("ash", hold_id)
            else:
                _, name = tie.thing.key  # type: ignore[attr-defined]
                clear = resources.HolderClear(self.sessions["ash"], "lock", name, execution=execution_id)
                self.say("ash", clear)


def opened(stage: ResourceStage, wait: OpenWait) -> int:
    """When it was opened, as an order."""
    return list(stage.kernel.tables.messages.waits).index(wait.id)


def place(stage: ResourceStage, execution_id: str) -> tuple[Any, Any]:
    """The session and execution of a name."""
    session = stage.kernel.tables.sessions.find("ash", stage.sessions["ash"])  # type: ignore[arg-type]
    return session, execution_id


def condition(name: str) -> bodies.WaitCondition:
    kind, colon, plain = name.partition(":")
    return bodies.WaitCondition(kind, plain) if colon else leased(name)


class Model:
    """All-of waits over locks and permits, as simply as can be: all queues are walked anew after each step."""

    def __init__(self) -> None:
        self.capacity = dict(POOLS) | dict.fromkeys(LOCKS, 1)
        self.waits: dict[str, dict[str, int]] = {}
        self.holds: dict[str, dict[str, int]] = {}

    def settle(self) -> None:
        """Grant whoever has a place in all its queues."""
        while ready := next((name for name in self.waits if self.has_all(name)), None):
            self.holds[ready] = self.waits.pop(ready)

    def has_all(self, name: str) -> bool:
        return all(name in self.front(pool) for pool in self.waits[name])

    def front(self, pool: str) -> list[str]:
        """Who has a place."""
        free = self.capacity[pool] - sum(hold.get(pool, 0) for hold in self.holds.values())
        found = []
        for name, wanted in self.waits.items():
            if pool not in wanted:
                continue
            if wanted[pool] > free:
                break
            free -= wanted[pool]
            found.append(name)
        return found


@share(0.2)
@given(st.lists(all_of | release | close | resize, max_size=30))
def test_grants_are_those_of_the_simple_model(ops: list[Op]) -> None:
    play, model = Play(), Model()
    for op in ops:
        apply(model, play, op)
        play.do(op)
        model.settle()
        play.check()
        assert [hold.id for hold in play.held] == sorted(model.holds, key=lambda name: play_order(play, name))
        assert [str(wait.id) for wait in play.open] == list(model.waits)
        tokens = [hold.token for hold in play.held]
        assert tokens == sorted(set(tokens))


def play_order(play: Play, name: str) -> int:
    ids = [str(hold.id) for hold in play.held]
    return ids.index(name) if name in ids else -1


def apply(model: Model, play: Play, op: Op) -> None:
    """The same step for the model, as far as it is one."""
    match op:
        case ("all", _, names):
            wanted: dict[str, int] = {}
            for name in names:
                plain, star, count = name.partition("*")
                wanted[plain] = wanted.get(plain, 0) + (int(count) if star else 1)
            if all(count <= model.capacity[plain] for plain, count in wanted.items()):
                model.waits[f"w{play._n + 1}"] = wanted
        case ("release", number) if play.held:
            del model.holds[play.held[number % len(play.held)].id]
        case ("close", number) if play.open:
            del model.waits[play.open[number % len(play.open)].id]
        case ("resize", pool, capacity):
            model.capacity[pool] = capacity
            for name in [name for name, wanted in model.waits.items() if lacks(play, name, pool, capacity)]:
                del model.waits[name]


def lacks(play: Play, name: str, pool: str, capacity: int) -> bool:
    """Whether one of its conditions asks for more than there is now."""
    wait = play.kernel.tables.messages.waits[EventId(name)]
    return any(on.id == pool and on.units > capacity for on in wait.body.on)


whatever = all_of | some_of | release | close | resize | produces | withdraws | holds_outside | waits_outside


def played(ops: list[Op], *, one_wait_each: bool) -> Play:
    """After *ops*, with everything that was put off done. *one_wait_each*: without what would be a second wait."""
    play = Play()
    for op in ops:
        waiting = {wait.body.execution for wait in play.open}
        if not one_wait_each or op[0] not in ("all", "some", "outside") or op[1] not in waiting:
            play.do(op)
            play.check()
    play.kernel.tables.waiting.graph.drain(1_000_000)
    return play


@share(0.2)
@given(st.lists(whatever, max_size=40))
def test_who_the_engine_calls_stuck_is_who_never_gets_it(ops: list[Op]) -> None:
    play = played(ops, one_wait_each=True)
    stuck = play.executions(play.kernel.tables.waiting.graph.stuck())
    assert play.to_the_end() == stuck


@example(
    [("all", "e0", ["a"]), ("all", "e0", ["a", "b"]), ("some", "e0", ["artifact:x"], 1), ("some", "e2", ["a", "b"], 1),
     ("release", 0), ("all", "e2", ["a"])],
)  # fmt: skip
@share(0.2)
@given(st.lists(whatever, max_size=40))
def test_of_several_waits_at_once_the_engine_calls_nobody_stuck_who_is_not(ops: list[Op]) -> None:
    """One of them may take what another needs: then both are stuck, but only from then on."""
    play = played(ops, one_wait_each=False)
    graph = play.kernel.tables.waiting.graph
    stuck = play.executions(graph.stuck())
    at_the_end = play.to_the_end()
    assert stuck <= at_the_end
    graph.drain(1_000_000)
    assert play.executions(graph.stuck()) == at_the_end


@share(0.2)
@given(st.lists(whatever, max_size=30), st.booleans())
def test_nothing_is_left_when_the_session_has_ended(ops: list[Op], lost: bool) -> None:
    play = Play()
    for op in ops:
        play.do(op)
    if lost:
        play.pass_time(4000)
    else:
        play.bye("ash")
    assert {name: size for name, size in play.leftovers().items() if name not in ("pools", "resources")} == {}
    assert play.leftovers()["pools"] == play.leftovers()["resources"] == len(POOLS)
