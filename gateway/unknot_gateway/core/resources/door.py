"""The one door of resources: verbs go in, and what ends executions and sessions."""

from typing import assert_never

from unknot_gateway.core.facts import FreeVerb, SessionVerb
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.records import Session
from unknot_gateway.core.resources.artifacts import Production
from unknot_gateway.core.resources.deciding import Deciding
from unknot_gateway.core.resources.granting import Granting
from unknot_gateway.core.resources.holders import Report
from unknot_gateway.core.resources.leases import Hold
from unknot_gateway.core.resources.locks import Locks
from unknot_gateway.core.resources.offers import Offers
from unknot_gateway.core.resources.ties import Tie
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, resources
from unknot_schemas.ids import AgentId, EventId


class Door:
    """Everything that others may do to resources."""

    def __init__(self, tables: Tables, openwaits: OpenWaits) -> None:
        self._t = tables
        self.openwaits = openwaits
        self.granting = Granting(tables, openwaits)
        self.locks = Locks(tables, openwaits, self.granting)
        self.deciding = Deciding(tables, openwaits)
        self._offers = Offers(tables, openwaits, self.locks)

    def of_agent(self, agent: AgentId, body: FreeVerb, reply_to: str | None, now: float) -> None:
        """Take a verb that any program of *agent* may say."""
        session = self._t.sessions.find(agent, body.session)
        if session is not None:
            session.heard_at = now
        elif body.session is not None:
            text = f"no live session {body.session!r} of {agent!r}; nothing was changed"
            self._t.refuse(reply_to, None, errors.STALE_SESSION, text)
            return
        match body:
            case resources.LockRenew():
                self.locks.renew(agent, body, reply_to, now)
            case resources.LockRelease():
                self.locks.release(agent, body, reply_to)
            case resources.LockCheck():
                self.locks.check(body, reply_to)
            case resources.PoolDeclare():
                self.locks.declare(body, reply_to, now)
            case resources.ArtifactForget():
                self._offers.forget(body, reply_to)
            case resources.ApprovalResolve():
                self.deciding.resolve(agent, body.id, body.decision, body.reason, reply_to)
            case _:
                assert_never(body)

    def of_session(self, session: Session, body: SessionVerb, reply_to: str | None, now: float) -> None:
        """Take a verb of a live session."""
        match body:
            case resources.LockAcquire():
                self.locks.acquire(session, body, reply_to, now)
            case resources.ArtifactDeclare():
                self._offers.declare(session, body, reply_to)
            case resources.ArtifactWithdraw():
                self._offers.withdraw(session, body, reply_to)
            case resources.ArtifactPublish():
                self._offers.publish(body, reply_to)
            case resources.ArtifactWait():
                self._offers.wait(session, body, reply_to, now)
            case resources.ApprovalRequest():
                self.deciding.request(session, body, reply_to, now)
            case resources.HolderSet():
                self._offers.set(session, body, reply_to, now)
            case resources.HolderClear():
                self._offers.clear(session, body, reply_to)
            case _:
                assert_never(body)

    def run(self, now: float) -> bool:
        """What executions that have ended still had is over; then what is free is given out. False: not all of it."""
        ties = self._t.resources.ties
        while ties.ended:
            session, execution = ties.ended.pop()
            if session.live:  # else the end of the session says what is over, and what only its lease ends
                for tie in ties.of_execution(session, execution):
                    self._end(tie)
        is_done = self.granting.run(now)
        unshown = self._t.resources.approvals.unshown
        while unshown:
            self.deciding.show(unshown.pop(0), now)
        return is_done

    def session_ended(self, session: Session, now: float, *, said_bye: bool) -> None:
        """*session* is over. One that was lost keeps what it holds until its leases lapse: it may still run."""
        for report in self._t.resources.holders.of_others(session):
            self._end(report)
        for tie in self._t.resources.ties.of_session(session):
            if said_bye or isinstance(tie, Production):
                self._end(tie)
            else:
                self._t.waiting.lose(tie.strand)
                if isinstance(tie, Report):
                    self._t.resources.holders.until(tie, now + self._t.config.session_loss_s)

    def holds(self, wait_id: str) -> bool:
        """Whether that wait was granted something that is still held."""
        return self._t.resources.leases.find(wait_id) is not None

    def cancel(self, agent: AgentId, body: bodies.RequestCancel, now: float) -> bool:
        """Whether *body* names a wait of *agent*, which is over then, or something granted, which is released."""
        hold = self._t.resources.leases.find(body.id)
        wait = self._t.messages.waits.get(EventId(body.id))
        session = hold.strand.session if hold is not None else wait.session if wait is not None else None
        if session is None or session.name != agent or body.session not in (None, session.id):
            return False
        if not self.locks.closes(session, body.id, None) and wait is not None:
            error = bodies.Error(errors.CANCELLED, f"wait {body.id!r} was cancelled")
            self.openwaits.end(wait, "cancelled", now, error=error)
        return True

    def report_over(self, report: Report) -> None:
        """The time of a report is over."""
        self._t.resources.holders.clear(report)

    def _end(self, tie: Tie) -> None:
        match tie:
            case Hold():
                self._t.resources.leases.drop(tie)
            case Production():
                self._t.resources.artifacts.withdraw(tie)
            case Report():
                self._t.resources.holders.clear(tie)
            case _:
                raise AssertionError(f"nobody ends a {type(tie).__name__}")
