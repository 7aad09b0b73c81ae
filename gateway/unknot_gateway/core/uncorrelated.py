"""Answers of peers that name no request: an event of the right type, from who has the one request that it can answer.

A request says which types it takes so (``accept_uncorrelated``). Where an event could be the answer to two of them, or
the late one to a request that has ended without, nothing is guessed: it is counted, and goes on as an ordinary event.
"""

from itertools import islice

from msgspec import Struct

from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Leg, Message
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId, matches

Pair = tuple[AgentId, AgentId]
"""Who asked, and who was asked."""


class Late(Struct):
    """Requests with one pattern that one agent had from another and that ended without its answer."""

    owed: int = 0
    until: float = 0.0


class Uncorrelated:
    """Owner of the requests that an event without their name may answer, open and lately ended."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.open: dict[AgentId, dict[EventId, Message]] = {}
        """By the agent that asked."""
        self._late: dict[Pair, dict[str, Late]] = {}

    def enter(self, message: Message) -> bodies.Error | None:
        """Note *message* if it takes such answers; an Error when there are too many."""
        if message.envelope.accept_uncorrelated is None or message.verb == "send":
            return None
        asker = message.source.name
        asked = self.open.get(asker, {})
        if len(asked) >= self._limits.uncorrelated_max or len(self._late) >= self._limits.late_pairs_max:
            return bodies.Error(
                errors.OVER_LIMIT,
                f"{len(asked)} requests of {asker!r} accept answers that name no request; "
                "two to one agent can never be told apart: wait for them one after another",
                {"retry_after_s": self._limits.retry_after_s},
            )
        self.open.setdefault(asker, {})[message.id] = message
        return None

    def ended(self, message: Message, now: float, at_least_s: float) -> list[tuple[Pair, float]]:
        """*message* ends. Who has it and gave no answer may still send one for as long again: the pairs, until when."""
        asker, pattern = message.source.name, message.envelope.accept_uncorrelated
        asked = self.open.get(asker, {})
        if asked.pop(message.id, None) is None or pattern is None:
            return []
        if not asked:
            del self.open[asker]
        until = now + max(at_least_s, message.deadline_at - message.opened_at)
        late: list[tuple[Pair, float]] = []
        for leg in message.legs:
            if leg.session is not None and not leg.ended:
                pair = (asker, leg.agent.id)
                patterns = self._late.setdefault(pair, {})
                has_room = pattern in patterns or len(patterns) < self._limits.uncorrelated_max
                entry = patterns.setdefault(pattern if has_room else ">", Late())
                entry.owed += 1
                entry.until = max(entry.until, until)
                late.append((pair, max(each.until for each in patterns.values())))
        return late

    @property
    def has_any(self) -> bool:
        """Whether any event may be such an answer."""
        return bool(self.open or self._late)

    def forget(self, pair: Pair) -> None:
        """No late answer of *pair* is awaited any more."""
        self._late.pop(pair, None)

    def answered_by(self, event: Message, asker: AgentId, now: float) -> tuple[Message, Leg] | str | None:
        """The request of *asker* that *event* answers, and who holds it; else why it answers none, if it could."""
        asked = self.open.get(asker, {}).values()
        fitting = ((request, held) for request in asked if (held := _held_by_sender(request, event)))
        found = list(islice(fitting, 2))
        late = self._late_for((asker, event.source.name), event.type, now)
        if len(found) == 1 and late is None:
            return found[0]
        if found:
            return "ambiguous"
        if late is None:
            return None
        late.owed -= 1  # nothing else can be meant
        return "late"

    def _late_for(self, pair: Pair, event_type: str, now: float) -> Late | None:
        for pattern, late in self._late.get(pair, {}).items():
            if late.owed > 0 and late.until > now and matches(pattern, event_type):
                return late
        return None


def _held_by_sender(request: Message, event: Message) -> Leg | None:
    """The delivered *request* in the hands of who sent *event*, if it takes one of that type."""
    pattern = request.envelope.accept_uncorrelated
    if pattern is None or not matches(pattern, event.type):
        return None
    for leg in request.legs:
        is_held = leg.state in ("running", "deferred") and not leg.ended
        is_session = event.envelope.session is None or leg.session is event.source
        if leg.agent.id == event.source.name and is_held and is_session:
            return leg
    return None
