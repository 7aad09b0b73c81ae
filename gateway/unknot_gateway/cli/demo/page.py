"""What the demo prints. Colours on a terminal, plain text elsewhere."""

import os
import sys
from typing import Any, Final

import click

from unknot_schemas.bodies import DeadlockDetected

_SINCE: Final = {"reconciler": "11:04:58Z", "extractor-2": "11:16:41Z"}
_COLUMNS: Final = ("agent", "state", "healthy", "last_heartbeat", "tokens_used", "status")
_TOKENS_OF_RUN: Final = 400_000


class Page:
    """Prints as things happen; *quiet*: nothing, for --json."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._colour = (
            sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def title(self) -> None:
        """What this is."""
        self._head("run_9104: five agents, all healthy, never finished")
        self._dim(
            "Replayed with real processes on a real NATS server. Times like 11:16:41Z are the recorded run's,"
        )
        self._dim("seconds and milliseconds are measured now.")
        self._line()

    def gateway_is_up(self, took_s: float) -> None:
        """Server and gateway take messages."""
        self._dim(f"NATS server and gateway are up ({took_s:.1f} s).")

    def agents_are_up(self, count: int, took_s: float) -> None:
        """All agents serve."""
        self._dim(f"{count} agents are up ({took_s:.1f} s), each a process; extractor-1 and indexer work.")
        self._line()

    def waits(self, agent: str, what: str, of: str) -> None:
        """One agent stands still."""
        on = "an OCR job outside, which returns in ninety seconds" if of == "outside" else f"{of}: {what}"
        self._line(f"{_SINCE.get(agent, ''):<11}{self._bold(f'{agent:<12}')} waits for {on}")

    def liveness(self, beats: list[dict[str, Any]]) -> None:
        """What monitoring has at the moment of the closing wait."""
        rows = [[_shown(beat[name]) for name in _COLUMNS] for beat in beats]
        widths = [max(len(row[at]) for row in (_COLUMNS, *rows)) for at in range(len(_COLUMNS))]
        self._line()
        self._head("What a liveness probe sees now")
        self._dim("  " + _aligned(_COLUMNS, widths))
        for row in rows:
            self._line("  " + _aligned(row, widths))
        tokens = sum(beat["tokens_used"] for beat in beats)
        self._line(
            self._green(f"  {len(beats)} of {len(beats)} healthy")
            + f", {_shown(tokens)} of {_shown(_TOKENS_OF_RUN)} tokens used. Nothing to see."
        )
        self._line()

    def incident(self, notice: DeadlockDetected, found_s: float, told_s: float) -> None:
        """What unknot saw, and when."""
        self._head(f"What unknot saw, {found_s * 1e3:.1f} ms after the closing wait")
        self._field("deadlock", self._red(" -> ".join(notice.cycle)))
        for wait in notice.waits:
            self._field("", f"{wait.waiter} waits for {wait.target} to answer {wait.type}")
        self._field("behind it", ", ".join(notice.blocked_behind))
        self._field("remedy", notice.remedy)
        self._field("incident", f"{notice.incident}, evidence {notice.evidence}, policy {notice.policy}")
        self._field("told", f"both members, {told_s * 1e3:.1f} ms after the closing wait")
        minutes = min(wait.deadline_in_s or 0.0 for wait in notice.waits) / 60
        self._field("otherwise", f"{minutes:.0f} minutes until the first timeout, and no reason given")
        self._line()

    def going_on(self) -> None:
        """What comes is no longer stuck."""
        self._head("The run goes on")

    def goes_on(self, agent: str, how: str) -> None:
        """One agent got further."""
        self._field(agent, how)

    def finished(self, took_s: float) -> None:
        """All answers are there."""
        self._line()
        self._line(self._green("run_9104 is complete") + f", {took_s:.1f} s after the start of this demo.")

    def missing(self, what: str) -> None:
        """A step did not happen."""
        click.echo(self._red("missing: ") + what, err=True, color=self._colour)

    def _head(self, text: str) -> None:
        self._line(self._bold(text))

    def _field(self, name: str, text: str) -> None:
        self._line(f"  {self._dimmed(f'{name:<13}')}{text}")

    def _dim(self, text: str) -> None:
        self._line(self._dimmed(text))

    def _line(self, text: str = "") -> None:
        if not self._quiet:
            click.echo(text, color=self._colour)

    def _bold(self, text: str) -> str:
        return click.style(text, bold=True)

    def _dimmed(self, text: str) -> str:
        return click.style(text, dim=True)

    def _red(self, text: str) -> str:
        return click.style(text, fg="red", bold=True)

    def _green(self, text: str) -> str:
        return click.style(text, fg="green", bold=True)


def _shown(field: object) -> str:
    if isinstance(field, bool):
        return str(field).lower()
    return f"{field:,}".replace(",", " ") if isinstance(field, int) else str(field)


def _aligned(row: Any, widths: list[int]) -> str:
    cells = [
        cell.rjust(width) if name == "tokens_used" else cell.ljust(width)
        for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
    ]
    return "   ".join(cells).rstrip()
