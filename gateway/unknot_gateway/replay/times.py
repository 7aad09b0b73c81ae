"""Instants of a recording: integer nanoseconds, read from RFC 3339 or from bare times of day, and written back.

Bare times (``11:16:39Z``) have no date. The instant meant is the one nearest to a known one: an ``at`` to the line
before it, so that a recording may cross midnight, and lines out of order may, too, as long as neighbours are less
than twelve hours apart. A ``since`` is not after its line: what would be is a day earlier.
"""

import datetime
import re
from typing import Final

from unknot_gateway.replay.malformed import Malformed

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
_BARE: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?Z", re.ASCII)
_DATED: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


class Clock:
    """Reads the times of one recording. Its first line says whether they have dates."""

    def __init__(self) -> None:
        self._last_at: int | None = None
        self._is_dated = False

    def at(self, text: str) -> int:
        """The instant of the next line."""
        instant, is_dated = _read(text)
        if self._last_at is None:
            self._is_dated = is_dated
        elif is_dated is not self._is_dated:
            raise Malformed(f"at: {text!r} has {'a' if is_dated else 'no'} date, other than the lines before")
        elif not is_dated:
            instant = _nearest(instant, self._last_at)
        self._last_at = instant
        return instant

    def beside(self, text: str, at: int) -> int:
        """An instant that the line of *at* names."""
        instant, is_dated = _read(text)
        if is_dated and not self._is_dated:
            raise Malformed(f"{text!r} has a date, other than the line's own time")
        return instant if is_dated else _nearest(instant, at)

    def since(self, text: str, at: int) -> int:
        """Since when the line of *at* says that something holds: not after it."""
        instant = self.beside(text, at)
        if instant > at and len(text) < len("0000-00-00"):
            instant -= DAY
        return min(instant, at)

    def text(self, instant: int) -> str:
        """As the recording writes it; a bare time of a later day has the number of days behind it."""
        days, rest = divmod(instant, DAY)
        seconds, fraction = divmod(rest, SECOND)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if fraction:
            clock += f".{fraction:09}".rstrip("0")
        if self._is_dated:
            return f"{datetime.date.fromordinal(days + _EPOCH).isoformat()}T{clock}Z"
        return f"{clock}Z" if not days else f"{clock}Z{days:+}d"


def _nearest(instant: int, known: int) -> int:
    return instant + (known - instant + DAY // 2) // DAY * DAY


def _read(text: str) -> tuple[int, bool]:
    """The instant, and whether it has a date; without one it is on the first day."""
    if (bare := _BARE.fullmatch(text)) is not None:
        return _of_day(text, *bare.groups()), False
    dated = _DATED.fullmatch(text)
    if dated is None:
        raise Malformed(f"{text!r} is no time: HH:MM:SSZ or RFC 3339")
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = dated.groups()
    try:
        days = datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError as error:
        raise Malformed(f"{text!r} is no time: {error}") from error
    instant = days * DAY + _of_day(text, hour, minute, second, fraction)
    if sign is not None:
        if int(off_hours) > 23 or int(off_minutes) > 59:
            raise Malformed(f"{text!r} is no time: no such offset")
        offset = (int(off_hours) * 60 + int(off_minutes)) * 60 * SECOND
        instant += -offset if sign == "+" else offset
    return instant, True


def _of_day(text: str, hour: str, minute: str, second: str, fraction: str | None) -> int:
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:  # 60: a leap second
        raise Malformed(f"{text!r} is no time of day")
    whole = (int(hour) * 60 + int(minute)) * 60 + int(second)
    return whole * SECOND + int((fraction or "")[:9].ljust(9, "0"))
