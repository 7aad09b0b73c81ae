"""Who plays: agents with handlers, scripts with a loop, drivers that begin jobs. All through the public client."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import msgspec

import unknot
from tests.sim.doing import Doing, PlannedFailure
from tests.sim.nodes import Node
from tests.sim.scenario import Item, Team
from tests.sim.successors import REPLACED
from tests.sim.truth import Truth
from tests.sim.virtual import PROCESS
from unknot import Agent, Connection, Context, Event, WaitFailed
from unknot._session import Profile, Session
from unknot_schemas import errors as codes

URL = "nats://simulated"
PATIENCE_S = 60.0
DRAIN_S = 2.0


class Life:
    """One life of one process. *key*: which of the scenario's processes it is; *name*: its agent."""

    channel = False
    reentrant = False
    main_runs = True
    serves_pools: tuple[str, ...] = ()

    def __init__(self, key: str, truth: Truth, heartbeat_s: float) -> None:
        self.key = key
        self.on_end: Callable[[Life], None] = lambda _life: None
        """Called when it has ended by itself."""
        self.name = key.partition("-")[0]
        self.truth = truth
        self.heartbeat_s = heartbeat_s
        self.alive = True
        self.leaves = asyncio.Event()
        self.paused_s = 0.0
        """How long its process has been stopped so far."""
        self.doubtful_until = 0.0
        """Until then the gateway may take its session for lost."""
        self.was_at_rest = False
        """Whether it had nothing to do when it was asked to leave."""
        self.me: Connection | None = None
        self.session: Session | None = None
        """Known before ``me``: an event may come before the start is over."""
        self.main: Node | None = None
        self.doings: dict[Doing, None] = {}
        """Its executions."""
        self.undecided: list[Event] = []
        """What it was asked to decide, and has left open."""
        self.work: dict[asyncio.Task[None], None] = {}
        """Jobs and background tasks."""
        self.process = truth.born(self)
        self._context = copy_context()
        self._context.run(PROCESS.set, self.process)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self.live(), name=f"life of {key}", context=self._context)
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

    @property
    def is_known(self) -> bool:
        """Whether the gateway has welcomed it."""
        return self.me is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do, and nothing is held."""
        held = self.me._links.session.running.held if self.me is not None else {}
        return self.task.done() or not (self.work or held or self.me is None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside everything else, until it ends or the process dies."""
        task = asyncio.get_running_loop().create_task(work)
        self.work[task] = None
        task.add_done_callback(self._worked)

    def spawn_from_outside(self, work: Coroutine[Any, Any, None]) -> None:
        """The same, where the running code is not the process itself."""
        self._context.copy().run(self.spawn, work)

    def _lived(self, task: asyncio.Task[None]) -> None:
        why = None if task.cancelled() else task.exception()
        by = self._replaced_by(why)
        if by is not None:
            fault = self.truth.successors.fault(self.process, self.me.session if self.me else "", by)
            if fault is not None:
                self.truth.accuse(fault)
        elif why is not None:
            self.truth.accuse(f"{self.key} failed: {why!r}")
        if self.alive:
            self.check_left()
            self.die()
            self.on_end(self)

    def _replaced_by(self, why: BaseException | None) -> str | None:
        """The session that has taken its place: it was told so, or its hello was refused."""
        if isinstance(why, WaitFailed) and why.code == codes.SESSION_USED:
            self.truth.figures["replaced before it was welcome"] += 1
            return str(why.detail.get("replaced_by"))
        ended = self.me._links.session.ended if self.me is not None else None
        return ended.split()[1] if ended is not None and ended.endswith(REPLACED) else None

    def _worked(self, task: asyncio.Task[None]) -> None:
        del self.work[task]
        if not task.cancelled() and (why := task.exception()) is not None:
            self.truth.accuse(f"{self.key}: a job failed: {why!r}")

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
        running = session.running
        for _ in range(2):  # promises become tombstones first
            running.sweep(float("inf"))
        left = {
            "pending": len(session.pending),
            "held": len(running.held) if self.was_at_rest else 0,
            "answers": len(running._answers),
            "answer bytes": running._answer_bytes,
            "abandoned": len(running._abandoned),
            "calls": session.transport.waiting_calls,
            "outbox": len(session.transport._outbox) if self.alive and session.transport.is_up else 0,
            "tasks": len(session.tasks),
            "beside": len(session.beside),
            "strands": len(session.main.strands) if self.was_at_rest else 0,
            "holds": len(session.holds) if self.was_at_rest else 0,
        }
        if any(left.values()):
            self.truth.accuse(f"{self.key} has left behind { {k: v for k, v in left.items() if v} }")


