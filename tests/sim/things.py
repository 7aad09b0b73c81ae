"""What is so with locks, permits, artifacts and things outside: written down by whoever has them."""

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from tests.sim.nodes import Living, Node, PoolKey
from unknot._leases import Lease

TOKEN_BITS = 10
"""Below the epoch, in a fencing token."""


class Held(Struct, eq=False):
    """What one task holds under one lease, as its own client believes. *granted_at*: when the gateway said so."""

    node: Node
    lease: Lease
    parts: dict[PoolKey, int]
    granted_at: float
    first_lapse: float

    @property
    def token(self) -> int:
        """Its fencing token."""
        return self.lease.token

    def is_good(self, now: float) -> bool:
        """Whether its client believes it."""
        hold = self.lease._hold
        return self.node.life.alive and hold.state == "held" and now < hold.lapses_at

    def is_surely_good(self, now: float) -> bool:
        """Whether the gateway cannot but agree: its time is over no earlier than the client's, had it come at once."""
        hold = self.lease._hold
        is_renewed = hold.lapses_at != self.first_lapse
        return self.is_good(now) and (is_renewed or now < self.granted_at + hold.lease_s)


class Artifact(Struct, eq=False):
    """One artifact. *tried*: what anybody has tried to publish as it."""

    producers: dict[Node, str] = field(default_factory=dict)
    """With the session in which it has promised."""
    tried: set[str] = field(default_factory=set)
    published_at: float | None = None
    epoch: int = 0
    by: Living | None = None
    by_token: str = ""


class External(Struct, eq=False):
    """A lock, permits or a task of which the gateway knows only what it is told."""

    capacity: int
    holders: dict[Node, tuple[int, str]] = field(default_factory=dict)
    """Units, and the session in which they were reported."""
    queue: "deque[tuple[asyncio.Future[None], Node, int]]" = field(default_factory=deque)

    def used(self) -> int:
        """Units that are held."""
        return sum(units for units, _ in self.holders.values())


