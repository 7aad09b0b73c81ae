"""One simulated run: gateway, agents and network on one virtual clock, what breaks, and what is checked."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import cast

from msgspec import Struct
from nats.aio.msg import Msg

from tests.sim.actors import DRAIN_S, DriverLife, Life, ScriptLife, TeamLife
from tests.sim.network import GatewayLine, Letter, Line, Server
from tests.sim.scenario import Item, Scenario
from tests.sim.truth import Truth
from tests.sim.virtual import NothingLeft, VirtualLoop, virtual_loop
from unknot import _transport
from unknot_gateway.core.facts import TimePassed
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.loop import Owner
from unknot_schemas.subjects import Subjects

LOOK_S = 0.25
QUIET_MAX_S = 200.0
"""Everything that was begun has ended by then: no timeout and no sleep is longer."""
FORGOTTEN_S = 4_000.0
"""After that nobody needs to remember anything."""
NOTICED_S = 2.5
"""How long a client takes to find out that the network is gone."""
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
    """One life of the gateway."""

    def __init__(self, server: Server, scenario: Scenario, epoch: int) -> None:
        subjects = Subjects(NETWORK)
        clock = server.loop.time
        config = KernelConfig(policy=scenario.policy, session_loss_s=scenario.session_loss_s)
        self.line = GatewayLine(server)
        self.kernel = Kernel(NETWORK, epoch, config)
        egress = Egress(subjects, self.line.max_payload, clock)
        self.owner = Owner(self.kernel, Ingress(subjects), egress, self.line, clock)
        self.line.listen(subjects.inbound, self._take)
        self.task = server.loop.create_task(self.owner.run(), name=f"gateway {epoch}")

    async def _take(self, letter: Letter) -> None:
        await self.owner.take(cast(Msg, letter))  # all that it reads of a message

    def die(self) -> None:
        """kill -9."""
        self.line.vanish()
        self.task.cancel()


class World:
    """One run."""

    def __init__(self, scenario: Scenario, loop: VirtualLoop) -> None:
        self.scenario = scenario
        self.loop = loop
        self.truth = Truth(loop.time)
        self.digest = blake2b(digest_size=16)
        self.simulated_s = 0.0
        self.server: Server
        self.gateway: Gateway
        self.lives: dict[str, Life] = {}
        self.lines: dict[str, Line] = {}
        self.owners: list[Owner] = []
        self._epoch = 0
        self._gateway_is_up = False
        self._repairs = 0
        """Faults that are on."""
        self._quiet_since = 0.0
        loop.set_exception_handler(self._failed)

    async def play(self) -> None:
        """From the first hello to the last table."""
        self.server = Server(self.scenario.seed, self.tap)
        began = self.loop.time()
        self._start_gateway()
        for team in self.scenario.teams:
            self._begin_life(team.name)
        for name in (*self.scenario.scripts, *self.scenario.drivers):
            self._begin_life(name)
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
        self.lines[line.name] = line

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.truth.accuse(f"{context['message']}: {context.get('exception')!r}")

    # -- who is there

    def _start_gateway(self) -> None:
        self._epoch += 1
        self.gateway = Gateway(self.server, self.scenario, self._epoch)
        self.owners.append(self.gateway.owner)
        self._gateway_is_up = True

    def _begin_life(self, name: str) -> None:
        beat_s = self.scenario.heartbeat_s
        team = next((team for team in self.scenario.teams if team.name == name), None)
        if team is not None:
            self.lives[name] = TeamLife(team, self.truth, beat_s)
        elif name in self.scenario.scripts:
            self.lives[name] = ScriptLife(name, self.truth, beat_s)
        else:
            self.lives[name] = DriverLife(name, self.truth, beat_s)

    # -- what begins

    def _begin(self, number: int, item: Item) -> None:
        if item.fault is None:
            driver = self.lives.get(item.driver)
            if isinstance(driver, DriverLife) and driver.alive:
                driver.begin(f"n{number}", item)
            return
        name = "leave_for_a_while" if item.fault == "leave" else item.fault
        getattr(self, f"_{name}")(item)

    def _fault(self, item: Item, end: "partial[None]", settle_s: float) -> None:
        """*end* it in time; nothing is missed before all has settled."""
        self.truth.figures[f"fault {item.fault}"] += 1
        self._repairs += 1
        quiet = self.loop.time() + item.s + settle_s + 4 * self.scenario.heartbeat_s
        self._quiet_since = max(self._quiet_since, quiet)

        def over() -> None:
            self._repairs -= 1
            end()

        self.loop.call_later(item.s, over)

    def _loss(self, item: Item) -> None:
        self.server.lossy.append(item.p)
        self._fault(item, partial(self.server.lossy.remove, item.p), 0.0)

    def _cut(self, item: Item) -> None:
        line = self.lines.get(item.who)
        if line is None or line.is_cut or not line.is_connected:
            return
        line.cut()
        self.loop.call_later(NOTICED_S, line.notice)
        self._fault(item, partial(self._heal, item.who, line), self.scenario.session_loss_s)

    def _heal(self, who: str, line: Line) -> None:
        if self.lives[who].alive and self.lines[who] is line:
            line.heal()

    def _stall(self, item: Item) -> None:
        line = self.lines.get(item.who)
        if line is None or line.is_stalled:
            return
        line.stall()
        self._fault(item, partial(line.go_on), 0.0)

    def _crash(self, item: Item) -> None:
        life = self.lives[item.who]
        if not life.alive or item.who not in self.lines:
            return
        self.lines.pop(item.who).die()
        life.die()
        self._fault(item, partial(self._begin_life, item.who), self.scenario.session_loss_s)

    def _blackout(self, item: Item) -> None:
        lines = [line for line in self.lines.values() if line.is_connected and not line.is_cut]
        gateway = self.gateway.line
        for line in lines:
            line.cut()
            self.loop.call_later(NOTICED_S, line.notice)
        gateway.is_cut = True
        self._fault(item, partial(self._all_heal, lines, gateway), self.scenario.session_loss_s)

    def _all_heal(self, lines: list[Line], gateway: GatewayLine) -> None:
        gateway.is_cut = gateway is not self.gateway.line  # else it has died meanwhile
        for line in lines:
            if self.lines.get(line.name) is line:
                self._heal(line.name, line)

    def _leave_for_a_while(self, item: Item) -> None:
        life = self.lives[item.who]
        if not life.alive or life.leaving or life.me is None:
            return
        life.leave()
        self._fault(item, partial(self._come_back, life), DRAIN_S + self.scenario.session_loss_s)

    def _come_back(self, life: Life) -> None:
        if not life.alive:
            return  # it has crashed meanwhile, and comes back by itself
        if not life.task.done():
            self._repairs += 1
            self.loop.call_later(0.5, self._come_back_later, life)
            return
        life.die()
        self._begin_life(life.name)

    def _come_back_later(self, life: Life) -> None:
        self._repairs -= 1
        self._come_back(life)

    def _restart(self, item: Item) -> None:
        if not self._gateway_is_up:
            return
        self._gateway_is_up = False
        self.gateway.die()
        self.truth.gateway_lost()
        self._fault(item, partial(self._start_gateway), self.scenario.session_loss_s)

    def _freeze(self, item: Item) -> None:
        line = self.gateway.line
        line.freeze()
        self._fault(item, partial(line.thaw), 0.0)

    # -- what is seen

    def tap(self, source: str, subject: str, payload: bytes) -> None:
        """Something was published."""
        self.digest.update(f"{self.loop.now:.6f} {source} {subject} {len(payload)} ".encode())
        self.digest.update(payload)
        words = subject.split(".", 5)
        if source != "gateway":
            verb = words[4] if words[2] == "in" else ""
            if verb in ("request", "ask") and len(words) > 5 and words[5] != "cancel":
                self.truth.sent(verb, payload)
            elif verb == "wait" and words[5] == "open":
                self.truth.sent("wait.open", payload)
        elif words[2] == "notice" and subject.endswith("deadlock_detected"):
            self.truth.told(payload)
        elif words[2] == "out" and words[5] == "outcome":
            self.truth.settled(payload)
        elif words[2] == "out" and words[5] == "control.confirm":
            self.truth.asked(payload)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self.scenario.policy != "shadow":
                self.truth.look(self._quiet_since)

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
        return bool(self._repairs or self._busy())

    def _busy(self) -> list[str]:
        busy = []
        for name, life in self.lives.items():
            idle = life.is_idle if isinstance(life, DriverLife) else not life.work
            held = life.me._links.session.running.held if life.me is not None else {}
            if not idle or held or life.me is None:
                busy.append(name)
        return busy

    async def _leave(self) -> None:
        for life in self.lives.values():
            life.leave()
        tasks = [life.task for life in self.lives.values()]
        done, late = await asyncio.wait(tasks, timeout=30.0)
        for life in self.lives.values():
            if life.task in late:
                self.truth.accuse(f"{life.name} does not leave")
                life.task.cancel()
            elif life.task in done:
                life.check_left()

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
            "groups": len(kernel.groups),
            "open bytes": tables.messages.open_bytes,
            "kept bytes": tables.messages.kept_bytes,
            "remembered": tables.messages.remembered,
            "deadlines": len(tables.deadlines),
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
            found.append(record.getMessage())

    logger, keep = logging.getLogger("unknot"), Keep(logging.ERROR)
    before = logger.level, logger.propagate
    logger.addHandler(keep)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.removeHandler(keep)
        logger.level, logger.propagate = before
