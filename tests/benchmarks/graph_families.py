"""What live waits look like: call stacks, random churn, runs of any-of, all-of, quorum and pools, a hub on one lock."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from unknot_gateway.core.graph import (
    Condition,
    Core,
    Graph,
    Node,
    Resource,
    Wait,
    any_of,
    artifact,
    execution,
    resource,
)

Insert = Callable[[Callable[[], object]], None]


class Family:
    """Fills a graph and keeps it turning over."""

    def __init__(self, graph: Graph, pick: random.Random) -> None:
        self.graph, self.pick = graph, pick
        self.count = 0
        self.setup()

    def setup(self) -> None:
        """What there is before the first wait."""

    def node(self) -> Node:
        self.count += 1
        return self.graph.add((f"agent-{self.count % 997}", "1", f"execution-{self.count:08}", ""))

    def fill(self, live: int) -> None:
        """Until *live* waits are open."""
        while len(self.graph) < live:
            self.grow(lambda act: act())

    def churn(self, insert: Insert) -> None:
        """One wait ends, one is inserted."""
        self.shrink()
        self.grow(insert)

    def grow(self, insert: Insert) -> None:
        raise NotImplementedError

    def shrink(self) -> None:
        raise NotImplementedError

    def resolve(self, core: Core) -> None:
        """End one wait of a deadlock."""
        self.graph.close(core.waits[0])


class Stacks(Family):
    """Call stacks 1-60 deep: each frame waits for the next; only the top moves."""

    def setup(self) -> None:
        self.stacks: list[tuple[int, list[tuple[Node, Wait | None]]]] = []

    def grow(self, insert: Insert) -> None:
        at = self.pick.randrange(len(self.stacks)) if self.stacks else 0
        if not self.stacks or len(self.stacks[at][1]) > self.stacks[at][0] or self.pick.random() < 0.03:
            self.stacks.append((self.pick.randint(1, 60), [(self.node(), None)]))
            at = -1
        frames = self.stacks[at][1]
        caller, _ = frames.pop()
        callee = self.node()
        opened: list[Wait] = []
        insert(lambda: opened.append(self.graph.open(caller, (execution(callee),))))
        frames += [(caller, opened[0]), (callee, None)]

    def shrink(self) -> None:
        while True:
            at = self.pick.randrange(len(self.stacks))
            frames = self.stacks[at][1]
            callee, _ = frames.pop()
            self.graph.remove(callee)
            if frames:
                caller, wait = frames.pop()
                assert wait is not None
                self.graph.close(wait)
                frames.append((caller, None))
                return
            self.stacks[at] = self.stacks[-1]
            self.stacks.pop()


class Churn(Family):
    """Each wait on another random execution; those of a lower rank wait for those of a higher one."""

    def setup(self) -> None:
        self.nodes = [self.node() for _ in range(130_000)]
        self.idle = list(range(130_000))
        self.pick.shuffle(self.idle)
        self.open: list[tuple[int, Wait]] = []

    def grow(self, insert: Insert) -> None:
        rank = self.idle.pop()
        target = self.pick.randint(rank, len(self.nodes) - 1)
        if target == rank:
            target = 0 if rank else 1
        opened: list[Wait] = []
        insert(lambda: opened.append(self.graph.open(self.nodes[rank], (execution(self.nodes[target]),))))
        self.open.append((rank, opened[0]))

    def shrink(self) -> None:
        at = self.pick.randrange(len(self.open))
        self.open[at], self.open[-1] = self.open[-1], self.open[at]
        rank, wait = self.open.pop()
        self.graph.close(wait)
        self.idle.insert(self.pick.randrange(max(1, len(self.idle) - 50)), rank)


class Mix(Family):
    """Runs of 60 executions that wait for each other at random: all-of, any-of, quorum, pools, artifacts, cycles."""

    SIZE = 60
    RUNS = 2_400

    def setup(self) -> None:
        self.runs = [self._run() for _ in range(self.RUNS)]
        self.open: list[tuple[Wait, Any, int]] = []

    def _run(self) -> Any:
        nodes = [self.node() for _ in range(self.SIZE)]
        pools = [self.graph.add_resource(f"pool-{self.count}-{at}", 4, fifo=at == 0) for at in range(3)]
        for pool in pools:
            for node in self.pick.sample(nodes, 4):
                self.graph.grant(pool, node)
        made = [self.graph.add_artifact(f"artifact-{self.count}-{at}") for at in range(3)]
        for each in made:
            for node in self.pick.sample(nodes, 3):
                self.graph.add_producer(each, node)
        return nodes, pools, made, list(range(self.SIZE - 1))  # the last never waits

    def _condition(self, run: Any, waiter: int) -> Condition:
        nodes, pools, made, _ = run
        kind = self.pick.random()
        if kind < 0.15:
            return resource(self.pick.choice(pools))
        if kind < 0.25:
            return artifact(self.pick.choice(made))
        # Mostly for those further on; now and then back, which makes cycles.
        first = waiter + 1 if self.pick.random() < 0.98 else 0
        return execution(nodes[self.pick.randrange(min(first, self.SIZE - 1), self.SIZE)])

    def grow(self, insert: Insert) -> None:
        run = self.pick.choice(self.runs)
        if len(run[3]) < 12:
            return self.grow(insert)
        waiter = run[3].pop(self.pick.randrange(len(run[3])))
        on = [self._condition(run, waiter) for _ in range(self.pick.choice([1, 1, 2, 3, 4]))]
        need = self.pick.choice([None, 1, 1, max(1, len(on) - 1)])
        if self.pick.random() < 0.2:
            on[0] = any_of(on[0], self._condition(run, waiter))
        opened: list[Wait] = []
        insert(lambda: opened.append(self.graph.open(run[0][waiter], on, need)))
        self.open.append((opened[0], run, waiter))
        return None

    def shrink(self) -> None:
        at = self.pick.randrange(len(self.open))
        self.open[at], self.open[-1] = self.open[-1], self.open[at]
        wait, run, waiter = self.open.pop()
        self.graph.close(wait)
        run[3].append(waiter)


class Hub(Stacks):
    """10 000 executions queue for one lock, each called by a stack of others; the rest are call stacks."""

    QUEUE = 10_000

    def setup(self) -> None:
        super().setup()
        self.lock: Resource = self.graph.add_resource("lock", 1, fifo=True)
        self.holder = self.node()
        self.graph.grant(self.lock, self.holder)
        self.queue: deque[tuple[Node, Wait, list[Node]]] = deque()
        while len(self.queue) < self.QUEUE:
            self._join(lambda act: act())

    def _join(self, insert: Insert) -> None:
        callers = [self.node() for _ in range(self.pick.randint(0, 5))]
        waiter = self.node()
        for caller, callee in zip(callers, [*callers, waiter][1:], strict=True):
            self.graph.open(caller, (execution(callee),))
        opened: list[Wait] = []
        insert(lambda: opened.append(self.graph.open(waiter, (resource(self.lock),))))
        self.queue.append((waiter, opened[0], callers))

    def _pass_on(self) -> None:
        """The lock goes to the head of the queue; who held it ends."""
        self.graph.remove(self.holder)
        waiter, wait, callers = self.queue.popleft()
        self.graph.close(wait)
        self.graph.grant(self.lock, waiter)
        for caller in callers:
            self.graph.remove(caller)
        self.holder = waiter

    def churn(self, insert: Insert) -> None:
        if self.pick.random() < 0.5:
            self._pass_on()
            self._join(insert)
        else:
            super().churn(insert)


class Chains(Family):
    """Chains that are cut at two random places and joined crosswise: the waiter has many behind it, and many ahead."""

    LENGTH = 1_000

    def setup(self) -> None:
        self.chains: list[list[tuple[Node, Wait | None]]] = []

    def grow(self, insert: Insert) -> None:
        """One more in front of the newest chain, or a new chain."""
        if not self.chains or len(self.chains[-1]) > self.LENGTH:
            self.chains.append([(self.node(), None)])
        chain, opened = self.chains[-1], list[Wait]()
        waiter, target = self.node(), chain[-1][0]
        insert(lambda: opened.append(self.graph.open(waiter, (execution(target),))))
        chain.append((waiter, opened[0]))

    def churn(self, insert: Insert) -> None:
        """What waits for the upper part of the one waits for the lower part of the other from now on."""
        one, other = self.pick.sample(range(len(self.chains)), 2)
        lower, upper = self._cut(one)
        lower_too, upper_too = self._cut(other)
        self.chains[one] = self._join(lower, upper_too, insert)
        self.chains[other] = self._join(lower_too, upper, insert)

    def _cut(self, chain: int) -> tuple[list[tuple[Node, Wait | None]], list[tuple[Node, Wait | None]]]:
        links = self.chains[chain]
        at = self.pick.randrange(1, len(links))
        wait = links[at][1]
        assert wait is not None
        self.graph.close(wait)
        return links[:at], links[at:]

    def _join(
        self, lower: list[tuple[Node, Wait | None]], upper: list[tuple[Node, Wait | None]], insert: Insert
    ) -> list[tuple[Node, Wait | None]]:
        waiter, target, opened = upper[0][0], lower[-1][0], list[Wait]()
        insert(lambda: opened.append(self.graph.open(waiter, (execution(target),))))
        return [*lower, (waiter, opened[0]), *upper[1:]]


class LongChains(Chains):
    """The same with two chains of half of all."""

    LENGTH = 50_000


class WideAnyOf(Family):
    """Groups of 1 000, each called by nobody but one that waits for any of them; all but a few of them wait for it."""

    SIZE = 1_000

    def setup(self) -> None:
        self.groups: list[tuple[Node, list[Node], dict[Node, Wait]]] = []

    def grow(self, insert: Insert) -> None:
        group = self.groups[-1] if self.groups else None
        if group is None or len(group[2]) >= self.SIZE - 3:
            caller, members = self.node(), [self.node() for _ in range(self.SIZE)]
            insert(lambda: self.graph.open(caller, [execution(member) for member in members], 1))
            self.groups.append((caller, members, {}))
        else:
            self._join(group, insert)

    def _join(self, group: tuple[Node, list[Node], dict[Node, Wait]], insert: Insert) -> None:
        caller, members, waits = group
        member = self.pick.choice([each for each in members if each not in waits])
        opened: list[Wait] = []
        insert(lambda: opened.append(self.graph.open(member, (execution(caller),))))
        waits[member] = opened[0]

    def churn(self, insert: Insert) -> None:
        """One of a full group has its answer, another one waits."""
        group = self.pick.choice(self.groups[:-1])
        member = self.pick.choice(list(group[2]))
        self.graph.close(group[2].pop(member))
        self._join(group, insert)


FAMILIES: tuple[type[Family], ...] = (Churn, Stacks, Mix, Hub)
"""Those whose deferred share is bounded."""
LONG: tuple[type[Family], ...] = (Chains, LongChains, WideAnyOf)
"""Those where one insert may tie a thousand and more together."""
