"""The wait graph: who waits for what, and who of them can never go on."""

from collections.abc import Callable, Collection, Sequence

from unknot_gateway.core.graph.chains import follow
from unknot_gateway.core.graph.check import Checks
from unknot_gateway.core.graph.conditions import (
    RESOURCE,
    Artifact,
    Condition,
    Label,
    Node,
    Resource,
    Wait,
    leaves,
)
from unknot_gateway.core.graph.export import Export, Step
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.report import Core, cores_among, refresh, tail_of
from unknot_gateway.core.graph.rows import APART, GONE, ArtifactRow, NodeRow, ResourceRow, WaitRow
from unknot_gateway.core.graph.suppose import orphaned, remaining_cores

CHECK_STEPS = 80
"""Default budget of one inline check."""


class Graph:
    """Exact by least fixpoint: a node can go on when every open wait of it has enough true conditions.

    Who is reported stuck is stuck. With `suspects` left some who are stuck may not be reported yet; `drain` works on
    them. Handles are ints that are never used twice; one of something gone changes nothing.
    """

    def __init__(self, check_steps: int = CHECK_STEPS) -> None:
        self._model = Model()
        self._checks = Checks(self._model, check_steps)
        self._last = 0
        self._lost: set[int] = set()
        self._cores: list[Core] = []
        self._shown: set[Core] = set()
        self._unshown = False

    def __len__(self) -> int:
        return len(self._model.waits)

    def _handle(self) -> int:
        self._last += 1
        return self._last

    # ------------------------------------------------------------------------------------ nodes
    def add(self, label: Label) -> Node:
        """A node; without open waits it can go on."""
        node = self._handle()
        self._model.lowest -= APART
        self._model.nodes[node] = NodeRow(label, rank=self._model.lowest)
        return Node(node)

    def remove(self, node: Node) -> None:
        """It ended: its waits close, what it holds is released, it produces nothing; conditions on it are true."""
        row = self._model.nodes.get(node)
        if row is None:
            return
        self._stop(node)
        for made in tuple(row.makes):
            self.withdraw(Artifact(made), node)
        for resource in tuple(row.holds or ()):
            self.release(Resource(resource), node)
        self._lost.discard(node)
        row.rank = GONE
        del self._model.nodes[node]

    def lose(self, node: Node) -> None:
        """It crashed: its waits close, it keeps what it holds; who is stuck only behind it is orphaned."""
        if node in self._model.nodes:
            self._stop(node)
            self._lost.add(node)

    def revive(self, node: Node) -> None:
        """A lost node can go on again: a new attempt of it started."""
        self._lost.discard(node)

    def _stop(self, node: int) -> None:
        """Close its waits; whoever is stuck because of it may go on."""
        if node in self._model.stuck:
            self._checks.leave(node)
        for wait in tuple(self._model.nodes[node].waits):
            self._model.unlink(wait)

    def label(self, node: Node) -> Label:
        """The label it was added with."""
        return self._model.nodes[node].label

    def waits_of(self, node: Node) -> tuple[Wait, ...]:
        """Its open waits in order of opening; none when it is gone."""
        row = self._model.nodes.get(node)
        return (
            tuple(Wait(wait) for wait in sorted(each.wait for each in row.waits)) if row is not None else ()
        )

    # ------------------------------------------------------------------------------------ waits
    def open(
        self,
        waiter: Node,
        conditions: Sequence[Condition],
        need: int | None = None,
        *,
        tentative: bool = False,
    ) -> Wait:
        """*waiter* cannot go on until *need* (None: all) of *conditions* are true.

        A wait of a node that is lost or gone is not entered: its handle is that of a closed wait.
        """
        wait = self._handle()
        if waiter in self._model.nodes and waiter not in self._lost:
            entered = tuple(conditions)
            row = WaitRow(wait, waiter, entered, len(entered) if need is None else need, tentative)
            self._model.link(row)
            self._checks.harder(waiter, row)
        return Wait(wait)

    def close(self, wait: Wait) -> None:
        """The wait ended; one that is closed or unknown changes nothing."""
        row = self._model.waits.get(wait)
        if row is None:
            return
        self._leaves_queues(row.waiter, row.conditions)
        self._model.unlink(row)
        self._checks.easier((row.waiter,))

    def change(self, wait: Wait, index: int, condition: Condition) -> None:
        """One condition of an open wait becomes another; it keeps its age in queues."""
        row = self._model.waits.get(wait)
        if row is None:
            return
        self._leaves_queues(row.waiter, (row.conditions[index],))
        self._model.replace(row, index, condition)
        self._checks.easier((row.waiter,))
        asked = (leaf.target for leaf in leaves(condition) if leaf.kind == RESOURCE)
        resources = self._model.resources
        queues = [resources[resource] for resource in asked if resource in resources]
        self._checks.harder(row.waiter, row, behind=queues)

    def _leaves_queues(self, waiter: int, conditions: Sequence[Condition]) -> None:
        """Places of a stuck waiter in queues are about to be given up."""
        if waiter in self._model.stuck:
            for condition in conditions:
                for leaf in leaves(condition):
                    if leaf.kind == RESOURCE and leaf.target in self._model.resources:
                        self._checks.easier_pool(leaf.target)

    def waiter_of(self, wait: Wait) -> Node | None:
        """Who waits; None when the wait is closed."""
        row = self._model.waits.get(wait)
        return Node(row.waiter) if row is not None else None

    def is_tentative(self, wait: Wait) -> bool:
        """Whether it was opened as tentative; False when it is closed."""
        row = self._model.waits.get(wait)
        return row is not None and row.tentative

    def false_conditions(self, wait: Wait) -> list[int]:
        """Indexes of its conditions that are false given the stuck set; none when it is closed."""
        self._checks.settle()
        refresh(self._model)
        row = self._model.waits.get(wait)
        conditions = row.conditions if row is not None else ()
        return [at for at, each in enumerate(conditions) if not self._model.true(each, wait, at)]

    # -------------------------------------------------------------------------------- resources
    def add_resource(self, label: Label, capacity: int | None, *, fifo: bool) -> Resource:
        """*capacity* units, None: no bound. *fifo*: waiters are served in order of opening, else whoever fits."""
        resource = self._handle()
        self._model.resources[resource] = ResourceRow(label, capacity, fifo, {}, [], [])
        return Resource(resource)

    def set_capacity(self, resource: Resource, capacity: int | None) -> None:
        """Another number of units; fewer than are held: what is missing is owed first."""
        row = self._model.resources.get(resource)
        if row is None:
            return
        before, row.capacity = row.capacity, capacity
        if capacity is None or (before is not None and before <= capacity):
            self._checks.easier_pool(resource)
        else:
            self._checks.harder_for(entry[3] for entry in row.queue)

    def grant(self, resource: Resource, node: Node, units: int = 1) -> None:
        """*node* holds *units* more; nobody checks that they are free."""
        row = self._model.resources.get(resource)
        if row is None or node not in self._model.nodes:
            return
        self._model.hold(resource, node, units)
        self._checks.harder(node, behind=(row,))

    def release(self, resource: Resource, node: Node, units: int | None = None) -> None:
        """*node* holds *units* (None: all) less."""
        row = self._model.resources.get(resource)
        if row is None or node not in row.held:
            return
        self._model.hold(resource, node, -(row.held[node] if units is None else units))
        if node in self._model.stuck:
            self._checks.easier_pool(resource)

    def remove_resource(self, resource: Resource) -> None:
        """It is gone; conditions on it are true."""
        row = self._model.resources.get(resource)
        if row is None:
            return
        self._checks.easier(entry[3] for entry in row.stuck)
        self._model.drop_resource(resource)

    # -------------------------------------------------------------------------------- artifacts
    def add_artifact(self, label: Label) -> Artifact:
        """Something to be produced; with no known producer a condition on it is true."""
        artifact = self._handle()
        self._model.artifacts[artifact] = ArtifactRow(label)
        return Artifact(artifact)

    def add_producer(self, artifact: Artifact, node: Node) -> None:
        """*node* may produce it too."""
        row = self._model.artifacts.get(artifact)
        if row is None or node not in self._model.nodes or node in row.producers:
            return
        first = not row.producers
        self._model.make(artifact, node)
        if not first:
            self._checks.easier(self._waiters(row))
            self._checks.changed |= bool(row.waits)
        else:
            self._checks.harder(node, behind=(row,))

    def withdraw(self, artifact: Artifact, node: Node) -> None:
        """*node* will not produce it."""
        row = self._model.artifacts.get(artifact)
        if row is None or node not in row.producers:
            return
        self._model.unmake(artifact, node)
        able = [other for other in row.producers if other not in self._model.stuck]
        if not row.producers:
            self._checks.easier(self._waiters(row))
        elif able:  # a set tied together by this has all of them in it
            self._checks.harder(able[0], behind=(row,))
        else:
            self._checks.harder_for(self._waiters(row))
            self._checks.changed = True

    def produce(self, artifact: Artifact) -> None:
        """It is there; conditions on it are true for ever."""
        row = self._model.artifacts.get(artifact)
        if row is not None:
            self._checks.easier(self._waiters(row))
            self._model.drop_artifact(artifact)

    def _waiters(self, row: ArtifactRow) -> list[int]:
        return [wait.waiter for wait in row.waits]

    # ----------------------------------------------------------------------------- what is found
    def found(self) -> list[Core]:
        """Cores that appeared or changed since the last call; at no cost when nothing happened."""
        cores = self.cores() if self._checks.stale or self._unshown else []
        if not self._unshown:
            return []
        self._unshown = False
        before, self._shown = self._shown, set(cores)
        return [core for core in cores if core not in before]

    def cores(self) -> list[Core]:
        """All cores, in order of their members' labels."""
        self._checks.settle()
        if self._checks.changed:
            self._checks.changed, self._unshown = False, True
            self._cores = cores_among(self._model, self._model.stuck)
        return list(self._cores)

    def stuck(self) -> set[Node]:
        """Everybody known to be stuck: cores, tails, and who waits for what never comes."""
        self._checks.settle()
        return set(map(Node, self._model.stuck))

    def tail_of(self, core: Core) -> list[Node]:
        """Who is stuck behind *core* and belongs to no core itself; by label."""
        cores = self.cores()
        if sum(len(each.members) for each in cores) == len(self._model.stuck):
            return []
        return [Node(node) for node in tail_of(self._model, core, cores)]

    def orphaned(self) -> set[Node]:
        """Who is stuck only behind a lost node; lost nodes are not among them."""
        self._checks.settle()
        return set(map(Node, orphaned(self._model, self._lost)))

    @property
    def suspects(self) -> int:
        """How many nodes are not judged yet; 0: what is reported is the whole truth."""
        return self._checks.suspects

    def drain(self, steps: int) -> bool:
        """Work through suspects for about *steps*; True when none is left."""
        return self._checks.drain(steps)

    def start_sweep(self) -> None:
        """Check everything again; `drain` does it in slices."""
        self._checks.sweep_wanted = True

    def second_look(
        self, nodes: Collection[Node], *, running: Collection[Node], ignore: Collection[Wait]
    ) -> list[Core]:
        """The cores around *nodes* that remain when *running* go on and the waits in *ignore* do not count.

        Nothing is changed. A core is around *nodes* when it has one of them as a member.
        """
        self._checks.settle()
        stuck, waits = self._model.stuck, self._model.waits
        if stuck.isdisjoint(running) and not any(
            waits[wait].waiter in stuck for wait in ignore if wait in waits
        ):
            return [core for core in self.cores() if not set(nodes).isdisjoint(core.members)]
        return remaining_cores(self._model, nodes, running, ignore)

    def chain(self, wait: Wait, limit: int) -> list[Node]:
        """What *wait* really hangs on: from its waiter along the least condition that is false, else pending.

        At most *limit* nodes; it ends before a repeat. None when the wait is closed.
        """
        self._checks.settle()
        refresh(self._model)
        return [Node(node) for node in follow(self._model, wait, limit)]

    def steps(self, id_of: Callable[[Wait], str | None], limit: int) -> list[Step]:
        """At most *limit* open waits, those that cannot end first, as steps of the case format; *id_of* names them.

        The last step expects what is known now; there is none when a wait that cannot end is left out, or when
        suspects are left: then nobody knows yet.
        """
        cores, stuck, orphans = self.cores(), self.stuck(), self.orphaned()
        rows, nodes = self._model.waits, self._model.nodes
        first = sorted(row.wait for node in stuck | orphans for row in nodes[node].waits)
        chosen = dict.fromkeys(first[:limit])
        for wait in rows:  # in order of opening
            if len(chosen) >= limit:
                break
            chosen[wait] = None
        export = Export(self._model, self._lost, id_of)
        steps = list(export.steps(chosen))
        if self.suspects or len(first) > limit:
            return steps
        inside = {member for core in cores for member in core.members}
        return [
            *steps,
            {
                "op": "expect",
                "deadlocked": sorted(map(export.node, stuck)),
                "cycles": sorted([export.node(node) for node in core.cycle] for core in cores),
                "cores": sorted(sorted(map(export.node, core.members)) for core in cores),
                "tail": sorted(map(export.node, stuck - inside)),
                "orphaned": sorted(map(export.node, orphans)),
            },
        ]
