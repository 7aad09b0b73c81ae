"""One simulated run: gateway, agents and network on one virtual clock, what breaks, and what is checked."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import copy_context
from hashlib import blake2b
from typing import Any, Literal, cast

import structlog
from msgspec import Struct

from tests.sim.faults import Faults
from tests.sim.lives import DriverLife, Life, ScriptLife, TeamLife
from tests.sim.network import Line, MemoryBus
from tests.sim.nodes import Decision, Waits
from tests.sim.scenario import Item, Scenario
from tests.sim.server import Letter, Server
from tests.sim.successors import REPLACED
from tests.sim.truth import Truth
from tests.sim.virtual import PROCESS, NothingLeft, VirtualLoop, virtual_loop
from tests.sim.wire import Wire
from unknot import _transport
from unknot_gateway.core.facts import ApprovalDecided, Disconnected, TimePassed
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.loop import Owner
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas.subjects import Subjects

LOOK_S = 0.5
TOLD_S = 0.001
HUMAN_S = 1.0
QUIET_MAX_S = 300.0
"""Everything that was begun has ended by then: no timeout and no sleep is longer."""
FORGOTTEN_S = 4_000.0
"""After that nobody needs to remember anything."""
NETWORK = "default"


class Report(Struct):
    """What came of a run."""

    digest: str
    violations: list[str]
    figures: Counter[str]
    simulated_s: float


def play(scenario: Scenario) -> Report:
    """Simulate *scenario*. The same scenario gives the same digest, in every process."""
    with virtual_loop(scenario.seed) as loop, _quiet_logs() as errors:
        world = World(scenario, loop)
        before = vars(_transport)["NatsClient"]
        vars(_transport)["NatsClient"] = lambda: Line(world.server, world.opened)
        try:
            loop.run_until_complete(world.play())
        except NothingLeft:
            world.truth.accuse("everybody waits for ever, and no timer is set")
            _end_all(loop)
        finally:
            vars(_transport)["NatsClient"] = before
        for error in errors:
            world.truth.accuse(f"logged: {error}")
        world.truth.figures += world.server.counters
        return Report(
            world.digest.hexdigest(), world.truth.violations, world.truth.figures, world.simulated_s
        )


class Gateway:
    """One life of the gateway. It begins in a context of its own: its process."""

    def __init__(self, server: Server, scenario: Scenario, epoch: int, wire: Wire) -> None:
        self._wire = wire
        PROCESS.set(f"gateway#{epoch}")
        self._context = copy_context()
        self._loop = server.loop
        subjects = Subjects(NETWORK)
        clock = server.loop.time
        config = KernelConfig(policy=scenario.policy, session_loss_s=scenario.session_loss_s)
        self.line = MemoryBus(server)
        self.kernel = Kernel(NETWORK, epoch, config)
        egress = Egress(subjects, self.line.max_payload, clock)
        self.owner = Owner(self.kernel, Ingress(subjects), egress, self.line, clock)
        self.line.attach(subjects.inbound, self._take)
        self.task = server.loop.create_task(self.owner.run(), name=f"gateway {epoch}")

    async def _take(self, letter: Letter) -> None:
        if letter.subject.endswith(".wait.open"):
            self._wire.arrived(letter.data)
        await self.owner.take(cast(Incoming, letter))  # all that it reads of a message

    def hear(self, connection: str) -> None:
        """The server tells that *connection* has ended."""
        self._loop.call_later(TOLD_S, self._told, connection, context=self._context)

    def _told(self, connection: str) -> None:
        if not self.line.is_cut:
            self.owner.tell(Disconnected(connection))

    def decide(self, fact: ApprovalDecided) -> None:
        """The operator's api was told."""
        self._loop.call_soon(self.owner.tell, fact, context=self._context)

    def die(self) -> None:
        """kill -9."""
        self.line.vanish()
        self.task.cancel()


