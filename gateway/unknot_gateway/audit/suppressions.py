"""`# unknot: ok(reason)`: a comment on a line of the finding, or alone on the line above it."""

import io
import re
import tokenize
from typing import Final

from msgspec import Struct

_MARK: Final = re.compile(r"#.*?\bunknot:\s*ok\b\s*(?:\((?P<reason>.*)\))?")


class Suppression(Struct, eq=False):
    """One comment. *covers*: the line that it is about."""

    line: int
    column: int
    covers: int
    reason: str
    is_used: bool = False


def suppressions(text: bytes) -> list[Suppression]:
    """All of a file that could be parsed; only comments count, not strings that look like one."""
    if b"unknot:" not in text:
        return []
    found: list[Suppression] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(text).readline):
            if token.type == tokenize.COMMENT and (mark := _MARK.match(token.string)) is not None:
                line, column = token.start
                is_alone = not token.line[:column].strip()
                reason = (mark["reason"] or "").strip()
                found.append(Suppression(line, column + 1, line + is_alone, reason))
    except (tokenize.TokenError, SyntaxError, ValueError, LookupError):
        pass  # the parser has said what is wrong, if anything is
    return found
