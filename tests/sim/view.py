"""Who can go on, as long as others can: the semantics of waits, written down once more, apart from the engine's."""

from typing import TYPE_CHECKING

from tests.sim.nodes import (
    Children,
    Decision,
    Execution,
    Hand,
    Living,
    Node,
    Outside,
    Place,
    PoolKey,
    Request,
    Thing,
    Waits,
    Want,
)

if TYPE_CHECKING:
    from tests.sim.truth import Truth

HUMAN = "human:"


class View:
    """Who can go on, as long as *able* can. *as_known*: as the gateway may see those whom it may take for lost."""

    def __init__(self, truth: "Truth", able: set[Node], *, as_known: bool) -> None:
        self._truth = truth
        self._able = able
        self._as_known = as_known
        self._now = truth.clock()
        self._queues: dict[PoolKey, list[tuple[Waits, int]]] = {}

    def can_go_on(self, wait: Waits | Children | None) -> bool:
        """Whether enough of what it waits for can come true, or no more can."""
        if isinstance(wait, Children):
            return not wait.is_known or all(child.is_over or child in self._able for child in wait.nodes)
        assert wait is not None
        if wait.is_settled:
            return True
        spent = sum(request.ended is False for request in wait.requests)
        if len(wait.requests) + len(wait.things) - spent < wait.need:
            return True
        can = sum(self._ends(request) for request in wait.requests)
        return can + sum(self._comes(wait, each) for each in wait.things) >= wait.need

    # -- requests

    def _ends(self, request: Request) -> bool:
        if request.ended is not None:
            return request.ended
        if not request.target.startswith("@"):
            return self._answers(request, request.target, self._truth.lives.get(request.target, []))
        names = self._truth.members(request) if request.members is None else request.members
        lives = {name: self._truth.lives.get(name, []) for name in names}
        sure = {name: some for name, all_ in lives.items() if (some := self._sure(all_))}
        enough = any if sure or not self._as_known else all
        return enough(self._answers(request, name, each) for name, each in (sure or lives).items())

    def _sure(self, lives: list[Living]) -> list[Living]:
        """Those of them that the gateway counts on, without any doubt."""
        return [life for life in lives if not self._as_known or is_sure(life, self._now)]

    def _answers(self, request: Request, name: str, lives: list[Living]) -> bool:
        begun = [each for each in request.executions if each.life.name == name and each.life.alive]
        if begun:
            return any(self._is_answered_by(each) for each in begun)
        sure = self._sure(lives)
        enough = any if sure else all  # the gateway counts on one of them, on whichever
        return not lives or enough(
            self._has_slot(life, life.pool_of(request.type)) or self._truth.is_reentry(request, life)
            for life in sure or lives
        )

    def _is_answered_by(self, execution: Execution) -> bool:
        if execution.by is not None:
            return execution.by.is_over or execution.by in self._able
        return execution.returned or execution.node in self._able

    def _has_slot(self, life: Living, pool: str) -> bool:
        if life.main is not None and pool == "main":
            return life.main in self._able
        kept = sum(each.node not in self._able for each in self._truth.holders(life, pool))
        return kept < life.slots(pool)

    # -- things

    def _comes(self, wait: Waits, thing: Thing) -> bool:
        match thing:
            case Place():
                return self._is_served(wait, thing)
            case Want():
                return self._is_made(thing.name)
            case Decision():
                is_open = thing.given is None and (thing.by.startswith(HUMAN) or self._acts(thing.by))
                return is_open or thing.given is True
            case Hand():
                return self._acts(thing.agent)
            case Outside():
                return self._is_let_go(thing)

    def _is_served(self, wait: Waits, place: Place) -> bool:
        """First come, first served, by units: who does not fit keeps all behind waiting."""
        things = self._truth.things
        free = things.capacity(place.key)
        if free is None:
            return True  # the gateway that lives knows nothing of it yet
        free -= sum(each.parts[place.key] for each in things.held(place.key) if each.node not in self._able)
        for other, units in self._queue(place.key):
            if units > free:
                return False
            if other is wait:
                return True
            if other.node not in self._able:
                free -= units
        return True

    def _queue(self, key: PoolKey) -> list[tuple[Waits, int]]:
        if key not in self._queues:
            self._queues[key] = self._truth.queue(key)
        return self._queues[key]

    def _is_made(self, name: str) -> bool:
        """It is there, somebody who has promised it can go on, or nobody has promised anything."""
        return self._is_done_by_any(self._truth.things.producers(name))

    def _is_done_by_any(self, doers: list[Node] | None) -> bool:
        return not doers or any(each in self._able for each in doers)

    def _acts(self, name: str) -> bool:
        """An agent as a whole: any slot, or the main, of any of its processes."""
        lives = self._truth.lives.get(name, [])
        sure = self._sure(lives)
        enough = any if sure else all
        return not lives or enough(self._may_act(life) for life in sure or lives)

    def _may_act(self, life: Living) -> bool:
        if life.main_runs and (life.main is None or life.main in self._able):
            return True
        return any(self._has_slot(life, pool) for pool in life.serves_pools)

    def _is_let_go(self, thing: Outside) -> bool:
        """How a queue elsewhere is served is not known: whoever fits when all who can have let go, can go on."""
        known = self._truth.things.outside_holders(thing.key)
        if thing.key[0] == "task":
            return self._is_done_by_any(list(known))
        capacity = self._truth.things.outside(thing.key).capacity
        kept = sum(units for node, units in known.items() if node not in self._able)
        return kept + thing.units <= capacity


def is_sure(life: Living, now: float) -> bool:
    """Whether the gateway has no reason to doubt that it lives."""
    return life.is_known and not life.leaving and life.doubtful_until <= now
