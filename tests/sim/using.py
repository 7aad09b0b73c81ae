"""What an execution does with locks, permits, artifacts, decisions, and things outside."""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from tests.sim.nodes import Decision, Hand, Node, Outside, Place, Waits, Want
from tests.sim.nodes import Thing as Known
from tests.sim.scenario import Step, Thing
from tests.sim.things import Held
from unknot import Lease, LeaseLost, WaitFailed

if TYPE_CHECKING:
    from tests.sim.doing import Doing

POST = "post"


class Using:
    """The steps of one execution that are about things."""

    def __init__(self, doing: "Doing") -> None:
        self._doing = doing
        self._truth = doing.truth
        self._life = doing.life
        self._ctx = doing.ctx

    # -- locks and permits

    async def lock(self, step: Step, node: Node, quiet: bool) -> None:
        """Hold something while the branch is done."""
        await self._declare(step)
        wait = self._wait(step, len(step.things))
        lease: Lease | None = None
        async with AsyncExitStack() as stack:
            async with self._doing.waiting(node, wait, step.s, quiet):
                wanted = [self._acquire(thing, step.lease) for thing in step.things]
                locked = self._ctx.lock(*wanted, timeout=step.s, reason=wait.name)
                lease = await stack.enter_async_context(_Quiet(locked, self))
            if lease is not None:
                await self._holding(step, node, lease, [(each, at) for at, each in enumerate(wait.things)])

    async def _holding(self, step: Step, node: Node, lease: Lease, taken: list[tuple[Known, int]]) -> None:
        parts: dict[tuple[str, str], int] = {}
        for thing, _ in taken:
            if isinstance(thing, Place):
                parts[thing.key] = parts.get(thing.key, 0) + thing.units
        held = Held(node, lease, parts, self._granted_at(lease), lease._hold.lapses_at)
        self._truth.things.acquired(held)
        try:
            for branch in step.branches:
                await self._doing.run(branch, node, quiet=True)
        finally:
            self._truth.things.let_go(held)

    def _granted_at(self, lease: Lease) -> float:
        return self._truth.wire.granted_at.get(lease._hold.wait_id, self._truth.clock())

    async def _declare(self, step: Step) -> None:
        for thing in step.things:
            if thing.kind == "permits":
                capacity = self._truth.things.capacity(("permits", thing.id))
                assert capacity is not None
                try:
                    await self._ctx.declare_permits(thing.id, capacity)
                except WaitFailed as why:
                    self._truth.laws.failed(why)

    # -- artifacts

    async def make(self, step: Step, node: Node, quiet: bool) -> None:
        """Promise an artifact, do the branch, keep the promise (*need*), or forget about it."""
        [thing] = step.things
        artifact = self._truth.things.artifact(thing.id)
        try:
            await self._ctx.declare_artifact(thing.id)
            artifact.producers[node] = self._life.token()
            for branch in step.branches:
                await self._doing.run(branch, node, quiet=True)
            if step.need:
                await self._publish(thing.id)
            else:
                artifact.producers.pop(node, None)
                await self._ctx.withdraw_artifact(thing.id)
        except WaitFailed as why:
            self._truth.laws.failed(why)

    async def publish(self, step: Step, node: Node, quiet: bool) -> None:
        """Publish what nobody has promised, perhaps."""
        try:
            await self._publish(step.things[0].id)
        except WaitFailed as why:
            self._truth.laws.failed(why)

    async def _publish(self, name: str) -> None:
        self._truth.things.artifact(name).tried.add(self._doing.nonce)
        is_first = await self._ctx.publish_artifact(name, self._doing.nonce)
        self._truth.things.published(name, self._life if is_first else None)

    # -- several kinds at once

    async def mix(self, step: Step, node: Node, quiet: bool) -> None:
        """Wait for *need* of requests and things."""
        await self._declare(step)
        requests = self._doing.requests(step)
        wait = self._wait(step, step.need, requests)
        branches = [*self._doing.made(step, requests), *self._branches(step, wait)]
        answers: list[tuple[int, Any]] = []
        async with self._doing.waiting(node, wait, step.s, quiet):
            answers = await self._wait_for(branches, step.need, step.s)
            self._check(wait, answers)
        leases = [data for _, data in answers if isinstance(data, Lease)]
        n = len(requests)
        if leases:
            taken = [(wait.things[at - n], at) for at, data in answers if isinstance(data, Lease)]
            async with _Quiet(leases[0], self):
                await self._holding(step, node, leases[0], taken)

    async def _wait_for(self, branches: list[Any], need: int, timeout: float) -> list[tuple[int, Any]]:
        if need == len(branches):
            return list(enumerate(await self._ctx.wait_all(branches, timeout=timeout)))
        if need == 1:
            answer = await self._ctx.wait_any(branches, timeout=timeout)
            return [(answer.index, answer.data)]
        several = await self._ctx.wait_quorum(branches, need, timeout=timeout)
        return [(answer.index, answer.data) for answer in several]

    def _check(self, wait: Waits, answers: list[tuple[int, Any]]) -> None:
        if len({at for at, _ in answers}) != wait.need:
            self._truth.accuse(f"{wait.name}: {len(answers)} have come where {wait.need} were needed")
        for at, data in answers:
            if at < len(wait.requests):
                self._truth.replied(wait.requests[at], data)
            elif isinstance(thing := wait.things[at - len(wait.requests)], Want):
                self._truth.things.read(thing.name, data)

    async def approve(self, step: Step, node: Node, quiet: bool) -> None:
        """Wait for a decision."""
        [thing] = step.things
        wait = self._wait(step, 1)
        async with self._doing.waiting(node, wait, step.s, quiet):
            await self._ctx.approval(thing.id, self._asked_of(thing, wait), timeout=step.s, reason=wait.name)

    async def decide(self, step: Step, node: Node, quiet: bool) -> None:
        """Decide what was left open."""
        while self._life.undecided:
            event = self._life.undecided.pop(0)
            self._truth.decided(event.data["decision"], yes=step.need > 0)
            try:
                await self._ctx.resolve_approval(event, step.need > 0)
            except WaitFailed as why:
                self._truth.laws.failed(why)

    # -- outside

    async def tool(self, step: Step, node: Node, quiet: bool) -> None:
        """Be busy with something that the gateway knows to be outside."""
        try:
            async with self._ctx.tool("search", timeout=step.s + 5.0):
                await asyncio.sleep(step.s)
        except WaitFailed as why:
            self._truth.laws.failed(why)

    async def borrow(self, step: Step, node: Node, quiet: bool) -> None:
        """Have a lock or permits of elsewhere while the branch is done."""
        [thing] = step.things
        key = (thing.kind.removeprefix("outside "), thing.id)
        things, has = self._truth.things, False
        wait = self._wait(step, 1)
        async with self._doing.waiting(node, wait, step.s, quiet):
            kind: Any = key[0]
            async with self._ctx.blocking_on(
                kind, thing.id, units=thing.units, timeout=step.s, reason=wait.name
            ):
                await things.take(key, node, thing.units)
                has = True
        if not has:
            return
        try:
            capacity = things.outside(key).capacity
            async with self._ctx.holder(kind, thing.id, units=thing.units, capacity=capacity):
                for branch in step.branches:
                    await self._doing.run(branch, node, quiet=True)
        except WaitFailed as why:
            self._truth.laws.failed(why)
        finally:
            things.give(key, node)

    async def receive(self, step: Step, node: Node, quiet: bool) -> None:
        """Wait for what any execution of an agent may put into a queue."""
        [thing] = step.things
        queue = self._truth.things.queues.setdefault(thing.id, asyncio.Queue())
        wait = self._wait(step, 1)
        async with self._doing.waiting(node, wait, step.s, quiet):
            await self._ctx.receive(queue, producer=thing.id, timeout=step.s, reason=wait.name)
            self._truth.figures["received"] += 1

    async def put(self, step: Step, node: Node, quiet: bool) -> None:
        """Put something into the queue of this agent, if anybody waits there."""
        queue = self._truth.things.queues.get(self._life.name)
        if queue is not None and queue._getters:  # type: ignore[attr-defined]
            queue.put_nowait(self._doing.nonce)

    async def hear(self, step: Step, node: Node, quiet: bool) -> None:
        """Wait for a post in the channel; whoever is no member posts one."""
        crew = self._ctx.channel("crew")
        try:
            if not self._life.channel:
                await crew.post(POST, {"nonce": self._doing.nonce})
                return
            await crew.wait_for_post(POST, timeout=step.s)
            self._truth.figures["posts"] += 1
        except WaitFailed as why:
            self._truth.laws.failed(why)

    # -- books

    def _wait(self, step: Step, need: int, requests: list[Any] | None = None) -> Waits:
        return self._doing.wait_for([self._known(each) for each in step.things], need, requests or [])

    def _known(self, thing: Thing) -> Known:
        match thing.kind:
            case "lock" | "permits":
                return Place((thing.kind, thing.id), thing.units)
            case "artifact":
                return Want(thing.id)
            case "approval":
                return Decision(thing.id, thing.s, thing.yes)
            case "agent":
                return Hand(thing.id)
            case _:
                return Outside((thing.kind.removeprefix("outside "), thing.id), thing.units)

    def _acquire(self, thing: Thing, lease: float) -> Any:
        units = thing.units if thing.kind == "permits" else None
        return self._ctx.acquire(thing.id, units=units, lease=lease)

    def _branches(self, step: Step, wait: Waits) -> list[Any]:
        found: list[Any] = []
        for thing in step.things:
            match thing.kind:
                case "lock" | "permits":
                    found.append(self._acquire(thing, step.lease))
                case "artifact":
                    found.append(self._ctx.artifact(thing.id))
                case _:
                    found.append(self._ctx.decision(thing.id, self._asked_of(thing, wait)))
        return found

    def _asked_of(self, thing: Thing, wait: Waits) -> dict[str, Any]:
        """What whoever decides is shown: what it is to do."""
        self._truth.decisions[wait.name] = next(each for each in wait.things if isinstance(each, Decision))
        return {"decision": wait.name, "s": thing.s, "yes": thing.yes}


class _Quiet:
    """A lease, or what gives one: that it was lost is written down, and nothing else happens."""

    def __init__(self, inner: Any, using: Using) -> None:
        self._inner = inner
        self._using = using
        self._lease: Lease | None = None

    async def __aenter__(self) -> Lease:
        self._lease = await self._inner.__aenter__()
        assert self._lease is not None
        return self._lease

    async def __aexit__(self, *why: Any) -> bool | None:
        try:
            is_done: bool | None = await self._inner.__aexit__(*why)
        except LeaseLost as lost:
            assert self._lease is not None
            hold, using = self._lease._hold, self._using
            using._truth.laws.lease_lost(using._life, lost, hold.lease_s, hold.lapses_at)
            return True
        return is_done
