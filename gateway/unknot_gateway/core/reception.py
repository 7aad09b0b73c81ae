"""Sessions come, change, and go; how a session ends is decided here."""

from collections.abc import Iterator

from unknot_gateway.core.backlog import Backlog, one_by_one
from unknot_gateway.core.dispatch import Dispatch
from unknot_gateway.core.effects import Answer, SendControl, SendNotice
from unknot_gateway.core.groups import Groups
from unknot_gateway.core.heartbeats import Heartbeats
from unknot_gateway.core.intake import Intake
from unknot_gateway.core.reconcile import Reconcile
from unknot_gateway.core.records import Agent, Message, OpenWait, Session
from unknot_gateway.core.resources.door import Door
from unknot_gateway.core.served import difference
from unknot_gateway.core.sessions import pool_for, pools_of
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, limits
from unknot_schemas.ids import AgentId, agent_id, is_id, is_pattern
from unknot_schemas.subjects import CONTROL_REPLACED, NOTICE_POOLS_DIFFER


class Reception:
    """Hello, bye, and the end of sessions."""

    def __init__(  # noqa: PLR0913, PLR0917  a session has to do with all of them
        self,
        tables: Tables,
        dispatch: Dispatch,
        settle: Settle,
        groups: Groups,
        intake: Intake,
        resources: Door,
        reconcile: Reconcile,
        heartbeats: Heartbeats,
        backlog: Backlog,
    ) -> None:
        self._t = tables
        self._dispatch = dispatch
        self._settle = settle
        self._groups = groups
        self._intake = intake
        self._openwaits = resources.openwaits
        self._reconcile = reconcile
        self._heartbeats = heartbeats
        self._resources = resources
        self._backlog = backlog
        self.draining: set[Session] = set()

    # -- hello

    def hello(self, name: AgentId, hello: bodies.Hello, reply_to: str | None, now: float) -> None:
        """A session begins, changes its pools, or goes on after an epoch change."""
        fault = fault_of(hello)
        known = self._t.sessions.find(name, hello.session)
        if fault is None and known is None:
            fault = self._not_welcome(name, hello)
        if fault is not None:
            self._t.refuse(reply_to, None, fault.code, fault.message, **(fault.detail or {}))
            return
        session = known if known is not None else self._begin(name, hello, now)
        session.heard_at = now
        self._t.connections.heard(session, hello.connection, now)
        self._welcome(session, reply_to)
        if known is None:
            self._resources.deciding.show_all(session, now)
        if known is None:
            self._place_waiting(session.agent)
        elif known.hello != hello:
            self._change(known, hello, now)
        self._heartbeats.give_claimed(session, list(session.claims), now)
        if session.channels:
            self._intake.joined(session.agent, session.channels, now)

    def _not_welcome(self, name: AgentId, hello: bodies.Hello) -> bodies.Error | None:
        """Why no session of *name* can begin, or go on, with *hello*; None if one can."""
        sessions = self._t.sessions
        agent, is_used = sessions.agents.get(name), sessions.is_used(hello.session)
        by = sessions.successor(name, hello)
        if by is not None:
            if not is_used:
                self._t.count("sessions.replaced")
            sessions.replace(name, hello.session, by)
            return bodies.Error(
                errors.SESSION_USED, f"session {by} has taken the place of this one", {"replaced_by": by}
            )
        if is_used:
            return bodies.Error(errors.SESSION_USED, "this session token has been used: make a new one")
        if agent is not None and len(agent.sessions) >= self._t.limits.sessions_max:
            return bodies.Error(errors.OVER_LIMIT, f"{name!r} has too many live sessions", _retry(self._t))
        if agent is None and sessions.is_full():
            return bodies.Error(errors.OVER_LIMIT, "too many agents are known", _retry(self._t))
        return None

    def _begin(self, name: AgentId, hello: bodies.Hello, now: float) -> Session:
        agent = self._t.sessions.agent(name)
        replaced = self._t.sessions.replaced_by(hello, agent)
        session = self._t.sessions.open(agent, hello, now)
        self._t.messages.remember_for(session.heartbeat_s)
        self._t.waiting.pools_added(session.pools)
        self._t.deadlines.set("silence", session, now + self._t.config.session_loss_s)
        if hello.resume:  # first: what the others leave behind may be what it claims
            self._reconcile.resumed(session, hello, now)
            self._resources.locks.resumed(session, hello.holds or (), now)
        for old in replaced:
            self._t.count("sessions.replaced")
            self._t.sessions.replace(name, old.id, session.id)
            body = bodies.Replaced(old.id, session.id)
            self._t.out.append(SendControl(name, old.id, CONTROL_REPLACED, body))
            self.end(old, "its session was replaced")
        self._t.count("sessions.opened")
        self._compare_pools(session)
        return session

    def _compare_pools(self, session: Session) -> None:
        found = difference(session, self._t.network)
        if found is not None:
            self._t.count("sessions.pools_differ")
            self._t.out.append(SendNotice(NOTICE_POOLS_DIFFER, found))

    def _welcome(self, session: Session, reply_to: str | None) -> None:
        if reply_to is None:
            return
        named = {
            "data_bytes_max": limits.DATA_BYTES_MAX,
            "timeout_max_s": limits.TIMEOUT_MAX_S,
            "named_ids_max": limits.NAMED_IDS_MAX,
            "depth_max": self._t.limits.depth_max,
            "queue_max": self._t.limits.queue_max,
        }
        body = bodies.Welcome(
            True,
            session.id,
            self._t.epoch,
            limits.PROTOCOL,
            session.heartbeat_s,
            self._t.config.session_loss_s,
            named,
        )
        self._t.out.append(Answer(reply_to, body))

    def end_reconciliation(self, now: float) -> None:
        """Everybody has been heard: what has waited for that is delivered."""
        self._t.is_reconciling = False
        self._resources.granting.refuse_undeclared(now)
        for agent in list(self._t.sessions.agents.values()):
            if agent.waiting:
                self._place_waiting(agent)
        self._t.waiting.is_touched = True

    def _place_waiting(self, agent: Agent, otherwise: bodies.Error | None = None) -> None:
        if agent.sessions and agent.zero is not None:
            self._take_over(agent.zero)
        self._backlog.place(agent, otherwise)
        self._openwaits.agent_changed(agent.id)

    def _take_over(self, zero: Session) -> None:
        """What was published for an agent before its first hello: nobody may have heard it, or its own program."""
        for leg in [leg for leg in zero.held.values() if leg.message.is_open and not leg.ended]:
            leg.may_be_known = leg.state == "running"
            self._dispatch.take_back(leg)
            self._t.admission.wait_for_agent(leg)

    def _change(self, session: Session, hello: bodies.Hello, now: float) -> None:
        """The session says otherwise of itself from now on."""
        assert session.hello is not None
        before, session.hello = session.hello, hello
        self._t.sessions.describe(session, hello)
        error = None
        if (before.pools, before.concurrency) != (hello.pools, hello.concurrency):
            error = bodies.Error(
                errors.NO_READER, f"the program of {session.name!r} has stopped reading its events"
            )
            self._change_pools(session, hello, error, now)
        self._place_waiting(session.agent, error)

    def _change_pools(self, session: Session, hello: bodies.Hello, error: bodies.Error, now: float) -> None:
        """The session serves otherwise from now on; a main pool that is gone has no reader any more."""
        old, session.pools = session.pools, pools_of(session, hello)
        self._t.waiting.pools_added(session.pools)
        self._t.admission.gather(session.agent, self._t.waiting)
        for leg in [leg for leg in session.held.values() if leg.pool in old and leg.pool.main]:
            if leg.message.is_open and not leg.ended:
                self._settle.end(leg.message, "refused", now, error=error)
            self._dispatch.free(leg, now)
        for leg in session.held.values():
            if leg.pool in old:
                self._dispatch.rehome(leg, pool_for(session, leg.message.type))
        self._t.waiting.pools_removed(old)

    # -- end

    def bye(self, session: Session, drain_s: float, now: float) -> None:
        """No new work for *session*; it ends when what it holds has ended, at the latest after *drain_s*."""
        session.draining = True
        if drain_s <= 0 or not session.held:
            self.end(session, "it said bye", said_bye=True)
        else:
            self._place_waiting(session.agent)
            self.draining.add(session)
            self._t.deadlines.set("drain", session, now + min(drain_s, limits.TIMEOUT_MAX_S))

    def end_drained(self) -> None:
        """A draining session ends with the last thing that it holds."""
        for session in [session for session in self.draining if not session.held]:
            self.end(session, "it said bye", said_bye=True)

    def silence(self, session: Session, now: float) -> None:
        """Time has passed since *session* was heard: perhaps it is lost."""
        if not session.live:
            return
        lost_at = session.heard_at + max(self._t.config.session_loss_s, 2 * session.heartbeat_s)
        if now < lost_at:
            self._t.deadlines.set("silence", session, lost_at)
            return
        self._t.count("sessions.lost")
        self.end(session, "its session was lost")

    def disconnected(self, session: Session, now: float) -> None:
        """The grace of *session*, whose connection has ended, is over."""
        if self._t.connections.is_lost(session, now):
            self._t.count("sessions.disconnected")
            self.end(session, "its connection has ended")

    def idle(self, zero: Session, now: float) -> None:
        """An agent without hello that has nothing open is forgotten after a while."""
        if not zero.live:
            return
        idle_at = zero.heard_at + self._t.limits.assumed_session_idle_s
        if zero.open or zero.held or now < idle_at:
            self._t.deadlines.set("idle", zero, max(idle_at, now + 1.0))
            return
        self._groups.end_session(zero)
        self._resources.session_ended(zero, now, said_bye=True)
        self._t.waiting.end_session(zero)
        self._t.sessions.close(zero)

    def end(self, session: Session, why: str, *, said_bye: bool = False) -> None:
        """*session* is over: what it holds is lost at once, what it waits for is withdrawn, its queue finds others."""
        if not session.live:
            return
        self._t.sessions.close(session)
        self.draining.discard(session)
        self._t.deadlines.drop("silence", session)
        self._t.deadlines.drop("drain", session)
        self._t.deadlines.drop("claims", session)
        self._t.deadlines.drop("gone", session)
        self._t.connections.forget(session)
        self._reconcile.gone(session)
        self._t.admission.gather(session.agent, self._t.waiting)
        self._t.waiting.pools_removed(session.pools)
        self._backlog.clear(self._rest_of(session, why, said_bye=said_bye))
        self._place_waiting(session.agent)

    def _rest_of(self, session: Session, why: str, *, said_bye: bool) -> Iterator[None]:
        """Clear away what *session* leaves behind, step by step."""
        backlog = self._backlog
        for leg in one_by_one(session.held.values()):
            self._settle.lose(leg, backlog.now, why)
            yield
        for message in one_by_one(item for item in session.open.values() if isinstance(item, Message)):
            self._settle.cancel(message, backlog.now, why)
            yield
        for wait in one_by_one(item for item in session.open.values() if isinstance(item, OpenWait)):
            self._openwaits.leave(wait, backlog.now)
            yield
        self._resources.session_ended(session, backlog.now, said_bye=said_bye)
        self._groups.end_session(session)
        for strand in one_by_one(session.strands.values()):
            self._t.waiting.remove(strand)
            yield


