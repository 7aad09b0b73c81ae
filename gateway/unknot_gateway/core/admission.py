"""Queues and slots: delivered means started. First in, first out for each type; what none can take is passed over.

One lane for each set of pools that can take the same events; a freed slot looks at the heads of its pool's lanes
only, so draining touches one entry for each slot.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Agent, Lane, Leg, Pool
from unknot_gateway.core.sessions import pool_for
from unknot_gateway.core.waiting import Waiting

Queue = OrderedDict[int, Leg]


class Admission:
    """Owner of lanes, routes and slot counts."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.next_order: Callable[[], int] = count(1).__next__
        """A new place at the end of all queues."""

    def route(self, agent: Agent, event_type: str) -> tuple[Pool, ...]:
        """The pools, one for each live session, that serve *event_type*; empty if none does."""
        route = agent.routes.get(event_type)
        if route is None:
            if len(agent.routes) >= self._limits.routes_max:
                agent.routes.clear()
            found = (pool_for(s, event_type) for s in agent.sessions.values() if not s.draining)
            route = agent.routes[event_type] = tuple(pool for pool in found if pool is not None)
        return route

    def free_pool(self, route: tuple[Pool, ...]) -> Pool | None:
        """Of the pools with a free slot the least loaded one."""
        if len(route) == 1:  # nearly always: without a call for the property
            pool = route[0]
            return pool if pool.slots is None or pool.used < pool.slots else None
        free = [pool for pool in route if pool.has_free_slot]
        return min(free, key=lambda pool: pool.used / (pool.slots or 1_000_000)) if free else None

    def has_room(self, agent: Agent) -> bool:
        """Whether one more event may wait for *agent*."""
        return agent.queued < self._limits.queue_max

    def enqueue(self, leg: Leg, route: tuple[Pool, ...]) -> None:
        """Let *leg* wait for a slot of *route*."""
        lane = leg.agent.lanes.get(route)
        if lane is None:
            lane = leg.agent.lanes[route] = Lane(route)
            for pool in route:
                pool.lanes.append(lane)
        lane.legs[leg.order] = leg
        leg.lane, leg.state = lane, "queued"
        leg.agent.queued += 1

    def withdraw(self, leg: Leg) -> None:
        """Take *leg* out of whatever it waits in."""
        if leg.lane is not None:
            del leg.lane.legs[leg.order]
            leg.lane = None
            leg.agent.queued -= 1
        elif (
            leg.agent.waiting.pop(leg.order, None) is not None
            or leg.agent.unplaced.pop(leg.order, None) is not None
        ):
            leg.agent.queued -= 1

    def wait_for_agent(self, leg: Leg) -> None:
        """Let *leg* wait until its agent has a live session."""
        leg.state = "absent"
        leg.agent.waiting[leg.order] = leg
        leg.agent.queued += 1

    def postpone(self, leg: Leg) -> None:
        """Let *leg* wait behind what is to be placed before it."""
        leg.state = "absent"
        leg.agent.unplaced[leg.order] = leg
        leg.agent.queued += 1

    def next_unplaced(self, agent: Agent) -> Leg:
        """Take out the oldest of what is to be placed."""
        _, leg = agent.unplaced.popitem(last=False)
        agent.queued -= 1
        return leg

    def next_for(self, pool: Pool) -> Leg | None:
        """Take out the oldest event that *pool* can handle now; None if it has no free slot or nothing waits."""
        if not pool.has_free_slot or pool.session.draining:
            return None
        lanes = [lane for lane in pool.lanes if lane.legs]
        if not lanes:
            return None
        lane = lanes[0] if len(lanes) == 1 else min(lanes, key=lambda lane: next(iter(lane.legs)))
        leg = lane.legs[next(iter(lane.legs))]
        self.withdraw(leg)
        return leg

    def position(self, leg: Leg) -> int | None:
        """Place in its lane, from 1; None if it does not wait for a slot. Linear: for people only."""
        if leg.lane is None:
            return None
        return next(place for place, order in enumerate(leg.lane.legs, 1) if order == leg.order)

    def gather(self, agent: Agent, waiting: Waiting) -> bool:
        """Sessions of *agent* have changed: all that waits for it is to be placed anew, oldest first; whether anything.

        Until it is, nobody is held up by it as far as the graph goes.
        """
        agent.routes.clear()
        queues = [lane.legs for lane in agent.lanes.values() if lane.legs]
        for pool in {pool for lane in agent.lanes.values() for pool in lane.pools}:
            pool.lanes.clear()
            if queues:
                waiting.renew(pool)
        agent.lanes.clear()
        for queue in queues:
            for leg in queue.values():
                leg.lane, leg.state = None, "absent"
        if agent.waiting:
            queues.append(agent.waiting)
            agent.waiting = OrderedDict()
        for queue in queues:
            agent.unplaced = _merged(agent.unplaced, queue)
        return bool(agent.unplaced)


def _merged(one: Queue, other: Queue) -> Queue:
    """Both in one, by order; the longer one is kept as it is where the other goes before or behind it."""
    short, long = (one, other) if len(one) < len(other) else (other, one)
    if not short:
        return long
    behind, before = next(iter(short)) > next(reversed(long)), next(reversed(short)) < next(iter(long))
    if behind or before:
        for order, leg in short.items() if behind else reversed(short.items()):
            long[order] = leg
            long.move_to_end(order, last=behind)
        return long
    return OrderedDict(sorted([*one.items(), *other.items()], key=_order))


def _order(entry: tuple[int, Leg]) -> int:
    return entry[0]
