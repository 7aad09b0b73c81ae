"""Shows all laws on one program, in an order in which none hides another."""

import asyncio
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from unknot_gateway.cli.conformance import asked, beginning, ending, serving, trouble
from unknot_gateway.cli.conformance.beginning import begun
from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Broken
from unknot_gateway.cli.conformance.stage import Stage, stage

LAWS: Final = (*beginning.LAWS, *serving.LAWS, *asked.LAWS, *trouble.LAWS, *ending.LAWS)
_TOGETHER: Final = ("serve", "whole")
"""What disturbs nobody."""
_AFTER_ITS_END: Final = ("end", "whole")
"""What a program that has ended can still be judged by."""
_CHECK_S: Final = 45.0
"""Hang limit of one law; each waits for less."""


class Row(Struct, frozen=True):
    """One law: whether it holds, and what was seen instead."""

    law: str
    passed: bool
    about: str
    why: str = ""


class Report(Struct, frozen=True):
    """All rows of an examination."""

    passed: bool
    rows: list[Row]
    took_s: float


def chosen(patterns: Sequence[str]) -> list[Law]:
    """The laws whose names fit one of *patterns*; all when there are none."""
    return [law for law in LAWS if not patterns or any(fnmatchcase(law.name, each) for each in patterns)]


async def examine(command: list[str], laws: Sequence[Law]) -> Report:
    """Start *command* and show *laws*. Raises NotStarted, ServerFailed."""
    began = time.monotonic()
    async with stage(command) as built:
        await built.start_program()
        rows = {row.law: row for row in await _rows(built, laws)}
    in_order = [rows[law.name] for law in laws]
    took_s = round(time.monotonic() - began, 1)
    return Report(all(row.passed for row in in_order), in_order, took_s)


async def _rows(built: Stage, laws: Sequence[Law]) -> list[Row]:
    try:
        await begun(built)
    except Broken as never:  # nothing more can be shown
        return [_as_row(law, str(never)) for law in laws]
    rows: list[Row] = []
    for phase in dict.fromkeys(law.phase for law in LAWS):
        of_phase = [law for law in laws if law.phase == phase]
        if phase in _TOGETHER:
            rows += await asyncio.gather(*(_row(built, law) for law in of_phase))
        else:
            rows += [await _row(built, law) for law in of_phase]
    return rows


async def _row(built: Stage, law: Law) -> Row:
    if built.record.over is not None and law.phase not in _AFTER_ITS_END:
        return _as_row(law, built.record.over)
    why = ""
    try:
        async with asyncio.timeout(_CHECK_S):
            await law.check(built)
    except Broken as broken:
        why = str(broken)
    except TimeoutError:
        why = f"not shown within {_CHECK_S:g} s"
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as odd:
        why = f"something of an unexpected shape came: {type(odd).__name__}: {odd}"
    return _as_row(law, why)


def _as_row(law: Law, why: str) -> Row:
    return Row(law.name, not why, law.about, why)
