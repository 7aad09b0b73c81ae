"""Tables for people."""

from collections.abc import Sequence

import click


def show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print *rows* under *head*, each column as wide as its widest cell."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
