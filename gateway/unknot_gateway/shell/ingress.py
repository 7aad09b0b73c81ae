"""From bytes to facts. Reads everything, believes nothing, never raises."""

from collections import Counter
from typing import Any, Final

import msgspec
from msgspec import Struct

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
from unknot_gateway.shell.checks import BadInput, check_body, check_envelope, check_json
from unknot_gateway.shell.limits import SUBJECT_CACHE_MAX
from unknot_schemas import bodies, errors, ids, limits
from unknot_schemas.ids import AgentId, EventId
from unknot_schemas.subjects import EVENT_VERBS, BadSubject, Inbound, Subjects

_INBOX: Final = "_INBOX."
_CANCEL: Final = "request.cancel"
_MISSES_SESSION: Final = "required field `session`"
_NULL: Final = bodies.Envelope()


class _Envelope(bodies.Envelope, frozen=True):
    metadata: msgspec.Raw = None  # type: ignore[assignment]  # inside a union msgspec reads no Raw


_envelope = msgspec.json.Decoder(_Envelope)
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "hello": msgspec.json.Decoder(bodies.Hello),
    "heartbeat": msgspec.json.Decoder(bodies.Heartbeat),
    "bye": msgspec.json.Decoder(bodies.Bye),
    "done": msgspec.json.Decoder(bodies.Done),
    "defer": msgspec.json.Decoder(bodies.Defer),
    "facts": msgspec.json.Decoder(bodies.Facts),
    "wait.open": msgspec.json.Decoder(bodies.WaitOpen),
    "wait.close": msgspec.json.Decoder(bodies.WaitClose),
    "request.cancel": msgspec.json.Decoder(bodies.RequestCancel),
}


class _Marked(Struct, gc=False):
    unknot: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Readable(Struct, gc=False):
    """What can still be said of a body that cannot be taken."""

    id: Any = None
    session: Any = None


class _AckError(Struct, gc=False):
    err_code: int


