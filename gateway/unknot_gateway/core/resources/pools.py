"""Locks and pools of permits: who waits for how many units, who has a place reserved, how many are held.

Each queue is walked from its head: an ask that fits has its units reserved, the first that does not blocks all behind
it. So what is reserved is the front of the queue, and a pool is two queues: places, and those without one.
"""

from collections import OrderedDict
from collections.abc import Iterator

from msgspec import Struct, field

from unknot_gateway.core.graph import Condition, Resource, resource
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import OpenWait
from unknot_gateway.core.waiting import Waiting
from unknot_schemas import bodies
from unknot_schemas.ids import EventId

PoolKey = tuple[str, str]
"""Kind (lock, permits) and name."""


class LeasedPool(Struct, eq=False):
    """A lock (capacity 1) or a pool of permits. *is_declared*: somebody has said how many there are."""

    key: PoolKey
    resource: Resource
    capacity: int
    is_declared: bool
    held: int = 0
    reserved: int = 0
    places: "OrderedDict[Ask, None]" = field(default_factory=OrderedDict)
    """Asks whose units are reserved, the front of the queue."""
    queue: "OrderedDict[Ask, None]" = field(default_factory=OrderedDict)
    """All others, in order of opening."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds or waits for anything of it."""
        return not (self.held or self.places or self.queue)


class Ask(Struct, eq=False):
    """One condition of a wait, in the queue of a pool."""

    wait: OpenWait
    index: int
    pool: LeasedPool
    units: int


class Pools:
    """Owner of all locks and pools of permits. *stirred*: pools that may have room for somebody now."""

    def __init__(self, limits: Limits, waiting: Waiting) -> None:
        self._limits = limits
        self._waiting = waiting
        self._pools: dict[PoolKey, LeasedPool] = {}
        self._asks: dict[EventId, dict[int, Ask]] = {}
        self._declared = 0
        self.asks = 0
        """Places in all queues: a wait has as many as it has conditions for them."""
        self.stirred: dict[LeasedPool, None] = {}

    def __len__(self) -> int:
        return len(self._pools)

    def all(self) -> Iterator[LeasedPool]:
        """Every pool and every lock in use."""
        yield from self._pools.values()

    def find(self, key: PoolKey) -> LeasedPool | None:
        """The pool, or the lock in use, of that name."""
        return self._pools.get(key)

    def need(self, key: PoolKey) -> LeasedPool:
        """The same; made when it is new: a lock is free, of a pool nobody knows more than that it is there."""
        pool = self._pools.get(key)
        if pool is None:
            capacity = 1 if key[0] == "lock" else 0
            handle = self._waiting.graph.add_resource(key, capacity, fifo=True)
            pool = self._pools[key] = LeasedPool(key, handle, capacity, key[0] == "lock")
        return pool

    # -- capacity

    def has_room(self, name: str) -> bool:
        """Whether a pool of that name may be declared."""
        pool = self._pools.get(("permits", name))
        known = pool is not None and pool.is_declared
        return known or self._declared < self._limits.pools_max

    def declare(self, name: str, capacity: int) -> list[Ask]:
        """There are *capacity* permits from now on; the asks that can never be served any more."""
        pool = self.need(("permits", name))
        if not pool.is_declared:
            pool.is_declared = True
            self._declared += 1
        self._resize(pool, capacity)
        return self._never(pool)

    def _never(self, pool: LeasedPool) -> list[Ask]:
        """Asks for more than there is in all; a wait that needs all of its conditions has one of its asks here."""
        found: list[Ask] = []
        together: dict[EventId, int] = {}
        for ask in (*pool.places, *pool.queue):
            body, units = ask.wait.body, ask.units
            if body.need in {"all", len(body.on)}:
                units = together[ask.wait.id] = together.get(ask.wait.id, 0) + ask.units
            if units > pool.capacity:
                found.append(ask)
        return found

    def _resize(self, pool: LeasedPool, capacity: int) -> None:
        before, pool.capacity = pool.capacity, capacity
        if before == capacity:
            return
        self._waiting.graph.set_capacity(pool.resource, capacity)
        self._waiting.is_touched = True
        self.stirred[pool] = None
        if capacity < before:
            self._unreserve(pool)

    def _unreserve(self, pool: LeasedPool) -> None:
        """What is reserved may be too much now: the queue is walked anew."""
        for ask in pool.places:
            ask.wait.taken.discard(ask.index)
        pool.places.update(pool.queue)
        pool.queue, pool.places, pool.reserved = pool.places, OrderedDict(), 0

    # -- asks

    def enter(self, wait: OpenWait, index: int, condition: bodies.WaitCondition) -> Condition:
        """Condition *index* of *wait* goes to the end of its queue; what the graph makes of it."""
        pool = self.need((condition.kind, condition.id))
        ask = Ask(wait, index, pool, condition.units)
        pool.queue[ask] = None
        self._asks.setdefault(wait.id, {})[index] = ask
        self.asks += 1
        self.stirred[pool] = None
        return resource(pool.resource, ask.units)

    def walk(self, pool: LeasedPool) -> list[Ask]:
        """Reserve from the head of the queue on what fits; who has a place now and had none before."""
        found: list[Ask] = []
        free = pool.capacity - pool.held - pool.reserved
        while pool.queue:
            ask = next(iter(pool.queue))
            if ask.units > free:
                break
            free -= ask.units
            del pool.queue[ask]
            pool.places[ask] = None
            pool.reserved += ask.units
            ask.wait.taken.add(ask.index)
            found.append(ask)
        return found

    def leave(self, wait: OpenWait) -> None:
        """*wait* is over: it gives up its places."""
        for ask in self._asks.pop(wait.id, {}).values():
            pool = ask.pool
            self.asks -= 1
            if ask in pool.places:
                del pool.places[ask]
                pool.reserved -= ask.units
            else:
                del pool.queue[ask]
            self._stir(pool)

    def take(self, wait: OpenWait, indexes: list[int]) -> list[tuple[LeasedPool, int]]:
        """What is reserved for *indexes* of *wait* is held from now on, as pools and units; its asks are over."""
        asks = self._asks.get(wait.id, {})
        parts = [(ask.pool, ask.units) for at in indexes if (ask := asks.get(at)) is not None]
        for pool, units in parts:
            pool.held += units
        self.leave(wait)
        return parts

    def held_again(self, pool: LeasedPool, units: int) -> None:
        """*units* were held all the time: one who resumes says so."""
        pool.held += units
        if not pool.is_declared:
            self._resize(pool, max(pool.capacity, pool.held))
        self._unreserve(pool)
        self.stirred[pool] = None

    def give_back(self, pool: LeasedPool, units: int) -> None:
        """*units* are held no more."""
        pool.held -= units
        self._stir(pool)

    def _stir(self, pool: LeasedPool) -> None:
        if pool.is_idle and (pool.key[0] == "lock" or not pool.is_declared):
            del self._pools[pool.key]
            self.stirred.pop(pool, None)
            self._waiting.graph.remove_resource(pool.resource)
        else:
            self.stirred[pool] = None

    def position(self, ask: Ask) -> int:
        """Place in the queue of its pool, from 1. Linear: for people only."""
        pool = ask.pool
        queue = (*pool.places, *pool.queue)
        return queue.index(ask) + 1

    def of(self, wait: OpenWait) -> list[Ask]:
        """The asks of *wait*, by index."""
        return list(self._asks.get(wait.id, {}).values())