def fault_of(hello: bodies.Hello) -> bodies.Error | None:
    """What is wrong with *hello*; None if nothing is."""
    if hello.protocol != limits.PROTOCOL:
        return bodies.Error(errors.PROTOCOL_UNKNOWN, f"this gateway speaks protocol {limits.PROTOCOL}")
    if not is_id(hello.session) or len(hello.session) < 2:
        return bodies.Error(
            errors.BAD_ID, "a session token is 2 to 64 of A-Z a-z 0-9 _ -, at least 96 random bits"
        )
    if hello.concurrency is not None and hello.pools is not None:
        return bodies.Error(
            errors.BAD_REQUEST, "concurrency is one pool of all types: give it or pools, not both"
        )
    if hello.concurrency is not None and not 1 <= hello.concurrency <= limits.SLOTS_MAX:
        return bodies.Error(errors.BAD_REQUEST, f"concurrency is 1 to {limits.SLOTS_MAX}")
    for channel in hello.channels or ():
        if agent_id(channel.removeprefix("@")) is None:
            return bodies.Error(errors.BAD_ID, f"{channel!r} cannot name a channel")
    if len(hello.channels or ()) > limits.CHANNELS_MAX or len(hello.pools or ()) > limits.POOLS_MAX:
        return bodies.Error(
            errors.BAD_REQUEST, f"at most {limits.CHANNELS_MAX} channels and {limits.POOLS_MAX} pools"
        )
    return next((fault for pool in hello.pools or () if (fault := _pool_fault(pool)) is not None), None)


def _pool_fault(pool: bodies.Pool) -> bodies.Error | None:
    if pool.slots is not None and not 1 <= pool.slots <= limits.SLOTS_MAX:
        return bodies.Error(
            errors.BAD_REQUEST, f"a pool has 1 to {limits.SLOTS_MAX} slots, or null: no limit"
        )
    if pool.main and pool.slots != 1:
        return bodies.Error(errors.BAD_REQUEST, "a main pool has one slot: the program's own loop reads it")
    if pool.types is not None and len(pool.types) > limits.POOL_TYPES_MAX:
        return bodies.Error(errors.BAD_REQUEST, f"a pool names at most {limits.POOL_TYPES_MAX} types")
    for pattern in pool.types or ():
        if not is_pattern(pattern):
            return bodies.Error(errors.BAD_ID, f"{pattern!r} is no pattern over event types")
    return None


def _retry(tables: Tables) -> dict[str, object]:
    return {"retry_after_s": tables.limits.retry_after_s}
