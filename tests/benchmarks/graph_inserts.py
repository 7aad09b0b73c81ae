"""One wait inserted at 100 000 live waits: CPU time, what is deferred and for how long, a full sweep, memory.

CPU time on a core that is shared, by hyperthreads or by other machines, doubles from one second to the next. So a
plain loop is timed between the inserts, and beside the times as they were stand those "at idle": each divided by how
much longer than on an idle machine the loop took just then.

`python -m tests.benchmarks.graph_inserts`
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import report
from tests.benchmarks.graph_families import FAMILIES, LONG, Family, LongChains, Stacks
from unknot_gateway.core.graph import Graph
from unknot_gateway.core.limits import Limits

LIVE = 100_000
INSERTS = 20_000
CHECK_STEPS = Limits().check_steps
SLICE_STEPS = Limits().drain_steps
SEED = 9104
IDLE_NS = 42_000
"""What 1 000 dict stores take on a core of this machine that does nothing else."""
SWEEP = "sweep of "
UNBOUNDED = [build.__name__.lower() for build in LONG]
"""Families with a bar only for the insert: what it ties together is looked at later."""
SPEED_EVERY = 50
"""Inserts, or slices, from one look at the speed to the next."""
Row = dict[str, Any]


class Meter:
    """Measures each insert, and works through what was deferred as the kernel does: a slice between messages."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inserts_ns: list[int] = []
        self.idle_ns: list[float] = []
        self.slices_ns: list[int] = []
        self.delays_ns: list[int] = []
        self.deferred = 0
        self._deferred_at: int | None = None
        self._slower = 1.0

    def insert(self, act: Callable[[], object]) -> None:
        """Time *act*, which inserts one wait."""
        if len(self.inserts_ns) % SPEED_EVERY == 0:
            self._slower = _slower()
        before, start = self.graph.suspects, time.thread_time_ns()
        act()
        self.inserts_ns.append(time.thread_time_ns() - start)
        self.idle_ns.append(self.inserts_ns[-1] / self._slower)
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
            **_times(self.inserts_ns, self.idle_ns),
            "deferred %": round(100 * self.deferred / len(self.inserts_ns), 2),
            "delay p99 ms": round(_share(self.delays_ns, 0.99) / 1e6, 2),
            "note": f"{found} deadlocks found; longest slice {max(self.slices_ns, default=0) / 1e6:.1f} ms",
        }


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _slower() -> float:
    """How many times longer than on an idle machine a plain loop takes now."""
    times = []
    for _ in range(3):
        table: dict[int, int] = {}
        start = time.thread_time_ns()
        for number in range(1_000):
            table[number & 255] = number
        times.append(time.thread_time_ns() - start)
    return min(times) / IDLE_NS


def _times(values_ns: Sequence[int], idle_ns: Sequence[float]) -> Row:
    return {
        "p50 us": round(statistics.median(values_ns) / 1e3, 1),
        "p99 us": round(_share(values_ns, 0.99) / 1e3, 1),
        "max us": round(max(values_ns) / 1e3, 1),
        "p99 us at idle": round(_share(idle_ns, 0.99) / 1e3, 1),
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
    for _ in range(INSERTS if build is not LongChains else INSERTS // 100):
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
    idle: list[float] = []
    slower = 1.0
    graph.start_sweep()
    done = False
    while not done:
        if len(slices) % SPEED_EVERY == 0:
            slower = _slower()
        start = time.thread_time_ns()
        done = graph.drain(SLICE_STEPS)
        slices.append(time.thread_time_ns() - start)
        idle.append(slices[-1] / slower)
    gc.unfreeze()
    return {
        "what": f"{SWEEP}{build.__name__.lower()}",
        "live": len(graph),
        **_times(slices, idle),
        "deferred %": "",
        "delay p99 ms": "",
        "note": f"{sum(slices) / 1e9:.2f} s CPU in all, {sum(idle) / 1e9:.2f} s at idle; {len(slices)} slices",
    }


def memory() -> Row:
    """Growth of the resident set for each live wait, its node and a label as the kernel gives it."""
    gc.collect()
    before = _resident()
    graph = Graph(check_steps=CHECK_STEPS)
    Stacks(graph, random.Random(SEED)).fill(LIVE)
    gc.collect()
    grown = (_resident() - before) / len(graph)
    times = dict.fromkeys(("p50 us", "p99 us", "max us", "p99 us at idle", "deferred %", "delay p99 ms"), "")
    return {"what": "memory", "live": len(graph), **times, "note": f"{grown:.0f} bytes a wait"}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def machine() -> Row:
    """What the others are to be read against: the plain loop on this machine in this run."""
    times = [int(_slower() * IDLE_NS) for _ in range(100)]
    row = {
        "what": "1 000 dict stores",
        "live": 0,
        **_times(times, times),
        "deferred %": "",
        "delay p99 ms": "",
    }
    return row | {"note": f"an idle machine needs about {IDLE_NS / 1e3:.0f} us"}


def main() -> list[Row]:
    """All rows; memory first, while nothing of the others is left."""
    rows = [machine(), memory()]
    rows += [inserts(build) for build in (*FAMILIES, *LONG)]
    rows += [sweep(build) for build in FAMILIES]
    return rows


if __name__ == "__main__":
    found_rows = main()
    print(report.table(list(found_rows[0]), [[str(cell) for cell in row.values()] for row in found_rows]))
