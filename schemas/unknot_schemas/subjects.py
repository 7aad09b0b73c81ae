"""Subjects of the wire: builders for both sides, one parser for what the gateway reads."""

from typing import Final, Literal, get_args

from msgspec import Struct

from unknot_schemas.ids import AgentId, agent_id, is_id, is_type

DEFAULT_PREFIX: Final = "unknot"
DEFAULT_NETWORK: Final = "default"

Verb = Literal[
    "send",
    "ask",
    "request",
    "publish",
    "reply",
    "hello",
    "heartbeat",
    "bye",
    "done",
    "defer",
    "facts",
    "wait.open",
    "wait.close",
    "request.cancel",
    "lock.acquire",
    "lock.renew",
    "lock.release",
    "lock.check",
    "pool.declare",
    "artifact.declare",
    "artifact.withdraw",
    "artifact.publish",
    "artifact.forget",
    "artifact.wait",
    "approval.request",
    "approval.resolve",
    "holder.set",
    "holder.clear",
]
EVENT_VERBS: Final = frozenset({"send", "ask", "request"})
SESSION_VERBS: Final = frozenset(get_args(Verb)) - EVENT_VERBS - {"publish", "reply"}
WAIT_VERBS: Final = frozenset({"wait.open", "lock.acquire", "artifact.wait", "approval.request"})
"""What opens a wait."""

CONTROL_CONFIRM: Final = "confirm"
CONTROL_ABANDONED: Final = "request.abandoned"
CONTROL_REPLACED: Final = "session.replaced"
CONTROL_DEADLOCK: Final = "agent.wait.deadlock_detected"
CONTROL_BLOCKED_BEHIND: Final = "agent.wait.blocked_behind"
CONTROL_LAPSED: Final = "lock.lapsed"
CONTROL_APPROVAL: Final = "approval.requested"
NOTICE_OVER_LIMIT: Final = "agent.over_limit"
NOTICE_POOLS_DIFFER: Final = "agent.pools_differ"
"""Notices are for monitors alone."""


class Inbound(Struct, frozen=True, gc=False):
    """A subject under ``in``, read. *target* is an agent id or ``@channel``; *request_id* of a reply."""

    agent: AgentId
    verb: str
    target: str = ""
    type: str = ""
    request_id: str = ""


class BadSubject(Struct, frozen=True, gc=False):
    """A subject under ``in`` that means nothing, and why."""

    agent: str
    code: Literal["bad_id", "unknown_verb"]
    message: str


class Subjects(Struct, frozen=True, gc=False):
    """Subjects of one network."""

    network: str = DEFAULT_NETWORK
    prefix: str = DEFAULT_PREFIX

    @property
    def root(self) -> str:
        """What all subjects of the network begin with, without a final dot."""
        return f"{self.prefix}.{self.network}"

    @property
    def inbound(self) -> str:
        """What the gateway subscribes: everything that agents send."""
        return f"{self.root}.in.>"

    def event(self, agent: str, verb: Literal["send", "ask", "request"], target: str, event_type: str) -> str:
        """Where *agent* sends an event for *target* (an agent or ``@channel``)."""
        return f"{self.root}.in.{agent}.{verb}.{target}.{event_type}"

    def publish(self, agent: str, event_type: str) -> str:
        """Where *agent* sends an event without target."""
        return f"{self.root}.in.{agent}.publish.{event_type}"

    def reply(self, agent: str, request_id: str) -> str:
        """Where *agent* answers a request."""
        return f"{self.root}.in.{agent}.reply.{request_id}"

    def verb(self, agent: str, verb: str) -> str:
        """Where *agent* sends hello, heartbeat and the like."""
        return f"{self.root}.in.{agent}.{verb}"

    def deliver(self, agent: str, session: str, event_type: str) -> str:
        """Where the gateway delivers an event to one session."""
        return f"{self.root}.out.{agent}.{session}.event.{event_type}"

    def outcome(self, agent: str, session: str) -> str:
        """Where the gateway says how the requests and waits of one session ended."""
        return f"{self.root}.out.{agent}.{session}.outcome"

    def control(self, agent: str, session: str, control_type: str) -> str:
        """Where the gateway sends control events to one session."""
        return f"{self.root}.out.{agent}.{session}.control.{control_type}"

    def out(self, agent: str, session: str) -> str:
        """What a session subscribes: everything for it."""
        return f"{self.root}.out.{agent}.{session}.>"

    def channel(self, channel: str, event_type: str) -> str:
        """Shared subject of a channel's one-way events."""
        return f"{self.root}.channel.{channel}.{event_type}"

    def topic(self, event_type: str) -> str:
        """Shared subject of events without target."""
        return f"{self.root}.topic.{event_type}"

    def notice(self, notice_type: str) -> str:
        """Copy of a control fact for monitors."""
        return f"{self.root}.notice.{notice_type}"

    def api(self, endpoint: str) -> str:
        """A query or operator verb."""
        return f"{self.root}.api.{endpoint}"

    def parse(self, subject: str) -> Inbound | BadSubject:
        """Read a subject under ``in``; never raises."""
        words = subject[len(self.root) + 4 :].split(".")
        agent = agent_id(words[0])
        if agent is None:
            return BadSubject(words[0], "bad_id", f"{words[0]!r} cannot name an agent: see WIRE section 1")
        if len(words) < 2:
            return BadSubject(agent, "unknown_verb", "a subject under 'in' needs a verb after the agent")
        verb = words[1]
        if verb in EVENT_VERBS and words[1:] != ["request", "cancel"]:
            return _event(agent, verb, words)
        if verb == "reply":
            if len(words) == 3 and is_id(words[2]):
                return Inbound(agent, verb, request_id=words[2])
            return BadSubject(
                agent, "bad_id", "a reply's subject ends in the id of the request that it answers"
            )
        if verb == "publish":
            event_type = ".".join(words[2:])
            if is_type(event_type):
                return Inbound(agent, verb, type=event_type)
            return BadSubject(agent, "bad_id", f"{event_type!r} is no event type: lower-case dotted words")
        named = ".".join(words[1:])
        if named in SESSION_VERBS:
            return Inbound(agent, named)
        return BadSubject(agent, "unknown_verb", f"no verb {named[:80]!r}; see WIRE section 1")


def _event(agent: AgentId, verb: str, words: list[str]) -> Inbound | BadSubject:
    if len(words) < 4:
        return BadSubject(
            agent, "bad_id", f"{verb} needs a target and a type: in.<agent>.{verb}.<target>.<type>"
        )
    target = words[2]
    channel = target.startswith("@")
    named = agent_id(target[1:] if channel else target)
    event_type = ".".join(words[3:])
    if named is None or (channel and ":" in target):
        return BadSubject(agent, "bad_id", f"{target!r} cannot name an agent or @channel")
    if not is_type(event_type):
        return BadSubject(
            agent, "bad_id", f"{event_type!r} is no event type: lower-case dotted words, at most 128"
        )
    return Inbound(agent, verb, target=f"@{named}" if channel else named, type=event_type)
