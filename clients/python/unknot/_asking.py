"""What is asked for, and how its answer is read; the checks that need no session."""

import math
from typing import Any, Final, Generic, TypeVar, cast

from msgspec import Raw, Struct

from unknot import _payloads
from unknot.errors import HandlerFailed, OverLimit, Refused, from_outcome
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.limits import (
    DATA_BYTES_MAX,
    METADATA_BYTES_MAX,
    TIMEOUT_DEFAULT_S,
    TIMEOUT_MAX_S,
    WAIT_FOR_TARGET_DEFAULT_S,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RETRY_AFTER_S: Final = 1.0
"""When to try again what the client itself could not take."""


class Waitable(Generic[T_co]):
    """Something described that may be waited for beside others: by ``wait_all``, ``wait_any``, ``wait_quorum``."""

    __slots__ = ()


class Request(Waitable[T_co]):
    """A request described, not yet sent."""

    __slots__ = ("data", "into", "target", "type")

    def __init__(self, target: str, type: str, data: Any = None, *, into: Any = Any) -> None:
        self.target = target
        self.type = type
        self.data = data
        self.into = into

    def read(self, outcome: bodies.Outcome) -> T_co:
        """The answer; raises what the outcome tells of when it is none."""
        return cast("T_co", answer(outcome, self.into))


class Answer(Struct, Generic[T], frozen=True):
    """One branch that came true. *index*: of it among those waited for. *data*: its answer, data or Lease."""

    index: int
    data: T


def answer(outcome: bodies.Outcome, kind: Any) -> Any:
    """The answer that *outcome* brings, read into *kind*; raises the failure when it brings none."""
    if outcome.outcome != "reply":
        raise from_outcome(outcome)
    event = outcome.event
    data = event.data if event is not None else bodies.NULL
    try:
        return (_payloads.ANY if kind is Any else _payloads.decoder(kind))(data)
    except ValueError as why:
        raise HandlerFailed(
            f"the answer does not fit: {why}",
            code="unreadable_answer",
            request_id=outcome.request_id,
            handled="yes",
        ) from why


def timeout_s(timeout: float | None) -> float:
    """The timeout that holds: what is missing or no positive number is the default, and the cap is the cap."""
    if timeout is None or not timeout > 0 or not math.isfinite(timeout):
        return TIMEOUT_DEFAULT_S
    return float(min(timeout, TIMEOUT_MAX_S))


def metadata(marks: dict[str, Any] | None) -> Raw | None:
    """*marks* as JSON; Refused when they are too many."""
    if marks is None:
        return None
    raw = _payloads.encode(marks)
    if len(bytes(raw)) > METADATA_BYTES_MAX:
        raise Refused(
            f"metadata is over {METADATA_BYTES_MAX} bytes: put it into data",
            code=codes.TOO_LARGE,
            handled="no",
        )
    return raw


def payload(data: Any) -> Raw:
    """*data* as JSON; Refused when it is too large to send."""
    raw = _payloads.encode(data)
    if len(memoryview(raw)) > DATA_BYTES_MAX:
        raise Refused(
            f"data has more than {DATA_BYTES_MAX} bytes: send a reference to it instead",
            code=codes.TOO_LARGE,
            handled="no",
        )
    return raw


def patience(wait_for_target: float | None, seconds: float) -> float:
    """How long a target may be absent: by default 5 s, and never longer than the timeout."""
    if wait_for_target is None or not wait_for_target >= 0:
        return min(seconds, WAIT_FOR_TARGET_DEFAULT_S)
    return min(float(wait_for_target), seconds)


def bad_id(message: str) -> Refused:
    """The refusal of a name that cannot be."""
    return Refused(message, code=codes.BAD_ID, handled="no")


def full() -> OverLimit:
    """The failure of what does not fit into this session any more."""
    return OverLimit(
        "too many requests and waits are open in this session",
        code=codes.OVER_LIMIT,
        handled="no",
        detail={"retry_after_s": RETRY_AFTER_S},
    )
