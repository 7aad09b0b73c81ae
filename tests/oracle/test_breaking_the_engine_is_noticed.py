"""The scripts of fixed seeds notice it when one line of the engine is wrong: that they pass means something."""

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.broken import broken_engine
from tests.oracle.compare import BUDGETS, compare
from tests.oracle.scripts import script_by_seed

pytestmark = pytest.mark.timeout(300)  # for a machine that does much else

SEEDS = range(400)

BREAKS = {
    "a-cycle-is-taken-for-a-chain-with-an-end": (
        "ranks.py",
        "        if target is first or target.rank == STUCK:\n            return 0\n",
        "        if target is first:\n            break\n        if target.rank == STUCK:\n            return 0\n",
    ),
    "a-rank-rests-on-one-as-high": (
        "ranks.py",
        "for target in rests:\n                if target.rank < own:",
        "for target in rests:\n                if target.rank <= own + STEP:",
    ),
    "who-is-rested-on-keeps-its-rank": (
        "ranks.py",
        "        row.rank = bound - STEP\n        return True\n",
        "        return True\n",
    ),
    "who-is-ahead-in-the-queue-takes-nothing": (
        "ranks.py",
        "                    missing += entry[2]\n",
        "                    missing += 0\n",
    ),
    "a-new-holder-keeps-its-rank": ("ranks.py", "_put(model, row, shared.floor - STEP)", "pass"),
    "who-stands-behind-the-stuck-is-forgotten": ("check.py", "        self._spread += nodes\n", ""),
    "over-budget-means-stuck": (
        "check.py",
        "            turn *= 2\n        return None\n",
        "            turn *= 2\n        self._mark((node,))\n        return limit\n",
    ),
    "a-close-frees-nobody-behind-its-waiter": (
        "check.py",
        "still = Reduction(model, set(region)).run() if region else set()",
        "still = region - set(freed)",
    ),
    "who-is-served-and-stands-still-keeps-nothing": ("reduce.py", "pool.kept += units", "pool.kept += 0"),
    "who-can-go-on-keeps-what-it-holds": ("reduce.py", "pool.held -= units", "pool.held -= 0"),
    "a-satisfied-wait-is-an-edge": ("edges.py", "if not model.wait_satisfied(wait):", "if wait:"),
    "a-core-hides-behind-another": ("report.py", "elif alone:", "elif alone and not members:"),
    "of-the-shortest-cycles-not-the-least": (
        "cycles.py",
        "cycle.append(min(following, key=",
        "cycle.append(max(following, key=",
    ),
    "a-late-close-ends-the-new-generation": ("script.py", "gen < known.step.gen:", "gen < 0:"),
}


def _first_noticed(script: Any) -> int | None:
    """The first seed whose script shows a difference; None: they all pass."""
    for seed in SEEDS:
        try:
            compare(script(BUDGETS[seed % 3]), script_by_seed(seed, 25), None)
        except AssertionError:  # a difference, or an assert of the engine itself
            return seed
    return None


@pytest.mark.parametrize("name", BREAKS)
def test_one_wrong_line_is_noticed(name: str, tmp_path: Path) -> None:
    file, old, new = BREAKS[name]
    with broken_engine(tmp_path, name.replace("-", "_"), file, old, new) as script:
        assert _first_noticed(script) is not None


def test_a_copy_that_is_not_broken_passes(tmp_path: Path) -> None:
    with broken_engine(
        tmp_path, "whole_copy", "check.py", "self._spread += nodes", "self._spread += nodes"
    ) as script:
        assert _first_noticed(script) is None
