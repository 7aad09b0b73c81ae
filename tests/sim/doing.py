"""One execution at work: it does the steps of its plan, and writes into the books of truth what it does."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import unknot
from tests.sim.nodes import Children, Execution, Node, Request, Thing, Waits
from tests.sim.scenario import NOTE, Ask, Step
from tests.sim.using import Using
from unknot import Context, Event, WaitFailed
from unknot_schemas.limits import CLIENT_GRACE_S

if TYPE_CHECKING:
    from tests.sim.lives import Life

SLACK_S = 0.01
ONE_WAY_S = 20.0


class PlannedFailure(Exception):
    """A handler that raises because its plan says so."""


class Doing:
    """One execution at work. *event*: what it handles; None for a driver's job."""

    def __init__(self, life: "Life", ctx: Context, event: Event | None, nonce: str = "") -> None:
        self.life = life
        life.session = ctx._links.session
        self.truth = life.truth
        self.ctx = ctx
        self.event = event
        self.plan: list[Step] = []
        if event is not None:
            nonce = event.data["nonce"]
            self.plan = self.truth.plans[nonce]
        self.nonce = nonce
        self.name = nonce
        """What the nonces of its own requests begin with: another one for each member, and for a copy that runs."""
        if event is not None and event.target.startswith("@"):
            self.name += f"@{life.key}"
        if event is not None and event.is_redelivered:
            self.name += "+"
        self.execution: Execution | None = None
        self.owes: list[Coroutine[Any, Any, None]] = []
        """Answers that others have left to it."""
        self.using = Using(self)
        self._asked = 0
        self._answered = event is None or not event.requires_response

    async def handle(self, node: Node) -> Any:
        """Handle the event; what is returned is its answer, None that it was given, or comes later."""
        assert self.event is not None
        execution = self.execution = self.truth.begin(self.life, self.nonce, self.event, node)
        try:
            self.life.doings[self] = None
            await self.run(self.plan, node)
            await self._pay()
            if self._answered or execution.deferred:
                return None
            self._given(execution)
            return {"nonce": self.nonce}
        except Exception:
            self._given(execution, failed=True)
            raise
        finally:
            self.life.doings.pop(self, None)
            for owed in self.owes:
                owed.close()
            self.truth.end(execution)
            if node is not self.life.main:
                self.truth.over(node)

    def _given(self, execution: Execution, *, failed: bool = False) -> None:
        """The answer is what the handler returns or raises; from a session that is over it reaches nobody."""
        if execution.token == self.life.token():
            self.truth.answered(self.nonce, self.life, failed=failed)

    async def run(self, plan: list[Step], node: Node, *, quiet: bool = False) -> None:
        """Do the steps, one after the other. *quiet*: whatever fails, go on."""
        for step in plan:
            do = getattr(self, f"_{step.op}", None) or getattr(self.using, step.op)
            await do(step, node, quiet or not step.loud)

    async def _pay(self) -> None:
        """Give the answers that were left to it."""
        self.life.doings.pop(self, None)
        while self.owes:
            await self.owes.pop(0)

    async def reply(self, error: str | None = None) -> None:
        """Answer now, if nobody has."""
        if self._answered or (self.execution is not None and self.execution.deferred and error):
            return
        self._answered = True
        self.truth.answered(self.nonce, self.life, failed=error is not None)
        try:
            await self.ctx.reply({"nonce": self.nonce}, to=self.event, error=error)
        except WaitFailed:
            self.truth.unanswered(self.nonce)  # the session it came to is over

    # -- steps

    async def _sleep(self, step: Step, node: Node, quiet: bool) -> None:
        await asyncio.sleep(step.s)

    async def _ask(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self.requests(step)
        ask = step.asks[0]
        async with self.waiting(node, Waits(requests, 1), step.s, quiet):
            answer = await self.ctx.send_and_wait(ask.target, ask.type, self.data(request), timeout=step.s)
            self.truth.replied(request, answer)

    async def _all(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self.requests(step)
        made = self.made(step, requests)
        async with self.waiting(node, Waits(requests, step.need), step.s, quiet):
            answers = await self.ctx.wait_all(made, timeout=step.s)
            for request, answer in zip(requests, answers, strict=True):
                self.truth.replied(request, answer)

    async def _any(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self.requests(step)
        made = self.made(step, requests)
        async with self.waiting(node, Waits(requests, step.need), step.s, quiet):
            answer = await self.ctx.wait_any(made, timeout=step.s)
            self.truth.replied(requests[answer.index], answer.data)

    async def _quorum(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self.requests(step)
        made = self.made(step, requests)
        async with self.waiting(node, Waits(requests, step.need), step.s, quiet):
            answers = await self.ctx.wait_quorum(made, step.need, timeout=step.s)
            if len({answer.index for answer in answers}) != step.need:
                self.truth.accuse(f"{len(answers)} answers where {step.need} were needed: {self.nonce}")
            for answer in answers:
                self.truth.replied(requests[answer.index], answer.data)

    async def _later(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self.requests(step)
        ask = step.asks[0]
        try:
            asked = await self.ctx.ask(ask.target, ask.type, self.data(request), timeout=step.s)
        except WaitFailed as why:
            self.truth.laws.failed(why)
            self.truth.forget(requests)
            return
        async with self.waiting(node, Waits(requests, 1), step.s, quiet):
            self.truth.replied(request, await self.ctx.expect(asked, timeout=step.s))

    async def _send(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self.requests(step)
        ask = step.asks[0]
        self.truth.forget(requests)
        try:
            await self.ctx.send(ask.target, ask.type, self.data(request), timeout=ONE_WAY_S)
        except WaitFailed as why:
            self.truth.laws.failed(why)

    async def _expect(self, step: Step, node: Node, quiet: bool) -> None:
        try:
            event = await self.ctx.expect(NOTE, timeout=step.s)
        except WaitFailed as why:
            self.truth.laws.failed(why)
        else:
            self.truth.noted(self.life, event.data["nonce"])

    async def _gather(self, step: Step, node: Node, quiet: bool) -> None:
        nodes = self._nodes(step, detached=node.detached)
        async with self._standing(node, nodes):
            await self.ctx.gather(*self._branches(step, nodes))

    async def _tasks(self, step: Step, node: Node, quiet: bool) -> None:
        nodes = self._nodes(step)
        create = asyncio.get_running_loop().create_task
        async with self._standing(node, nodes):
            await asyncio.gather(*[create(branch) for branch in self._branches(step, nodes)])

    async def _race(self, step: Step, node: Node, quiet: bool) -> None:
        nodes = self._nodes(step)
        create = asyncio.get_running_loop().create_task
        tasks = [create(branch) for branch in self._branches(step, nodes)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for child in nodes:
                self.truth.over(child)

    async def _background(self, step: Step, node: Node, quiet: bool) -> None:
        nodes = self._nodes(step)
        for branch in self._branches(step, nodes):
            self.life.spawn(branch)

    async def _give_up(self, step: Step, node: Node, quiet: bool) -> None:
        try:
            async with asyncio.timeout(step.s):
                await self.run(step.branches[0], node, quiet=True)
        except TimeoutError:
            self.truth.figures["given up"] += 1

    async def _reply(self, step: Step, node: Node, quiet: bool) -> None:
        if self.execution is not None and not self.execution.deferred:
            await self.reply()

    async def _defer(self, step: Step, node: Node, quiet: bool) -> None:
        if self._answered or self.execution is None or self.execution.deferred:
            return
        heir = self._heir() if step.to_other else None
        try:
            self.ctx.defer(to=self.event, by=heir.event.id if heir is not None and heir.event else None)
        except WaitFailed:
            return  # the session it came to is over
        self.execution.deferred = True
        if heir is not None and heir.execution is not None:
            self.truth.figures["answers left to another"] += 1
            self.execution.by = heir.execution.node
            heir.owes.append(self.reply())
            return
        self.life.spawn(self._reply_later(step, self.truth.node(self.life, detached=True)))

    def _heir(self) -> "Doing | None":
        """Another execution here that is at work, and did not begin in a channel."""
        others = [each for each in self.life.doings if each is not self and each.event is not None]
        return next((each for each in others if not each.event.target.startswith("@")), None)  # type: ignore[union-attr]

    async def _reply_later(self, step: Step, node: Node) -> None:
        try:
            await asyncio.sleep(step.s)
            await self.run(step.branches[0], node, quiet=True)
            await self.reply()
        finally:
            self.truth.over(node)

    async def _raise(self, step: Step, node: Node, quiet: bool) -> None:
        if self.event is not None:
            raise PlannedFailure(self.nonce)

    # -- books

    def requests(self, step: Step) -> list[Request]:
        return [self._request(ask) for ask in step.asks]

    def _request(self, ask: Ask) -> Request:
        self._asked += 1
        nonce = f"{self.name}.{self._asked}"
        self.truth.plans[nonce] = ask.plan
        return self.truth.request(nonce, self.life, ask.target, ask.type)

    def data(self, request: Request) -> Any:
        return {"nonce": request.nonce}

    def made(self, step: Step, requests: list[Request]) -> list[unknot.Request[Any]]:
        return [
            self.ctx.request(ask.target, ask.type, self.data(request))
            for request, ask in zip(requests, step.asks, strict=True)
        ]

    def wait_for(self, things: list[Thing], need: int, requests: list[Request]) -> Waits:
        """A wait for things, known on the wire by the strand that opens it."""
        self._asked += 1
        strand = self.ctx._strand()
        key = (self.life.token(), strand.execution.id, strand.id)
        wait = Waits(requests, need, things, f"{self.name}/{self._asked}", strand=key)
        self.truth.wire.strands[key] = wait
        return wait

    @asynccontextmanager
    async def waiting(self, node: Node, wait: Waits, timeout: float, quiet: bool) -> AsyncIterator[None]:
        """Inside, *node* waits; when that fails, it goes on where it is *quiet*."""
        life, now = self.life, self.truth.clock
        began, paused_s = now(), life.paused_s
        self.truth.waits(node, wait)
        try:
            yield
        except WaitFailed as why:
            self.truth.laws.failed(why)
            if life.alive:
                self.truth.laws.judge(why, wait)
            if not quiet:
                raise
        finally:
            self.truth.goes_on(node)
            waited_s = now() - began - (life.paused_s - paused_s)
            if life.alive and waited_s > timeout + CLIENT_GRACE_S + SLACK_S:
                name = wait.name or wait.requests[0].nonce
                self.truth.accuse(f"{name}: waited {waited_s:.2f} s, timeout {timeout:g} s")

    def _nodes(self, step: Step, *, detached: bool = True) -> list[Node]:
        return [self.truth.node(self.life, detached=detached) for _ in step.branches]

    def _branches(self, step: Step, nodes: list[Node]) -> list[Coroutine[Any, Any, None]]:
        return [self._branch(plan, node) for plan, node in zip(step.branches, nodes, strict=True)]

    async def _branch(self, plan: list[Step], node: Node) -> None:
        try:
            await self.run(plan, node, quiet=True)
        finally:
            self.truth.over(node)

    @asynccontextmanager
    async def _standing(self, node: Node, children: list[Node]) -> AsyncIterator[None]:
        node.wait, node.since = Children(children, is_known=not node.detached), None
        try:
            yield
        finally:
            node.wait = None
            for child in children:
                self.truth.over(child)
