"""The card's marks in ``metadata``, the only fields that are read leniently: they cross bridges as strings."""

import math
from typing import Any, Final

import msgspec
from msgspec import Raw

from unknot_schemas.limits import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S

_TRUE_WORDS: Final = frozenset({"true", "1", "yes", "on"})
_BLOCKING: Final = "blocking_wait"
_TIMEOUT: Final = "wait_timeout"
BLOCKING_ONLY: Final = Raw(b'{"blocking_wait":true}')
"""What `with_blocking` makes of no metadata."""


def read(metadata: Raw | None) -> dict[str, Any]:
    """The metadata as a dict; empty if there is none or it is no object."""
    if metadata is None:
        return {}
    try:
        found = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_blocking(marks: dict[str, Any]) -> bool:
    """Whether the marks ask for a blocking wait: only true-like values do."""
    mark = marks.get(_BLOCKING)
    if isinstance(mark, str):
        return mark.strip().lower() in _TRUE_WORDS
    return mark is True or (isinstance(mark, int | float) and mark == 1)


def timeout_s(marks: dict[str, Any]) -> float | None:
    """The timeout that the marks name, in seconds; None if none can be read."""
    mark = marks.get(_TIMEOUT)
    if isinstance(mark, bool) or not isinstance(mark, int | float | str):
        return None
    try:
        return float(mark)
    except (ValueError, OverflowError):
        return None


def holding_timeout_s(asked: float | None, default: float = TIMEOUT_DEFAULT_S) -> float:
    """The timeout that holds: the default if *asked* is missing, NaN, infinite or not positive; capped."""
    if asked is None or not 0.0 < asked < math.inf:  # NaN is not
        return default
    return asked if asked < TIMEOUT_MAX_S else TIMEOUT_MAX_S


def with_blocking(metadata: Raw | None) -> Raw:
    """The caller's metadata with the mark of a blocking request set over it."""
    if metadata is None:
        return BLOCKING_ONLY
    return Raw(msgspec.json.encode({**read(metadata), _BLOCKING: True}))