class Things:
    """All of them, in one run. *capacities*: of the pools of permits, which never change."""

    def __init__(
        self,
        clock: Callable[[], float],
        capacities: dict[str, int],
        figures: Counter[str],
        accuse: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._capacities = capacities
        self.epoch = 0
        self._first_tokens: list[int] = []
        self._held: dict[PoolKey, dict[Held, None]] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._outside: dict[PoolKey, External] = {}
        self.figures = figures
        self.accuse = accuse
        self.top_token = 0
        self.queues: dict[str, asyncio.Queue[str]] = {}
        """By agent: what its executions put, others in its process or elsewhere take."""

    def begins(self, epoch: int) -> None:
        """A gateway begins."""
        self.epoch = epoch
        self._first_tokens.append(epoch << TOKEN_BITS)

    # -- locks and permits

    def capacity(self, key: PoolKey) -> int | None:
        """How many units there are; None where nobody has said so."""
        return 1 if key[0] == "lock" else self._capacities.get(key[1])

    def held(self, key: PoolKey) -> Iterator[Held]:
        """All that is believed to be held."""
        now = self._clock()
        return (each for each in self._held.get(key, ()) if each.is_good(now))

    def acquired(self, held: Held) -> None:
        """A lease has come: of a lock there is one, and nobody else's under the same token or a higher one.

        Allowed, and counted: word of a grant may take long, and whoever hears of it counts from then on, by so much
        longer than the gateway; until it has renewed for the first time. Its token tells.
        """
        now = self._clock()
        self.figures["grants"] += 1
        is_late = now >= held.granted_at + held.lease._hold.lease_s
        self.figures["grants heard of too late"] += is_late
        for key, units in held.parts.items():
            others = self._held.setdefault(key, {})
            good = [other for other in others if other.is_surely_good(now)] if not is_late else []
            for other in good:
                if key[0] == "lock" and other.token >= held.token:
                    self.accuse(
                        f"{' '.join(key)}: token {held.token} came while {other.token} is held by"
                        f" {other.node.life.key}"
                    )
            capacity = self.capacity(key)
            if capacity is not None and sum(each.parts[key] for each in good) + units > capacity:
                self._over(key, held, good)
            others[held] = None

    def _over(self, key: PoolKey, held: Held, good: list[Held]) -> None:
        """More than there is. Allowed where one of them is of an earlier gateway: a lock may be granted before its
        earlier holder has come back, whose writes are told by their token."""
        epochs = {self._epoch_of(each.token) for each in (*good, held)}
        if len(epochs) > 1:
            self.figures["held twice after a restart"] += 1
        else:
            self.accuse(
                f"{' '.join(key)} is held by {held.node.life.key} (token {held.token}) and"
                f" {', '.join(f'{each.node.life.key} ({each.token})' for each in good)}"
            )

    def _epoch_of(self, token: int) -> int:
        """The number of the gateway that has granted it."""
        return bisect_right(self._first_tokens, token)

    def let_go(self, held: Held) -> None:
        """Its lease is over."""
        for key in held.parts:
            self._held.get(key, {}).pop(held, None)

    def granted(self, token: int) -> None:
        """The gateway says so: tokens rise, for ever."""
        if token <= self.top_token:
            self.accuse(f"token {token} was granted after {self.top_token}")
        self.top_token = max(self.top_token, token)

    # -- artifacts

    def artifact(self, name: str) -> Artifact:
        """The artifact; made when it is new."""
        return self._artifacts.setdefault(name, Artifact())

    def producers(self, name: str) -> list[Node] | None:
        """Who has promised it and is there still; None where it may be there."""
        artifact = self._artifacts.get(name)
        if artifact is None or artifact.published_at is not None:
            return None
        return [
            node
            for node, token in artifact.producers.items()
            if not node.is_over and node.life.token() == token
        ]

    def is_there(self, name: str) -> bool:
        """Whether it surely is: whoever has published it says so to every gateway."""
        artifact = self._artifacts.get(name)
        if artifact is None or artifact.published_at is None:
            return False
        by = artifact.by
        is_said_again = by is not None and by.alive and by.token() == artifact.by_token
        return artifact.epoch == self.epoch or is_said_again

    def published(self, name: str, by: Living | None) -> None:
        """The gateway has it. *by*: who was the first."""
        artifact = self.artifact(name)
        if artifact.published_at is None or (by is not None and artifact.by is None):
            artifact.published_at = self._clock()
            artifact.epoch, artifact.by = self.epoch, by
            artifact.by_token = by.token() if by is not None else ""
            self.figures["artifacts"] += 1

    def read(self, name: str, data: object) -> None:
        """Somebody has got it."""
        self.figures["artifacts read"] += 1
        if data not in self.artifact(name).tried:
            self.accuse(f"artifact {name} is {data!r}, which nobody has published")

    # -- outside

    def outside(self, key: PoolKey) -> External:
        """What is so; made when it is new."""
        capacity = 2 if key[0] == "permits" else 1
        return self._outside.setdefault(key, External(capacity))

    def outside_holders(self, key: PoolKey) -> dict[Node, int]:
        """Of whom the gateway may have been told."""
        return {
            node: units
            for node, (units, token) in self.outside(key).holders.items()
            if not node.is_over and node.life.token() == token
        }

    async def take(self, key: PoolKey, node: Node, units: int) -> None:
        """Wait until there are so many, in order."""
        external = self.outside(key)
        if not external.queue and external.used() + units <= external.capacity:
            external.holders[node] = (units, node.life.token())
            return
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        external.queue.append((came, node, units))
        try:
            await came
        except asyncio.CancelledError:
            if not came.cancelled():
                self.give(key, node)
            raise
        finally:
            external.queue = deque(each for each in external.queue if each[0] is not came)
            self._next(external)

    def give(self, key: PoolKey, node: Node) -> None:
        """Let go."""
        external = self.outside(key)
        external.holders.pop(node, None)
        self._next(external)

    def _next(self, external: External) -> None:
        while external.queue:
            came, node, units = external.queue[0]
            if external.used() + units > external.capacity:
                return
            external.queue.popleft()
            external.holders[node] = (units, node.life.token())
            if not came.done():
                came.set_result(None)

    # -- ends

    def gone(self, life: Living) -> None:
        """A process has ended, and with it all that it has; its leases run out."""
        for held in [each for all_ in self._held.values() for each in all_ if each.node.life is life]:
            self.let_go(held)
        for key, external in self._outside.items():
            external.queue = deque(each for each in external.queue if each[1].life is not life)
            for node in [node for node in external.holders if node.life is life]:
                self.give(key, node)
