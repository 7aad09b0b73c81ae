"""From messages and waits to the graph: which node waits, and for what.

A node is an execution's own task or one strand of it. A request is one condition: queued, it needs a slot; running,
its execution; deferred, nobody inside. Strands make their execution wait for them while they wait themselves:
joined ones surely, detached ones tentatively (the probe's facts decide).

A request that runs in an execution which waits for nothing holds nobody up. So it is entered only when that begins
to matter: when the execution waits itself, or when others queue for the slot that it holds.
"""

from collections.abc import Sequence

from unknot_gateway.core.graph import (
    NEVER,
    OUTSIDE,
    Condition,
    Graph,
    Node,
    Resource,
    any_of,
    execution,
    resource,
)
from unknot_gateway.core.graph import Wait as GraphWait
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Group, Leg, Message, OpenWait, Pool, Session, Strand, Wait
from unknot_schemas.ids import MAIN, OWN_TASK, EventId, ExecutionId, StrandId


class Waiting:
    """Owner of the graph and of the mapping between its ints and the core's records."""

    def __init__(self, limits: Limits) -> None:
        self.graph = Graph(check_steps=limits.check_steps)
        self.waits: dict[GraphWait, Wait] = {}
        self.strands: dict[Node, Strand] = {}
        self.is_touched = False
        """Whether the graph has changed since this was last set to False."""
        self.implied: dict[GraphWait, Strand] = {}
        """Waits of an own task for one of its strands, by handle."""

    # -- nodes

    def strand(
        self, session: Session, of: ExecutionId, strand_id: StrandId = OWN_TASK, *, detached: bool = False
    ) -> Strand:
        """The node of one strand, made when it is new. All of an agent without hello is one node."""
        key = (of, strand_id) if session.said_hello else (MAIN, OWN_TASK)
        found = session.strands.get(key)
        if found is None:
            node = self.graph.add((session.name, session.id, *key))
            found = session.strands[key] = Strand(session, key[0], key[1], node, detached)
            self.strands[node] = found
        if strand_id == OWN_TASK and found.leg is None:
            leg = session.held.get(EventId(of))
            if leg is not None and leg.strand is None and leg.state == "running":
                self._attach(leg, found)
        return found

    def _attach(self, leg: Leg, strand: Strand) -> None:
        """*strand* is the execution that handles *leg*, and holds its slot."""
        leg.strand, strand.leg = strand, leg
        if leg.pool is not None:
            self.slot_taken(leg, leg.pool)

    def sender(self, message: Message) -> Strand:
        """The node that stands still until *message* is answered."""
        envelope = message.envelope
        return self.strand(
            message.source,
            ExecutionId(envelope.execution or MAIN),
            StrandId(envelope.strand or OWN_TASK),
            detached=envelope.detached,
        )

    def drop_if_idle(self, strand: Strand) -> None:
        """Remove the node when it handles nothing, waits for nothing and has no ties; a session's main stays."""
        if strand.ties:
            return
        is_main = strand.execution == MAIN and strand.id == OWN_TASK
        if strand.is_lost:
            self._forget(strand)
        elif strand.leg is None and not strand.open_waits and not strand.owed and not is_main:
            self.remove(strand)

    def lose(self, strand: Strand) -> None:
        """Its session was lost, and it holds something: whoever waits for that is orphaned until it is let go."""
        if strand.session.strands.pop((strand.execution, strand.id), None) is not None:
            self._drop_implied(strand)
            strand.is_lost = True
            self.graph.lose(strand.node)
            self.is_touched = True

    def end_session(self, session: Session) -> None:
        """Remove all nodes of *session*."""
        for strand in list(session.strands.values()):
            self.remove(strand)

    def remove(self, strand: Strand) -> None:
        """The strand is over, with its session or before."""
        if strand.session.strands.pop((strand.execution, strand.id), None) is not None:
            self._drop_implied(strand)
            self._forget(strand)

    def _forget(self, strand: Strand) -> None:
        del self.strands[strand.node]
        self.graph.remove(strand.node)
        self.is_touched = True

    # -- slots

    def pools_added(self, pools: Sequence[Pool]) -> None:
        """Enter the slots of a session's pools as resources. A main pool is its main; no limit is no resource."""
        for at, pool in enumerate(pools):
            if pool.slots is not None and not pool.main:
                self._add_slots(pool, at)

    def _add_slots(self, pool: Pool, at: int) -> None:
        label = (pool.session.name, pool.session.id, "pool", str(at))
        pool.resource = self.graph.add_resource(label, pool.slots, fifo=False)

    def main_slot(self, pool: Pool) -> Resource | None:
        """The one slot of a main pool, which main itself holds for ever: who waits for it waits for main."""
        if pool.resource is None and pool.is_served and pool.session.said_hello:
            label = (pool.session.name, pool.session.id, "pool", MAIN)
            pool.resource = self.graph.add_resource(label, 1, fifo=False)
            self.graph.grant(pool.resource, self.strand(pool.session, MAIN).node)
        return pool.resource

    def renew(self, pool: Pool) -> None:
        """Who waits for a slot of *pool* will say so anew; until then it holds nobody up."""
        if pool.resource is None:
            return
        self.pools_removed((pool,))
        if pool.main or not pool.is_served:
            return
        self._add_slots(pool, pool.session.pools.index(pool))
        for leg in pool.session.held.values() if pool.is_watched else ():
            if leg.pool is pool:
                self.slot_taken(leg, pool)

    def pools_removed(self, pools: Sequence[Pool]) -> None:
        """The slots are there no more."""
        for pool in pools:
            if pool.resource is not None:
                self.graph.remove_resource(pool.resource)
                pool.resource = None
                self.is_touched = True

    def started(self, leg: Leg, pool: Pool | None) -> None:
        """The handler of *leg* runs, in a slot of *pool* (None: in none)."""
        session = leg.session
        assert session is not None
        if session.pools and (pool.main if pool is not None else not session.said_hello):
            leg.strand = self.strand(session, MAIN)
        elif pool is not None and pool.is_watched:
            pool.is_watched = any(lane.legs for lane in pool.lanes)
            self.execution_of(leg)
        elif session.strands and (ExecutionId(leg.message.id), OWN_TASK) in session.strands:
            self.execution_of(leg)  # it was known to wait before the request that it handles

    def execution_of(self, leg: Leg) -> Strand:
        """The node that handles a running *leg*."""
        if leg.strand is None:
            assert leg.session is not None
            return self.strand(leg.session, ExecutionId(leg.message.id))
        return leg.strand

    def watch(self, pool: Pool) -> None:
        """Somebody waits for a slot of *pool*: from now on its holders are nodes."""
        if not pool.is_watched:
            pool.is_watched = True
            for leg in pool.session.held.values():
                if leg.pool is pool and leg.strand is None:
                    self.execution_of(leg)

    def slot_taken(self, leg: Leg, pool: Pool) -> None:
        """The handler of *leg*, which is a node, has a slot of *pool*."""
        if pool.resource is not None and leg.strand is not None and not pool.main:
            self.graph.grant(pool.resource, leg.strand.node)
            self.is_touched = True

    def slot_freed(self, leg: Leg, pool: Pool) -> None:
        """The handler of *leg* has returned its slot."""
        if pool.resource is not None and leg.strand is not None and not pool.main:
            self.graph.release(pool.resource, leg.strand.node)
            self.is_touched = True

    def handler_ended(self, leg: Leg) -> None:
        """No handler of *leg* runs any more."""
        strand, leg.strand = leg.strand, None
        if strand is None:
            return
        if strand.leg is leg:
            strand.leg = None
        elif leg.is_expected:
            strand.owed -= 1
        self.drop_if_idle(strand)

    def expected(self, leg: Leg, by: Strand) -> None:
        """*by* has taken *leg* out of the queue: it must answer."""
        leg.strand, leg.is_expected = by, True
        by.owed += 1

    def promised(self, leg: Leg, by: Strand) -> None:
        """*by* will answer *leg*."""
        leg.by = by
        by.owed += 1

    def promise_over(self, leg: Leg) -> None:
        """Nobody owes the answer to *leg* any more."""
        by, leg.by = leg.by, None
        if by is not None:
            by.owed -= 1
            self.drop_if_idle(by)

    # -- waits

    def open(
        self,
        strand: Strand,
        conditions: Sequence[Condition],
        need: int | None,
        *,
        opened: OpenWait | None = None,
    ) -> Wait:
        """Let *strand* wait for *need* (None: all) of *conditions*."""
        self._enter_chain(strand)
        return self._open(strand, conditions, need, opened)

    def _open(
        self,
        strand: Strand,
        conditions: Sequence[Condition],
        need: int | None,
        opened: OpenWait | None = None,
    ) -> Wait:
        if strand.id != OWN_TASK and not strand.open_waits:
            self._imply(strand)
        strand.open_waits += 1
        self.is_touched = True
        wait = Wait(self.graph.open(strand.node, conditions, need), strand, opened=opened)
        self.waits[wait.handle] = wait
        return wait

    def _enter_chain(self, strand: Strand) -> None:
        """*strand* is about to wait: enter the request that its execution handles, the one behind that, and so on."""
        while True:
            own = strand if strand.id == OWN_TASK else self.strand(strand.session, strand.execution)
            message = own.leg.message if own.leg is not None else None
            if message is None or not message.is_unentered:
                return
            message.is_unentered = False
            strand = self.sender(message)
            message.wait = self._open(strand, (execution(own.node),), None)
            message.wait.messages.append(message)

    def close(self, wait: Wait) -> None:
        """The wait is over, or does not count any more; idempotent."""
        if self.waits.pop(wait.handle, None) is None:
            return
        self.graph.close(wait.handle)
        self.is_touched = True
        strand = wait.strand
        strand.open_waits -= 1
        if not strand.open_waits:
            self._drop_implied(strand)
            self.drop_if_idle(strand)

    def open_message(self, message: Message) -> None:
        """Let the sender of *message* wait for its answer."""
        message.is_unentered = False
        message.wait = self.open(self.sender(message), (condition_of(self, message),), None)
        message.wait.messages.append(message)

    def enter_later(self, message: Message) -> bool:
        """Whether *message* need not be entered before its execution waits, or its slot is wanted; then noted."""
        leg = message.legs[0] if len(message.legs) == 1 else None
        if leg is not None and leg.state == "running" and leg.strand is None:
            message.is_unentered = True
        return message.is_unentered

    def open_group(self, group: Group, first: Message) -> None:
        """Let the group's strand wait for *need* of *n* answers; those not yet asked for count as true."""
        conditions = [NEVER if group.ended.get(at) is False else OUTSIDE for at in range(group.n)]
        conditions[first.index] = condition_of(self, first)
        group.wait = self.open(self.sender(first), conditions, group.need)
        group.wait.group = group

    def update(self, message: Message) -> None:
        """What *message* hangs on has changed."""
        if message.watchers:
            self._change_watchers(message, condition_of(self, message))
        if message.is_unentered:
            if message.legs[0].by is not None:
                self.open_message(message)
            return
        if message.wait is not None and message.wait.handle in self.waits:
            self.graph.change(message.wait.handle, message.index, condition_of(self, message))
            self.is_touched = True

    def settle(self, message: Message, *, answered: bool) -> None:
        """*message* of a group has ended: for its wait an answer is true for ever, anything else is spent."""
        wait = message.group.wait if message.group is not None else None
        if wait is not None and wait.handle in self.waits:
            self.graph.change(wait.handle, message.index, OUTSIDE if answered else NEVER)
            self.is_touched = True

    def change(self, wait: Wait, index: int, condition: Condition) -> None:
        """One condition of *wait* hangs on something else now."""
        if wait.handle in self.waits:
            self.graph.change(wait.handle, index, condition)
            self.is_touched = True

    def answered(self, message: Message) -> None:
        """*message* has ended: who opened a wait for its answer can go on, unless only an answer counts there."""
        for opened, index in message.watchers:
            if opened.wait is not None:
                self.change(opened.wait, index, NEVER if index in opened.spent else OUTSIDE)
        message.watchers = ()

    def _change_watchers(self, message: Message, condition: Condition) -> None:
        for opened, index in message.watchers:
            if opened.wait is not None:
                self.change(opened.wait, index, condition)

    def _imply(self, strand: Strand) -> None:
        own = self.strand(strand.session, strand.execution)
        own.open_waits += 1
        handle = self.graph.open(own.node, (execution(strand.node),), None, tentative=strand.detached)
        strand.implied = handle
        self.implied[handle] = strand

    def _drop_implied(self, strand: Strand) -> None:
        if strand.implied is None:
            return
        self.graph.close(strand.implied)
        self.implied.pop(strand.implied, None)
        strand.implied = None
        own = strand.session.strands.get((strand.execution, OWN_TASK))
        if own is not None:
            own.open_waits -= 1
            self.drop_if_idle(own)


