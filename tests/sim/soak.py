"""Many runs in several processes, and their figures together."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import ceil

import msgspec

from tests.sim.scenario import SOAK, Size, scenario
from tests.sim.world import Report, play


class Figures(msgspec.Struct):
    """What came of all runs."""

    seeds: int = 0
    simulated_min: float = 0.0
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    failed: dict[int, list[str]] = msgspec.field(default_factory=dict)
    """Violations by seed."""

    def add(self, seed: int, report: Report) -> None:
        """One run more."""
        self.seeds += 1
        self.simulated_min += report.simulated_s / 60
        self.counts += report.figures
        if report.violations:
            self.failed[seed] = report.violations

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        failed = "".join(
            f"\nseed {seed}: {violation}" for seed, all_ in self.failed.items() for violation in all_[:3]
        )
        violations = sum(map(len, self.failed.values()))
        return (
            f"{self.seeds} seeds, {self.simulated_min:.0f} simulated minutes, {violations} violations"
            f" in {len(self.failed)} seeds\n{counts}{failed}"
        )


def soak_size(agents: int, seconds: float) -> Size:
    """A long run."""
    return msgspec.structs.replace(SOAK, agents=agents, seconds=seconds)


def run_seeds(seeds: range, size: Size, jobs: int | None = None) -> Iterator[tuple[int, Report]]:
    """The report of each seed, in order, from *jobs* processes (None: one for each core)."""
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from zip(seeds, pool.map(partial(_one, size=size), seeds), strict=True)


def soak(minutes: float, agents: int, run_min: float, first: int = 0, jobs: int | None = None) -> Figures:
    """*minutes* of simulated time, in runs of *run_min* minutes."""
    figures = Figures()
    seeds = range(first, first + ceil(minutes / run_min))
    for seed, report in run_seeds(seeds, soak_size(agents, run_min * 60), jobs):
        figures.add(seed, report)
    return figures


def _one(seed: int, size: Size) -> Report:
    return play(scenario(seed, size))
