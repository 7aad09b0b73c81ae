"""From effects to messages. Checks lengths first: one message too long closes the connection for good."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, assert_never

import msgspec

from unknot_gateway.core.effects import (
    Answer,
    AnyEffect,
    Broadcast,
    Deliver,
    SendControl,
    SendNotice,
    SendOutcome,
)
from unknot_schemas import bodies, limits
from unknot_schemas.subjects import Subjects

_encode: Final = msgspec.json.Encoder().encode


class Message(NamedTuple):
    """What goes out. *reply*: the NATS reply subject, or ""."""

    subject: str
    payload: bytes
    reply: str = ""


class Egress:
    """Writes what the kernel of one network orders. *wall_clock*: seconds since 1970, for people only."""

    def __init__(
        self, subjects: Subjects, max_payload: int, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.max_payload = max_payload
        self._subjects = subjects
        self._wall_clock = wall_clock
        self._second = -1
        self._second_text = ""

    def message(self, effect: AnyEffect) -> Message | None:
        """The message that *effect* orders; None if the server would not take it (counted)."""
        message = self._message(effect)
        if len(message.subject) + len(message.reply) > limits.SUBJECT_BYTES_MAX:
            self.counters["subjects_too_long"] += 1
            return None
        if len(message.payload) > self.max_payload:
            self.counters["payloads_too_large"] += 1
            return None
        return message

    def _message(self, effect: AnyEffect) -> Message:
        subjects = self._subjects
        match effect:
            case Deliver():
                event = effect.event
                subject = subjects.deliver(effect.agent, effect.session, event.type)
                reply = subjects.reply(effect.agent, event.id) if effect.answerable else ""
                return Message(subject, self._stamped(event), reply)
            case SendOutcome():
                outcome = effect.outcome
                to = effect.reply_to or subjects.outcome(effect.agent, effect.session)
                return Message(to, _encode(outcome) if outcome.event is None else self._answered(outcome))
            case Answer():
                return Message(effect.reply_to, _encode(effect.body))
            case SendControl():
                return Message(
                    subjects.control(effect.agent, effect.session, effect.type), _encode(effect.body)
                )
            case Broadcast():
                event = effect.event
                channel = effect.channel
                to = subjects.topic(event.type) if channel is None else subjects.channel(channel, event.type)
                return Message(to, self._stamped(event))
            case SendNotice():
                return Message(subjects.notice(effect.type), _encode(effect.body))
            case _:
                assert_never(effect)

    def _stamped(self, event: bodies.Delivered) -> bytes:
        """The event with ``time``, put before its closing brace: it is never empty, and copying it costs more."""
        encoded = _encode(event)
        return encoded if event.time is not None else encoded[:-1] + self._time_field() + b"}"

    def _answered(self, outcome: bodies.Outcome) -> bytes:
        """The outcome with the time in its event; without an error the event is its last field."""
        encoded = _encode(outcome)
        if outcome.event is None or outcome.event.time is not None:
            return encoded
        if outcome.error is None:
            return encoded[:-2] + self._time_field() + b"}}"
        event = msgspec.structs.replace(outcome.event, time=self._time())
        return _encode(msgspec.structs.replace(outcome, event=event))

    def _time_field(self) -> bytes:
        return b',"time":"%b"' % self._time().encode()

    def _time(self) -> str:
        """RFC 3339, UTC, milliseconds."""
        second, millisecond = divmod(round(self._wall_clock() * 1000), 1000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{millisecond:03d}Z"