class World:
    """One run."""

    named = TeamLife
    """Who may have an identity."""

    def __init__(self, scenario: Scenario, loop: VirtualLoop) -> None:
        self.scenario = scenario
        self.loop = loop
        self.truth = Truth(loop.time, scenario.pools, scenario.heartbeat_s)
        self.truth.wire.on_human = self._ask_human
        self.truth.is_calm = scenario.is_calm
        self.digest = blake2b(digest_size=16)
        self.simulated_s = 0.0
        self.server = Server(scenario.seed, loop, self.tap)
        self.gateway: Gateway
        self.is_gateway_up = False
        self.lives: dict[str, Life] = {}
        """The newest life of each process of the scenario."""
        self.elders: list[Life] = []
        """Lives that have been replaced, or leave as soon as the next one is there."""
        self.lines: dict[str, Line] = {}
        """By process."""
        self.owners: list[Owner] = []
        self.faults = Faults(self)
        self._epoch = 0
        loop.set_exception_handler(self._failed)

    async def play(self) -> None:
        """From the first hello to the last table."""
        began = self.loop.time()
        self.start_gateway()
        teams = [key for team in self.scenario.teams for key in team.keys]
        for key in (*teams, *self.scenario.scripts, *self.scenario.drivers):
            self.begin_life(key)
        for number, item in enumerate(self.scenario.items):
            self.loop.call_at(began + item.at, self._begin, number, item)
        looking = self.loop.create_task(self._look())
        await self._until_quiet(began)
        self.simulated_s = self.loop.time() - began
        await self._leave()
        looking.cancel()
        await asyncio.sleep(FORGOTTEN_S)
        self._check_gateway()
        self.gateway.die()
        await asyncio.sleep(0)

    def opened(self, line: Line) -> None:
        """A client has connected."""
        self.lines[line.process] = line

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.truth.accuse(f"{context['message']}: {context.get('exception')!r}")

    # -- who is there

    def start_gateway(self) -> None:
        """A gateway begins: a new epoch, a number of milliseconds as in `serve`."""
        self._epoch = max(self._epoch + 1, int(self.loop.time() * 1_000))
        self.truth.things.begins(self._epoch)
        self.gateway = copy_context().run(Gateway, self.server, self.scenario, self._epoch, self.truth.wire)
        self.owners.append(self.gateway.owner)
        self.is_gateway_up = True
        if self.scenario.system_account:
            self.server.on_end = self.gateway.hear

    def kill_gateway(self) -> None:
        """kill -9."""
        self.is_gateway_up = False
        self.loop.go_on(self.gateway.line.process)
        self.gateway.die()
        self.truth.gateway_lost()

    def begin_life(self, key: str, welcomes: int = 0) -> None:
        """A process begins, of whose hellos the first *welcomes* answers are lost."""
        beat_s = self.scenario.heartbeat_s
        team = next((team for team in self.scenario.teams if key in team.keys), None)
        if team is not None:
            life: Life = TeamLife(key, team, self.truth, beat_s)
        elif key in self.scenario.scripts:
            life = ScriptLife(key, self.truth, beat_s)
        else:
            life = DriverLife(key, self.truth, beat_s)
        self.lives[key] = life
        life.on_end = self.faults.ended
        if welcomes:
            self.server.unwelcome[life.process] = welcomes

    def kill(self, life: Life) -> None:
        """kill -9."""
        line = self.lines.pop(life.process, None)
        if line is not None:
            line.die()
        self.loop.go_on(life.process)
        life.die()

    def _ask_human(self, id: str, waits: Waits, decision: Decision) -> None:
        if decision.yes is not None:
            self.loop.call_later(decision.s, self._decide, id, waits, decision)

    def _decide(self, id: str, waits: Waits, decision: Decision) -> None:
        """A human says so, by the operator's api, until it has been heard."""
        if waits.node is None or waits.node.wait is not waits or decision.yes is None:
            return
        if self.is_gateway_up:
            decision.given = decision.yes
            said: Literal["approved", "denied"] = "approved" if decision.yes else "denied"
            self.gateway.decide(ApprovalDecided(id, said, decision.by))
        self.loop.call_later(HUMAN_S, self._decide, id, waits, decision)

    # -- what begins

    def _begin(self, number: int, item: Item) -> None:
        if item.fault is not None:
            self.faults.begin(item)
            return
        driver = self.lives.get(item.driver)
        if isinstance(driver, DriverLife) and driver.alive:
            driver.begin(f"n{number}", item)

    # -- what is seen

    def tap(self, source: str, subject: str, payload: bytes) -> None:
        """Something was published."""
        self.digest.update(f"{int(self.loop.now * 1e6)} {source} {subject} ".encode())
        self.digest.update(payload)
        words = subject.split(".", 5)
        if source != "gateway":
            verb = words[4] if words[2] == "in" else ""
            if verb in ("request", "ask") and len(words) > 5 and words[5] != "cancel":
                self.truth.wire.sent(verb, payload)
            elif verb == "hello":
                self.truth.successors.greeted(PROCESS.get(), payload)
            elif verb == "wait" and words[5] == "open":
                self.truth.wire.waits(payload)
        elif words[0] == "_INBOX":
            self.truth.wire.received(payload)
        elif words[2] == "notice" and subject.endswith("deadlock_detected"):
            self.truth.wire.told(payload)
        elif words[2] == "out" and words[5] == "outcome":
            self.truth.wire.settled(payload)
        elif words[2] == "out" and words[5] == "control.confirm":
            self.truth.wire.asked(payload)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.scenario.policy != "shadow":
                self.truth.laws.look()
            self.truth.laws.look_at_grants()
            if (
                self.scenario.policy != "refuse"
            ):  # there a probe keeps its request parked, for long if need be
                self.truth.laws.look_at_deliveries()

    # -- the end

    async def _until_quiet(self, began: float) -> None:
        last = began + (self.scenario.items[-1].at if self.scenario.items else 0.0)
        await asyncio.sleep(last - self.loop.time() + 0.1)
        give_up_at = self.loop.time() + QUIET_MAX_S
        while self._is_busy():
            await asyncio.sleep(0.5)
            if self.loop.time() > give_up_at:
                self.truth.accuse(f"never quiet: {self._busy()}")
                return

    def _is_busy(self) -> bool:
        return bool(self.faults.on or self._busy())

    def _busy(self) -> list[str]:
        return [life.key for life in (*self.elders, *self.lives.values()) if not life.is_idle]

    async def _leave(self) -> None:
        lives = [*self.elders, *self.lives.values()]
        for life in lives:
            life.was_at_rest = life.is_idle
            life.leave()
        _, late = await asyncio.wait([life.task for life in lives], timeout=30.0)
        for life in lives:
            if life.task in late:
                self.truth.accuse(f"{life.key} does not leave")
                life.task.cancel()

    def _check_gateway(self) -> None:
        kernel, tables = self.gateway.kernel, self.gateway.kernel.tables
        kernel.handle(TimePassed(), self.loop.time())
        left = {
            "messages": len(tables.messages.open),
            "waits": len(tables.messages.waits),
            "graph waits": len(tables.waiting.waits),
            "graph": len(tables.waiting.graph),
            "strands": len(tables.waiting.strands),
            "implied": len(tables.waiting.implied),
            "incidents": len(kernel.detector.incidents),
            "connections": len(tables.connections),
            "groups": len(kernel.groups),
            "open bytes": tables.messages.open_bytes,
            "kept bytes": tables.messages.kept_bytes,
            "remembered": tables.messages.remembered,
            "deadlines": len(tables.deadlines),
            "holds": len(tables.resources.leases),
            "asks": tables.resources.pools.asks,
            "locks": sum(not pool.is_declared for pool in tables.resources.pools.all()),
            "reserved": sum(pool.held + pool.reserved for pool in tables.resources.pools.all()),
            "wanted": tables.resources.artifacts.wanted,
            "productions": tables.resources.artifacts.productions,
            "approvals": len(tables.resources.approvals),
            "things outside": len(tables.resources.holders),
            "reports": tables.resources.holders.reports,
            "sessions": sum(1 for _ in tables.sessions.all()),
            "queued": sum(agent.queued for agent in tables.sessions.agents.values()),
        }
        if any(left.values()):
            self.truth.accuse(f"left in the gateway: { {k: v for k, v in left.items() if v} }")
        for owner in self.owners:
            if owner.counters["failed"]:
                self.truth.accuse(f"the gateway failed {owner.counters['failed']} times: see its log")


def _end_all(loop: VirtualLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.call_later(1e6, lambda: None)
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


@contextmanager
def _quiet_logs() -> Iterator[list[str]]:
    """Errors that the client logs are findings; its warnings are what is simulated."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if REPLACED not in (text := record.getMessage()):
                found.append(text)

    def drop(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        if event.get("exc_info"):  # with all that the gateway knows it would be too long to be read
            found.append(f"{event['event']}: {sys.exc_info()[1]!r}")
        raise structlog.DropEvent

    configured = structlog.get_config()
    structlog.configure(processors=[drop])
    logger, keep = logging.getLogger("unknot"), Keep(logging.ERROR)
    before = logger.level, logger.propagate
    logger.addHandler(keep)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield found
    finally:
        structlog.configure(**configured)
        logger.removeHandler(keep)
        logger.level, logger.propagate = before
