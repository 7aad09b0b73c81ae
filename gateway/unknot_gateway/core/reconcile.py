"""After an epoch change this gateway knows nothing, and the sessions that resume know it all.

Until each of them has sent a heartbeat of this epoch and again what it waits for (or a second heartbeat), or is lost,
nothing is delivered, no verdict is given, and answers to requests that nobody has sent again yet are parked. A request
sent again goes to the session that said it holds or has answered it, to no other.
"""

from collections import OrderedDict

from msgspec.structs import replace

from unknot_gateway.core.claims import Claims
from unknot_gateway.core.facts import ReplySeen
from unknot_gateway.core.records import Leg, Message, Session
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId


class Reconcile:
    """Owner of what is awaited and parked after an epoch change."""

    def __init__(self, tables: Tables, claims: Claims) -> None:
        self._t = tables
        self._claims = claims
        self.has_begun = False
        """Whether any session has ever resumed: without, nothing is claimed and nothing parked."""
        self._awaited: dict[Session, set[EventId]] = {}
        """Sessions to be heard, with what they have not sent again yet."""
        self._parked: OrderedDict[tuple[AgentId, EventId], tuple[float, ReplySeen]] = OrderedDict()

    def resumed(self, session: Session, hello: bodies.Hello, now: float) -> None:
        """*session* lived before this epoch: take what it says to hold, to have answered, and to wait for.

        Who comes late is taken in alone: nobody waits for it.
        """
        self._claims.resumed(session, hello, now)
        session.resent = frozenset(EventId(event_id) for event_id in hello.open or ())
        session.resumed = True
        session.delivered = hello.seen
        self.has_begun = True
        if now <= self._t.began_at + self._t.limits.reconcile_s:
            self._awaited[session] = set(session.resent)
            self._t.is_reconciling = True
        self._t.count("sessions.resumed")

    def heard(self, session: Session) -> None:
        """A heartbeat of *session*: the second one ends what it is awaited for."""
        missing = self._awaited.get(session)
        if missing is not None and (session.beats > 1 or not missing):
            del self._awaited[session]

    def gone(self, session: Session) -> None:
        """*session* is over."""
        self._awaited.pop(session, None)

    def entered(self, message: Message) -> None:
        """*message* has been sent, perhaps again."""
        missing = self._awaited.get(message.source)
        if missing is None:
            return
        missing.discard(message.id)
        if not missing and message.source.beats:
            del self._awaited[message.source]

    @property
    def is_over(self) -> bool:
        """Whether nobody is awaited any more."""
        return not self._awaited

    def parks(self, reply: ReplySeen, now: float) -> bool:
        """Keep an answer to a request that is not known again yet; False where it is to be taken now."""
        messages = self._t.messages
        is_known = reply.request_id in messages.open or messages.closed(reply.request_id) is not None
        if is_known:
            return False
        if len(self._parked) >= self._t.limits.parked_replies_max:
            self._parked.popitem(last=False)
            self._t.count("replies.parked_lost")
        self._t.receipt(reply.reply_to, bodies.Receipt(True, reply.request_id))
        self._parked[reply.agent, reply.request_id] = (now, replace(reply, reply_to=None))
        self._t.count("replies.parked")
        return True

    def parked_for(self, message: Message) -> ReplySeen | None:
        """The parked answer to *message*, which has been sent again."""
        for leg in message.legs:
            found = self._parked.pop((leg.agent.id, message.id), None)
            if found is not None:
                return found[1]
        return None

    def forget_old(self, now: float) -> None:
        """Drop parked answers whose requests have not come again in time."""
        while self._parked:
            since, _ = next(iter(self._parked.values()))
            if now - since < self._t.messages.remembered_s:
                return
            self._parked.popitem(last=False)
            self._t.count(f"refused.{errors.UNKNOWN_REPLY}")

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