class _PubAck(Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    seq: int
    domain: str | None = None
    duplicate: bool = False
    error: _AckError | None = None
    """A refusal (stream full, for one) has it, too."""


_marked = msgspec.json.Decoder(_Marked)
_readable = msgspec.json.Decoder(_Readable)
_pub_ack = msgspec.json.Decoder(_PubAck)


class Ingress:
    """Reads what agents of one network send. *any_inbox*: development mode, every ``_INBOX.`` may be answered."""

    def __init__(self, subjects: Subjects, *, any_inbox: bool = True) -> None:
        self.counters: Counter[str] = Counter()
        self._subjects = subjects
        self._any_inbox = any_inbox
        self._parsed: dict[str, Inbound] = {}

    def fact(self, subject: str, reply: str, payload: bytes, headers: dict[str, str] | None) -> AnyFact:
        """What *payload* on *subject* says. *reply*: the NATS reply subject, or ""."""
        inbound = self._parsed.get(subject) or self._parse(subject)
        if isinstance(inbound, BadSubject):
            reply_to = self._reply_to(reply, inbound.agent) if reply else None
            error = bodies.Error(inbound.code, inbound.message)
            return self._refused(inbound.agent, self._verb(subject), error, payload, reply_to)
        reply_to = self._reply_to(reply, inbound.agent) if reply else None
        try:
            return self._read(inbound, payload, headers, reply_to)
        except BadInput as bad:
            return self._refused(
                inbound.agent, inbound.verb, bad.error, payload, reply_to, inbound.request_id
            )
        except RecursionError:
            error = bodies.Error(errors.BAD_REQUEST, "the body is nested too deeply to be read")
            return self._refused(inbound.agent, inbound.verb, error, b"", reply_to, inbound.request_id)

    def _parse(self, subject: str) -> Inbound | BadSubject:
        if len(subject) > limits.SUBJECT_BYTES_MAX:
            return BadSubject("", "bad_id", f"a subject has at most {limits.SUBJECT_BYTES_MAX} bytes")
        parsed = self._subjects.parse(subject)
        if isinstance(parsed, BadSubject) and self._is_cancel(subject, parsed.agent):
            parsed = Inbound(AgentId(parsed.agent), _CANCEL)
        # Subjects of replies are all different: keeping them would only push out what comes again.
        if isinstance(parsed, Inbound) and parsed.verb != "reply":
            if len(self._parsed) >= SUBJECT_CACHE_MAX:
                self._parsed.clear()
            self._parsed[subject] = parsed
        return parsed

    def _is_cancel(self, subject: str, agent: str) -> bool:
        """``request.cancel`` begins like a request, but has no target and no type."""
        return subject.endswith(f".{agent}.{_CANCEL}") and subject.count(".") == self._subjects.root.count(".") + 4

    def _verb(self, subject: str) -> str:
        """Of a subject that cannot be taken: its verb if an event was meant, else ""."""
        words = subject[len(self._subjects.root) :].split(".", 4)
        return words[3] if len(words) > 3 and words[3] in EVENT_VERBS else ""

    def _reply_to(self, reply: str, agent: str) -> str | None:
        legal = reply.startswith(_INBOX if self._any_inbox else f"{_INBOX}{agent}.")
        if legal and len(reply) <= limits.SUBJECT_BYTES_MAX // 2 and reply.isascii() and _is_literal(reply):
            return reply
        self.counters["reply_subjects_refused"] += 1
        return None

    def _read(
        self, inbound: Inbound, payload: bytes, headers: dict[str, str] | None, reply_to: str | None
    ) -> AnyFact:
        verb = inbound.verb
        if verb in EVENT_VERBS:
            return EventSeen(
                inbound.agent, verb, inbound.target, inbound.type, self._envelope(payload), reply_to
            )
        if verb == "reply":
            return self._reply(inbound, payload, headers, reply_to)
        if verb == "publish":
            return PublishSeen(inbound.agent, inbound.type, self._envelope(payload), reply_to)
        return BodySeen(inbound.agent, _body(verb, payload), reply_to)

    def _reply(
        self, inbound: Inbound, payload: bytes, headers: dict[str, str] | None, reply_to: str | None
    ) -> AnyFact:
        request_id = EventId(inbound.request_id)
        if headers and not payload and headers.get("Status") == "503":
            return NobodyListened(inbound.agent, request_id)
        envelope = self._envelope(payload)
        if not envelope.unknot and _is_pub_ack(payload):
            return PubAckSeen(inbound.agent, request_id)
        return ReplySeen(inbound.agent, request_id, envelope, reply_to)

    def _envelope(self, payload: bytes) -> bodies.Envelope:
        if not payload:
            return _NULL
        check_json(payload)
        try:
            envelope = _envelope.decode(payload)
        except msgspec.ValidationError as error:
            if _has_mark(payload):
                raise BadInput(errors.BAD_REQUEST, str(error)) from error
            return _bare(payload)
        except msgspec.DecodeError as error:
            raise BadInput(errors.BAD_REQUEST, f"the body is no JSON: {error}") from error
        if not envelope.unknot:
            return _bare(payload)
        check_envelope(envelope)
        return envelope

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
        event_id, session = _readables(payload)
        return InputRefused(agent, verb, error, request_id or event_id, session, reply_to)


def _is_literal(subject: str) -> bool:
    words = subject.split(".")
    return "" not in words and "*" not in words and ">" not in words


def _bare(payload: bytes) -> bodies.Envelope:
    """The whole body is data; the decoder of Raw skips, so this one reads it all."""
    try:
        msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise BadInput(errors.BAD_REQUEST, f"the body is no JSON: {error}") from error
    return bodies.Envelope(data=msgspec.Raw(payload))


def _has_mark(payload: bytes) -> bool:
    try:
        return _marked.decode(payload).unknot is not msgspec.UNSET
    except msgspec.DecodeError:
        return False


def _is_pub_ack(payload: bytes) -> bool:
    try:
        _pub_ack.decode(payload)
    except msgspec.DecodeError:
        return False
    return True


def _body(verb: str, payload: bytes) -> Any:
    check_json(payload)
    try:
        body = _decoders[verb].decode(payload)
    except msgspec.ValidationError as error:
        code = errors.SESSION_REQUIRED if _MISSES_SESSION in str(error) else errors.BAD_REQUEST
        raise BadInput(code, f"{verb}: {error}") from error
    except msgspec.DecodeError as error:
        raise BadInput(errors.BAD_REQUEST, f"{verb}: the body is no JSON: {error}") from error
    check_body(body)
    return body


def _readables(payload: bytes) -> tuple[str | None, str | None]:
    """Id and session of a refused body, where they can be read at all."""
    if len(payload) > limits.DATA_BYTES_MAX:
        return None, None
    try:
        seen = _readable.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None, None
    return _if_id(seen.id), _if_id(seen.session)


def _if_id(value: Any) -> str | None:
    return value if isinstance(value, str) and ids.is_id(value) else None