class _Simulated(Agent):
    """An agent as a scenario describes it: what a supervisor would set, too."""

    identity: dict[str, Any]

    def _profile(self, main_runs: bool) -> Profile:
        return msgspec.structs.replace(super()._profile(main_runs), **self.identity)


class TeamLife(Life):
    """An agent with handlers, or one of its instances."""

    def __init__(self, key: str, team: Team, truth: Truth, heartbeat_s: float) -> None:
        self.team = team
        self.channel = team.channel
        self.reentrant = team.reentrant
        self.main_runs = team.main_runs
        self.serves_pools = ("", "heavy") if team.heavy else ("",)
        super().__init__(key, truth, heartbeat_s)

    def pool_of(self, event_type: str) -> str:
        """The pool that serves *event_type*."""
        return "heavy" if event_type == "heavy" and self.team.heavy else ""

    def slots(self, pool: str) -> int:
        """Its slots."""
        return self.team.heavy if pool else self.team.slots

    async def live(self) -> None:
        """Serve until asked to leave, or replaced."""
        team = self.team
        agent = _Simulated(
            team.name,
            team.slots,
            pools={"heavy": team.heavy} if team.heavy else None,
            channels=["crew"] if team.channel else (),
            blocking_waits="allow",
            reentrant=team.reentrant,
            heartbeat_s=self.heartbeat_s,
        )
        agent.on_approval(self.decide)
        named: dict[str, dict[str, Any]] = {
            "": {},
            "instance": {"instance": self.key},
            "exclusive": {"exclusive": True},
        }
        agent.identity = named[team.identity]
        agent.on("work")(self.handle)
        agent.on("heavy", pool=self.pool_of("heavy"))(self.handle)
        async with agent.running(URL, timeout=PATIENCE_S, main_runs=team.main_runs, drain_s=DRAIN_S) as me:
            self.me = me
            asked = asyncio.create_task(self.leaves.wait())
            over = asyncio.create_task(me.closed())
            try:
                await asyncio.wait((asked, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
                over.cancel()

    async def decide(self, asked: Any, ctx: Context) -> bool | None:
        """Yes, no, or left open."""
        await asyncio.sleep(asked["s"])
        decision: bool | None = asked["yes"]
        if decision is None:
            self.undecided.append(ctx.event)
        else:
            self.truth.decided(asked["decision"], yes=decision)
        return decision

    async def handle(self, job: Any, ctx: Context) -> Any:
        """Do what the plan of the request says."""
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

    def __init__(self, key: str, truth: Truth, heartbeat_s: float) -> None:
        self.jobs: asyncio.Queue[tuple[str, Item] | None] = asyncio.Queue()
        self.came = asyncio.Event()
        self._number = 0
        self._undone = 0
        super().__init__(key, truth, heartbeat_s)

    def begin(self, nonce: str, job: Item) -> None:
        """A job comes."""
        self._number += 1
        if self._number % 2 and self.name != "d0":
            self._undone += 1
            self.jobs.put_nowait((nonce, job))
        else:
            self.spawn_from_outside(self._beside(nonce, job))

    @property
    def is_idle(self) -> bool:
        """Whether no job is left."""
        return super().is_idle and not self._undone

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
        node = self.truth.node(self, detached=True)
        try:
            await Doing(self, self.me, None, nonce).run(job.plan, node, quiet=True)
        finally:
            self.truth.over(node)
