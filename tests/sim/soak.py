"""Many runs in several processes, their figures together, and a log from which a long soak goes on."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path

import msgspec

from tests.sim.drawing import SOAK, Size, scenario
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


class Line(msgspec.Struct):
    """One run in the log of a soak."""

    seed: int
    digest: str
    violations: list[str]
    figures: dict[str, int]
    simulated_s: float

    @property
    def report(self) -> Report:
        """What came of it."""
        return Report(self.digest, self.violations, Counter(self.figures), self.simulated_s)


def soak_size(agents: int, seconds: float) -> Size:
    """A long run."""
    return msgspec.structs.replace(SOAK, agents=agents, seconds=seconds)


def run_seeds(seeds: Iterable[int], size: Size, jobs: int | None = None) -> Iterator[tuple[int, Report]]:
    """The report of each seed, in order, from *jobs* processes (None: one for each core; 1: this one)."""
    seeds = list(seeds)
    if jobs == 1:
        yield from ((seed, _one(seed, size=size)) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from zip(seeds, pool.map(partial(_one, size=size), seeds), strict=True)


def soak(
    minutes: float,
    agents: int,
    run_min: float,
    first: int = 0,
    jobs: int | None = None,
    log: Path | None = None,
) -> Iterator[Figures]:
    """*minutes* of simulated time, in runs of *run_min* minutes: the figures so far, after each run.

    *log*: where each run is written down. What has passed there is not run again, what has failed is.
    """
    done = {seed: report for seed, report in _logged(log).items() if not report.violations}
    figures = Figures()
    seeds = range(first, first + ceil(minutes / run_min))
    for seed in seeds:
        if seed in done:
            figures.add(seed, done[seed])
    left = [seed for seed in seeds if seed not in done]
    for seed, report in run_seeds(left, soak_size(agents, run_min * 60), jobs):
        figures.add(seed, report)
        if log is not None:
            line = Line(seed, report.digest, report.violations, report.figures, report.simulated_s)
            with log.open("ab") as file:
                file.write(b"\n" + msgspec.json.encode(line))
        yield figures
    if not left:
        yield figures


def _logged(log: Path | None) -> dict[int, Report]:
    """What a log says of each seed, the last word counts. A line that was cut off says nothing."""
    found: dict[int, Report] = {}
    if log is None or not log.exists():
        return found
    for text in log.read_bytes().splitlines():
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            continue
        found[line.seed] = line.report
    return found


def _one(seed: int, size: Size) -> Report:
    return play(scenario(seed, size))
