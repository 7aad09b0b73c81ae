"""What is really so: who waits for what, written down by the handlers themselves. Knows nothing of the gateway's graph.

A node is one task of a handler or script. It can go on when it waits for nothing, or when enough of what it waits for
can come true. What the gateway cannot know counts as able to go on: a deferred answer, a race against a clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct, field, json

from tests.sim.successors import Successors
from unknot import (
    Cancelled,
    DeadlockDetected,
    Event,
    HandlerFailed,
    ResponderLost,
    Unreachable,
    WaitExpired,
    WaitFailed,
)
from unknot_schemas import bodies
from unknot_schemas import errors as codes

MISSED_S = 3.0
"""A set that is stuck for longer, with nothing broken meanwhile, and untold, was missed."""
LOST_S = 2.0
"""An answer given so long ago, with nothing broken meanwhile, that still has not arrived, was lost."""
NOBODYS_FAULT = (Unreachable, ResponderLost, Cancelled)
"""How no wait fails where nothing breaks."""
IDS_MAX = 20_000
INCIDENTS_MAX = 1_000


class Living(Protocol):
    """One life of one process, as far as truth needs it."""

    key: str
    name: str
    alive: bool
    channel: bool
    doubtful_until: float
    """Until then the gateway may take its session for lost, and rightly."""
    main: "Node | None"
    """Who reads the events, where a script's own loop does."""

    @property
    def leaving(self) -> bool:
        """Whether it was asked to leave: it is no member of a channel any more."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether the gateway has welcomed it."""
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
    answered_at: float = 0.0
    has_failed: bool = False
    """Whether any of its handlers has: there may be several, in a channel or after a restart."""
    idle_since: float | None = None
    """Since when it could have begun."""
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


class _Numbered(Struct):
    nonce: str = ""


class _Envelope(Struct):
    id: str
    data: _Numbered


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
        self._lives = 0
        self._notes: dict[str, tuple[str, float]] = {}
        self._nodes: dict[Node, None] = {}
        self._executions: dict[str, list[Execution]] = {}
        self._nonces: dict[str, str] = {}
        """By id of request or wait; kept longer than the wait: a verdict may come when it has been given up."""
        self._stuck_at: dict[str, list[set[str]]] = {}
        """Nonces of the waits of all who were stuck at each instant at which an incident's members were asked."""
        self._outcomes: dict[str, tuple[int, str, str, bytes]] = {}
        """How each request has ended, by its id: epoch, outcome, id and data of the answer."""

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

    def answered(self, nonce: str, *, failed: bool = False) -> None:
        """Its answer was given."""
        request = self.requests.get(nonce)
        if request is not None and failed:
            request.has_failed = True
        if request is not None and request.answered is None:
            request.answered, request.answered_at = not failed, self.clock()

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

    def failed(self, why: WaitFailed) -> None:
        """A wait has failed, as its waiter sees it."""
        self.figures[f"failed {type(why).__name__}"] += 1

    def judge(self, why: WaitFailed, wait: "Waits | Children | None") -> None:
        """Accuse whoever lets a wait fail without a reason, or after its answers were given."""
        assert isinstance(wait, Waits)
        who = wait.requests[0].nonce
        if isinstance(why, HandlerFailed):
            if why.code == codes.HANDLER_FAILED and not any(each.has_failed for each in wait.requests):
                self.accuse(f"{who}: no handler has failed, but {why!r}")
            return
        if isinstance(why, DeadlockDetected):
            return
        if self.is_calm and isinstance(why, NOBODYS_FAULT):
            self.accuse(f"{who}: {why!r}, though nothing has broken")
        given = sorted(each.answered_at for each in wait.requests if each.answered)
        if len(given) < wait.need or not isinstance(why, (WaitExpired, *NOBODYS_FAULT)):
            return
        late_s = self.clock() - max(given[wait.need - 1], self.quiet_since)
        if late_s > LOST_S:
            self.accuse(f"{who}: an answer was given {late_s:.1f} s ago and is lost: {why!r}")

    # -- what is seen on the wire

    def sent(self, verb: str, payload: bytes) -> None:
        """An agent has sent a request, an ask, or opened a wait."""
        if verb == "wait.open":
            body = _wait_open(payload)
            nonce, id = self._nonces.get(body.on[0].id, ""), body.id
        else:
            envelope = _envelope(payload)
            nonce, id = envelope.data.nonce, envelope.id
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
        self._compare(outcome)
        request = self.requests.get(self._nonces.get(outcome.request_id, ""))
        if request is not None:
            request.settled = outcome.outcome == "reply"

    def _compare(self, outcome: bodies.Outcome) -> None:
        """One gateway says one thing of one request, however often it repeats it."""
        event = outcome.event
        said = (
            outcome.epoch,
            outcome.outcome,
            event.id if event is not None else "",
            bytes(event.data) if event is not None else b"",
        )
        before = self._outcomes.setdefault(outcome.request_id, said)
        if before[0] != said[0]:
            self._outcomes[outcome.request_id] = said
        elif before != said and (outcome.error is None or outcome.error.code != codes.OUTCOME_FORGOTTEN):
            self.accuse(f"two outcomes of {outcome.request_id}: {before} and {said}")
        if len(self._outcomes) > IDS_MAX:
            del self._outcomes[next(iter(self._outcomes))]

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

    def look(self) -> None:
        """Accuse whoever has been stuck for too long since all was quiet, and not only behind who just got stuck."""
        now = self.clock()
        stuck = self.stuck()
        for node in self._nodes:
            if node not in stuck:
                node.since = None
            elif node.since is None:
                node.since = now
        old = {node for node in stuck if now - max(node.since or now, self.quiet_since) > MISSED_S}
        missed = self.stuck(old) if old else old
        for node in [node for node in self._nodes if node in missed]:
            node.since = float("inf")  # once
            self.accuse(f"missed: {node.life.key} is stuck behind {_text(node.wait)}")

    def look_at_deliveries(self) -> None:
        """Accuse the gateway of a request that has begun nowhere, though its agent has had free slots since long."""
        now = self.clock()
        for node in self._nodes:
            for request in node.wait.requests if isinstance(node.wait, Waits) else ():
                if request.ended is not None or request.executions or not self._could_begin(request):
                    request.idle_since = None
                elif request.idle_since is None:
                    request.idle_since = now
                elif now - max(request.idle_since, self.quiet_since) > MISSED_S:
                    request.idle_since = float("inf")  # once
                    self.accuse(f"{request.nonce} is not delivered, though {request.target} has free slots")

    def _could_begin(self, request: Request) -> bool:
        lives = self.lives.get(request.target, [])
        free = [
            life
            for life in lives
            if life.main is None
            and len(self._holders(life, pool := life.pool_of(request.type))) < life.slots(pool)
        ]
        return bool(free) and all(_is_sure(life, self.clock()) for life in lives)

    def stuck(self, among: set[Node] | None = None, *, as_known: bool = False) -> set[Node]:
        """All (*among* these, the others being able to go on) who cannot go on even if everybody else finishes.

        *as_known*: a process that the gateway may take for lost helps nobody who has another one.
        """
        waiting = [n for n in self._nodes if n.wait is not None and (among is None or n in among)]
        able = set(self._nodes).difference(waiting)
        view = _View(self, able, as_known)
        while waiting:
            left = [node for node in waiting if not view.can_go_on(node.wait)]
            if len(left) == len(waiting):
                break
            able.update(set(waiting).difference(left))
            waiting = left
        return set(waiting)

    def _stuck_nonces(self) -> set[str]:
        return {
            request.nonce
            for node in self.stuck(as_known=True)
            if isinstance(node.wait, Waits)
            for request in node.wait.requests
        }

    def _members(self, request: Request) -> list[str]:
        return [
            name
            for name, lives in self.lives.items()
            if name != request.source and any(life.channel and not life.leaving for life in lives)
        ]

    def _holders(self, life: Living, pool: str) -> list[Execution]:
        token = life.token()
        return [
            each
            for each in self._executions.get(life.name, ())
            if each.life is life and each.pool == pool and each.token == token
        ]


