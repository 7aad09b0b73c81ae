"""How results are shown and kept."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def keep(name: str, result: dict[str, Any]) -> Path:
    """Write *result* as JSON; the file."""
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{name}.json"
    kept.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return kept


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").replace("x", "").isdigit()
