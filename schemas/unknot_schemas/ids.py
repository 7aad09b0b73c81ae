"""Names on the wire: which ones are legal, matched whole."""

import re
from typing import TYPE_CHECKING, Final, NewType

from unknot_schemas.limits import ID_CHARS_MAX, TYPE_CHARS_MAX

if TYPE_CHECKING:
    AgentId = NewType("AgentId", str)
    SessionId = NewType("SessionId", str)
    EventId = NewType("EventId", str)
    """Of any message; a request's id is its event's id."""
    ExecutionId = NewType("ExecutionId", str)
    """The id of the event that is handled, or ``main``."""
    StrandId = NewType("StrandId", str)
    """A task inside an execution; the empty string is the execution's own task."""
else:  # to call a NewType takes three times as long as str(), and a request has ten of them on its way
    AgentId = SessionId = EventId = ExecutionId = StrandId = str

GATEWAY: Final = AgentId("gateway")
"""The gateway's own name: reserved."""
MAIN: Final = ExecutionId("main")
NO_SESSION: Final = SessionId("0")
"""The session of agents that never said hello."""
OWN_TASK: Final = StrandId("")

id_match: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{ID_CHARS_MAX}}}").fullmatch
"""As `is_id`, for who cannot afford the call: a match, or None."""
_AGENT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{ID_CHARS_MAX - 1}}}")
_TYPE = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_PATTERN = re.compile(r"(?:(?:[a-z0-9_-]+|\*)\.)*(?:[a-z0-9_-]+|\*|>)")
ALIAS: Final = "agent:"


def is_id(text: str) -> bool:
    """Whether *text* may name a message, session, execution, strand, group or run."""
    return id_match(text) is not None


def agent_id(text: str) -> AgentId | None:
    """The agent that *text* names, without an ``agent:`` prefix; None if it can name none."""
    bare = text.removeprefix(ALIAS)
    return AgentId(bare) if _AGENT.fullmatch(bare) and bare != GATEWAY else None


def is_type(text: str) -> bool:
    """Whether *text* is an event type: lower-case dotted words, at most 128 characters."""
    return len(text) <= TYPE_CHARS_MAX and _TYPE.fullmatch(text) is not None


def is_pattern(text: str) -> bool:
    """Whether *text* is a NATS pattern over event types (``thread.>``, ``*.done``)."""
    return len(text) <= TYPE_CHARS_MAX and _PATTERN.fullmatch(text) is not None


def matches(pattern: str, event_type: str) -> bool:
    """Whether *event_type* falls under the NATS *pattern*."""
    if pattern in (">", event_type):
        return True
    wanted, words = pattern.split("."), event_type.split(".")
    for at, word in enumerate(wanted):
        if word == ">":
            return len(words) > at
        if at >= len(words) or word not in ("*", words[at]):
            return False
    return len(words) == len(wanted)