class _View:
    """Who can go on, as long as *able* can."""

    def __init__(self, truth: Truth, able: set[Node], as_known: bool) -> None:
        self._truth = truth
        self._able = able
        self._as_known = as_known
        self._now = truth.clock()

    def can_go_on(self, wait: Waits | Children | None) -> bool:
        """Whether enough of what it waits for can come true."""
        if isinstance(wait, Children):
            return all(child.is_over or child in self._able for child in wait.nodes)
        assert wait is not None
        spent = sum(request.ended is False for request in wait.requests)
        if len(wait.requests) - spent < wait.need:
            return True
        return sum(self._ends(request) for request in wait.requests) >= wait.need

    def _ends(self, request: Request) -> bool:
        if request.ended is not None:
            return request.ended
        if not request.target.startswith("@"):
            return self._answers(request, request.target, self._truth.lives.get(request.target, []))
        names = self._truth._members(request) if request.members is None else request.members
        lives = {name: self._truth.lives.get(name, []) for name in names}
        sure = {name: some for name, all_ in lives.items() if (some := self._sure(all_))}
        enough = any if sure or not self._as_known else all
        return enough(self._answers(request, name, each) for name, each in (sure or lives).items())

    def _sure(self, lives: list[Living]) -> list[Living]:
        """Those of them that the gateway counts on, without any doubt."""
        return [life for life in lives if not self._as_known or _is_sure(life, self._now)]

    def _answers(self, request: Request, name: str, lives: list[Living]) -> bool:
        begun = [each for each in request.executions if each.life.name == name and each.life.alive]
        if begun:
            return any(each.returned or each.node in self._able for each in begun)
        sure = self._sure(lives)
        enough = any if sure else all  # the gateway counts on one of them, on whichever
        return not lives or enough(self._has_slot(life, request.type) for life in sure or lives)

    def _has_slot(self, life: Living, event_type: str) -> bool:
        if life.main is not None:
            return life.main in self._able
        pool = life.pool_of(event_type)
        kept = sum(each.node not in self._able for each in self._truth._holders(life, pool))
        return kept < life.slots(pool)


def _is_sure(life: Living, now: float) -> bool:
    return life.is_known and not life.leaving and life.doubtful_until <= now


def _text(wait: Waits | Children | None) -> str:
    if isinstance(wait, Waits):
        return ", ".join(f"{request.nonce} to {request.target}" for request in wait.requests)
    return "its child tasks"
