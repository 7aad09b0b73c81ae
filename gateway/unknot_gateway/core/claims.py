"""What sessions that lived before this epoch say they hold, or have answered.

The request itself is sent again by its asker, and then goes to who claims it. What nobody sends again (a one-way
event, a request that was given up) still runs: a leg without a known event stands in for it, and holds its slot until
the session says that it is over.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from unknot_gateway.core.records import Leg, Message, Pool, Session
from unknot_gateway.core.sessions import pool_for
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies
from unknot_schemas.ids import EventId
from unknot_schemas.limits import TIMEOUT_MAX_S

Claim = Literal["running", "deferred", "answered"]

_NOTHING: Final = bodies.Envelope(1, data=msgspec.Raw(b"null"))


class Claims:
    """Owner of all sessions' claims. They live for as long as a request may: later nobody sends it again."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables

    def resumed(self, session: Session, hello: bodies.Hello, now: float) -> None:
        """Take what *session* says when it resumes."""
        self._t.deadlines.set("claims", session, now + TIMEOUT_MAX_S)
        for answered in hello.answered or ():
            self._enter(session, EventId(answered), "answered")
        self.heard(session, hello.held or (), now)

    def heard(self, session: Session, held: Iterable[bodies.Held], now: float) -> None:
        """Take what *session* names as held and nobody else knows; what it claims already stays as it is."""
        for named in held:
            event_id = EventId(named.id)
            if event_id in session.claims or event_id in session.held:
                continue
            if self._enter(session, event_id, named.state) and named.state == "running":
                self._stand_in(session, event_id, named.type or "", now)

    def claimant(self, leg: Leg) -> Session | None:
        """The session of the leg's agent that said it holds or has answered its event."""
        event_id = leg.message.id
        return next((s for s in leg.agent.sessions.values() if event_id in s.claims), None)

    def adopt(self, leg: Leg, session: Session) -> Claim:
        """The event that *session* claims has been sent again: *leg* takes the place of what stood in for it."""
        event_id = leg.message.id
        claim = session.claims.pop(event_id)
        before = session.held.get(event_id)
        leg.session, leg.state = session, "running"
        leg.message.was_delivered = leg.message.reported_running = True
        session.held[event_id] = leg
        if before is None:
            self._t.waiting.started(leg, None)
            return claim
        leg.pool, leg.strand, before.pool, before.strand = before.pool, before.strand, None, None
        leg.delivered_at = before.delivered_at
        if leg.pool is None and (pool := _free(pool_for(session, leg.message.type))) is not None:
            leg.pool = pool
            pool.used += 1
        if leg.strand is None:
            self._t.waiting.started(leg, leg.pool)
        elif leg.strand.leg is before:
            leg.strand.leg = leg
        return claim

    def over(self, leg: Leg) -> None:
        """No handler of what *leg* stood in for runs any more: sent again, it is answered again."""
        assert leg.session is not None
        leg.session.claims[leg.message.id] = "answered"

    def answered(self, sessions: Iterable[Session], event_id: EventId) -> None:
        """One of *sessions* has answered what it had deferred: sent again, it is answered again."""
        for session in sessions:
            if session.claims.get(event_id) == "deferred":
                session.claims[event_id] = "answered"

    def deferred(self, session: Session, event_id: EventId) -> None:
        """The handler has returned, and the answer is promised."""
        session.claims[event_id] = "deferred"

    def expire(self, session: Session, now: float) -> None:
        """Nobody can send again what was sent before *session* resumed; what still runs is kept."""
        session.resent = frozenset()
        session.claims = {event_id: "running" for event_id, leg in session.held.items() if leg.is_claim}
        if session.claims:
            self._t.deadlines.set("claims", session, now + TIMEOUT_MAX_S)

    # -- inside

    def _enter(self, session: Session, event_id: EventId, claim: Claim) -> bool:
        if len(session.claims) >= self._t.limits.claims_max:
            self._t.count("claims.over_limit")
            return False
        session.claims[event_id] = claim
        return True

    def _stand_in(self, session: Session, event_id: EventId, event_type: str, now: float) -> None:
        pools = session.pools
        pool = _free(pool_for(session, event_type) if event_type or len(pools) == 1 else None)
        message = Message(
            event_id, "request", session, session.name, event_type, _NOTHING, 0, now, now, None, False, 0,
            is_open=False,
        )  # fmt: skip
        leg = Leg(message, session.agent, 0, "running", session=session, pool=pool, delivered_at=now)
        leg.ended = leg.is_claim = True
        session.held[event_id] = leg
        if pool is not None:
            pool.used += 1
        self._t.waiting.started(leg, pool)


def _free(pool: Pool | None) -> Pool | None:
    """*pool*, where it has a slot: who claims more than it can have, gets no more."""
    return pool if pool is not None and pool.has_free_slot else None
