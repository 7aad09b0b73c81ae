"""What is seen on the wire: which wait is which, what the gateway says of each, its verdicts and its grants."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct, json

from tests.sim.nodes import Decision, PoolKey, Waits
from tests.sim.view import HUMAN, is_sure
from unknot_schemas import bodies
from unknot_schemas import errors as codes

if TYPE_CHECKING:
    from tests.sim.truth import Truth

T = TypeVar("T")

IDS_MAX = 20_000
INCIDENTS_MAX = 1_000


class _Numbered(Struct):
    nonce: str = ""


class _Envelope(Struct):
    id: str
    data: _Numbered


class _WaitOpen(Struct):
    id: str
    session: str
    on: list[bodies.WaitCondition]
    execution: str = "main"
    strand: str = ""


class _Receipt(Struct):
    ok: bool
    id: str = ""
    duplicate: bool = False


class _Confirm(Struct):
    incident: str


_envelope: Final = json.Decoder(_Envelope).decode
_wait_open: Final = json.Decoder(_WaitOpen).decode
_receipt: Final = json.Decoder(_Receipt).decode
_confirm: Final = json.Decoder(_Confirm).decode
_outcome: Final = json.Decoder(bodies.Outcome).decode
_deadlock: Final = json.Decoder(bodies.DeadlockDetected).decode


class Grant(Struct, eq=False):
    """What the gateway has said it has granted to *waits*."""

    waits: Waits
    parts: dict[PoolKey, int]
    at: float
    lapses_at: float


class Wire:
    """The wire of one run."""

    def __init__(self, truth: "Truth") -> None:
        self._truth = truth
        self.figures: Counter[str] = truth.figures
        self.strands: dict[tuple[str, str, str], Waits] = {}
        """What each strand waits for: by session, execution and strand."""
        self._nonces: dict[str, str] = {}
        """By id of request or wait; kept longer than the wait: a verdict may come when it has been given up."""
        self._opened: dict[str, tuple[Waits, list[bodies.WaitCondition]]] = {}
        """Waits for things, by id, as long as they are open."""
        self.granted: dict[str, Grant] = {}
        """Grants of the gateway that lives, by the id of the wait, until its waiter goes on."""
        self._stuck_at: dict[str, list[set[str]]] = {}
        """Names of the waits of all who were stuck at each instant at which an incident's members were asked."""
        self._outcomes: dict[str, tuple[int, str, str, bytes]] = {}
        """How each request has ended, by its id: epoch, outcome, id and data of the answer."""
        self.granted_at: dict[str, float] = {}
        """When the gateway has said so, by the id of the wait."""
        self.on_human: Callable[[str, Waits, Decision], None] = lambda *_asked: None
        """Called when somebody waits for the decision of a human."""
        self._queued = 0

    # -- what agents send

    def sent(self, verb: str, payload: bytes) -> None:
        """A request, or an ask."""
        envelope = _envelope(payload)
        request = self._truth.requests.get(envelope.data.nonce)
        if request is not None:
            if request.target.startswith("@"):
                request.members = self._truth.members(request)
            self._name(envelope.id, envelope.data.nonce)

    def waits(self, payload: bytes) -> None:
        """A wait was opened, perhaps once more."""
        body = _wait_open(payload)
        waits = self.strands.get((body.session, body.execution, body.strand))
        if waits is not None and body.id not in self._nonces:
            self._opened[body.id] = (waits, body.on)
            waits.ids.append(body.id)
            waits.token = body.session
            self._name(body.id, waits.name)
            for thing in waits.things:
                if isinstance(thing, Decision) and thing.by.startswith(HUMAN):
                    self.on_human(body.id, waits, thing)
        elif waits is None and body.on[0].kind == "reply" and body.on[0].id in self._nonces:
            self._name(body.id, self._nonces[body.on[0].id])

    def over(self, waits: Waits) -> None:
        """Its waiter goes on."""
        if self.strands.get(waits.strand) is waits:
            del self.strands[waits.strand]
        for id in waits.ids:
            self._opened.pop(id, None)
            self.granted.pop(id, None)

    def _name(self, id: str, name: str) -> None:
        _keep(self._nonces, id, name)

    # -- what the gateway says

    def gateway_lost(self) -> None:
        """What it said and nobody heard was never said."""
        self.granted.clear()
        for waits, _ in self._opened.values():
            waits.is_settled, waits.arrived, waits.queued, waits.idle_since = False, None, None, None

    def arrived(self, payload: bytes) -> None:
        """A wait has come to it."""
        opened = self._opened.get(_wait_open(payload).id) if self._opened else None
        if opened is not None and opened[0].arrived is None:
            self._queued += 1
            opened[0].arrived = self._queued

    def received(self, payload: bytes) -> None:
        """A Receipt: in the order in which it has taken waits, so they stand in its queues."""
        if not self._opened:
            return
        receipt = _receipt(payload)
        opened = self._opened.get(receipt.id)
        if opened is not None and receipt.ok and opened[0].queued is None:
            self._queued += 1
            opened[0].queued = self._queued

    def asked(self, payload: bytes) -> None:
        """It asks a member of an incident: is it so?"""
        incident = _confirm(payload).incident
        snapshots = self._stuck_at.setdefault(incident, [])
        names = self._truth.stuck_names()
        if not snapshots or snapshots[-1] != names:
            snapshots.append(names)
        if len(self._stuck_at) > INCIDENTS_MAX:
            del self._stuck_at[next(iter(self._stuck_at))]

    def settled(self, payload: bytes) -> None:
        """How a request or a wait has ended."""
        outcome = _outcome(payload)
        self.figures[f"outcome {outcome.outcome}"] += 1
        self._compare(outcome)
        request = self._truth.requests.get(self._nonces.get(outcome.request_id, ""))
        opened = self._opened.get(outcome.request_id)
        if opened is not None:
            self._wait_settled(opened[0], opened[1], outcome)
        elif request is not None:
            request.settled = outcome.outcome == "reply"
            request.is_withdrawn = outcome.outcome == "cancelled"

    def _wait_settled(self, waits: Waits, on: list[bodies.WaitCondition], outcome: bodies.Outcome) -> None:
        fulfilled = outcome.fulfilled
        is_first = not waits.is_settled
        if is_first and outcome.outcome == "granted" and fulfilled is not None:
            assert fulfilled.fencing_token is not None
            parts: Counter[PoolKey] = Counter()
            for index in fulfilled.true:
                if on[index].lease_s is not None:
                    parts[on[index].kind, on[index].id] += on[index].units
            self._truth.things.granted(fulfilled.fencing_token)
            self._check_order(waits, parts)
            now = self._truth.clock()
            _keep(self.granted_at, outcome.request_id, now)
            self.granted[outcome.request_id] = Grant(
                waits, dict(parts), now, now + (fulfilled.lease_s or 0.0)
            )
        waits.is_settled = True

    def _check_order(self, waits: Waits, parts: Counter[PoolKey]) -> None:
        """First come, first served: what those ahead ask for, and what is held, leaves room for it."""
        now = self._truth.clock()
        for key, units in parts.items():
            capacity = self._truth.things.capacity(key)
            held = sum(self._surely_held(key, now).values())
            ahead = [
                (other, more)
                for other, more in self._truth.queue(key)
                if other is not waits
                and other.queued is not None
                and waits.arrived is not None
                and other.queued < waits.arrived
                and other.node is not None
                and is_sure(other.node.life, now)
            ]
            if capacity is not None and held + units + sum(more for _, more in ahead) > capacity:
                self._truth.accuse(
                    f"{' '.join(key)} was granted to {waits.name}, out of turn: {held} of {capacity} are held, ahead"
                    f" were {', '.join(other.name for other, _ in ahead)}"
                )

    def _surely_held(self, key: PoolKey, now: float) -> dict[str, int]:
        """What the gateway itself must count as held, by the wait to which it was granted."""
        found = {
            held.lease._hold.wait_id: held.parts[key]
            for held in self._truth.things.held(key)
            if held.is_surely_good(now) and is_sure(held.node.life, now)
        }
        for id, grant in self.granted.items():
            node = grant.waits.node
            if key in grant.parts and now < grant.lapses_at and node is not None and is_sure(node.life, now):
                found[id] = grant.parts[key]
        return found

    def _compare(self, outcome: bodies.Outcome) -> None:
        """One gateway says one thing of one request, however often it repeats it."""
        event, fulfilled = outcome.event, outcome.fulfilled
        said = (
            outcome.epoch,
            outcome.outcome,
            event.id if event is not None else "",
            bytes(event.data) if event is not None else json.encode(fulfilled),
        )
        before = self._outcomes.setdefault(outcome.request_id, said)
        is_over = (
            outcome.error is not None and outcome.error.code == codes.NOT_HELD
        )  # a grant nobody heard of
        if before[0] != said[0] or (is_over and before[1] == "granted"):
            self._outcomes[outcome.request_id] = said
        elif before != said and (outcome.error is None or outcome.error.code != codes.OUTCOME_FORGOTTEN):
            self._truth.accuse(f"two outcomes of {outcome.request_id}: {before} and {said}")
        if len(self._outcomes) > IDS_MAX:
            del self._outcomes[next(iter(self._outcomes))]

    def told(self, payload: bytes) -> None:
        """A verdict: all its members must have been stuck together, at an instant after the suspicion."""
        event = _deadlock(payload)
        self.figures["deadlocks"] += 1
        for kind in sorted({wait.kind for wait in event.waits}):
            self.figures[f"deadlocks with {kind}"] += 1
        names = {self._nonces.get(wait.id, "") for wait in event.waits}
        snapshots = self._stuck_at.get(event.incident, [])
        snapshots.append(self._truth.stuck_names())
        if not any(names <= snapshot for snapshot in snapshots):
            free = sorted(names - max(snapshots, key=lambda each: len(each & names)))
            self._truth.accuse(f"false deadlock {event.cycle}: {free} could go on; waits {sorted(names)}")


def _keep(table: dict[str, T], id: str, value: T) -> None:
    table[id] = value
    if len(table) > IDS_MAX:
        del table[next(iter(table))]
