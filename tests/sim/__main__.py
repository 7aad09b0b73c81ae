"""``python -m tests.sim``: seeds by hand, a soak, a failing seed made small and kept as a case."""

import argparse
import sys
import time
from pathlib import Path

from tests.sim.drawing import SMALL, Size, scenario
from tests.sim.shrink import as_case, shortest
from tests.sim.soak import Figures, run_seeds, soak, soak_size

CASES = Path(__file__).parent / "cases"
PROGRESS_S = 60.0


def main() -> int:
    """1 if anything failed."""
    asked = _arguments().parse_args()
    size = SMALL if asked.minutes is None else soak_size(asked.agents, asked.run_min * 60)
    if asked.keep:
        return _keep(asked.first, size, asked.keep)
    figures = _seeds(asked, size) if asked.minutes is None else _soak(asked)
    _say(str(figures))
    return 1 if figures.failed else 0


def _keep(seed: int, size: Size, name: str) -> int:
    found, report = shortest(scenario(seed, size))
    (CASES / f"{name}.json").write_text(as_case(found, report))
    _say("\n".join(report.violations))
    return 0


def _seeds(asked: argparse.Namespace, size: Size) -> Figures:
    figures = Figures()
    for seed, report in run_seeds(range(asked.first, asked.first + asked.seeds), size, asked.jobs):
        figures.add(seed, report)
        if asked.digests:
            _say(f"{seed} {report.digest}")
        if report.violations and asked.until_failure:
            break
    return figures


def _soak(asked: argparse.Namespace) -> Figures:
    figures, told_at, failed = Figures(), time.monotonic(), 0
    for figures in soak(asked.minutes, asked.agents, asked.run_min, asked.first, asked.jobs, asked.log):
        now = time.monotonic()
        if len(figures.failed) > failed:
            failed = len(figures.failed)
            seed, violations = list(figures.failed.items())[-1]
            _say(f"seed {seed}: {violations[:3]}")
        if now >= told_at + PROGRESS_S:
            told_at = now
            _say(f"{figures.seeds} seeds, {figures.simulated_min:.0f} simulated minutes, {failed} failed")
    return figures


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many short runs")
    parser.add_argument("--minutes", type=float, help="a soak instead: simulated minutes in all")
    parser.add_argument("--agents", type=int, default=50, help="agents of a soak")
    parser.add_argument("--run-min", type=float, default=20.0, help="simulated minutes of one run of a soak")
    parser.add_argument("--jobs", type=int, help="processes; default: one for each core")
    parser.add_argument(
        "--log", type=Path, help="write each run of a soak here, and go on from what is there"
    )
    parser.add_argument("--digests", action="store_true", help="print the digest of each seed")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first seed that fails")
    parser.add_argument(
        "--keep", metavar="NAME", help="make the first seed, which fails, small: cases/NAME.json"
    )
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
