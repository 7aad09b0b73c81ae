"""What a recording says, folded into the gateway's own engine: who waits for what at each instant.

An agent has one wait in each run, the one it named last. It counts while it is fresh, until its own deadline, and as
long as its agent is not gone. Lines of one instant come in before anything of that instant runs out, so that a
descriptor renewed in the last moment has never been missing.
"""

from heapq import heappop, heappush

from msgspec import Struct

from unknot_gateway.core.graph import OUTSIDE as TRUE
from unknot_gateway.core.graph import Graph, Node
from unknot_gateway.core.graph import Wait as GraphWait
from unknot_gateway.replay.limits import DRAIN_STEPS
from unknot_gateway.replay.lines import (
    OUTSIDE,
    Blocked,
    Gone,
    Holds,
    Produces,
    Released,
    Said,
    Target,
    Unblocked,
)
from unknot_gateway.replay.owners import Owners


class Standing(Struct, eq=False):
    """One wait that counts: *agent* in *run* for *target*. *ended*: why it does not any more."""

    agent: str
    run: str
    target: Target
    since: int
    deadline_at: int | None
    stale_at: int
    node: Node
    handle: GraphWait
    ended: str = ""

    @property
    def key(self) -> tuple[str, str, Target, int]:
        """What names it: the same wait, told of again, has the same."""
        return self.agent, self.run, self.target, self.since

    @property
    def due_at(self) -> int:
        """When it stops to count if nothing more is heard of it."""
        return self.stale_at if self.deadline_at is None else min(self.stale_at, self.deadline_at)


class Fold:
    """All that is true at one instant. *valid*: for how long a descriptor counts, in nanoseconds."""

    def __init__(self, valid: int, check_steps: int | None = None) -> None:
        self.graph = Graph() if check_steps is None else Graph(check_steps)
        self.owners = Owners(self.graph)
        self.by_wait: dict[GraphWait, Standing] = {}
        self.opened: list[Standing] = []
        """Waits that began since this was last emptied."""
        self.is_touched = False
        """Whether anything but a renewal came since this was last set to False."""
        self.ignored = 0
        """Releases of locks by who does not hold them."""
        self._valid = valid
        self._standing: dict[tuple[str, str], Standing] = {}
        self._due: list[tuple[int, int, Standing | str]] = []
        self._count = 0

    @property
    def standing(self) -> list[Standing]:
        """All waits that count, in the order in which they were first told of."""
        return list(self.by_wait.values())

    def take(self, said: Said) -> None:
        """Let what a line says be so."""
        match said:
            case Blocked():
                self._blocked(said)
                return
            case Unblocked():
                self._end(self._standing.get((said.agent, said.run)), "it was taken back")
                self.owners.node(said.agent, said.run)
            case Produces():
                self.owners.owned(Target("artifact", said.artifact), said.agent)
            case Holds():
                self._holds(said)
            case Released():
                self.ignored += not self.owners.released(said.lock, said.agent)
            case Gone():
                for node in self.owners.lose(said.agent):
                    run = self.owners.of_node[node][1]
                    self._end(self._standing.get((said.agent, run or "")), "its agent is gone")
        self.is_touched = True

    def next_due_at(self) -> int | None:
        """When something runs out next; None: never."""
        while self._due:
            at, _, what = self._due[0]
            if self._is_due(what, at):
                return at
            heappop(self._due)
        return None

    def run_out(self, now: int) -> None:
        """Let all end whose time is up at *now*."""
        while (at := self.next_due_at()) is not None and at <= now:
            what = heappop(self._due)[2]
            self.is_touched = True
            if isinstance(what, str):
                self.owners.released(what, None)
            elif what.deadline_at == at:
                self._end(what, "its deadline came")
            else:
                self._end(what, "it was not renewed within two heartbeats")

    def settle(self) -> None:
        """Until the engine knows all."""
        while not self.graph.drain(DRAIN_STEPS):
            pass

    # -- inside

    def _blocked(self, said: Blocked) -> None:
        known = self._standing.get((said.agent, said.run))
        if known is not None and known.target == said.target and said.since in (None, known.since):
            known.stale_at, known.deadline_at = said.at + self._valid, said.deadline_at
        else:
            self._end(known, f"it waits for {said.target.kind} {said.target.id} now")
            self.is_touched = True
            known = self._open(said)
        if known.deadline_at is not None and known.deadline_at <= said.at:
            self._end(known, "its deadline came")
            self.is_touched = True
        else:
            self._set(known.due_at, known)

    def _open(self, said: Blocked) -> Standing:
        node = self.owners.node(said.agent, said.run)
        outside = said.target.kind in OUTSIDE
        condition = TRUE if outside else self.owners.condition(said.target, said.run)
        found = Standing(
            said.agent,
            said.run,
            said.target,
            said.at if said.since is None else said.since,
            said.deadline_at,
            said.at + self._valid,
            node,
            self.graph.open(node, (condition,)),
        )
        self._standing[said.agent, said.run] = self.by_wait[found.handle] = found
        self.opened.append(found)
        return found

    def _end(self, standing: Standing | None, why: str) -> None:
        if standing is not None:
            standing.ended = why
            del self._standing[standing.agent, standing.run]
            del self.by_wait[standing.handle]
            self.graph.close(standing.handle)

    def _holds(self, said: Holds) -> None:
        if said.until is not None and said.until <= said.at:
            return  # a lease that is over already
        self.owners.owned(Target("lock", said.lock), said.agent, said.until)
        if said.until is not None:
            self._set(said.until, said.lock)

    def _set(self, at: int, what: Standing | str) -> None:
        self._count += 1
        heappush(self._due, (at, self._count, what))

    def _is_due(self, what: Standing | str, at: int) -> bool:
        if isinstance(what, str):
            return self.owners.lease(what) == at
        return not what.ended and what.due_at == at
