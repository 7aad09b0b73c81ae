"""How messages end: by an answer, or without one. Each request in exactly one Outcome, decided here.

Withdraw first: before any other Outcome than an answer's, what is queued is dropped and whoever runs it is told.
"""

from typing import Final

from msgspec.structs import replace

from unknot_gateway.core import explain
from unknot_gateway.core.claims import Claims
from unknot_gateway.core.dispatch import Dispatch
from unknot_gateway.core.effects import SendControl
from unknot_gateway.core.facts import ReplySeen
from unknot_gateway.core.groups import Groups
from unknot_gateway.core.records import Agent, Leg, Message, Session
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.bodies import OutcomeKind
from unknot_schemas.ids import AgentId, EventId, ExecutionId, SessionId
from unknot_schemas.limits import PROTOCOL
from unknot_schemas.subjects import CONTROL_ABANDONED

_ANSWERS: Final = ("reply", "failed")


class Settle:
    """The one place where messages end."""

    def __init__(self, tables: Tables, dispatch: Dispatch, groups: Groups, claims: Claims) -> None:
        self._t = tables
        self._dispatch = dispatch
        self._groups = groups
        self._claims = claims

    # -- answers

    def reply(self, fact: ReplySeen, now: float) -> None:
        """Take an answer: it ends exactly the request that it names, or changes nothing and is told why."""
        agent, request_id, envelope, reply_to = fact.agent, fact.request_id, fact.envelope, fact.reply_to
        sender, token = self._t.sessions.agents.get(agent), envelope.session
        session = sender.sessions.get(SessionId(token)) if sender is not None and token is not None else None
        if session is not None:
            session.heard_at = now
        elif envelope.session is not None:
            self._t.refuse(reply_to, request_id, errors.STALE_REPLY, _STALE.format(agent))
            return
        message = self._t.messages.open.get(request_id)
        leg = _leg_of(message, agent) if message is not None and message.verb != "send" else None
        if message is None or leg is None:
            self._late(fact, now)
        elif leg.session is not None and session is not None and leg.session is not session:
            self.given(fact, now)
            self._t.refuse(reply_to, request_id, errors.STALE_REPLY, _STALE.format(agent))
        else:
            self.answer(message, leg, agent, envelope, now)
            if reply_to is not None:
                self._t.receipt(reply_to, bodies.Receipt(True, request_id))

    def given(self, fact: ReplySeen, now: float) -> bool:
        """An answer that ends nothing frees the slot of the handler that gave it; False if its agent holds none."""
        request_id = fact.request_id
        agent = self._t.sessions.agents.get(fact.agent)
        session = self._t.sessions.find(fact.agent, fact.envelope.session)
        if session is not None:
            self._claims.answered((session,), request_id)
            held = session.held.get(request_id)
        else:
            self._claims.answered(agent.sessions.values() if agent is not None else (), request_id)
            held = held_by(agent, request_id)
        if held is None or held.message.verb == "send":
            return False
        if fact.envelope.done and held.state == "running":
            self._dispatch.free(held, now)
        return True

    def answer(
        self,
        message: Message,
        leg: Leg,
        agent: AgentId,
        envelope: bodies.Envelope,
        now: float,
        *,
        event_type: str | None = None,
    ) -> None:
        """End *message* by what *agent* says in *envelope*; *event_type*: of the answer, where it has its own."""
        event = bodies.Delivered(
            envelope.id or self._t.new_id("a"),
            event_type or message.type,
            agent,
            message.source.name,
            envelope.data,
            False,
            self._t.epoch,
            PROTOCOL,
            message.id,
            run=message.envelope.run,
            metadata=envelope.metadata,
            traceparent=envelope.traceparent,
            tracestate=envelope.tracestate,
        )
        leg.ended = True
        can_say_done = leg.session is not None and leg.session.said_hello
        runs_on = leg.state == "running" and not envelope.done and can_say_done
        was_delivered = leg.state in ("running", "deferred", "unheard")
        if not was_delivered:
            self._dispatch.withdraw(leg)
        kind: OutcomeKind = "failed" if envelope.error is not None else "reply"
        self.end(message, kind, now, error=envelope.error, event=event, handled="yes")
        if was_delivered and not runs_on:
            self._dispatch.free(leg, now)

    def event(self, leg: Leg, now: float) -> bool:
        """Whether the one-way event of *leg* was the answer to a request of its target: then both have ended."""
        event = leg.message
        if self._t.is_reconciling or not self._t.uncorrelated.has_any:
            return False
        found = self._t.uncorrelated.answered_by(event, leg.agent.id, now)
        if found is None or isinstance(found, str):
            if found is not None:
                self._t.count(f"uncorrelated.{found}")
            return False
        self._t.count("uncorrelated.taken")
        request, held = found
        envelope = replace(event.envelope, id=event.id, done=False)  # it says nothing of the handler
        self.answer(request, held, event.source.name, envelope, now, event_type=event.type)
        self.end(event, "reply", now)
        return True

    def _late(self, fact: ReplySeen, now: float) -> None:
        agent, request_id, reply_to = fact.agent, fact.request_id, fact.reply_to
        took_it = self.given(fact, now)
        tombstone = self._t.messages.closed(request_id)
        foreign = f"{request_id!r} was not asked of {agent!r}; nothing was changed"
        if tombstone is None and not took_it:
            code, text = errors.UNKNOWN_REPLY, f"no open request {request_id!r}; the answer went to nobody"
            if self._t.messages.open.get(request_id) is not None:
                code, text = errors.FOREIGN_REPLY, foreign
        elif tombstone is not None and agent not in tombstone.targets:
            code, text = errors.FOREIGN_REPLY, foreign
        elif tombstone is not None and tombstone.kind in _ANSWERS:
            code, text = (
                errors.DUPLICATE_REPLY,
                f"{request_id!r} has been answered already; the first answer holds",
            )
        else:
            code, text = (
                errors.LATE_REPLY,
                f"{request_id!r} has ended; the answer came too late and went to nobody",
            )
        self._t.refuse(reply_to, request_id, code, text)

    def done(self, session: Session, event_id: EventId, now: float) -> None:
        """The handler of *event_id* has returned. A request neither answered nor deferred has failed."""
        leg = session.held.get(event_id)
        if leg is None or leg.state == "deferred":
            self._t.count("done.unknown" if leg is None else "done.deferred")
            if session in self._t.resources.ties.sessions:
                self._t.resources.ties.ended.append((session, ExecutionId(event_id)))
            return
        message = leg.message
        if message.is_open and not leg.ended:
            leg.ended = True
            if message.verb == "send":
                self.end(message, "reply", now)
            elif message.envelope.accept_uncorrelated is not None:
                leg.ended = False  # what answers it is an event that may come later
                self._dispatch.defer(leg, None, now)
                return
            elif all(other.ended for other in message.legs):
                error = bodies.Error(
                    errors.NO_ANSWER,
                    f"the handler of {message.type!r} at {session.name!r} returned without an answer: "
                    "return a value, or call defer() before returning",
                )
                self.end(message, "failed", now, error=error, handled="yes")
            else:
                self._t.waiting.update(message)
        self._dispatch.free(leg, now)

    def defer(self, session: Session, event_id: EventId, by: str | None, now: float) -> None:
        """The handler of *event_id* has returned; its answer comes later."""
        leg = session.held.get(event_id)
        if leg is None or leg.state != "running":
            self._t.count("defer.unknown")
            return
        if leg.ended or leg.message.verb == "send":
            self.done(session, event_id, now)
            if leg.is_claim:
                self._claims.deferred(session, event_id)
            return
        self._dispatch.defer(leg, by, now)

    def reported(self, session: Session, event_id: EventId, state: str, now: float) -> None:
        """What *session* says of an event in its hands, in facts or a heartbeat."""
        leg = session.held.get(event_id)
        if leg is None or leg.state != "running":
            return
        if state == "deferred":
            self.defer(session, event_id, None, now)
        elif state == "running" and leg.is_expected:
            self._dispatch.own(leg)

    # -- ends without an answer

    def cancel(self, message: Message, now: float, why: str) -> None:
        """Nobody wants the answer of *message* any more."""
        error = bodies.Error(errors.CANCELLED, f"request {message.id!r} was cancelled: {why}")
        self.end(message, "cancelled", now, error=error)

    def expire(self, message: Message, now: float) -> None:
        """The deadline of *message* has come."""
        if message.verb == "send":
            if not message.was_delivered:
                self._t.count("dropped.expired")
                self.refuse_send(message, errors.EXPIRED, "no slot was free in time; the event was dropped")
                self.end(message, "expired", now)
            return
        chain = explain.chain(self._t, message)
        asked_s = round(message.deadline_at - message.opened_at, 3)
        error = bodies.Error(
            errors.EXPIRED,
            f"no answer from {message.target!r} to {message.type!r} within {asked_s} s: {explain.sentence(chain)}",
            {"chain": chain},
        )
        self.end(message, "expired", now, error=error)

    def lose(self, leg: Leg, now: float, why: str) -> None:
        """The session that took *leg* has ended: at once the request's end, unless another member can answer."""
        message = leg.message
        if message.is_open and not leg.ended:
            leg.ended = True
            if message.verb == "send":
                self._t.count("dropped.responder_lost")
                self.end(message, "responder_lost", now)
            elif all(other.ended for other in message.legs):
                error = bodies.Error(
                    errors.RESPONDER_LOST,
                    f"{leg.agent.id!r} took {message.type!r} and is gone ({why}); whether it acted is "
                    f"{'known: it was running' if message.reported_running else 'not known'}",
                )
                self.end(message, "responder_lost", now, error=error)
            else:
                self._t.waiting.update(message)
        self._dispatch.free(leg, now)

    def reject(self, leg: Leg, error: bodies.Error, now: float) -> None:
        """*leg* can go nowhere: the end of its message, unless another member can answer."""
        message = leg.message
        leg.ended = True
        if leg.state == "unheard":
            self._dispatch.free(leg, now)
        else:
            self._dispatch.withdraw(leg)
        if not all(other.ended for other in message.legs):
            self._t.waiting.update(message)
            return
        if message.verb == "send":
            self._t.count(f"dropped.{error.code}")
            self.refuse_send(message, error.code, error.message, error.detail)
        self.end(message, _outcome_for(error.code), now, error=error)

    def refuse_send(
        self, message: Message, code: str, text: str, detail: dict[str, object] | None = None
    ) -> None:
        """Give the Receipt that a one-way event still owes: it was not delivered."""
        self._t.refuse(message.receipt_to, message.id, code, text, **(detail or {}))
        message.receipt_to = None

    # -- the end

    def end(
        self,
        message: Message,
        kind: OutcomeKind,
        now: float,
        *,
        error: bodies.Error | None = None,
        event: bodies.Delivered | None = None,
        handled: bodies.Handled | None = None,
    ) -> None:
        """End *message* as *kind*; nothing happens if it has ended before."""
        if not message.is_open:
            return
        message.is_open = False
        if message.receipt_to is not None:
            self._owed_receipt(message, kind, error)
        if message.envelope.accept_uncorrelated is not None:
            self._end_uncorrelated(message, now)
        freed: list[Leg] = []
        legs, messages = message.legs, self._t.messages
        if not (event is not None and len(legs) == 1 and legs[0].state == "running"):
            freed = self._withdraw(message, kind)  # else: its only handler has answered it
        if message.wait is not None or message.group is not None or message.watchers:
            self._close_edge(message, answered=kind == "reply")
        message.is_unentered = False
        messages.remove(message)
        self._t.deadlines.drop("deadline", message.id)
        targets = (legs[0].agent.id,) if len(legs) == 1 else tuple([leg.agent.id for leg in legs])
        blocks, asked = message.verb != "send", message.verb == "ask"
        tombstone = messages.bury(message.id, message.digest, now, kind, targets, blocks, asked)
        if blocks:
            handled = handled or message.handled
            outcome = bodies.Outcome(message.id, kind, handled, self._t.epoch, event=event, error=error)
            self._t.outcome(message.source, outcome, message.reply_to)
            messages.keep(tombstone, outcome)
        for leg in freed:  # whoever runs one of them without a slot may not have heard of it yet
            self._dispatch.free(leg, now, returned=leg.pool is not None)
        if message.group is not None:
            for other in self._groups.ended(message, now, answered=kind == "reply"):
                self.cancel(other, now, f"its group {message.group.id!r} is complete or cannot be completed")
        legs.clear()  # a leg names its message: without the way back nothing waits for the collector

    def _end_uncorrelated(self, message: Message, now: float) -> None:
        for pair, until in self._t.uncorrelated.ended(message, now, self._t.messages.remembered_s):
            self._t.deadlines.set("late", pair, until)

    def _owed_receipt(self, message: Message, kind: str, error: bodies.Error | None) -> None:
        if kind in _ANSWERS:
            self._dispatch.receipt(message)
        elif error is not None:
            self.refuse_send(message, error.code, error.message, error.detail)
        else:
            self.refuse_send(
                message, kind, f"{message.type!r} for {message.target!r} ended before it was taken in: {kind}"
            )

    def _withdraw(self, message: Message, kind: str) -> list[Leg]:
        """Drop what is queued, tell whoever runs it; return the legs whose handler is over or never began."""
        freed: list[Leg] = []
        for leg in message.legs:
            if leg.state in ("queued", "absent", "parked"):
                self._dispatch.withdraw(leg)
            elif leg.state == "unheard" or (
                leg.state == "running" and leg.session is not None and not leg.ended
            ):
                if message.verb != "send":
                    self._tell(leg, message, kind)
                if leg.state == "unheard" or leg.pool is None or leg.pool.main:
                    freed.append(leg)
            elif leg.state == "deferred" and not leg.ended:
                self._tell(leg, message, kind)
                freed.append(leg)
            leg.ended = True
        return freed

    def _tell(self, leg: Leg, message: Message, kind: str) -> None:
        if leg.session is not None and leg.session.live:
            body = bodies.Abandoned(message.id, kind)
            self._t.out.append(SendControl(leg.session.name, leg.session.id, CONTROL_ABANDONED, body))

    def _close_edge(self, message: Message, *, answered: bool) -> None:
        if message.group is not None:
            self._t.waiting.settle(message, answered=answered)
        elif message.wait is not None:
            self._t.waiting.close(message.wait)
        if message.watchers:
            self._t.resources.replied(message.watchers, answered=answered)
            self._t.waiting.answered(message)
        message.wait = None


_STALE: Final = "the answer came from another session of {!r} than the one that holds the request"


def _leg_of(message: Message, agent: AgentId) -> Leg | None:
    for leg in message.legs:
        if leg.agent.id == agent and not leg.ended:
            return leg
    return None


def held_by(agent: Agent | None, event_id: EventId) -> Leg | None:
    """What *agent* still holds of *event_id*, in whichever session."""
    if agent is None:
        return None
    zero = [agent.zero] if agent.zero is not None else []
    for session in [*agent.sessions.values(), *zero]:
        if event_id in session.held:
            return session.held[event_id]
    return None


def _outcome_for(code: str) -> OutcomeKind:
    if code == errors.UNREACHABLE:
        return "unreachable"
    if code == errors.RESPONDER_LOST:
        return "responder_lost"
    return "over_limit" if code == errors.OVER_LIMIT else "refused"
