"""Which sessions stand on which connection to the NATS server, and whose connection has ended.

A session names its connection itself, by the numbers that the server gave it: whoever lies about that puts only itself
at risk. A client that loses its connection and comes back names another one, soon.
"""

from collections import OrderedDict

from unknot_gateway.core.deadlines import Deadlines
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.records import Session


class Connections:
    """Owner of that mapping, and of the connections that have ended lately."""

    def __init__(self, limits: Limits, deadlines: Deadlines, grace_s: float) -> None:
        self._limits = limits
        self._deadlines = deadlines
        self._grace_s = grace_s
        self._sessions: dict[str, dict[Session, None]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        """A hello or heartbeat that comes after the end of its connection was sent before."""

    def __len__(self) -> int:
        return len(self._sessions)

    def heard(self, session: Session, connection: str | None, now: float) -> None:
        """A hello or heartbeat of *session* came over *connection*; None: it does not say."""
        if connection != session.connection:
            self.forget(session)
            session.connection = connection
            if connection is not None and connection not in self._ended:
                self._sessions.setdefault(connection, {})[session] = None
        if connection in self._ended:
            self._gone(session, now)
        elif session.gone_at is not None:
            session.gone_at = None
            self._deadlines.drop("gone", session)

    def ended(self, connection: str, now: float) -> None:
        """The server says that *connection* has ended."""
        self._ended[connection] = None
        if len(self._ended) > self._limits.ended_connections_max:
            self._ended.popitem(last=False)
        for session in self._sessions.pop(connection, {}):
            self._gone(session, now)

    def is_lost(self, session: Session, now: float) -> bool:
        """Whether the grace of *session*, whose connection has ended, is over and nothing was heard of it.

        What was heard may have been on its way: then it has as long as a heartbeat may be late.
        """
        if not session.live or session.gone_at is None:
            return False
        if session.heard_at <= session.gone_at:
            return True
        lost_at = session.heard_at + 2 * session.heartbeat_s
        if now < lost_at:
            self._deadlines.set("gone", session, lost_at)
        return now >= lost_at

    def forget(self, session: Session) -> None:
        """*session* is over, or stands on another connection."""
        if session.connection is None:
            return
        others = self._sessions.get(session.connection, {})
        others.pop(session, None)
        if not others:
            self._sessions.pop(session.connection, None)
        session.connection = None

    def _gone(self, session: Session, now: float) -> None:
        if session.gone_at is None:
            session.gone_at = now
            self._deadlines.set("gone", session, now + self._grace_s)
