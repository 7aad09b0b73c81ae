"""Approvals: asked for, shown to whoever must decide, decided."""

from unknot_gateway.core.effects import SendControl, SendNotice
from unknot_gateway.core.facts import ApprovalDecided
from unknot_gateway.core.graph import NEVER, OUTSIDE
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.records import OpenWait, Session
from unknot_gateway.core.resources.approvals import HUMAN, approver, requested, undecided
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, resources
from unknot_schemas.subjects import CONTROL_APPROVAL


class Deciding:
    """The way of an approval."""

    def __init__(self, tables: Tables, openwaits: OpenWaits) -> None:
        self._t = tables
        self._openwaits = openwaits
        self._approvals = tables.resources.approvals

    def request(
        self, session: Session, body: resources.ApprovalRequest, reply_to: str | None, now: float
    ) -> None:
        """Wait for one decision."""
        wait = bodies.WaitOpen(
            body.id,
            body.session,
            [bodies.WaitCondition("approval", body.from_)],
            execution=body.execution,
            strand=body.strand,
            detached=body.detached,
            run=body.run,
            timeout_s=body.timeout_s,
            reason=body.reason,
            data=body.data,
        )
        self._openwaits.open(session, wait, reply_to, now)

    def show(self, wait: OpenWait, now: float) -> None:
        """Tell every session of those who must decide, and whoever watches."""
        for _, condition in undecided(wait):
            body = requested(wait, condition, now)
            self._t.out.append(SendNotice(CONTROL_APPROVAL, body))
            name = approver(condition)
            agent = self._t.sessions.agents.get(name) if name is not None else None
            for session in agent.sessions.values() if agent is not None else ():
                self._t.out.append(SendControl(session.name, session.id, CONTROL_APPROVAL, body))

    def show_all(self, session: Session, now: float) -> None:
        """A session of an agent has begun: tell it what that agent must decide."""
        for wait in self._approvals.of_agent(session.name):
            for _, condition in undecided(wait):
                if approver(condition) == session.name:
                    body = requested(wait, condition, now)
                    self._t.out.append(SendControl(session.name, session.id, CONTROL_APPROVAL, body))

    def resolve(
        self, by: str, approval_id: str, decision: str, reason: str | None, reply_to: str | None
    ) -> None:
        """Take a decision of *by*: an agent, ``human:<name>``, or ``human:`` for whichever human was asked."""
        found = self._approvals.find(approval_id, by)
        if found is None and by == HUMAN:
            found = self._of_a_human(approval_id)
        if found is None:
            is_open = self._approvals.has(approval_id)
            code = errors.NOT_PERMITTED if is_open else errors.UNKNOWN_APPROVAL
            text = (
                f"approval {approval_id!r} is not for {by!r} to decide"
                if is_open
                else f"approval {approval_id!r} is not open (any more): nothing was done"
            )
            self._t.refuse(reply_to, approval_id, code, text)
            return
        wait, index = found
        self._t.count(f"approvals.{decision}")
        if decision == "approved":
            wait.taken.add(index)
        else:
            wait.spent = wait.spent | {index}
            wait.denied = bodies.Error(
                errors.DENIED,
                f"{wait.body.on[index].id} has denied it" + (f": {reason}" if reason else ""),
                {"by": wait.body.on[index].id, **({"reason": reason} if reason else {})},
            )
        if wait.wait is not None:
            self._t.waiting.change(wait.wait, index, OUTSIDE if decision == "approved" else NEVER)
        self._t.resources.touched[wait] = None
        self._t.receipt(reply_to, bodies.Receipt(True, approval_id))

    def of_operator(self, fact: ApprovalDecided) -> None:
        """The decision of a human, by the operator's api."""
        by = HUMAN + (fact.by or "").removeprefix(HUMAN)
        self.resolve(by, fact.id, fact.decision, fact.reason, fact.reply_to)

    def _of_a_human(self, approval_id: str) -> tuple[OpenWait, int] | None:
        for wait in self._approvals.all():
            if wait.id == approval_id:
                places = undecided(wait)
                return next(((wait, at) for at, on in places if approver(on) is None), None)
        return None
