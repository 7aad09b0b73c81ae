"""``python -m tests.sim``: seeds by hand, a soak, a failing seed made small and kept as a case."""

import argparse
import sys
from pathlib import Path

from tests.sim.scenario import SMALL, scenario
from tests.sim.shrink import as_case, shortest
from tests.sim.soak import Figures, run_seeds, soak, soak_size

CASES = Path(__file__).parent / "cases"


def main() -> int:
    """1 if anything failed."""
    asked = _arguments().parse_args()
    size = SMALL if asked.minutes is None else soak_size(asked.agents, asked.run_min * 60)
    if asked.keep:
        found, report = shortest(scenario(asked.first, size))
        (CASES / f"{asked.keep}.json").write_text(as_case(found, report))
        _say("\n".join(report.violations))
        return 0
    if asked.minutes is not None:
        figures = soak(asked.minutes, asked.agents, asked.run_min, asked.first, asked.jobs)
    else:
        figures = Figures()
        for seed, report in run_seeds(range(asked.first, asked.first + asked.seeds), size, asked.jobs):
            figures.add(seed, report)
            if asked.digests:
                _say(f"{seed} {report.digest}")
    _say(str(figures))
    return 1 if figures.failed else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many short runs")
    parser.add_argument("--minutes", type=float, help="a soak instead: simulated minutes in all")
    parser.add_argument("--agents", type=int, default=50, help="agents of a soak")
    parser.add_argument("--run-min", type=float, default=50.0, help="simulated minutes of one run of a soak")
    parser.add_argument("--jobs", type=int, help="processes; default: one for each core")
    parser.add_argument("--digests", action="store_true", help="print the digest of each seed")
    parser.add_argument(
        "--keep", metavar="NAME", help="make the first seed, which fails, small: cases/NAME.json"
    )
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
