"""Who plays: agents with handlers, scripts with a loop, drivers that begin jobs. All through the public client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

import unknot
from tests.sim.scenario import Ask, Item, Step, Team
from tests.sim.truth import Children, Execution, Node, Request, Truth, Waits
from unknot import Agent, Connection, Context, Event, WaitFailed
from unknot._session import Session
from unknot_schemas.limits import CLIENT_GRACE_S

URL = "nats://simulated"
PATIENCE_S = 60.0
SLACK_S = 0.01
ONE_WAY_S = 20.0
DRAIN_S = 2.0

Opened = Callable[[], Any]


class PlannedFailure(Exception):
    """A handler that raises because its plan says so."""


class Life:
    """One life of one process."""

    channel = False

    def __init__(self, name: str, truth: Truth, heartbeat_s: float) -> None:
        self.name = name
        self.truth = truth
        self.heartbeat_s = heartbeat_s
        self.alive = True
        self.leaves = asyncio.Event()
        self.me: Connection | None = None
        self.session: Session | None = None
        """Known before ``me``: an event may come before the start is over."""
        self.main: Node | None = None
        self.work: dict[asyncio.Task[None], None] = {}
        """Jobs and background tasks."""
        truth.born(self)
        self.task = asyncio.get_running_loop().create_task(self.live(), name=f"life of {name}")
        self.task.add_done_callback(self._lived)

    async def live(self) -> None:
        """From hello to bye."""
        raise NotImplementedError

    def pool_of(self, event_type: str) -> str:
        """The pool that serves *event_type*."""
        return ""

    def slots(self, pool: str) -> int:
        """Its slots."""
        return 0

    def token(self) -> str:
        """The session it lives under now."""
        return self.session.token if self.session is not None else ""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside everything else, until it ends or the process dies."""
        task = asyncio.get_running_loop().create_task(work)
        self.work[task] = None
        task.add_done_callback(self._worked)

    def _lived(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (why := task.exception()) is not None:
            self.truth.accuse(f"{self.name} failed: {why!r}")

    def _worked(self, task: asyncio.Task[None]) -> None:
        del self.work[task]
        if not task.cancelled() and (why := task.exception()) is not None:
            self.truth.accuse(f"{self.name}: a job failed: {why!r}")

    def die(self) -> None:
        """kill -9. Its connection is dead already."""
        self.alive = False
        self.truth.gone(self)
        self.task.cancel()
        for task in list(self.work):
            task.cancel()

    @property
    def leaving(self) -> bool:
        """Whether it was asked to leave."""
        return self.leaves.is_set()

    def leave(self) -> None:
        """SIGTERM."""
        self.leaves.set()

    def check_left(self) -> None:
        """Accuse whoever has left something behind."""
        if self.me is None:
            return
        session = self.me._links.session
        left = {
            "pending": len(session.pending),
            "held": len(session.running.held),
            "calls": session.transport.waiting_calls,
            "tasks": len(session.tasks),
            "beside": len(session.beside),
        }
        if any(left.values()):
            self.truth.accuse(f"{self.name} has left behind {left}")


class TeamLife(Life):
    """An agent with handlers."""

    def __init__(self, team: Team, truth: Truth, heartbeat_s: float) -> None:
        self.team = team
        self.channel = team.channel
        super().__init__(team.name, truth, heartbeat_s)

    def pool_of(self, event_type: str) -> str:
        """The pool that serves *event_type*."""
        return "heavy" if event_type == "heavy" and self.team.heavy else ""

    def slots(self, pool: str) -> int:
        """Its slots."""
        return self.team.heavy if pool else self.team.slots

    async def live(self) -> None:
        """Serve until asked to leave."""
        team = self.team
        agent = Agent(
            team.name,
            team.slots,
            pools={"heavy": team.heavy} if team.heavy else None,
            channels=["crew"] if team.channel else (),
            blocking_waits="allow",
            heartbeat_s=self.heartbeat_s,
        )
        agent.on("work")(self.handle)
        agent.on("heavy", pool=self.pool_of("heavy"))(self.handle)
        async with agent.running(URL, timeout=PATIENCE_S, main_runs=team.main_runs, drain_s=DRAIN_S) as me:
            self.me = me
            await self.leaves.wait()

    async def handle(self, job: Any, ctx: Context) -> Any:
        """Do what the plan in the request says."""
        return await Doing(self, ctx, ctx.event).handle(self.truth.node(self))


class ScriptLife(Life):
    """A script whose own loop reads events."""

    def pool_of(self, event_type: str) -> str:
        """One for all, which main itself serves."""
        return "main"

    async def live(self) -> None:
        """Serve until asked to leave."""
        self.main = self.truth.node(self)
        async with unknot.connect(self.name, URL, timeout=PATIENCE_S, heartbeat_s=self.heartbeat_s) as me:
            self.me = me
            reading = asyncio.current_task()
            assert reading is not None
            waiting = asyncio.get_running_loop().create_task(self._stop(reading))
            try:
                async for event in me.events():
                    await self._serve(me, event)
            except asyncio.CancelledError:
                if not self.leaves.is_set():
                    raise
            finally:
                waiting.cancel()

    async def _stop(self, reading: "asyncio.Task[Any]") -> None:
        await self.leaves.wait()
        reading.cancel()

    async def _serve(self, me: Connection, event: Event) -> None:
        assert self.main is not None
        doing = Doing(self, me, event)
        try:
            answer = await doing.handle(self.main)
        except (PlannedFailure, WaitFailed) as why:
            await doing.reply(error=repr(why))
        else:
            if answer is not None:
                await doing.reply()


class DriverLife(Life):
    """A script that only asks: every second job in its own task, the others in tasks beside."""

    def __init__(self, name: str, truth: Truth, heartbeat_s: float) -> None:
        self.jobs: asyncio.Queue[tuple[str, Item] | None] = asyncio.Queue()
        self.came = asyncio.Event()
        self._number = 0
        self._undone = 0
        super().__init__(name, truth, heartbeat_s)

    def begin(self, nonce: str, job: Item) -> None:
        """A job comes."""
        self._number += 1
        if self._number % 2 and self.name != "d0":
            self._undone += 1
            self.jobs.put_nowait((nonce, job))
        else:
            self.spawn(self._beside(nonce, job))

    @property
    def is_idle(self) -> bool:
        """Whether no job is left."""
        return not self.work and not self._undone

    async def live(self) -> None:
        """Do jobs until asked to leave."""
        self.main = self.truth.node(self)
        async with unknot.connect(
            self.name, URL, serves=False, timeout=PATIENCE_S, heartbeat_s=self.heartbeat_s
        ) as me:
            self.me = me
            self.came.set()
            while (job := await self.jobs.get()) is not None:
                await Doing(self, me, None, job[0]).run(job[1].plan, self.main, quiet=True)
                self._undone -= 1

    def leave(self) -> None:
        """SIGTERM."""
        super().leave()
        self.jobs.put_nowait(None)

    async def _beside(self, nonce: str, job: Item) -> None:
        await self.came.wait()
        assert self.me is not None
        node = self.truth.node(self)
        try:
            await Doing(self, self.me, None, nonce).run(job.plan, node, quiet=True)
        finally:
            self.truth.over(node)


class Doing:
    """One execution at work. *event*: what it handles; None for a driver's job."""

    def __init__(self, life: Life, ctx: Context, event: Event | None, nonce: str = "") -> None:
        self.life = life
        life.session = ctx._links.session
        self.truth = life.truth
        self.ctx = ctx
        self.event = event
        self.plan: list[Step] = []
        if event is not None:
            nonce = event.data["nonce"]
            self.plan = msgspec.convert(event.data["plan"], list[Step])
        self.nonce = nonce
        self.name = nonce
        """What the nonces of its own requests begin with: another one for each member, and for a copy that runs."""
        if event is not None and event.target.startswith("@"):
            self.name += f"@{life.name}"
        if event is not None and event.is_redelivered:
            self.name += "+"
        self.execution: Execution | None = None
        self._asked = 0
        self._answered = event is None or not event.requires_response

    async def handle(self, node: Node) -> Any:
        """Handle the event; what is returned is its answer, None that it was given, or comes later."""
        assert self.event is not None
        execution = self.execution = self.truth.begin(self.life, self.nonce, self.event, node)
        try:
            await self.run(self.plan, node)
            if self._answered or execution.deferred:
                return None
            self.truth.answered(self.nonce)
            return {"nonce": self.nonce}
        except Exception:
            self.truth.answered(self.nonce, failed=True)
            raise
        finally:
            self.truth.end(execution)
            if node is not self.life.main:
                self.truth.over(node)

    async def run(self, plan: list[Step], node: Node, *, quiet: bool = False) -> None:
        """Do the steps, one after the other. *quiet*: whatever fails, go on."""
        for step in plan:
            await getattr(self, f"_{step.op}")(step, node, quiet or not step.loud)

    async def reply(self, error: str | None = None) -> None:
        """Answer now, if nobody has."""
        if self._answered or (self.execution is not None and self.execution.deferred and error):
            return
        self._answered = True
        self.truth.answered(self.nonce, failed=error is not None)
        try:
            await self.ctx.reply({"nonce": self.nonce}, to=self.event, error=error)
        except WaitFailed:
            self.truth.figures["answers nobody wanted"] += 1  # the session it came to is over

    # -- steps

    async def _sleep(self, step: Step, node: Node, quiet: bool) -> None:
        await asyncio.sleep(step.s)

    async def _ask(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self._requests(step)
        ask = step.asks[0]
        async with self._waiting(node, requests, 1, step.s, quiet):
            answer = await self.ctx.send_and_wait(
                ask.target, ask.type, self._data(request, ask), timeout=step.s
            )
            self.truth.replied(request, answer)

    async def _all(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self._requests(step)
        made = self._made(step, requests)
        async with self._waiting(node, requests, step.need, step.s, quiet):
            answers = await self.ctx.wait_all(made, timeout=step.s)
            for request, answer in zip(requests, answers, strict=True):
                self.truth.replied(request, answer)

    async def _any(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self._requests(step)
        made = self._made(step, requests)
        async with self._waiting(node, requests, step.need, step.s, quiet):
            answer = await self.ctx.wait_any(made, timeout=step.s)
            self.truth.replied(requests[answer.index], answer.data)

    async def _quorum(self, step: Step, node: Node, quiet: bool) -> None:
        requests = self._requests(step)
        made = self._made(step, requests)
        async with self._waiting(node, requests, step.need, step.s, quiet):
            answers = await self.ctx.wait_quorum(made, step.need, timeout=step.s)
            if len({answer.index for answer in answers}) != step.need:
                self.truth.accuse(f"{len(answers)} answers where {step.need} were needed: {self.nonce}")
            for answer in answers:
                self.truth.replied(requests[answer.index], answer.data)

    async def _later(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self._requests(step)
        ask = step.asks[0]
        try:
            asked = await self.ctx.ask(ask.target, ask.type, self._data(request, ask), timeout=step.s)
        except WaitFailed as why:
            self.truth.failed(why)
            self.truth.forget(requests)
            return
        async with self._waiting(node, requests, 1, step.s, quiet):
            self.truth.replied(request, await self.ctx.expect(asked, timeout=step.s))

    async def _send(self, step: Step, node: Node, quiet: bool) -> None:
        [request] = requests = self._requests(step)
        ask = step.asks[0]
        self.truth.forget(requests)
        try:
            await self.ctx.send(ask.target, ask.type, self._data(request, ask), timeout=ONE_WAY_S)
        except WaitFailed as why:
            self.truth.failed(why)

    async def _gather(self, step: Step, node: Node, quiet: bool) -> None:
        nodes = self._nodes(step)
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
        try:
            self.ctx.defer(to=self.event)
        except WaitFailed:
            return  # the session it came to is over
        self.execution.deferred = True
        self.life.spawn(self._reply_later(step, self.truth.node(self.life)))

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

    def _requests(self, step: Step) -> list[Request]:
        return [self._request(ask) for ask in step.asks]

    def _request(self, ask: Ask) -> Request:
        self._asked += 1
        return self.truth.request(f"{self.name}.{self._asked}", self.life.name, ask.target, ask.type)

    def _data(self, request: Request, ask: Ask) -> Any:
        return {"nonce": request.nonce, "plan": ask.plan}

    def _made(self, step: Step, requests: list[Request]) -> list[unknot.Request[Any]]:
        return [
            self.ctx.request(ask.target, ask.type, self._data(request, ask))
            for request, ask in zip(requests, step.asks, strict=True)
        ]

    @asynccontextmanager
    async def _waiting(
        self, node: Node, requests: list[Request], need: int, timeout: float, quiet: bool
    ) -> AsyncIterator[None]:
        now = self.truth.clock
        began = now()
        node.wait, node.since = Waits(requests, need), None
        try:
            yield
        except WaitFailed as why:
            self.truth.failed(why)
            if not quiet:
                raise
        finally:
            node.wait = None
            self.truth.forget(requests)
            if self.life.alive and now() - began > timeout + CLIENT_GRACE_S + SLACK_S:
                self.truth.accuse(f"{requests[0].nonce}: waited {now() - began:.2f} s, timeout {timeout:g} s")

    def _nodes(self, step: Step) -> list[Node]:
        return [self.truth.node(self.life) for _ in step.branches]

    def _branches(self, step: Step, nodes: list[Node]) -> list[Coroutine[Any, Any, None]]:
        return [self._branch(plan, node) for plan, node in zip(step.branches, nodes, strict=True)]

    async def _branch(self, plan: list[Step], node: Node) -> None:
        try:
            await self.run(plan, node, quiet=True)
        finally:
            self.truth.over(node)

    @asynccontextmanager
    async def _standing(self, node: Node, children: list[Node]) -> AsyncIterator[None]:
        node.wait, node.since = Children(children), None
        try:
            yield
        finally:
            node.wait = None
            for child in children:
                self.truth.over(child)
