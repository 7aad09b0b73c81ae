"""From effects to messages. Checks lengths first: one message too long closes the connection for good."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, assert_never

import msgspec
from msgspec import Struct

from unknot_gateway.core.effects import (
    Answer,
    AnyEffect,
    Broadcast,
    Deliver,
    SendControl,
    SendNotice,
    SendOutcome,
)
from unknot_gateway.shell.bus import Message
from unknot_gateway.shell.limits import ADDRESSES_MAX
from unknot_schemas import bodies, limits
from unknot_schemas.subjects import Subjects

_encode: Final = msgspec.json.Encoder().encode


class _Addresses(Struct, frozen=True, gc=False):
    """Of one session. *event* and *reply*: all but the last part."""

    event: str
    reply: str
    outcome: str


class Egress:
    """Writes what the kernel of one network orders. *wall_clock*: seconds since 1970, for people only."""

    def __init__(
        self, subjects: Subjects, max_payload: int, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.max_payload = max_payload
        self._subjects = subjects
        self._wall_clock = wall_clock
        self._addresses: dict[tuple[str, str], _Addresses] = {}
        self._millisecond = -1
        self._time = ""
        self._field = b""

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
                session = self._to(effect.agent, effect.session)
                reply = session.reply + event.id if effect.answerable else ""
                return Message(session.event + event.type, self._stamped(event), reply)
            case SendOutcome():
                outcome = effect.outcome
                to = effect.reply_to or self._to(effect.agent, effect.session).outcome
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

    def _to(self, agent: str, session: str) -> _Addresses:
        known = self._addresses.get((agent, session))
        if known is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            subjects = self._subjects
            known = _Addresses(
                subjects.deliver(agent, session, ""),
                subjects.reply(agent, ""),
                subjects.outcome(agent, session),
            )
            self._addresses[agent, session] = known
        return known

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
        self._time_field()
        event = msgspec.structs.replace(outcome.event, time=self._time)
        return _encode(msgspec.structs.replace(outcome, event=event))

    def _time_field(self) -> bytes:
        """``,"time":"…"``: RFC 3339, UTC, milliseconds; written anew for each millisecond."""
        now = round(self._wall_clock() * 1000)
        if now != self._millisecond:
            self._millisecond = now
            second, millisecond = divmod(now, 1000)
            self._time = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{millisecond:03d}Z"
            self._field = b',"time":"%b"' % self._time.encode()
        return self._field