def condition_of(waiting: Waiting, message: Message) -> Condition:
    """What *message* hangs on now. A channel's request without any member yet hangs on nobody."""
    if not message.legs:
        return OUTSIDE
    conditions = [_leg_condition(waiting, leg) for leg in message.legs if not leg.ended]
    if len(conditions) == 1:
        return conditions[0]
    return any_of(*conditions) if conditions else NEVER


def _leg_condition(waiting: Waiting, leg: Leg) -> Condition:
    match leg.state:
        case "absent" | "unheard":
            return OUTSIDE
        case "queued":
            assert leg.lane is not None
            return slot_condition(waiting, leg.lane.pools)
        case "parked":
            assert leg.pool is not None
            return slot_condition(waiting, (leg.pool,))
        case "running":
            return execution(waiting.execution_of(leg).node)
        case "deferred":
            return execution(leg.by.node) if leg.by is not None else OUTSIDE
        case "ended":
            return NEVER


def slot_condition(waiting: Waiting, pools: Sequence[Pool]) -> Condition:
    """A slot in any of *pools*; what a main pool takes, main itself must handle."""
    conditions: list[Condition] = []
    for pool in pools:
        if pool.main and (slot := waiting.main_slot(pool)) is not None:
            conditions.append(resource(slot))
        elif pool.main:
            conditions.append(execution(waiting.strand(pool.session, MAIN).node))
        elif pool.resource is None:
            return OUTSIDE
        else:
            waiting.watch(pool)
            conditions.append(resource(pool.resource, 1))
    if len(conditions) == 1:
        return conditions[0]
    return any_of(*conditions) if conditions else NEVER
