"""What comes for a session: outcomes, control events, deliveries. Answers at once; never awaits user code."""

import asyncio
import logging
from collections import OrderedDict
from typing import Final, Protocol

import msgspec

from unknot import _payloads
from unknot._pending import Several
from unknot._running import Running, Work
from unknot._session import Session
from unknot._strands import Execution
from unknot._strands import facts as strand_facts
from unknot_schemas import bodies, resources, subjects
from unknot_schemas.ids import MAIN
from unknot_schemas.limits import NAMED_IDS_MAX, TIMEOUT_MAX_S

logger = logging.getLogger("unknot")

BROADCAST_IDS_MAX: Final = 4_096
"""Events of channels and topics that are remembered, oldest first out."""

_delivered: Final = msgspec.json.Decoder(bodies.Delivered).decode
_outcome: Final = msgspec.json.Decoder(bodies.Outcome).decode
_confirm: Final = msgspec.json.Decoder(bodies.Confirm).decode
_abandoned: Final = msgspec.json.Decoder(bodies.Abandoned).decode
_replaced: Final = msgspec.json.Decoder(bodies.Replaced).decode
_deadlock: Final = msgspec.json.Decoder(bodies.DeadlockDetected).decode
_blocked: Final = msgspec.json.Decoder(bodies.BlockedBehind).decode
_lapsed: Final = msgspec.json.Decoder(resources.Lapsed).decode
_approval: Final = msgspec.json.Decoder(resources.ApprovalRequested).decode


class Server(Protocol):
    """Who handles what is delivered."""

    def execution(self, event: bodies.Delivered) -> Execution:
        """The execution that will handle *event*."""
        ...

    def take(self, work: Work) -> None:
        """Begin to handle *work*; returns at once."""
        ...

    def broadcast(self, event: bodies.Delivered) -> None:
        """A one-way event of a channel or topic; returns at once."""
        ...

    def decide(self, event: bodies.Delivered) -> None:
        """A decision of this agent is waited for: *event* says which; returns at once."""
        ...


