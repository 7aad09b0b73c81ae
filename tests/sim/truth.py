"""What is really so: who waits for what, written down by the handlers themselves. Knows nothing of the gateway's graph.

A node is one task of a handler or script. It can go on when it waits for nothing, or when enough of what it waits for
can come true. What the gateway cannot know counts as able to go on: a deferred answer, a race against a clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct, field, json

from unknot import Event, WaitFailed
from unknot_schemas import bodies

MISSED_S = 3.0
"""A set that is stuck for longer, with nothing broken meanwhile, and untold, was missed."""
IDS_MAX = 20_000
INCIDENTS_MAX = 1_000


class Living(Protocol):
    """One life of one process, as far as truth needs it."""

    name: str
    alive: bool
    channel: bool
    main: "Node | None"
    """Who reads the events, where a script's own loop does."""

    @property
    def leaving(self) -> bool:
        """Whether it was asked to leave: it is no member of a channel any more."""
        ...

    def pool_of(self, event_type: str) -> str:
        """The pool that serves *event_type*."""
        ...

    def slots(self, pool: str) -> int:
        """Its slots."""
        ...

    def token(self) -> str:
        """The session it lives under now."""
        ...


class Node(Struct, eq=False):
    """One task. *since*: when it was first seen stuck in this wait."""

    life: Living
    wait: "Waits | Children | None" = None
    since: float | None = None
    is_over: bool = False


class Execution(Struct, eq=False):
    """One handling of one event."""

    life: Living
    token: str
    pool: str
    node: Node
    returned: bool = False
    deferred: bool = False


class Request(Struct, eq=False):
    """One request, known by the *nonce* in its data."""

    nonce: str
    source: str
    target: str
    type: str
    executions: list[Execution] = field(default_factory=list)
    members: list[str] | None = None
    """Of a channel, when it was sent: who joins later does not get it."""
    answered: bool | None = None
    """True when its answer was given, False when its handler has failed; of a channel's: the first one's."""
    settled: bool | None = None
    """The same in the words of the gateway that lives now."""

    @property
    def ended(self) -> bool | None:
        """True with an answer, False without, None as long as it is open."""
        return self.answered if self.settled is None else self.settled


class Waits(Struct, eq=False):
    """*need* of these requests must be answered."""

    requests: list[Request]
    need: int


class Children(Struct, eq=False):
    """All of these tasks must end."""

    nodes: list[Node]


class _Envelope(Struct):
    id: str
    data: Any = None


class _WaitOpen(Struct):
    id: str
    on: list[bodies.WaitCondition]


class _Confirm(Struct):
    incident: str


_envelope = json.Decoder(_Envelope).decode
_wait_open = json.Decoder(_WaitOpen).decode
_confirm = json.Decoder(_Confirm).decode
_outcome = json.Decoder(bodies.Outcome).decode
_deadlock = json.Decoder(bodies.DeadlockDetected).decode


