"""After an epoch change this gateway knows nothing, and the sessions that resume know it all.

Until each of them has sent a heartbeat of this epoch and again what it waits for (or a second heartbeat), is lost, or
has had its time, nothing is delivered, no verdict is given, and answers to requests that nobody has sent again yet are
parked. A request sent again goes to the session that said it holds or has answered it, to no other.
"""

import math
from collections import OrderedDict
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from unknot_gateway.core.claims import Claims
from unknot_gateway.core.facts import ReplySeen
from unknot_gateway.core.records import Leg, Message, Session
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId

_PARKED_BYTES: Final = 500
"""A parked answer without its data."""


class _Parked(Struct, gc=False):
    since: float
    weight: int
    reply: ReplySeen


class Reconcile:
    """Owner of what is awaited and parked after an epoch change."""

    def __init__(self, tables: Tables, claims: Claims) -> None:
        self._t = tables
        self._claims = claims
        self.has_begun = False
        """Whether any session has ever resumed: without, nothing is claimed and nothing parked."""
        self._awaited: dict[Session, set[EventId]] = {}
        """Sessions to be heard, with what they have not sent again yet."""
        self._parked: OrderedDict[tuple[AgentId, EventId], _Parked] = OrderedDict()
        self.parked_bytes = 0

    def resumed(self, session: Session, hello: bodies.Hello, now: float) -> None:
        """*session* lived before this epoch: take what it says to hold, to have answered, and to wait for.

        Who comes late is taken in alone: nobody waits for it.
        """
        self._claims.resumed(session, hello, now)
        session.resent = frozenset(EventId(event_id) for event_id in hello.open or ())
        session.resumed = True
        session.delivered = hello.seen
        self.has_begun = True
        if now <= self.expects_until:
            self._awaited[session] = set(session.resent)
            self._t.is_reconciling = True
            self._t.deadlines.set("reconcile", session, now + self._t.limits.reconcile_s)
        self._t.count("sessions.resumed")

    @property
    def expects_until(self) -> float:
        """Until then sessions of the epoch before may come, and everybody waits for those that do."""
        return self._t.began_at + self._t.limits.reconcile_s if self.has_begun else -math.inf

    def heard(self, session: Session) -> None:
        """A heartbeat of *session*: the second one ends what it is awaited for."""
        missing = self._awaited.get(session)
        if missing is not None and (session.beats > 1 or not missing):
            self.gone(session)

    def gone(self, session: Session) -> None:
        """*session* is over, or need not be waited for any more."""
        if self._awaited.pop(session, None) is not None:
            self._t.deadlines.drop("reconcile", session)

    def entered(self, session: Session, event_id: EventId) -> None:
        """*session* has sent a request, or opened a wait, perhaps again."""
        missing = self._awaited.get(session)
        if missing is None:
            return
        missing.discard(event_id)
        if not missing and session.beats:
            self.gone(session)

    @property
    def is_over(self) -> bool:
        """Whether nobody is awaited any more."""
        return not self._awaited

    def parks(self, reply: ReplySeen, now: float) -> bool:
        """Keep an answer to a request that is not known again yet; False where it is to be taken now.

        Its session may not have come back yet; one that is over in this epoch gives no answers.
        """
        messages, sessions, token = self._t.messages, self._t.sessions, reply.envelope.session
        if reply.request_id in messages.open or messages.closed(reply.request_id) is not None:
            return False
        if token is not None and sessions.is_used(token) and sessions.find(reply.agent, token) is None:
            return False
        key = (reply.agent, reply.request_id)
        if key in self._parked:
            text = f"{reply.request_id!r} has been answered already; the first answer holds"
            self._t.refuse(reply.reply_to, reply.request_id, errors.DUPLICATE_REPLY, text)
            return True
        self._t.receipt(reply.reply_to, bodies.Receipt(True, reply.request_id))
        self._park(key, reply, now)
        return True

    def parked_for(self, message: Message) -> ReplySeen | None:
        """The parked answer to *message*, which has been sent again. It holds, whatever its session does since."""
        for leg in message.legs:
            key = (leg.agent.id, message.id)
            if key in self._parked:
                return self._unpark(key)
        return None

    def forget_old(self, now: float) -> None:
        """Drop parked answers whose requests have not come again in time: who gave them has kept them, too."""
        while self._parked:
            key, oldest = next(iter(self._parked.items()))
            if now - oldest.since < self._t.messages.remembered_s:
                return
            self._unpark(key)
            self._t.count(f"refused.{errors.UNKNOWN_REPLY}")

    def _park(self, key: tuple[AgentId, EventId], reply: ReplySeen, now: float) -> None:
        weight = _PARKED_BYTES + memoryview(reply.envelope.data).nbytes
        fact = replace(reply, reply_to=None, envelope=replace(reply.envelope, session=None))
        self._parked[key] = _Parked(now, weight, fact)
        self.parked_bytes += weight
        self._t.count("replies.parked")
        limits = self._t.limits
        while len(self._parked) > limits.parked_replies_max or self.parked_bytes > limits.parked_bytes_max:
            self._unpark(next(iter(self._parked)))
            self._t.count("replies.parked_lost")

    def _unpark(self, key: tuple[AgentId, EventId]) -> ReplySeen:
        parked = self._parked.pop(key)
        self.parked_bytes -= parked.weight
        return parked.reply

    def fault(self, leg: Leg) -> bodies.Error | None:
        """Why an unclaimed request that was sent again must not be delivered: who may have run it is gone."""
        message, sessions = leg.message, leg.agent.sessions.values()
        if message.id not in message.source.resent or any(session.resumed for session in sessions):
            return None
        message.was_delivered = True
        return bodies.Error(
            errors.RESPONDER_LOST,
            f"the session of {leg.agent.id!r} that may have handled {message.id!r} before the gateway's restart is "
            "gone; whether it acted is not known",
        )