class Receiver:
    """The receive loop of one session."""

    def __init__(self, session: Session, server: Server) -> None:
        self._session = session
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._broadcasts: OrderedDict[str, None] = OrderedDict()
        """Ids of the events of channels and topics that have come."""
        self._controls = {
            subjects.CONTROL_CONFIRM: self._on_confirm,
            subjects.CONTROL_ABANDONED: self._on_abandoned,
            subjects.CONTROL_REPLACED: self._on_replaced,
            subjects.CONTROL_DEADLOCK: self._on_deadlock,
            subjects.CONTROL_BLOCKED_BEHIND: self._on_blocked_behind,
            subjects.CONTROL_LAPSED: self._on_lapsed,
            subjects.CONTROL_APPROVAL: self._on_approval,
        }

    def receive(self, subject: str, payload: bytes) -> None:
        """Take one message under ``out.<agent>.<session>``."""
        session = self._session
        rest = subject[len(session.out_prefix) :]
        if session.ended is not None or not subject.startswith(session.out_prefix):
            session.counters["for_another_session"] += 1
        elif rest == "outcome":
            self._on_outcome(_outcome(payload))
        elif rest.startswith("event."):
            self._on_event(_delivered(payload))
        else:
            control = self._controls.get(rest.removeprefix("control."))
            if control is None:
                session.counters["control_unknown"] += 1
            else:
                control(payload)

    def receive_broadcast(self, _subject: str, payload: bytes) -> None:
        """Take one message of a channel or topic."""
        session = self._session
        event = _delivered(payload)
        if session.ended is not None or event.source == session.agent or not self._is_first(event.id):
            return
        if session.satisfy(event) is None:
            session.keep(event)
        self._server.broadcast(event)

    def _is_first(self, id: str) -> bool:
        """Whether this shared event has not come before: two patterns that overlap are two subscriptions."""
        if id in self._broadcasts:
            self._session.counters["delivered_twice"] += 1
            return False
        self._broadcasts[id] = None
        if len(self._broadcasts) > BROADCAST_IDS_MAX:
            self._broadcasts.popitem(last=False)
        return True

    def _on_outcome(self, outcome: bodies.Outcome) -> None:
        if self._session.pending.settle(outcome) is None:
            self._session.counters["outcomes_ignored"] += 1  # late, repeated, or given up here

    # ------------------------------------------------------------------ deliveries

    def _on_event(self, event: bodies.Delivered) -> None:
        session = self._session
        running = session.running
        is_first = running.number(event.seq)
        if event.for_ is not None and (self._expected(event) if is_first else not event.requires_response):
            return
        arrival = running.arrive(event)
        if arrival == "new":
            work = Work(event, self._server.execution(event), self._loop.time())
            running.hold(work)
            self._server.take(work)
        elif arrival == "answered":
            self._answer_again(running, event)
        elif arrival == "abandoned":
            session.counters["abandoned_before_it_came"] += 1
            session.post("done", bodies.Done(session.token, [event.id]))
        else:
            session.counters["delivered_twice"] += 1

    def _answer_again(self, running: Running, event: bodies.Delivered) -> None:
        session = self._session
        session.counters["answered_again"] += 1
        kept = running.answer_kept(event.id)
        if kept is None:
            session.post("done", bodies.Done(session.token, [event.id]))
        else:
            session.transport.post(session.subjects.reply(session.agent, event.id), kept)

    def _expected(self, event: bodies.Delivered) -> bool:
        """Hand *event* to who expects it; False when nobody does any more: then it is handled like any other."""
        session = self._session
        if session.running.arrive(event) != "new":
            return False
        waiter = session.satisfy(event)
        if waiter is not None and event.requires_response:
            work = Work(event, waiter.execution, self._loop.time())
            work.is_deferred = work.returned = True  # who expected it answers, by reply(to=event)
            session.running.hold(work)
        return waiter is not None

    # ------------------------------------------------------------------ control

    def _on_confirm(self, payload: bytes) -> None:
        """Look at the tables and answer, now: everything sent before goes ahead of these facts."""
        session = self._session
        asked = _confirm(payload)
        states = {id: session.running.state(id) for id in asked.requests}
        session.post(
            "facts",
            bodies.Facts(
                session.token,
                asked.incident,
                open=[wait.id for wait in asked.waits if session.pending.is_waited_for(wait.id)],
                requests={id: state for id, state in states.items() if state is not None},
                strands={id: self._strands(id) for id in asked.executions},
                holds=self._holds(),
            ),
        )

    def _holds(self) -> list[str] | None:
        """What has been granted here, and what may have been; None when nothing ever was, or it is too much."""
        named = self._session.holds.named()
        if named is None:
            return None
        ids = [hold.id for hold in named]
        ids += [entry.id for entry in self._session.pending if isinstance(entry, Several)]
        return ids if len(ids) <= NAMED_IDS_MAX else None

    def _strands(self, execution_id: str) -> bodies.Strands:
        session = self._session
        if execution_id == MAIN:
            return strand_facts(session.main)
        work = session.running.held.get(execution_id)
        execution = work.execution if work is not None else self._session.beside.get(execution_id)
        # Of one that is over nothing can be said but that nothing of it keeps anybody waiting.
        return strand_facts(execution) if execution is not None else bodies.Strands(alive=[""])

    def _on_abandoned(self, payload: bytes) -> None:
        session = self._session
        abandoned = _abandoned(payload)
        until = self._loop.time() + TIMEOUT_MAX_S
        work = session.running.abandon(abandoned.request_id, abandoned.reason, until)
        if work is not None and work.returned:
            session.running.finish(work)  # only its promise was left

    def _on_replaced(self, payload: bytes) -> None:
        replaced = _replaced(payload)
        session = self._session
        if replaced.session == session.token:
            session.replaced(replaced.by)

    def _on_deadlock(self, payload: bytes) -> None:
        found = _deadlock(payload)
        self._session.counters["deadlocks"] += 1
        logger.warning("agent %s: incident %s: %s", self._session.agent, found.incident, found.message)

    def _on_blocked_behind(self, payload: bytes) -> None:
        found = _blocked(payload)
        cycle = " -> ".join(found.cycle)
        logger.warning(
            "agent %s: incident %s: %d waits hang on the deadlock %s",
            self._session.agent,
            found.incident,
            len(found.waits),
            cycle,
        )

    def _on_lapsed(self, payload: bytes) -> None:
        lapsed = _lapsed(payload)
        self._session.holds.lapsed(lapsed.id, lapsed.token)

    def _on_approval(self, payload: bytes) -> None:
        """Asked once, however often it is said: it comes again with each session and each epoch."""
        asked = _approval(payload)
        session = self._session
        if not self._is_first(f"{subjects.CONTROL_APPROVAL} {asked.id}"):
            return
        event = bodies.Delivered(
            asked.id,
            subjects.CONTROL_APPROVAL,
            asked.by,
            asked.from_,
            asked.data if asked.data is not None else bodies.NULL,
            requires_response=False,
            epoch=session.epoch,
            run=asked.run,
            metadata=_payloads.encode({"reason": asked.reason}) if asked.reason is not None else None,
            deadline_in_s=asked.deadline_in_s,
        )
        self._server.decide(event)
