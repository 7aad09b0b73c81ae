"""What agents send: checked, entered before anything is sent, placed, and delivered where a slot is free."""

from collections.abc import Callable

from unknot_gateway.core import marks
from unknot_gateway.core.dispatch import Dispatch, patience_s
from unknot_gateway.core.effects import Broadcast
from unknot_gateway.core.facts import EventSeen, PublishSeen
from unknot_gateway.core.groups import Groups
from unknot_gateway.core.messages import Tombstone, digest_of, forgotten
from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.reconcile import Reconcile
from unknot_gateway.core.records import Agent, Leg, Message, OpenWait, Session
from unknot_gateway.core.served import too_many_members
from unknot_gateway.core.settle import Settle
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import AgentId, EventId, SessionId
from unknot_schemas.limits import SEND_TIMEOUT_DEFAULT_S

Suspicious = Callable[[Message, float], bool]
"""Whether the wait that *message* has just opened closes a suspected core."""


class Intake:
    """Events, asks and requests, from fact to queue or slot."""

    def __init__(
        self,
        tables: Tables,
        dispatch: Dispatch,
        settle: Settle,
        groups: Groups,
        reconcile: Reconcile,
        openwaits: OpenWaits,
        suspicious: Suspicious,
    ) -> None:
        self._t = tables
        self._dispatch = dispatch
        self._settle = settle
        self._groups = groups
        self._reconcile = reconcile
        self._openwaits = openwaits
        self._suspicious = suspicious
        self._memberless: dict[str, dict[EventId, Message]] = {}
        """Requests for channels without any member, which wait for one."""

    def publish(self, fact: PublishSeen, now: float) -> None:
        """An event without target goes out on its shared subject, once for each id."""
        envelope = fact.envelope
        event_id = EventId(envelope.id) if envelope.id is not None else self._t.new_id("e")
        digest = digest_of(fact.agent, "", fact.type, bytes(envelope.data))
        if self._is_known(fact.agent, event_id, digest, fact.reply_to):
            return
        self._broadcast(None, fact.agent, fact.type, event_id, envelope)
        self._t.messages.bury(event_id, digest, now)
        self._t.receipt(fact.reply_to, bodies.Receipt(True, event_id))

    def event(self, fact: EventSeen, now: float) -> None:
        """Take an event, an ask or a request in."""
        envelope, verb, asked_s = fact.envelope, fact.verb, fact.envelope.timeout_s
        if verb != "request" and envelope.metadata is not None:
            read = marks.read(envelope.metadata)
            verb = "request" if marks.is_blocking(read) else verb
            asked_s = marks.timeout_s(read) if asked_s is None else asked_s
        event_id = EventId(envelope.id) if envelope.id is not None else self._t.new_id("e")
        agent, token = self._t.sessions.agents.get(fact.agent), envelope.session
        source = agent.sessions.get(SessionId(token)) if agent is not None and token is not None else None
        if source is not None:
            source.heard_at = now
        elif (source := self._source(fact, verb, event_id, now)) is None:
            return
        data = bytes(envelope.data)
        digest = digest_of(fact.agent, fact.target, fact.type, data)
        is_new = self._t.messages.is_new(event_id)
        if not is_new and self._is_known(fact.agent, event_id, digest, fact.reply_to):
            return
        is_request = verb == "request"
        message = Message(
            event_id,
            verb,
            source,
            fact.target,
            fact.type,
            envelope,
            digest,
            now,
            now + marks.holding_timeout_s(asked_s, SEND_TIMEOUT_DEFAULT_S),
            fact.reply_to if is_request else None,
            asked_s is not None,
            len(data),
            None if is_request else fact.reply_to,
        )
        self._enter(message, now)

    # -- checks

    def _source(self, fact: EventSeen, verb: str, event_id: EventId, now: float) -> Session | None:
        """The session that sends, which is not named, or not live; None when it may not, which has been said."""
        sessions = self._t.sessions
        if fact.envelope.session is not None:
            text = f"session of {fact.agent!r} is not live here; say hello (resume: true keeps it after a restart)"
            self._t.refuse(fact.reply_to, event_id, errors.STALE_SESSION, text)
            return None
        if fact.agent not in sessions.agents and sessions.is_full():
            self._t.over_limit(fact.reply_to, event_id, "too many agents are known; try again later")
            return None
        agent = sessions.agent(fact.agent)
        if not agent.sessions:
            zero = self._t.zero(agent, now)
            zero.heard_at = now
            return zero
        if verb != "send":
            text = f"agent {fact.agent!r} said hello: its requests must name their session"
            self._refuse_unentered(
                fact, next(iter(agent.sessions.values())), verb, event_id, errors.SESSION_REQUIRED, text
            )
            return None
        return next(iter(agent.sessions.values()))

    def _refuse_unentered(
        self, fact: EventSeen, session: Session, verb: str, event_id: EventId, code: str, text: str
    ) -> None:
        if verb != "request":
            self._t.refuse(fact.reply_to, event_id, code, text)
            return
        self._t.count(f"refused.{code}")
        outcome = bodies.Outcome(event_id, "refused", "no", self._t.epoch, error=bodies.Error(code, text))
        self._t.outcome(session, outcome, fact.reply_to)

    def _is_known(self, agent: AgentId, event_id: EventId, digest: int, reply_to: str | None) -> bool:
        known = self._t.messages.known(event_id, digest)
        if known is None:
            return False
        if known.state == "conflict":
            text = f"id {event_id!r} has been used for something else; nothing was done: take a new id"
            self._t.refuse(reply_to, event_id, errors.ID_CONFLICT, text)
            return True
        self._t.count("duplicates")
        if known.message is not None:
            self._repeat_open(known.message, reply_to)
        elif known.tombstone is not None:
            self._repeat_closed(agent, event_id, known.tombstone, reply_to)
        return True

    def _repeat_open(self, message: Message, reply_to: str | None) -> None:
        if message.blocks:
            message.reply_to = reply_to or message.reply_to
        else:
            timeout_s = message.deadline_at - message.opened_at
            self._t.receipt(reply_to, bodies.Receipt(True, message.id, timeout_s=timeout_s, duplicate=True))

    def _repeat_closed(
        self, agent: AgentId, event_id: EventId, tombstone: Tombstone, reply_to: str | None
    ) -> None:
        if not tombstone.blocks:
            self._t.receipt(reply_to, bodies.Receipt(True, event_id, duplicate=True))
            return
        outcome = tombstone.outcome or forgotten(event_id, self._t.epoch)
        entry = self._t.sessions.agents.get(agent)
        session = next(iter(entry.sessions.values()), entry.zero) if entry is not None else None
        if tombstone.asked:
            self._t.receipt(reply_to, bodies.Receipt(True, event_id, duplicate=True))
            reply_to = None
        if session is not None:
            self._t.outcome(session, outcome, reply_to)

    # -- entering

    def _enter(self, message: Message, now: float) -> None:
        error = self._bounds(message, now)
        if error is None and message.target[:1] == "@":
            if message.verb == "send":
                self._to_channel(message, now)
                return
            error = self._member_legs(message)
        elif error is None:
            error = self._target_leg(message)
        self._t.messages.add(message)
        if self._openwaits.early:
            self._openwaits.came(message)
        if error is not None:
            self._refuse(message, error, now)
            return
        if message.group is not None and message.group.is_closed:
            self._settle.cancel(message, now, f"its group {message.group.id!r} is over")
            return
        self._t.deadlines.set("deadline", message.id, message.deadline_at)
        if self._reconcile.has_begun:
            self._reconcile.entered(message.source, message.id)
            if (reply := self._reconcile.parked_for(message)) is not None:
                self._settle.reply(reply, now)
        for leg in message.legs:
            self._start(leg, now)
        if message.is_open:
            self._wait_and_deliver(message, now)
            if message.watchers:
                self._t.waiting.update(message)

    def _bounds(self, message: Message, now: float) -> bodies.Error | None:
        limits, source, envelope = self._t.limits, message.source, message.envelope
        if self._t.messages.is_full() or len(source.open) >= limits.open_per_session_max:
            return bodies.Error(
                errors.OVER_LIMIT,
                f"too much is open in network {self._t.network!r} or for {message.source.name!r}; try again later",
                {"retry_after_s": limits.retry_after_s},
            )
        blocks = message.verb == "request"
        parent = source.held.get(envelope.execution) if envelope.execution is not None else None  # type: ignore[call-overload]
        above = parent.message if parent is not None else None
        message.depth = above.depth + 1 if above is not None and above.verb == "request" else 1
        if message.depth > limits.depth_max and blocks:
            return bodies.Error(
                errors.DEPTH_LIMIT,
                f"{limits.depth_max} requests are nested already; answer by ask and defer() instead of nesting",
            )
        if envelope.group is not None and message.group is None and blocks:
            error = self._groups.join(message, envelope.group, now)
            if error is not None:
                return error
        return self._t.uncorrelated.enter(message) if envelope.accept_uncorrelated is not None else None

    def _target_leg(self, message: Message) -> bodies.Error | None:
        sessions, name = self._t.sessions, AgentId(message.target)
        agent = sessions.agents.get(name)
        if agent is None:
            if sessions.is_full():
                detail: dict[str, object] = {"retry_after_s": self._t.limits.retry_after_s}
                return bodies.Error(errors.OVER_LIMIT, "too many agents are known; try again later", detail)
            agent = sessions.agent(name)
        message.legs.append(Leg(message, agent, self._t.admission.next_order()))
        return None

    def _leg(self, message: Message, agent: Agent) -> None:
        message.legs.append(Leg(message, agent, self._t.admission.next_order()))

    def _member_legs(self, message: Message) -> bodies.Error | None:
        channel, most = message.target[1:], self._t.limits.members_asked_max
        members = self._t.sessions.members(channel, message.source.name)
        if len(members) > most:
            return too_many_members(channel, len(members), most)
        for member in members:
            self._leg(message, member)
        if message.legs:
            return None
        until = message.opened_at + patience_s(message)
        if until > message.opened_at:
            self._memberless.setdefault(channel, {})[message.id] = message
            self._t.deadlines.set("patience", (message.id, message.target), min(until, message.deadline_at))
            return None
        return self._no_member(channel)

    def give_queued(self, wait_id: EventId, now: float) -> None:
        """What has been in the queue for an ``expect`` before that was opened is taken out for it."""
        expect = self._t.messages.waits.get(wait_id)
        while expect is not None and expect.id in expect.session.agent.expects:
            leg = self._dispatch.queued_for(expect)
            if leg is None:
                return
            self._t.admission.withdraw(leg)
            self._give(leg, expect, now)

    def _give(self, leg: Leg, expect: OpenWait, now: float) -> None:
        message = leg.message
        self._dispatch.deliver_expected(leg, expect, now)
        self._openwaits.taken(expect, now)
        if message.verb == "send":
            leg.ended = True
            self._settle.end(message, "reply", now)
            self._dispatch.let_go(leg)

    def joined(self, agent: Agent, channels: frozenset[str], now: float) -> None:
        """*agent* is a member of *channels* now: it gets the requests that found no member."""
        for channel in channels:
            for message in self._memberless.pop(channel, {}).values():
                if message.is_open and message.source.name != agent.id:
                    self._t.deadlines.drop("patience", (message.id, message.target))
                    self._leg(message, agent)
                    self.place_again(message.legs[0], now)

    def nobody_joined(self, event_id: EventId, target: str, now: float) -> None:
        """No member of *target* has come for a request as long as it was willing to wait, if it still waits."""
        channel = target[1:]
        waiting = self._memberless.get(channel, {})
        message = waiting.pop(event_id, None)
        if not waiting:
            self._memberless.pop(channel, None)
        if message is not None and message.is_open:
            self._refuse(message, self._no_member(channel), now)

    def _no_member(self, channel: str) -> bodies.Error:
        return bodies.Error(
            errors.UNREACHABLE, f"channel {channel!r} has no other member with a live session"
        )

    def _refuse(self, message: Message, error: bodies.Error, now: float) -> None:
        self._t.count(f"refused.{error.code}")
        kind: bodies.OutcomeKind = "refused"
        if error.code in (errors.UNREACHABLE, errors.OVER_LIMIT):
            kind = "unreachable" if error.code == errors.UNREACHABLE else "over_limit"
        if message.receipt_to is not None:
            self._settle.refuse_send(message, error.code, error.message, error.detail)
        self._settle.end(message, kind, now, error=error)

    def _start(self, leg: Leg, now: float) -> None:
        """Place *leg*; what a free handler slot can take starts at once (its execution is new: it closes no cycle)."""
        if not leg.message.is_open:
            return
        if leg.message.verb == "send" and self._settle.event(leg, now):
            return
        if leg.agent.expects and (expect := self._dispatch.expecting(leg.message, leg)) is not None:
            self._give(leg, expect, now)
            return
        error = self._dispatch.place(leg, now)
        if error is not None:
            self._settle.reject(leg, error, now)
        elif leg.state == "parked" and leg.pool is not None and not leg.pool.main:
            self._dispatch.deliver(leg, now)

    def _wait_and_deliver(self, message: Message, now: float) -> None:
        if message.verb == "request" and (message.source.said_hello or message.has_timeout):
            if message.group is not None:
                self._groups.enter(message)
            elif self._t.waiting.enter_later(message):
                return
            else:
                self._t.waiting.open_message(message)
            if self._suspicious(message, now) or not message.is_open:
                return
        self.release(message, now)
        self._owe_receipt(message, now)

    def release(self, message: Message, now: float) -> None:
        """Deliver what is still parked of *message*."""
        for leg in message.legs:
            if leg.state != "parked" or not message.is_open:
                continue
            if leg.pool is not None and leg.pool.is_served and leg.pool.has_free_slot:
                self._dispatch.deliver(leg, now)
            else:
                self.place_again(leg, now)

    def place_again(self, leg: Leg, now: float) -> None:
        """Sessions have changed, or a probe is over: find *leg* its place anew."""
        leg.pool, leg.state = None, "absent"
        leg.agent = self._t.sessions.agent(leg.agent.id)
        self._start(leg, now)
        if self._is_ready(leg):
            self._dispatch.deliver(leg, now)
        elif leg.message.is_open:
            self._t.waiting.update(leg.message)
        self._owe_receipt(leg.message, now)

    @staticmethod
    def _is_ready(leg: Leg) -> bool:
        return leg.state == "parked"

    def _owe_receipt(self, message: Message, now: float) -> None:
        """A queued event has its Receipt now; one for an agent without hello when the server did not object."""
        if message.verb == "request" or not message.is_open:
            return
        leg = message.legs[0] if message.legs else None
        if leg is None:
            self._dispatch.receipt(message)
        elif leg.session is not None and not leg.session.said_hello and message.verb == "send":
            self._t.deadlines.set("window", message.id, now + self._t.limits.hint_window_s)
        elif leg.state != "absent" or message.verb == "ask":
            self._dispatch.receipt(message)

    # -- shared subjects

    def _to_channel(self, message: Message, now: float) -> None:
        self._broadcast(message.target[1:], message.source.name, message.type, message.id, message.envelope)
        self._t.messages.bury(message.id, message.digest, now)
        self._dispatch.receipt(message)

    def _broadcast(
        self,
        channel: str | None,
        source: AgentId,
        event_type: str,
        event_id: EventId,
        envelope: bodies.Envelope,
    ) -> None:
        event = bodies.Delivered(
            event_id,
            event_type,
            source,
            f"@{channel}" if channel is not None else "",
            envelope.data,
            False,
            self._t.epoch,
            run=envelope.run,
            metadata=envelope.metadata,
            traceparent=envelope.traceparent,
            tracestate=envelope.tracestate,
            response_to=envelope.response_to if channel is not None else None,
        )
        self._t.count("broadcast")
        self._t.out.append(Broadcast(channel, event))
