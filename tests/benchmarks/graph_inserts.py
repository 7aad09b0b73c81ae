"""One wait inserted at 100 000 live waits: CPU time, what is deferred and for how long, a full sweep, memory.

`python -m tests.benchmarks.graph_inserts`
"""

import gc
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.graph_families import FAMILIES, Family, Stacks
from unknot_gateway.core.graph import Graph

LIVE = 100_000
INSERTS = 20_000
CHECK_STEPS = 2_000
SLICE_STEPS = 1_000
SEED = 9104
Row = dict[str, Any]


class Meter:
    """Measures each insert, and works through what was deferred as the kernel does: a slice between messages."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inserts_ns: list[int] = []
        self.slices_ns: list[int] = []
        self.delays_ns: list[int] = []
        self.deferred = 0
        self._deferred_at: int | None = None

    def insert(self, act: Callable[[], object]) -> None:
        """Time *act*, which inserts one wait."""
        before, start = self.graph.suspects, time.thread_time_ns()
        act()
        self.inserts_ns.append(time.thread_time_ns() - start)
        if self.graph.suspects > before:
            self.deferred += 1
            self._deferred_at = self._deferred_at or time.thread_time_ns()

    def between(self) -> None:
        """What the kernel does between two messages."""
        if self._deferred_at is None:
            return
        start = time.thread_time_ns()
        done = self.graph.drain(SLICE_STEPS)
        end = time.thread_time_ns()
        self.slices_ns.append(end - start)
        if done:
            self.delays_ns.append(end - self._deferred_at)
            self._deferred_at = None

    def row(self, what: str, found: int) -> Row:
        return {
            "what": what,
            "live": len(self.graph),
            **_times(self.inserts_ns),
            "deferred %": round(100 * self.deferred / len(self.inserts_ns), 2),
            "delay p99 ms": round(_share(self.delays_ns, 0.99) / 1e6, 2),
            "note": f"{found} deadlocks found; longest slice {max(self.slices_ns, default=0) / 1e6:.1f} ms",
        }


def _share(values: list[int], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _times(values_ns: list[int]) -> Row:
    return {
        "p50 us": round(statistics.median(values_ns) / 1e3, 1),
        "p99 us": round(_share(values_ns, 0.99) / 1e3, 1),
        "max us": round(max(values_ns) / 1e3, 1),
    }


def inserts(build: type[Family]) -> Row:
    """Fill a family to LIVE waits, then churn: each insert is measured, a wait ends for each."""
    graph = Graph(check_steps=CHECK_STEPS)
    family = build(graph, random.Random(SEED))
    family.fill(LIVE)
    while not graph.drain(100_000):
        pass
    meter, found = Meter(graph), 0
    gc.collect()
    gc.freeze()
    for _ in range(INSERTS):
        family.churn(meter.insert)
        meter.between()
        for core in graph.found():
            found += 1
            family.resolve(core)
    gc.unfreeze()
    return meter.row(build.__name__.lower(), found)


def sweep(build: type[Family]) -> Row:
    """A full sweep of LIVE waits in slices."""
    graph = Graph(check_steps=CHECK_STEPS)
    build(graph, random.Random(SEED)).fill(LIVE)
    while not graph.drain(100_000):
        pass
    gc.collect()
    gc.freeze()
    slices: list[int] = []
    graph.start_sweep()
    done = False
    while not done:
        start = time.thread_time_ns()
        done = graph.drain(SLICE_STEPS)
        slices.append(time.thread_time_ns() - start)
    gc.unfreeze()
    return {
        "what": f"sweep of {build.__name__.lower()}",
        "live": len(graph),
        **_times(slices),
        "deferred %": "",
        "delay p99 ms": "",
        "note": f"{len(slices)} slices, {sum(slices) / 1e9:.2f} s CPU in all",
    }


def memory() -> Row:
    """Growth of the resident set for each live wait, its node and a label as the kernel gives it."""
    gc.collect()
    before = _resident()
    graph = Graph(check_steps=CHECK_STEPS)
    Stacks(graph, random.Random(SEED)).fill(LIVE)
    gc.collect()
    grown = (_resident() - before) / len(graph)
    times = {"p50 us": "", "p99 us": "", "max us": "", "deferred %": "", "delay p99 ms": ""}
    return {"what": "memory", "live": len(graph), **times, "note": f"{grown:.0f} bytes a wait"}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def machine() -> Row:
    """What the others are to be read against: a plain store into a dict, CPU time on this machine in this run."""
    times = []
    for _ in range(200):
        table: dict[int, int] = {}
        start = time.thread_time_ns()
        for number in range(1_000):
            table[number & 255] = number
        times.append(time.thread_time_ns() - start)
    row = {"what": "1 000 dict stores", "live": 0, **_times(times), "deferred %": "", "delay p99 ms": ""}
    return row | {"note": "an idle machine needs about 40 us"}


def main() -> list[Row]:
    """All rows; memory first, while nothing of the others is left."""
    rows = [machine(), memory()]
    rows += [inserts(build) for build in FAMILIES]
    rows += [sweep(build) for build in FAMILIES]
    return rows


if __name__ == "__main__":
    found_rows = main()
    print(report.table(list(found_rows[0]), [[str(cell) for cell in row.values()] for row in found_rows]))
