"""What is really so: who waits for what, written down by the handlers themselves. Knows nothing of the gateway's graph.

A node is one task of a handler or script. It can go on when it waits for nothing, or when enough of what it waits for
can come true. What the gateway cannot know counts as able to go on: a deferred answer, a race against a clock.

Allowed, and counted: after a restart of the gateway a lock may be granted before its earlier holder has come back
(``held twice after a restart``): its writes are told by their lower token.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.sim.laws import Laws
from tests.sim.nodes import Decision, Execution, Living, Node, Place, PoolKey, Request, Waits
from tests.sim.successors import Successors
from tests.sim.things import Things
from tests.sim.view import View
from tests.sim.wire import Wire
from unknot import Event


class Truth:
    """The books of one run."""

    def __init__(
        self, clock: Callable[[], float], capacities: dict[str, int] | None = None, heartbeat_s: float = 1.0
    ) -> None:
        self.clock = clock
        self.violations: list[str] = []
        self.figures: Counter[str] = Counter()
        self.successors = Successors()
        self.lives: dict[str, list[Living]] = {}
        self.requests: dict[str, Request] = {}
        self.plans: dict[str, Any] = {}
        """What the handlers of each request do, by nonce."""
        self.is_calm = False
        """Whether nothing breaks in this run."""
        self.quiet_since = 0.0
        """Since then nothing has been broken, and all has settled; inf while a fault is on."""
        self.ran: dict[str, tuple[Living, str, bool]] = {}
        """By nonce and agent: who has handled it, in which session, and whether it was marked as a copy."""
        self.decisions: dict[str, Decision] = {}
        """That are waited for, by the name of the wait."""
        self._lives = 0
        self._notes: dict[str, tuple[str, float]] = {}
        self._nodes: dict[Node, None] = {}
        self._executions: dict[str, list[Execution]] = {}
        self.things = Things(clock, capacities or {}, self.figures, self.accuse)
        self.wire = Wire(self)
        self.laws = Laws(self, heartbeat_s)

    def accuse(self, what: str) -> None:
        """Something is wrong."""
        self.violations.append(f"{self.clock():.3f}: {what}")

    # -- what handlers tell

    def born(self, life: Living) -> str:
        """A process has begun; its name, which no other has."""
        self.lives.setdefault(life.name, []).append(life)
        self._lives += 1
        return f"{life.key}#{self._lives}"

    def gone(self, life: Living) -> None:
        """A process has ended; nothing of it waits any more."""
        self.lives[life.name].remove(life)
        for node in [node for node in self._nodes if node.life is life]:
            self.over(node)
        self._executions[life.name] = [
            each for each in self._executions.get(life.name, ()) if each.life is not life
        ]
        self.things.gone(life)

    def node(self, life: Living, *, detached: bool = False) -> Node:
        """A task begins."""
        node = Node(life, detached=detached)
        if life.alive:
            self._nodes[node] = None
        return node

    def over(self, node: Node) -> None:
        """A task has ended."""
        node.is_over = True
        self._nodes.pop(node, None)

    def request(self, nonce: str, asker: Living, target: str, event_type: str) -> Request:
        """A request is about to be sent."""
        assert nonce not in self.requests, nonce
        request = self.requests[nonce] = Request(nonce, asker.name, target, event_type, asker)
        self.figures["requests"] += 1
        return request

    def begin(self, life: Living, nonce: str, event: Event, node: Node) -> Execution:
        """A handler begins."""
        beside = event.target.startswith("@") and not event.requires_response
        pool = "none" if beside else life.pool_of(event.type)
        request = self.requests.get(nonce)
        is_full = len(self.holders(life, pool)) >= life.slots(pool)
        is_reentry = request is not None and self.is_reentry(request, life)
        execution = Execution(life, life.token(), "none" if is_reentry and is_full else pool, node, nonce)
        self._executions.setdefault(life.name, []).append(execution)
        if request is not None:
            request.executions.append(execution)
        if life.main is None and not beside and is_full and not life.reentrant:
            self.figures["slots exceeded"] += 1
            self.accuse(f"{life.name} handles more at a time than it has slots: {nonce}")
        self._began(life, f"{nonce} {life.key if beside else life.name}", event)
        return execution

    def _began(self, life: Living, key: str, event: Event) -> None:
        """Nothing runs twice in one session; in another one only where nobody can know, and marked so.

        (What is for a whole channel runs in every session of its members.)
        """
        first = self.ran.get(key)
        self.ran[key] = (life, life.token(), event.is_redelivered)
        if first is None:
            return
        other, token, was_told = first
        if token == life.token():
            self.accuse(f"handled twice in one session: {key} in {life.key}")
        elif not event.is_redelivered and not was_told:
            self.accuse(f"handled twice, silently: {key} in {life.key}")
        elif other.alive and max(other.doubtful_until, life.doubtful_until) <= self.clock():
            self.accuse(f"handled twice: {key} in {life.key}, and before in {other.key}, which lives")
        else:
            self.figures["handled again when nobody could know, and told so"] += 1

    def end(self, execution: Execution) -> None:
        """A handler has returned."""
        execution.returned = True
        named = self._executions[execution.life.name]
        if execution in named:
            named.remove(execution)

    def answered(self, nonce: str, life: Living, *, failed: bool = False) -> None:
        """Its answer was given."""
        request = self.requests.get(nonce)
        if request is not None and failed:
            request.has_failed = True
        if request is not None and request.answered is None:
            request.answered, request.answered_at = not failed, self.clock()
            request.answered_by = (life, life.token())

    def unanswered(self, nonce: str) -> None:
        """Its answer could not be given: the session that it came to is over."""
        self.figures["answers nobody wanted"] += 1
        request = self.requests.get(nonce)
        if request is not None:
            request.answered = None

    def replied(self, request: Request, answer: Any) -> None:
        """Its answer has arrived."""
        self.figures["replies"] += 1
        if answer != {"nonce": request.nonce}:
            self.accuse(f"wrong answer to {request.nonce}: {answer!r}")
        if not any(f"{request.nonce} {name}" in self.ran for name in self.lives):
            self.accuse(f"answered but never handled: {request.nonce}")

    def noted(self, life: Living, nonce: str) -> None:
        """A note that somebody expected has come: to all in one session that expect any, at once, and never again."""
        self.figures["notes"] += 1
        now = life.token(), self.clock()
        if self._notes.setdefault(nonce, now) != now:
            self.accuse(f"the same note again: {nonce} in {life.key}")

    def forget(self, requests: Iterable[Request]) -> None:
        """Nobody waits for them any more; their handlers may still run."""
        for request in requests:
            self.requests.pop(request.nonce, None)

    def gateway_lost(self) -> None:
        """The gateway is dead: what it said and nobody heard was never said."""
        for request in self.requests.values():
            request.settled = None
        self.wire.gateway_lost()

    def waits(self, node: Node, wait: Waits) -> None:
        """*node* waits from now on."""
        node.wait, node.since = wait, None
        wait.node = node

    def goes_on(self, node: Node) -> None:
        """It waits no more."""
        wait, node.wait = node.wait, None
        if isinstance(wait, Waits):
            self.forget(wait.requests)
            self.wire.over(wait)
            self.decisions.pop(wait.name, None)

    def decided(self, name: str, *, yes: bool) -> None:
        """Who must decide on the wait of that name has."""
        decision = self.decisions.get(name)
        if decision is not None and decision.given is None:
            self.figures["decisions"] += 1
            decision.given = yes

    # -- what follows

    def nodes(self) -> list[Node]:
        """Everybody."""
        return list(self._nodes)

    def is_reentry(self, request: Request, life: Living) -> bool:
        """Whether it needs no slot there: whoever asked, or asked for what is asked for, is that process itself.

        Of what a loop asks, nobody knows for whom.
        """
        asked: Request | None = request if life.reentrant else None
        while asked is not None:
            if asked.asker is life:
                return True
            if asked.asker is None or asked.asker.main is not None:
                return False
            parent = asked.nonce.rpartition(".")[0]
            asked = self.requests.get(
                parent.rstrip("+").partition("@")[0] if "@" in parent else parent.rstrip("+")
            )
        return False

    def queue(self, key: PoolKey) -> list[tuple[Waits, int]]:
        """Who waits for a lock or permits, with the units: those that the gateway knows of first, in its order."""
        found = [
            (wait, thing.units)
            for node in self._nodes
            if isinstance(wait := node.wait, Waits)
            and not wait.is_settled
            and wait.token == node.life.token()
            for thing in wait.things
            if isinstance(thing, Place) and thing.key == key
        ]
        return sorted(found, key=lambda each: each[0].queued or each[0].arrived or float("inf"))

    def stuck(self, among: set[Node] | None = None, *, as_known: bool = False) -> set[Node]:
        """All (*among* these, the others being able to go on) who cannot go on even if everybody else finishes.

        *as_known*: a process that the gateway may take for lost helps nobody who has another one.
        """
        waiting = [n for n in self._nodes if n.wait is not None and (among is None or n in among)]
        able = set(self._nodes).difference(waiting)
        view = View(self, able, as_known=as_known)
        while waiting:
            left = [node for node in waiting if not view.can_go_on(node.wait)]
            if len(left) == len(waiting):
                break
            able.update(set(waiting).difference(left))
            waiting = left
        return set(waiting)

    def stuck_names(self) -> set[str]:
        """Of all requests and waits of those who are stuck."""
        waits = [node.wait for node in self.stuck(as_known=True) if isinstance(node.wait, Waits)]
        return {request.nonce for wait in waits for request in wait.requests} | {wait.name for wait in waits}

    def members(self, request: Request) -> list[str]:
        """Of its channel, now: all but who asks."""
        return [
            name
            for name, lives in self.lives.items()
            if name != request.source and any(life.channel and not life.leaving for life in lives)
        ]

    def holders(self, life: Living, pool: str) -> list[Execution]:
        """What runs in the slots of *pool* there."""
        token = life.token()
        return [
            each
            for each in self._executions.get(life.name, ())
            if each.life is life and each.pool == pool and each.token == token
        ]
