"""Answers of peers that name no request: an event of the right type, from who has the one request that it can answer.

A request says which types it takes so (``accept_uncorrelated``). Where two open requests would take the same event
nothing is guessed: it is counted, and goes on as the ordinary event that it is.
"""

from itertools import islice

from msgspec.structs import replace

from unknot_gateway.core.records import Leg, Message
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import matches


class Uncorrelated:
    """Finds the request that an event without a name answers."""

    def __init__(self, tables: Tables, settle: Settle) -> None:
        self._t = tables
        self._settle = settle

    def entered(self, message: Message) -> bodies.Error | None:
        """Note a request that takes such answers; an Error when its agent has too many of them open."""
        if message.envelope.accept_uncorrelated is None or message.verb == "send":
            return None
        asked = message.source.agent.uncorrelated
        if len(asked) >= self._t.limits.uncorrelated_max:
            return bodies.Error(
                errors.OVER_LIMIT,
                f"{len(asked)} requests of {message.source.name!r} accept answers that name no request; "
                "two to one agent can never be told apart: wait for them one after another",
                {"retry_after_s": self._t.limits.retry_after_s},
            )
        asked[message.id] = message
        return None

    def answers(self, leg: Leg, now: float) -> bool:
        """Whether the one-way event of *leg* was the answer to a request of its target: then both have ended."""
        event = leg.message
        if event.verb != "send" or self._t.is_reconciling:
            return False
        asked = leg.agent.uncorrelated.values()
        fitting = ((request, held) for request in asked if (held := _held_by_sender(request, event)))
        found = list(islice(fitting, 2))
        if len(found) != 1:
            if found:
                self._t.count("uncorrelated.ambiguous")
            return False
        request, held = found[0]
        self._t.count("uncorrelated.taken")
        envelope = replace(event.envelope, id=event.id, done=False)  # it says nothing of the handler
        self._settle.answer(request, held, event.source.name, envelope, now, event_type=event.type)
        self._settle.end(event, "reply", now)
        return True


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
