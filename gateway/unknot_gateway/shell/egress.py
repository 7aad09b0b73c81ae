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
        self._second = self._millisecond = -1
        self._until_second = ""
        self._stamp = b""
        """``,"time":"…"}``: what an event ends with now."""
        self.tick()

    def tick(self) -> None:
        """Time has passed: what is written from now on says so (RFC 3339, UTC, milliseconds)."""
        millisecond = int(self._wall_clock() * 1000)
        if millisecond != self._millisecond:
            self._millisecond = millisecond
            second, rest = divmod(millisecond, 1000)
            if second != self._second:
                self._second = second
                self._until_second = time.strftime(',"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(second))
            self._stamp = f'{self._until_second}{rest:03d}Z"}}'.encode()

    def message(self, effect: AnyEffect) -> Message | None:
        """The message that *effect* orders; None if the server would not take it (counted)."""
        reply = ""
        match effect:
            case Deliver():
                event, to = effect.event, (effect.agent, effect.session)
                session = self._addresses.get(to) or self._to(*to)
                subject, payload = session.event + event.type, _encode(event)
                if event.time is None:  # as in _stamped, which would be one call more for each request
                    payload = payload[:-1] + self._stamp
                if effect.answerable:
                    reply = session.reply + event.id
            case SendOutcome():
                to = (effect.agent, effect.session)
                subject = effect.reply_to or (self._addresses.get(to) or self._to(*to)).outcome
                outcome = effect.outcome
                if outcome.event is None or outcome.event.time is not None or outcome.error is not None:
                    payload = self._answered(outcome)
                else:
                    payload = _encode(outcome)[:-2] + self._stamp + b"}"  # the event is its last field
            case Answer():
                subject, payload = effect.reply_to, _encode(effect.body)
            case SendControl():
                subject = self._subjects.control(effect.agent, effect.session, effect.type)
                payload = _encode(effect.body)
            case Broadcast():
                subject, payload = (
                    self._shared(effect.channel, effect.event.type),
                    self._stamped(effect.event),
                )
            case SendNotice():
                subject, payload = self._subjects.notice(effect.type), _encode(effect.body)
            case _:
                assert_never(effect)
        if len(subject) + len(reply) > limits.SUBJECT_BYTES_MAX:
            self.counters["subjects_too_long"] += 1
            return None
        if len(payload) > self.max_payload:
            self.counters["payloads_too_large"] += 1
            return None
        return Message(subject, payload, reply)

    def _shared(self, channel: str | None, event_type: str) -> str:
        return (
            self._subjects.topic(event_type)
            if channel is None
            else self._subjects.channel(channel, event_type)
        )

    def _to(self, agent: str, session: str) -> _Addresses:
        if len(self._addresses) >= ADDRESSES_MAX:
            self._addresses.clear()
        subjects = self._subjects
        new = _Addresses(
            subjects.deliver(agent, session, ""),
            subjects.reply(agent, ""),
            subjects.outcome(agent, session),
        )
        self._addresses[agent, session] = new
        return new

    def _stamped(self, event: bodies.Delivered) -> bytes:
        """The event with ``time``, put before its closing brace: it is never empty, and copying it costs more."""
        encoded = _encode(event)
        return encoded if event.time is not None else encoded[:-1] + self._stamp

    def _answered(self, outcome: bodies.Outcome) -> bytes:
        """The outcome, its event with the time, if it has one."""
        event = outcome.event
        if event is None or event.time is not None:
            return _encode(outcome)
        said = self._stamp.decode().split('"')[3]
        stamped = msgspec.structs.replace(event, time=said)
        return _encode(msgspec.structs.replace(outcome, event=stamped))
