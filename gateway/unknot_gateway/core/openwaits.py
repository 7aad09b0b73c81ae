"""Waits that agents open themselves: for an own request, for an event, for what only they know of."""

from unknot_gateway.core import explain, marks
from unknot_gateway.core.graph import NEVER, OUTSIDE, Condition, any_of, execution
from unknot_gateway.core.messages import Tombstone
from unknot_gateway.core.records import Message, OpenWait, Session
from unknot_gateway.core.resources.approvals import approver
from unknot_gateway.core.resources.resources import is_ended_here
from unknot_gateway.core.tables import Tables
from unknot_gateway.core.waiting import condition_of, slot_condition
from unknot_schemas import bodies, errors, holds
from unknot_schemas.bodies import OutcomeKind
from unknot_schemas.ids import MAIN, AgentId, EventId, ExecutionId, StrandId, agent_id, is_pattern
from unknot_schemas.limits import CONDITION_ID_CHARS_MAX, CONDITIONS_MAX, TIMEOUT_MAX_S


class OpenWaits:
    """Opens, closes and ends them."""

    def __init__(self, tables: Tables) -> None:
        self._t = tables
        self._for_agents: dict[AgentId, dict[tuple[EventId, int], tuple[OpenWait, int]]] = {}
        """Waits for an agent as a whole, by agent, with the place of the condition."""
        self.early: dict[EventId, list[tuple[OpenWait, int]]] = {}
        """Waits for the answer to something that has not come (yet), with the place of the condition."""

    def open(self, session: Session, body: bodies.WaitOpen, reply_to: str | None, now: float) -> None:
        """Enter a wait; an older generation, or one closed before it came, changes nothing."""
        event_id = EventId(body.id)
        void_up_to = session.void.get(body.id)
        known = self._t.messages.waits.get(event_id)
        if void_up_to is not None and body.generation <= void_up_to:
            self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=True))
            self._repeat(session, event_id, now)
            return
        if known is not None and (known.session is not session or known.body.generation >= body.generation):
            self._known(known, session, body, reply_to)
            return
        fault = self._fault(session, event_id, body)
        if fault is not None:
            self._refuse(session, body, fault, reply_to, now)
            return
        if known is not None:
            self._remove(known)
        self._enter(session, event_id, body, now)
        timeout_s = marks.holding_timeout_s(body.timeout_s)
        self._t.receipt(reply_to, bodies.Receipt(True, body.id, timeout_s=timeout_s))

    def close(self, session: Session, body: bodies.WaitClose, reply_to: str | None, now: float) -> None:
        """The wait is over on the agent's side."""
        wait = self._t.messages.waits.get(EventId(body.id))
        if wait is None:
            self._void(session, body.id, body.generation or 0)
        elif wait.session is not session:
            self._t.refuse(reply_to, body.id, errors.UNKNOWN_WAIT, f"wait {body.id!r} is another session's")
            return
        elif body.generation is not None and body.generation < wait.body.generation:
            self._t.refuse(reply_to, body.id, errors.STALE_GENERATION, "an older generation changes nothing")
            return
        else:
            self._remove(wait)
            self._bury(wait, now, "closed")
        self._t.receipt(reply_to, bodies.Receipt(True, body.id))

    def end(
        self, wait: OpenWait, kind: OutcomeKind, now: float, *, error: bodies.Error | None = None
    ) -> None:
        """End *wait* from the gateway's side."""
        if self._t.messages.waits.get(wait.id) is wait:
            self.finish(wait)
            self.tell(wait, kind, now, error=error)

    def finish(self, wait: OpenWait) -> None:
        """*wait* is over; `tell` says how, in the same step."""
        self._remove(wait)

    def tell(
        self,
        wait: OpenWait,
        kind: OutcomeKind,
        now: float,
        *,
        error: bodies.Error | None = None,
        fulfilled: holds.Fulfilled | None = None,
    ) -> None:
        """The one Outcome of *wait*, which is finished."""
        tombstone = self._bury(wait, now, kind)
        outcome = bodies.Outcome(wait.id, kind, "no", self._t.epoch, error=error, fulfilled=fulfilled)
        self._t.outcome(wait.session, outcome, None)
        self._t.messages.keep(tombstone, outcome)

    def came(self, message: Message) -> None:
        """*message* is open now; waits for its answer may have been opened before."""
        found = self.early.pop(message.id, ())
        message.watchers += tuple(each for each in found if each[0].session is message.source)

    def repeat(self, session: Session, tombstone: Tombstone, now: float) -> None:
        """The Outcome of something that has ended, once more; a lease counts from when its holder hears of it."""
        outcome = tombstone.outcome
        assert outcome is not None, "there is something to repeat"
        if outcome.outcome == "granted":
            hold = self._t.resources.leases.find(outcome.request_id)
            if hold is not None and hold.strand.session is session:
                self._t.resources.leases.renew(hold, hold.lease_s, now)
        self._t.outcome(session, outcome, None)

    def ungrant(self, event_id: EventId) -> None:
        """What a wait was granted has been taken away: whoever has not heard of the grant must not hear of it now."""
        tombstone = self._t.messages.closed(event_id)
        granted = tombstone.outcome if tombstone is not None else None
        if tombstone is None or granted is None or granted.outcome != "granted":
            return
        text = f"what wait {event_id!r} was granted is held no more: nobody has said in time that it was heard of"
        error = bodies.Error(errors.NOT_HELD, text)
        tombstone.outcome = bodies.Outcome(granted.request_id, "cancelled", "no", self._t.epoch, error=error)

    def expire(self, wait: OpenWait, now: float) -> None:
        """The deadline of *wait* has come."""
        steps = explain.chain(self._t, wait)
        named = ", ".join(f"{condition.kind}:{condition.id}" for condition in wait.body.on[:8])
        text = f"what {wait.session.name!r} waited for ({named}) did not come in time"
        self.end(wait, "expired", now, error=bodies.Error(errors.EXPIRED, text, {"chain": steps}))

    def taken(self, wait: OpenWait, now: float) -> None:
        """An event was delivered for *wait*: with enough of them it is over, and its client knows, or is told."""
        if wait.is_ended_here:
            self._t.resources.touched[wait] = None
        elif len(wait.taken) >= need_of(wait.body):
            self._remove(wait)
            self._bury(wait, now, "closed")

    def agent_changed(self, name: AgentId) -> None:
        """Sessions or pools of *name* have changed: waits for it as a whole hang on others now."""
        for wait, index in self._for_agents.get(name, {}).values():
            is_decided = index in wait.taken or index in wait.spent
            if wait.wait is not None and not is_decided:
                self._t.waiting.change(wait.wait, index, self._agent(name))

    def leave(self, wait: OpenWait, now: float) -> None:
        """*wait* is over with its session."""
        if self._t.messages.waits.get(wait.id) is wait:
            self._remove(wait)
            self._bury(wait, now, "cancelled")

    # -- inside

    def _refuse(
        self, session: Session, body: bodies.WaitOpen, fault: bodies.Error, reply_to: str | None, now: float
    ) -> None:
        """Nothing was entered. What the gateway would have ended ends so, with its older generation; never an id that
        is another's."""
        self._t.refuse(reply_to, body.id, fault.code, fault.message, **(fault.detail or {}))
        if is_ended_here(body) and fault.code != errors.ID_CONFLICT:
            kind: OutcomeKind = "over_limit" if fault.code == errors.OVER_LIMIT else "refused"
            older = self._t.messages.waits.get(EventId(body.id))
            if older is not None:
                self.end(older, kind, now, error=fault)
                return
            self._t.outcome(session, bodies.Outcome(body.id, kind, "no", self._t.epoch, error=fault), None)

    def _repeat(self, session: Session, event_id: EventId, now: float) -> None:
        """The wait has ended before: its Outcome, once more."""
        closed = self._t.messages.closed(event_id)
        if closed is not None and closed.outcome is not None and closed.waiter == session.name:
            self.repeat(session, closed, now)

    def _known(self, known: OpenWait, session: Session, body: bodies.WaitOpen, reply_to: str | None) -> None:
        if known.session is not session:
            text = f"id {body.id!r} is another session's wait; take a new id"
            self._t.refuse(reply_to, body.id, errors.ID_CONFLICT, text)
        elif known.body.generation > body.generation:
            self._t.refuse(reply_to, body.id, errors.STALE_GENERATION, "an older generation changes nothing")
        else:
            timeout_s = known.deadline_at - known.opened_at
            self._t.receipt(reply_to, bodies.Receipt(True, body.id, timeout_s=timeout_s, duplicate=True))

    def _fault(self, session: Session, event_id: EventId, body: bodies.WaitOpen) -> bodies.Error | None:
        closed = self._t.messages.closed(event_id)
        if event_id in self._t.messages.open or (closed is not None and closed.waiter != session.name):
            return bodies.Error(
                errors.ID_CONFLICT, f"id {body.id!r} is a request's or another's; take a new id"
            )
        if not 1 <= len(body.on) <= CONDITIONS_MAX:
            return bodies.Error(errors.BAD_REQUEST, f"a wait has 1 to {CONDITIONS_MAX} conditions")
        if isinstance(body.need, int) and not 1 <= body.need <= len(body.on):
            return bodies.Error(errors.BAD_REQUEST, "need is all, any, or 1 to the number of conditions")
        for condition in body.on:
            if len(condition.id) > CONDITION_ID_CHARS_MAX:
                return bodies.Error(
                    errors.BAD_ID, f"a condition's id has at most {CONDITION_ID_CHARS_MAX} characters"
                )
            if condition.kind == "event" and not is_pattern(condition.id):
                return bodies.Error(errors.BAD_ID, f"{condition.id!r} is no pattern over event types")
        fault = self._t.resources.fault(body, is_reconciling=self._t.is_reconciling)
        if fault is not None:
            return fault
        if len(session.open) >= self._t.limits.open_per_session_max:
            detail: dict[str, object] = {"retry_after_s": self._t.limits.retry_after_s}
            return bodies.Error(errors.OVER_LIMIT, f"too much is open for {session.name!r}", detail)
        return None

    def _enter(self, session: Session, event_id: EventId, body: bodies.WaitOpen, now: float) -> None:
        deadline_at = now + marks.holding_timeout_s(body.timeout_s)
        since = now - min(max(body.since_s, 0.0), TIMEOUT_MAX_S)
        wait = OpenWait(event_id, session, body, now, since, deadline_at, is_ended_here=is_ended_here(body))
        self._t.messages.waits[event_id] = wait
        session.open[event_id] = wait
        if any(condition.kind == "event" for condition in body.on):
            session.agent.expects[event_id] = wait
        self._t.deadlines.set("wait", event_id, deadline_at)
        waiting = self._t.waiting
        strand = waiting.strand(
            session,
            ExecutionId(body.execution or MAIN),
            StrandId(body.strand or ""),
            detached=body.detached,
        )
        conditions = [self._condition(wait, index, condition) for index, condition in enumerate(body.on)]
        wait.wait = waiting.open(strand, conditions, need_of(body), opened=wait)
        self._t.opened = wait
        for index, condition in enumerate(body.on):
            if (name := _agent_named(condition)) is not None:
                self._for_agents.setdefault(name, {})[event_id, index] = (wait, index)
        for index, condition in enumerate(body.on):
            message = self._own_open(session, condition)
            if message is not None:
                still = [
                    other for other in message.watchers if self._t.messages.waits.get(other[0].id) is other[0]
                ]
                message.watchers = (*still, (wait, index))
            elif condition.kind == "reply" and index not in wait.taken and index not in wait.spent:
                self.early.setdefault(EventId(condition.id), []).append((wait, index))

    def _condition(self, wait: OpenWait, index: int, condition: bodies.WaitCondition) -> Condition:
        """What the graph makes of it. What cannot be resolved counts as outside: never an edge."""
        if condition.kind == "reply":
            return self._reply(wait, index, condition)
        entered = self._t.resources.enter(wait, index, condition)
        name = _agent_named(condition)
        return self._agent(name) if name is not None else entered

    def _reply(self, wait: OpenWait, index: int, condition: bodies.WaitCondition) -> Condition:
        message = self._own_open(wait.session, condition)
        if message is not None:
            return condition_of(self._t.waiting, message)
        closed = self._t.messages.closed(EventId(condition.id)) if wait.is_ended_here else None
        if closed is None or not closed.blocks:
            return OUTSIDE
        self._t.resources.replied(((wait, index),), answered=closed.kind == "reply")
        return OUTSIDE if closed.kind == "reply" else NEVER

    def _own_open(self, session: Session, condition: bodies.WaitCondition) -> Message | None:
        """The open request of *session* whose answer *condition* is; None if it is none."""
        message = self._t.messages.open.get(EventId(condition.id)) if condition.kind == "reply" else None
        return message if message is not None and message.source is session else None

    def _agent(self, name: str) -> Condition:
        """An agent as a whole can go on while any slot or the main of any live session can."""
        found = agent_id(name)
        entry = self._t.sessions.agents.get(AgentId(found)) if found is not None else None
        if entry is None or not (entry.sessions or entry.zero):
            return OUTSIDE
        parts: list[Condition] = []
        for session in entry.sessions.values() or ([entry.zero] if entry.zero is not None else []):
            parts += [slot_condition(self._t.waiting, (pool,)) for pool in session.pools]
            if session.hello is None or session.hello.main_runs:
                parts.append(execution(self._t.waiting.strand(session, MAIN).node))
        return any_of(*parts) if parts else OUTSIDE

    def _void(self, session: Session, wait_id: str, generation: int) -> None:
        if len(session.void) >= self._t.limits.void_max:
            session.void.pop(next(iter(session.void)))
        session.void[wait_id] = max(generation, session.void.get(wait_id, generation))

    def _remove(self, wait: OpenWait) -> None:
        self._void(wait.session, wait.id, wait.body.generation)
        self._t.messages.waits.pop(wait.id, None)
        wait.session.open.pop(wait.id, None)
        wait.session.agent.expects.pop(wait.id, None)
        self._t.deadlines.drop("wait", wait.id)
        for index, condition in enumerate(wait.body.on):
            if self.early and condition.kind == "reply":
                self._forget_early(wait, EventId(condition.id))
            if (name := _agent_named(condition)) is not None:
                waits = self._for_agents.get(name, {})
                waits.pop((wait.id, index), None)
                if not waits:
                    self._for_agents.pop(name, None)
        if wait.wait is not None:
            self._t.waiting.close(wait.wait)
        self._t.resources.leave(wait)

    def _forget_early(self, wait: OpenWait, asked: EventId) -> None:
        left = [each for each in self.early.get(asked, ()) if each[0] is not wait]
        if left:
            self.early[asked] = left
        else:
            self.early.pop(asked, None)

    def _bury(self, wait: OpenWait, now: float, kind: str) -> Tombstone:
        digest = hash((wait.session.name, wait.id, wait.body.generation))
        return self._t.messages.bury(wait.id, digest, now, kind=kind, waiter=wait.session.name)


def _agent_named(condition: bodies.WaitCondition) -> AgentId | None:
    """The agent that must make it come true as a whole; None if it is none."""
    if condition.kind == "agent":
        return agent_id(condition.id)
    return approver(condition) if condition.kind == "approval" else None


def need_of(body: bodies.WaitOpen) -> int:
    """How many of its conditions must be true."""
    if isinstance(body.need, int):
        return body.need
    return len(body.on) if body.need == "all" else 1
