"""How results are shown and kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

RESULTS = Path(__file__).parent / "results"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; text to the left, numbers to the right."""
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    right = [all(_is_number(row[at]) for row in rows) for at in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        for row in (heads, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


class Bar(Struct, frozen=True):
    """A figure that must be reached."""

    what: str
    found: float
    bar: str
    met: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.found} (bar {self.bar}: {'met' if self.met else 'MISSED'})"


def at_most(what: str, found: float, bar: float) -> Bar:
    """*found* must not be above *bar*."""
    return Bar(what, round(found, 2), f"<= {bar:g}", found <= bar)


def at_least(what: str, found: float, bar: float) -> Bar:
    """*found* must not be below *bar*."""
    return Bar(what, round(found, 2), f">= {bar:g}", found >= bar)


def keep(name: str, result: dict[str, Any]) -> Path:
    """Write *result* as JSON; the file."""
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{name}.json"
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return kept


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.replace(",", "").replace(".", "").replace("x", "").isdigit()
