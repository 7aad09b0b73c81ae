"""What breaks, for how long, and how it is mended."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.sim.lives import DRAIN_S, Life
from tests.sim.network import Line
from tests.sim.scenario import Item

if TYPE_CHECKING:
    from tests.sim.world import World

NOTICED_S = 2.5
"""How long a client takes to find out that the network is gone."""
AGAIN_S = 0.5
"""How often to look whether who leaves has left."""
SUPERVISED_S = 1.0


class Faults:
    """Breaks things in a world. Nothing counts as missed before all has settled."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._truth = world.truth
        self._loop = world.loop
        self._loss_s = world.scenario.session_loss_s
        self._settle_s = 4 * world.scenario.heartbeat_s
        self._quiet_at = 0.0
        self.on = 0
        """How many there are at present."""

    def begin(self, item: Item) -> None:
        """Break what *item* says."""
        if item.fault in ("loss", "blackout", "restart", "freeze", "drop"):
            getattr(self, f"_{item.fault}")(item)
            return
        life = self._world.lives[item.who]
        line = self._world.lines.get(life.process)
        if life.alive and line is not None and life.me is not None and not life.task.done():
            getattr(self, f"_{item.fault}")(item, life, line)

    def _until(self, item: Item, mend: Callable[[], object], settle_s: float = 0.0) -> None:
        """*mend* it in time."""
        self._truth.figures[f"fault {item.fault}"] += 1
        self._begun()
        self._loop.call_later(item.s, self._over, mend, settle_s)

    def _begun(self) -> None:
        self.on += 1
        self._truth.quiet_since = float("inf")

    def _over(self, mend: Callable[[], object], settle_s: float) -> None:
        self.on -= 1
        mend()
        self._quiet_at = max(self._quiet_at, self._loop.now + settle_s + self._settle_s)
        self._truth.quiet_since = float("inf") if self.on else self._quiet_at

    def _doubt(self, *lives: Life, until: float = float("inf")) -> None:
        for life in lives:
            life.doubtful_until = max(life.doubtful_until, until)

    def _trust(self, *lives: Life) -> None:
        """Again, as soon as they have found out what has become of their sessions."""
        for life in lives:
            life.doubtful_until = self._loop.now + self._loss_s + self._settle_s

    # -- the network

    def _loss(self, item: Item) -> None:
        lossy = self._world.server.lossy
        lossy.append(item.p)
        self._until(item, partial(lossy.remove, item.p))

    def _drop(self, item: Item) -> None:
        drops = self._world.server.drops
        drops[item.who] = None
        self._until(item, partial(drops.pop, item.who, None))

    def _cut(self, item: Item, life: Life, line: Line) -> None:
        if line.is_cut or not line.is_connected:
            return
        line.cut()
        self._doubt(life)
        self._loop.call_later(NOTICED_S, line.notice)
        self._until(item, partial(self._healed, life, line), self._loss_s)

    def _healed(self, life: Life, line: Line) -> None:
        self._trust(life)
        if life.alive:
            line.heal()

    def _deaf(self, item: Item, life: Life, line: Line) -> None:
        self._one_way(item, life, line, "is_deaf")

    def _mute(self, item: Item, life: Life, line: Line) -> None:
        self._one_way(item, life, line, "is_mute")

    def _one_way(self, item: Item, life: Life, line: Line, way: str) -> None:
        if getattr(line, way):
            return

        def over() -> None:
            setattr(line, way, False)
            self._trust(life)

        setattr(line, way, True)
        self._doubt(life)
        self._until(item, over, self._loss_s)

    def _stall(self, item: Item, life: Life, line: Line) -> None:
        if line.is_stalled:
            return

        def over() -> None:
            line.go_on()
            self._trust(life)

        line.stall()
        self._doubt(life)
        self._until(item, over)

    def _blackout(self, item: Item) -> None:
        lines = [line for line in self._world.lines.values() if line.is_connected and not line.is_cut]
        gateway = self._world.gateway.line
        for line in lines:
            line.cut()
            self._loop.call_later(NOTICED_S, line.notice)
        self._doubt(*self._world.lives.values())
        gateway.is_cut = True
        self._until(item, partial(self._all_healed, lines), self._loss_s)

    def _all_healed(self, lines: list[Line]) -> None:
        self._trust(*self._world.lives.values())
        if self._world.is_gateway_up:
            self._world.gateway.line.is_cut = False
        for line in lines:
            if self._world.lines.get(line.process) is line:
                line.heal()

    # -- processes

    def _crash(self, item: Item, life: Life, line: Line) -> None:
        self._world.kill(life)
        self._until(item, partial(self._reborn, life, item.welcomes), self._loss_s)

    def _reborn(self, life: Life, welcomes: int = 0) -> None:
        if self._world.lives[life.key] is life:
            self._world.begin_life(life.key, welcomes)

    def _leave(self, item: Item, life: Life, line: Line) -> None:
        if life.leaving:
            return
        self._doubt(life)
        life.leave()
        self._until(item, partial(self._left, life), DRAIN_S + self._loss_s)

    def _left(self, life: Life) -> None:
        if life.task.done():
            self._reborn(life)
        else:
            self._later(AGAIN_S, partial(self._left, life))

    def ended(self, life: Life) -> None:
        """It has ended by itself: it was replaced. A supervisor begins the next one."""
        if self._world.lives.get(life.key) is life and not life.leaving:
            self._later(SUPERVISED_S, partial(self._reborn, life))

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        self._begun()
        self._loop.call_later(seconds, self._over, mend, self._loss_s)

    def _replace(self, item: Item, life: Life, line: Line) -> None:
        """A supervisor that starts the next one too early, or a deploy."""
        if life.leaving:
            return
        self._doubt(life)
        self._world.elders.append(life)
        self._world.begin_life(life.key)
        replaced = isinstance(life, self._world.named) and life.team.identity
        self._until(item, (lambda: None) if replaced else life.leave, DRAIN_S + self._loss_s)

    def _pause(self, item: Item, life: Life, line: Line) -> None:
        if self._loop.is_paused(life.process):
            return

        def over() -> None:
            life.paused_s += item.s
            self._loop.go_on(life.process)
            self._trust(life)

        self._loop.pause(life.process)
        self._doubt(life)
        self._until(item, over, self._loss_s)

    # -- the gateway

    def _restart(self, item: Item) -> None:
        if not self._world.is_gateway_up:
            return
        self._world.kill_gateway()
        self._doubt(*self._world.lives.values())
        self._until(item, partial(self._restarted, item.welcomes), self._loss_s)

    def _restarted(self, welcomes: int) -> None:
        if welcomes:
            for life in self._world.lives.values():
                self._world.server.unwelcome[life.process] = welcomes
        self._trust(*self._world.lives.values())
        self._world.start_gateway()

    def _freeze(self, item: Item) -> None:
        if not self._world.is_gateway_up:
            return
        process = self._world.gateway.line.process
        self._loop.pause(process)
        self._doubt(*self._world.lives.values())
        self._until(item, partial(self._thawed, process), self._loss_s)

    def _thawed(self, process: str) -> None:
        self._trust(*self._world.lives.values())
        self._loop.go_on(process)
