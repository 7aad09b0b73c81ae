"""From messages to facts. Reads everything, believes nothing, never raises."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from unknot_gateway.core.facts import (
    AnyFact,
    BodySeen,
    EventSeen,
    InputRefused,
    NobodyListened,
    PubAckSeen,
    PublishSeen,
    ReplySeen,
)
from unknot_gateway.core.limits import Limits
from unknot_gateway.shell.checks import BadInput
from unknot_gateway.shell.limits import SHED_BODY_MAX, SUBJECT_CACHE_MAX
from unknot_gateway.shell.parsing import Incoming
from unknot_gateway.shell.reading import id_and_session, is_pub_ack, read_body, read_envelope
from unknot_schemas import bodies, errors, limits
from unknot_schemas.ids import AgentId, EventId, id_match
from unknot_schemas.subjects import EVENT_VERBS, BadSubject, Inbound, Subjects

Headers = dict[str, str] | None

_INBOX: Final = "_INBOX."


class Ingress:
    """Reads what agents of one network send. *any_inbox*: development mode, every ``_INBOX.`` may be answered."""

    def __init__(
        self, subjects: Subjects, *, any_inbox: bool = True, retry_after_s: float = Limits().retry_after_s
    ) -> None:
        self.root = subjects.root
        self.counters: Counter[str] = Counter()
        self.channels: Mapping[str, Collection[str]] | None = None
        """Which channels each agent may be a member of; None: there are no users, and no such limit."""
        self._subjects = subjects
        self._any_inbox = any_inbox
        self._retry_after_s = retry_after_s
        self._parsed: dict[str, Inbound] = {}
        self._repliers: dict[str, AgentId] = {}
        """Who answers on a subject, by all of it but its last word: that one is new each time."""

    def fact(self, subject: str, reply: str, payload: bytes, headers: Headers) -> AnyFact:
        """What *payload* on *subject* says. *reply*: the NATS reply subject, or ""."""
        inbound = self._parsed.get(subject)
        if inbound is None:
            read = self._parse(subject)
            if isinstance(read, BadSubject):
                return self._meaningless(read, subject, reply, payload)
            inbound = read
        reply_to = self._reply_to(reply, inbound.agent) if reply else None
        verb = inbound.verb
        try:
            if verb in EVENT_VERBS:
                envelope = read_envelope(payload)
                return EventSeen(inbound.agent, verb, inbound.target, inbound.type, envelope, reply_to)
            if verb == "reply":
                request_id = EventId(inbound.request_id)
                if headers and not payload and headers.get("Status") == "503":
                    return NobodyListened(inbound.agent, request_id)
                envelope = read_envelope(payload)
                if not envelope.unknot and is_pub_ack(payload):
                    return PubAckSeen(inbound.agent, request_id)
                return ReplySeen(inbound.agent, request_id, envelope, reply_to)
            if verb == "publish":
                return PublishSeen(inbound.agent, inbound.type, read_envelope(payload), reply_to)
            body = read_body(verb, payload)
            if self.channels is not None and isinstance(body, bodies.Hello):
                _check_channels(inbound.agent, body, self.channels)
            return BodySeen(inbound.agent, body, reply_to)
        except BadInput as bad:
            return self._refused(inbound.agent, verb, bad.error, payload, reply_to, inbound.request_id)
        except RecursionError:
            error = bodies.Error(errors.BAD_REQUEST, "the body is nested too deeply to be read")
            return self._refused(inbound.agent, verb, error, b"", reply_to, inbound.request_id)

    def _meaningless(self, bad: BadSubject, subject: str, reply: str, payload: bytes) -> InputRefused:
        reply_to = self._reply_to(reply, bad.agent) if reply else None
        error = bodies.Error(bad.code, bad.message)
        return self._refused(bad.agent, self._verb(subject), error, payload, reply_to)

    def shed(self, message: Incoming) -> AnyFact | None:
        """What is to be said of *message*, which was shed unread; None: its subject names no agent."""
        inbound = self._parsed.get(message.subject) or self._parse(message.subject)
        if isinstance(inbound, BadSubject):
            return None
        reply_to = self._reply_to(message.reply, inbound.agent) if message.reply else None
        text = f"agent {inbound.agent!r} sends more than it may; this was not read: try again later"
        error = bodies.Error(errors.OVER_LIMIT, text, {"retry_after_s": self._retry_after_s})
        payload = message.data if len(message.data) <= SHED_BODY_MAX else b""
        return self._refused(inbound.agent, inbound.verb, error, payload, reply_to, inbound.request_id)

    def _parse(self, subject: str) -> Inbound | BadSubject:
        head, _, last = subject.rpartition(".")
        replier = self._repliers.get(head)
        if replier is not None and id_match(last):
            return Inbound(replier, "reply", request_id=last)
        if len(subject) > limits.SUBJECT_BYTES_MAX:
            return BadSubject("", "bad_id", f"a subject has at most {limits.SUBJECT_BYTES_MAX} bytes")
        parsed = self._subjects.parse(subject)
        if isinstance(parsed, BadSubject):
            return parsed
        if len(self._parsed) + len(self._repliers) >= SUBJECT_CACHE_MAX:
            self._parsed.clear()
            self._repliers.clear()
        if parsed.verb == "reply":
            self._repliers[head] = parsed.agent
        else:
            self._parsed[subject] = parsed
        return parsed

    def _verb(self, subject: str) -> str:
        """Of a subject that cannot be taken: its verb if an event was meant, else ""."""
        words = subject[len(self._subjects.root) :].split(".", 4)
        return words[3] if len(words) > 3 and words[3] in EVENT_VERBS else ""

    def _reply_to(self, reply: str, agent: str) -> str | None:
        legal = reply.startswith(_INBOX if self._any_inbox else f"{_INBOX}{agent}.")
        if legal and len(reply) <= limits.SUBJECT_BYTES_MAX // 2 and _is_literal(reply):
            return reply
        self.counters["reply_subjects_refused"] += 1
        return None

    def _refused(
        self,
        agent: str,
        verb: str,
        error: bodies.Error,
        payload: bytes,
        reply_to: str | None,
        request_id: str = "",
    ) -> InputRefused:
        self.counters["refused"] += 1
        event_id, session = id_and_session(payload)
        return InputRefused(agent, verb, error, request_id or event_id, session, reply_to)


def _check_channels(agent: str, hello: bodies.Hello, allowed: Mapping[str, Collection[str]]) -> None:
    """The server guards a channel's subject, but what is asked of a channel comes on the member's own."""
    for channel in hello.channels or ():
        if channel not in allowed.get(agent, ()):
            text = f"agent {agent!r} may not be a member of channel {channel!r}: `unknot users change --channels`"
            raise BadInput(errors.NOT_PERMITTED, text)


def _is_literal(subject: str) -> bool:
    """Whether a message could be sent there: printable ASCII, no wildcard, no empty word."""
    is_plain = subject.isascii() and subject.isprintable()
    return is_plain and not ("*" in subject or ">" in subject or ".." in subject or subject.endswith("."))