class Truth:
    """The books of one run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.violations: list[str] = []
        self.figures: Counter[str] = Counter()
        self.lives: dict[str, list[Living]] = {}
        self.requests: dict[str, Request] = {}
        self.ran: dict[str, Living] = {}
        """Who has handled each request, by nonce and agent."""
        self._nodes: dict[Node, None] = {}
        self._executions: dict[str, list[Execution]] = {}
        self._nonces: dict[str, str] = {}
        """By id of request or wait; kept longer than the wait: a verdict may come when it has been given up."""
        self._stuck_at: dict[str, list[set[str]]] = {}
        """Nonces of the waits of all who were stuck at each instant at which an incident's members were asked."""

    def accuse(self, what: str) -> None:
        """Something is wrong."""
        self.violations.append(f"{self.clock():.3f}: {what}")

    # -- what handlers tell

    def born(self, life: Living) -> None:
        """A process has begun."""
        self.lives.setdefault(life.name, []).append(life)

    def gone(self, life: Living) -> None:
        """A process has ended; nothing of it waits any more."""
        self.lives[life.name].remove(life)
        for node in [node for node in self._nodes if node.life is life]:
            self.over(node)
        self._executions[life.name] = [
            each for each in self._executions.get(life.name, ()) if each.life is not life
        ]

    def node(self, life: Living) -> Node:
        """A task begins."""
        node = Node(life)
        if life.alive:
            self._nodes[node] = None
        return node

    def over(self, node: Node) -> None:
        """A task has ended."""
        node.is_over = True
        self._nodes.pop(node, None)

    def request(self, nonce: str, source: str, target: str, event_type: str) -> Request:
        """A request is about to be sent."""
        assert nonce not in self.requests, nonce
        request = self.requests[nonce] = Request(nonce, source, target, event_type)
        self.figures["requests"] += 1
        return request

    def begin(self, life: Living, nonce: str, event: Event, node: Node) -> Execution:
        """A handler begins."""
        beside = event.target.startswith("@") and not event.requires_response
        pool = "none" if beside else life.pool_of(event.type)
        execution = Execution(life, life.token(), pool, node)
        self._executions.setdefault(life.name, []).append(execution)
        request = self.requests.get(nonce)
        if request is not None:
            request.executions.append(execution)
        if life.main is None and not beside and len(self._holders(life, pool)) > life.slots(pool):
            self.figures["slots exceeded"] += 1
            self.accuse(f"{life.name} handles more at a time than it has slots: {nonce}")
        key = f"{nonce} {life.name}"
        first = self.ran.get(key)
        self.ran[key] = life
        if first is not None and not first.alive and event.is_redelivered:
            self.figures["handled again after a crash, and told so"] += 1
        elif first is not None:
            self.accuse(f"handled twice: {nonce} by {life.name}")
        return execution

    def end(self, execution: Execution) -> None:
        """A handler has returned."""
        execution.returned = True
        named = self._executions[execution.life.name]
        if execution in named:
            named.remove(execution)

    def answered(self, nonce: str, *, failed: bool = False) -> None:
        """Its answer was given."""
        request = self.requests.get(nonce)
        if request is not None and request.answered is None:
            request.answered = not failed

    def replied(self, request: Request, answer: Any) -> None:
        """Its answer has arrived."""
        self.figures["replies"] += 1
        if answer != {"nonce": request.nonce}:
            self.accuse(f"wrong answer to {request.nonce}: {answer!r}")
        if not any(f"{request.nonce} {name}" in self.ran for name in self.lives):
            self.accuse(f"answered but never handled: {request.nonce}")

    def forget(self, requests: Iterable[Request]) -> None:
        """Nobody waits for them any more; their handlers may still run."""
        for request in requests:
            self.requests.pop(request.nonce, None)

    def gateway_lost(self) -> None:
        """The gateway is dead: what it said and nobody heard was never said."""
        for request in self.requests.values():
            request.settled = None

    def failed(self, why: WaitFailed) -> None:
        """A wait has failed, as its waiter sees it."""
        self.figures[f"failed {type(why).__name__}"] += 1

    # -- what is seen on the wire

    def sent(self, verb: str, payload: bytes) -> None:
        """An agent has sent a request, an ask, or opened a wait."""
        if verb == "wait.open":
            body = _wait_open(payload)
            nonce, id = self._nonces.get(body.on[0].id, ""), body.id
        else:
            envelope = _envelope(payload)
            nonce, id = envelope.data["nonce"], envelope.id
        request = self.requests.get(nonce)
        if request is not None:
            if request.target.startswith("@") and verb != "wait.open":
                request.members = self._members(request)
            self._nonces[id] = nonce
            if len(self._nonces) > IDS_MAX:
                del self._nonces[next(iter(self._nonces))]

    def asked(self, payload: bytes) -> None:
        """The gateway asks a member of an incident: is it so?"""
        incident = _confirm(payload).incident
        snapshots = self._stuck_at.setdefault(incident, [])
        nonces = self._stuck_nonces()
        if not snapshots or snapshots[-1] != nonces:
            snapshots.append(nonces)
        if len(self._stuck_at) > INCIDENTS_MAX:
            del self._stuck_at[next(iter(self._stuck_at))]

    def settled(self, payload: bytes) -> None:
        """The gateway says how a request has ended."""
        outcome = _outcome(payload)
        self.figures[f"outcome {outcome.outcome}"] += 1
        request = self.requests.get(self._nonces.get(outcome.request_id, ""))
        if request is not None:
            request.settled = outcome.outcome == "reply"

    def told(self, payload: bytes) -> None:
        """A verdict: all its members must have been stuck together, at an instant after the suspicion."""
        event = _deadlock(payload)
        self.figures["deadlocks"] += 1
        nonces = {self._nonces.get(wait.id, "") for wait in event.waits}
        snapshots = self._stuck_at.get(event.incident, [])
        snapshots.append(self._stuck_nonces())
        if not any(nonces <= snapshot for snapshot in snapshots):
            free = sorted(nonces - max(snapshots, key=lambda each: len(each & nonces)))
            self.accuse(f"false deadlock {event.cycle}: {free} could go on; waits {sorted(nonces)}")

    # -- what follows

    def look(self, quiet_since: float) -> None:
        """Accuse whoever has been stuck for too long since all was quiet, and not only behind who just got stuck."""
        now = self.clock()
        stuck = self.stuck()
        for node in self._nodes:
            if node not in stuck:
                node.since = None
            elif node.since is None:
                node.since = now
        old = {node for node in stuck if now - max(node.since or now, quiet_since) > MISSED_S}
        missed = self.stuck(old) if old else old
        for node in [node for node in self._nodes if node in missed]:
            node.since = float("inf")  # once
            self.accuse(f"missed: {node.life.name} is stuck behind {_text(node.wait)}")

    def stuck(self, among: set[Node] | None = None) -> set[Node]:
        """All (*among* these, the others being able to go on) who cannot go on even if everybody else finishes."""
        waiting = [n for n in self._nodes if n.wait is not None and (among is None or n in among)]
        able = set(self._nodes).difference(waiting)
        while True:
            left = [node for node in waiting if not self._can(node, able)]
            if len(left) == len(waiting):
                return set(left)
            able.update(set(waiting).difference(left))
            waiting = left

    def _stuck_nonces(self) -> set[str]:
        return {
            request.nonce
            for node in self.stuck()
            if isinstance(node.wait, Waits)
            for request in node.wait.requests
        }

    def _can(self, node: Node, able: set[Node]) -> bool:
        wait = node.wait
        if isinstance(wait, Children):
            return all(child.is_over or child in able for child in wait.nodes)
        assert wait is not None
        spent = sum(request.ended is False for request in wait.requests)
        if len(wait.requests) - spent < wait.need:
            return True
        return sum(self._ends(request, able) for request in wait.requests) >= wait.need

    def _ends(self, request: Request, able: set[Node]) -> bool:
        if request.ended is not None:
            return request.ended
        return any(self._answers(request, name, able) for name in self._targets(request))

    def _targets(self, request: Request) -> list[str]:
        if not request.target.startswith("@"):
            return [request.target]
        return self._members(request) if request.members is None else request.members

    def _members(self, request: Request) -> list[str]:
        return [
            name
            for name, lives in self.lives.items()
            if name != request.source and any(life.channel and not life.leaving for life in lives)
        ]

    def _answers(self, request: Request, name: str, able: set[Node]) -> bool:
        begun = [each for each in request.executions if each.life.name == name and each.life.alive]
        if begun:
            return any(each.returned or each.node in able for each in begun)
        lives = self.lives.get(name)
        return not lives or any(self._has_slot(life, request.type, able) for life in lives)

    def _has_slot(self, life: Living, event_type: str, able: set[Node]) -> bool:
        if life.main is not None:
            return life.main in able
        pool = life.pool_of(event_type)
        kept = sum(each.node not in able for each in self._holders(life, pool))
        return kept < life.slots(pool)

    def _holders(self, life: Living, pool: str) -> list[Execution]:
        token = life.token()
        return [
            each
            for each in self._executions.get(life.name, ())
            if each.life is life and each.pool == pool and each.token == token
        ]


def _text(wait: Waits | Children | None) -> str:
    if isinstance(wait, Waits):
        return ", ".join(f"{request.nonce} to {request.target}" for request in wait.requests)
    return "its child tasks"
