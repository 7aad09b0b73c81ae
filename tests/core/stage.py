"""A kernel and its agents in one process: facts in, effects out, time as a number."""

from typing import Any, cast

import msgspec

from unknot_gateway.core.effects import Answer, AnyEffect, Deliver, SendControl, SendNotice, SendOutcome
from unknot_gateway.core.facts import AnyFact, BodySeen, EventSeen, ReplySeen, TimePassed
from unknot_gateway.core.kernel import Kernel, KernelConfig
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId, EventId


class Stage:
    """Drives one kernel; remembers every effect since the last ``clear``."""

    def __init__(self, **config: Any) -> None:
        self.kernel = Kernel("default", 7, KernelConfig(**config))
        self.now = 100.0
        self.effects: list[AnyEffect] = []
        self._ids = 0

    def feed(self, fact: AnyFact) -> list[AnyEffect]:
        """Hand *fact* to the kernel now."""
        effects = self.kernel.handle(fact, self.now)
        self.effects += effects
        return effects

    def clear(self) -> None:
        """Forget the effects so far."""
        self.effects = []

    def pass_time(self, seconds: float) -> None:
        """Let time pass, waking the kernel whenever it asks for it."""
        until = self.now + seconds
        while (at := self.kernel.next_wakeup_at()) is not None and at <= until:
            self.now = max(self.now, at)
            self.feed(TimePassed())
        self.now = until

    # -- what agents do

    def hello(self, agent: str, **fields: Any) -> str:
        """Say hello; returns the session's token."""
        self._ids += 1
        token = fields.pop("session", f"{agent}-session-{self._ids}")
        self.feed(BodySeen(AgentId(agent), bodies.Hello(token, **fields), "_INBOX.hello"))
        return str(token)

    def request(
        self, agent: str, target: str, event_id: str, *, verb: str = "request", **fields: Any
    ) -> None:
        """Send a request (or ask, or send)."""
        reply_to = fields.pop("reply_to", None)
        event_type = fields.pop("type", "work")
        data = msgspec.Raw(msgspec.json.encode(fields.pop("data", None)))
        envelope = bodies.Envelope(1, event_id, data=data, **fields)
        self.feed(EventSeen(AgentId(agent), verb, target, event_type, envelope, reply_to))

    def reply(self, agent: str, request_id: str, data: object = "done", **fields: Any) -> None:
        """Answer a request."""
        reply_to = fields.pop("reply_to", "_INBOX.reply")
        envelope = bodies.Envelope(1, data=msgspec.Raw(msgspec.json.encode(data)), **fields)
        self.feed(ReplySeen(AgentId(agent), EventId(request_id), envelope, reply_to))

    def say(self, agent: str, body: Any, reply_to: str | None = "_INBOX.verb") -> None:
        """Send one of the verbs about sessions, waits and requests."""
        self.feed(BodySeen(AgentId(agent), body, reply_to))

    def answer_confirms(self, **facts: Any) -> int:
        """Let every member that was asked since the last ``clear`` confirm what it was asked; how many were."""
        asked = [e for e in self.effects if isinstance(e, SendControl) and isinstance(e.body, bodies.Confirm)]
        self.clear()
        for control in asked:
            confirm = cast(bodies.Confirm, control.body)
            body = bodies.Facts(
                control.session, confirm.incident, open=[w.id for w in confirm.waits], **facts
            )
            self.say(control.agent, body, None)
        return len(asked)

    # -- what agents see

    def delivered(self, agent: str) -> list[str]:
        """Ids of the events delivered to *agent*, in order."""
        return [e.event.id for e in self.effects if isinstance(e, Deliver) and e.agent == agent]

    def outcomes(self, agent: str | None = None) -> dict[str, bodies.Outcome]:
        """Outcomes by request; an assertion that there is one each."""
        found: dict[str, bodies.Outcome] = {}
        for effect in self.effects:
            if isinstance(effect, SendOutcome) and agent in (None, effect.agent):
                assert effect.outcome.request_id not in found, "two Outcomes for one request"
                found[effect.outcome.request_id] = effect.outcome
        return found

    def kinds(self) -> dict[str, str]:
        """How each request ended."""
        return {request_id: outcome.outcome for request_id, outcome in self.outcomes().items()}

    def controls(self, agent: str) -> list[object]:
        """Bodies of the control messages for *agent*."""
        return [e.body for e in self.effects if isinstance(e, SendControl) and e.agent == agent]

    def abandoned(self, agent: str) -> list[str]:
        """Requests that *agent* was told nobody waits for."""
        return [body.request_id for body in self.controls(agent) if isinstance(body, bodies.Abandoned)]

    def deadlocks(self) -> list[bodies.DeadlockDetected]:
        """Deadlocks that monitors were told of."""
        return [
            e.body
            for e in self.effects
            if isinstance(e, SendNotice) and isinstance(e.body, bodies.DeadlockDetected)
        ]

    def last_receipt(self) -> bodies.Receipt:
        """The last Receipt."""
        found = [e.body for e in self.effects if isinstance(e, Answer) and isinstance(e.body, bodies.Receipt)]
        return found[-1]
