"""Workers that ask each other at random, on the real wire: no false deadlock, none missed, no answer lost or doubled.

What is true is known here: every handler writes down what it waits for and what it has done. A verdict must hold in
these books; where nothing is slow, a wait that expires is a deadlock that was missed.
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from tests.wire.raw import Json, Net, Peer, new_id
from tests.wire.shapes import DEADLOCK

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 300))]
AGENTS = 5
REQUESTS = 40
STEPS = ("work", "one", "one", "one", "any", "all", "give up", "background", "gather", "ask")
MISSED_S = 8.0
"""Nothing here takes longer; what expires then has hung."""


Key = tuple[str, str]
"""Agent and execution: a channel's request runs at several agents."""


@dataclass(eq=False)
class Wait:
    """One wait of a task: *need* of these requests."""

    ids: list[str]
    need: int
    answered: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Running:
    """One execution: where it runs, what its own task waits for, what its background task waits for."""

    agent: str
    id: str
    waits: dict[str, Wait] = field(default_factory=dict)
    awaits_strand: bool = False
    holds_slot: bool = True
    answers: bool = True
    """Whether its own task is what will answer."""


class World:
    """The books, and the workers that keep them."""

    def __init__(self, net: Net, seed: int) -> None:
        self.net = net
        self.random = random.Random(seed)
        self.workers: dict[str, Peer] = {}
        self.slots: dict[str, int] = {}
        self.channel = "@" + net.name("pool")
        self.members: list[str] = []
        self.executions: dict[Key, Running] = {}
        self.ran: dict[Key, int] = {}
        self.target: dict[str, str] = {}
        self.source: dict[str, str] = {}
        self.answer_sent: set[str] = set()
        self.ended: dict[str, list[Json]] = {}
        self.checked: set[str] = set()
        self.free_at: dict[str, list[set[Key]]] = {}
        """Who could go on at each instant at which somebody gave facts, by incident."""
        self.faults: list[str] = []
        self.told = 0

    async def begin(self) -> None:
        """All workers say hello, and one script; some are members of a channel."""
        for number in range(AGENTS):
            slots = self.random.choice((1, 1, 2))
            channels = [self.channel[1:]] if number in (0, 2) else []
            worker = await self.net.worker(f"w{number}", slots, channels=channels)
            self.enlist(worker, slots)
            worker.on_event = lambda event, worker=worker: self.handle(worker, event)
        script = await self.net.peer("script", channels=[self.channel[1:]])
        self.enlist(script, 1)
        self.executions[script.agent, "main"] = Running(script.agent, "main")
        script.strands["main"] = {"alive": [""], "awaited": []}
        self.members = [self.net.name(name) for name in ("w0", "w2", "script")]
        self.reading = asyncio.ensure_future(self.reads(script))

    def enlist(self, worker: Peer, slots: int) -> None:
        """One more that may be asked."""
        self.workers[worker.agent] = worker
        self.slots[worker.agent] = slots
        self.watch(worker)

    def watch(self, worker: Peer) -> None:
        """Look at everything that comes for *worker*, before its tasks do."""
        take_in = worker.inbox.put

        def put(arrival: object) -> None:
            if arrival.kind == DEADLOCK:  # type: ignore[attr-defined]
                self.check(arrival.body)  # type: ignore[attr-defined]
            elif arrival.kind == "outcome":  # type: ignore[attr-defined]
                self.end(arrival.body)  # type: ignore[attr-defined]
            take_in(arrival)  # type: ignore[arg-type]

        worker.inbox.put = put  # type: ignore[method-assign,assignment]
        give_facts = worker.give_facts

        async def facts(confirm: Json) -> None:
            free = {(e.agent, e.id) for e in self.able()}
            self.free_at.setdefault(confirm["incident"], []).append(free)
            await give_facts(confirm)

        worker.give_facts = facts  # type: ignore[method-assign]

    def end(self, outcome: Json) -> None:
        """Write an outcome into the books."""
        request_id = outcome["request_id"]
        self.ended.setdefault(request_id, []).append(outcome)
        if outcome["outcome"] == "expired":
            self.faults.append(f"missed: {request_id} expired")
        if outcome["outcome"] == "reply" and outcome["event"]["data"] != request_id:
            self.faults.append(f"wrong answer to {request_id}")
        if outcome["outcome"] != "deadlock":
            for execution in self.executions.values():
                for wait in execution.waits.values():
                    if request_id in wait.ids:
                        (wait.answered if outcome["outcome"] == "reply" else wait.spent).add(request_id)

    async def is_quiet(self) -> None:
        """All handlers have ended, and nothing more was delivered."""
        while not all(task.done() for task in self.net.tasks) or await self.net.waits():
            await asyncio.gather(*self.net.tasks, asyncio.sleep(0.02))

    # what is true

    def check(self, report: Json) -> None:
        """A verdict must hold in the books: at one instant all members stood still together.

        That is the promise. A member may give up by itself between its facts and the verdict; nobody can know.
        """
        if report["incident"] in self.checked:
            return
        self.checked.add(report["incident"])
        self.told += 1
        members = {(wait["waiter"], wait["execution"]) for wait in report["waits"]}
        instants = self.free_at[report["incident"]]
        if not any(members.isdisjoint(free) for free in instants):
            self.faults.append(f"false deadlock: {members & instants[-1]} could go on")

    def able(self) -> set[Running]:
        """The executions that can go on: the least fixpoint from those that run."""
        free: set[Running] = set()
        while True:
            more = {e for e in self.executions.values() if e not in free and self.goes_on(e, free)}
            if not more:
                return free
            free |= more

    def goes_on(self, execution: Running, free: set[Running]) -> bool:
        waits = [w for strand, w in execution.waits.items() if strand != "s1" or execution.awaits_strand]
        return all(sum(self.comes_true(i, w, free) for i in w.ids) >= w.need for w in waits)

    def comes_true(self, request_id: str, wait: Wait, free: set[Running]) -> bool:
        if request_id in wait.spent:
            return False
        if request_id in wait.answered or request_id in self.answer_sent:
            return True
        target = self.target[request_id]
        others = [member for member in self.members if member != self.source[request_id]]
        members = others if target.startswith("@") else [target]
        return any(self.serves(member, request_id, free) for member in members)

    def serves(self, agent: str, request_id: str, free: set[Running]) -> bool:
        main = self.executions.get((agent, "main"))
        if main is not None:
            return main in free
        execution = self.executions.get((agent, request_id))
        if execution is not None:
            return not execution.answers or execution in free
        holders = [e for e in self.executions.values() if e.agent == agent and e.holds_slot]
        return len(holders) < self.slots[agent] or any(e in free for e in holders)

    # what workers do

    async def handle(self, worker: Peer, event: Json) -> None:
        """A handler: a few steps, then the answer."""
        key = worker.agent, event["id"]
        self.ran[key] = self.ran.get(key, 0) + 1
        execution = self.executions[key] = Running(*key)
        worker.strands[event["id"]] = {"alive": [""], "awaited": []}
        depth, choice = event["data"], self.random.random()
        if choice < 0.1:
            await self.defers(worker, event, execution)
            return
        if choice < 0.2:
            await self.answers(worker, event, done=False)
        for _ in range(self.random.choice((0, 1, 1, 2)) if depth else 0):
            await self.step(worker, event, execution)
        execution.holds_slot = False
        if choice < 0.2:
            await worker.done(event)
        else:
            await self.answers(worker, event)
        del self.executions[key]

    async def reads(self, script: Peer) -> None:
        """A script's own loop: one event after the other, all of them handled by main."""
        main = self.executions[script.agent, "main"]
        while True:
            event = (await script.inbox.take(lambda a: a.kind == "event", "event", 60)).body
            for _ in range(self.random.choice((0, 1)) if event["data"] else 0):
                await self.step(script, event, main)
            await self.answers(script, event)

    async def answers(self, worker: Peer, event: Json, **fields: object) -> None:
        self.answer_sent.add(event["id"])
        await worker.answer(event, event["id"], **fields)

    async def defers(self, worker: Peer, event: Json, execution: Running) -> None:
        execution.answers = execution.holds_slot = False
        await worker.defer(event)
        await asyncio.sleep(self.random.random() / 50)
        await self.answers(worker, event)
        del self.executions[worker.agent, event["id"]]

    async def step(self, worker: Peer, event: Json, execution: Running) -> None:
        """Work, a request, one of two, both of two, a request given up, other tasks, a wait for an ask."""
        what = self.random.choice(STEPS)
        if what == "work":
            await asyncio.sleep(self.random.random() / 100)
        elif what == "give up":
            await self.gives_up(worker, event, execution)
        elif what == "background":
            await self.background(worker, event, execution)
        elif what == "gather":
            await self.gathers(worker, event, execution)
        elif what == "ask":
            await self.asks(worker, event, execution)
        else:
            n = 1 if what == "one" else 2
            await self.waits(worker, event, execution, n, 1 if what == "any" else n)

    async def open(
        self, worker: Peer, event: Json, execution: Running, n: int, need: int, strand: str = ""
    ) -> Wait:
        wait = self.enter(worker, event, execution, n, need, strand)
        fields: Json = {"execution": execution.id, "timeout_s": MISSED_S}
        if n > 1:
            fields["group"] = {"id": new_id(), "n": n, "need": need}
        if strand:
            fields |= {"strand": strand, "detached": strand == "s1"}
        for request_id in wait.ids:
            await worker.request(self.target[request_id], data=event["data"] - 1, id=request_id, **fields)
        return wait

    def enter(
        self, worker: Peer, event: Json, execution: Running, n: int, need: int, strand: str = ""
    ) -> Wait:
        """Write a wait into the books."""
        wait = Wait([new_id() for _ in range(n)], need)
        for request_id in wait.ids:
            self.target[request_id] = self.random.choice([*self.workers, *self.workers, self.channel])
            self.source[request_id] = worker.agent
        if not strand:
            worker.strands[execution.id]["alive"] = []
        execution.waits[strand] = wait
        return wait

    def closed(self, worker: Peer, event: Json, execution: Running, strand: str = "") -> None:
        execution.waits.pop(strand)
        if not strand:
            worker.strands[execution.id]["alive"] = [""]

    async def waits(
        self, worker: Peer, event: Json, execution: Running, n: int, need: int, strand: str = ""
    ) -> None:
        wait = await self.open(worker, event, execution, n, need, strand)
        await asyncio.gather(*(worker.outcome(i, MISSED_S + 5) for i in wait.ids))
        self.closed(worker, event, execution, strand)

    async def gives_up(self, worker: Peer, event: Json, execution: Running) -> None:
        wait = await self.open(worker, event, execution, 1, 1)
        await asyncio.sleep(self.random.random() / 100)
        worker.open.difference_update(wait.ids)
        self.closed(worker, event, execution)
        await worker.cancel(wait.ids[0])
        await worker.outcome(wait.ids[0], MISSED_S + 5)

    async def gathers(self, worker: Peer, event: Json, execution: Running) -> None:
        """Two tasks that the execution waits for; one may end before the other."""
        worker.strands[execution.id]["alive"] = ["j1", "j2"]

        async def branch(strand: str) -> None:
            worker.strands[execution.id]["alive"].remove(strand)
            await self.waits(worker, event, execution, 1, 1, strand)

        await asyncio.gather(branch("j1"), branch("j2"))
        worker.strands[execution.id] = {"alive": [""], "awaited": []}

    async def asks(self, worker: Peer, event: Json, execution: Running) -> None:
        """An ask, and then a wait for its answer."""
        wait = self.enter(worker, event, execution, 1, 1)
        request_id = wait.ids[0]
        target = self.target[request_id]
        await worker.ask(
            target, data=event["data"] - 1, id=request_id, timeout_s=MISSED_S, execution=execution.id
        )
        opened = await worker.wait_open({"kind": "reply", "id": request_id}, execution=execution.id)
        ends = [asyncio.ensure_future(worker.outcome(i, MISSED_S + 5)) for i in (request_id, opened["id"])]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        self.closed(worker, event, execution)
        await worker.wait_close(opened["id"])

    async def background(self, worker: Peer, event: Json, execution: Running) -> None:
        task = asyncio.ensure_future(self.waits(worker, event, execution, 1, 1, strand="s1"))
        await asyncio.sleep(self.random.random() / 100)
        worker.strands[execution.id] = {"alive": [], "awaited": ["s1"] if "s1" in execution.waits else []}
        execution.awaits_strand = True
        await task
        execution.awaits_strand = False
        worker.strands[execution.id] = {"alive": [""], "awaited": []}


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_told_is_true_and_what_is_true_is_told(net: Net, seed: int) -> None:
    world = World(net, seed)
    await world.begin()
    try:
        outcomes = await ask_around(world)
        assert not world.faults, world.faults
        assert {o["outcome"] for o in outcomes} == {"reply"}
        assert all(o["event"]["data"] == o["request_id"] for o in outcomes)
        async with asyncio.timeout(MISSED_S + 5):
            await world.is_quiet()
    finally:
        world.reading.cancel()
        await asyncio.gather(world.reading, return_exceptions=True)
    assert not world.faults, world.faults
    assert all(len(ends) == 1 for ends in world.ended.values()), "one Outcome for each"
    assert all(times == 1 for times in world.ran.values()), "nothing runs twice"


async def ask_around(world: World) -> list[Json]:
    """Somebody outside asks everybody; how it ended."""
    cli = await world.net.peer("cli", pools=[])
    asked = []
    for _ in range(REQUESTS):
        request_id = new_id()
        target = world.random.choice(list(world.workers))
        world.target[request_id], world.source[request_id] = target, cli.agent
        data = world.random.choice((1, 2, 3))
        receipt = await cli.ask(target, data=data, id=request_id, timeout_s=MISSED_S)
        assert receipt["ok"]
        asked.append(request_id)
    return [await cli.outcome(i, MISSED_S + 5) for i in asked]
