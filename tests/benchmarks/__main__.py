"""Run the benchmarks. Tables on stdout, JSON under tests/benchmarks/results.

Names: throughput, deadlocks, graph and floods (all four without a name), and answers, which takes minutes.
"""

import argparse
import gc
import shlex
import sys
from typing import Any

import uvloop

from tests.benchmarks import answers, deadlocks, floods, graph_inserts, report, throughput
from tests.benchmarks.machine import ROOT, conditions, gateway, nats_server

NETWORK = "bench"
IN_FLIGHT = 2_000
"""Of the run that counts answers."""
FLOOD_WINDOWS = 5
"""A flood is measured for as long as so many windows: a p99 needs many requests, one after the other."""


def main(arguments: list[str]) -> int:
    """Run what *arguments* name. Exit code 1: an answer was wrong, lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=5, help="windows per contender and number in flight")
    parser.add_argument("--window", type=float, default=1.0, help="seconds of each window")
    parser.add_argument("--samples", type=int, default=60, help="deadlocks per number of members")
    parser.add_argument("--requests", type=int, default=200_000, help="of the run that counts answers")
    parser.add_argument("--seed", type=int, default=9104)
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    about = conditions(shlex.join(["python", "-m", "tests.benchmarks", *arguments]))
    return max([_one(name, options, about) for name in options.names or DEFAULT])


def _one(name: str, options: argparse.Namespace, about: dict[str, object]) -> int:
    title, run = BENCHMARKS[name]
    print(f"\n{title}\n")
    result, text, code = run(options)
    gc.collect()
    print(text)
    kept = report.keep(name, {"benchmark": name} | about | result)
    print(f"\nkept in {kept.relative_to(ROOT)}")
    return code


Found = tuple[dict[str, Any], str, int]
"""What is kept, what is shown, the exit code."""


def _throughput(options: argparse.Namespace) -> Found:
    rows = uvloop.run(throughput.run(options.rounds, options.window))
    bars = throughput.bars(rows)
    found = {"rounds": options.rounds, "window_s": options.window, "rows": rows, "bars": bars}
    return found, _with(throughput.show(rows), bars), 0


def _deadlocks(options: argparse.Namespace) -> Found:
    async def measured() -> list[dict[str, Any]]:
        async with nats_server() as (url, _), gateway(url, NETWORK) as pid:
            return await deadlocks.run(url, NETWORK, pid, options.samples)

    rows = uvloop.run(measured())
    bars = deadlocks.bars(rows)
    return {"rows": rows, "bars": bars}, _with(deadlocks.show(rows), bars), 0


def _graph(_: argparse.Namespace) -> Found:
    rows = graph_inserts.main()
    text = report.table(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows])
    bars = [bar for row in rows for bar in _graph_bars(row)]
    return {"rows": rows, "bars": bars}, _with(text, bars), 0


def _graph_bars(row: dict[str, Any]) -> list[report.Bar]:
    what = row["what"]
    if what == "memory":
        return [report.at_most("bytes of memory for each live wait", float(row["note"].split()[0]), 1024)]
    if what.startswith(graph_inserts.SWEEP):
        return [
            report.at_most(f"{what}: s CPU in all", float(row["note"].split()[0]), 0.5),
            report.at_most(f"{what}: ms of the longest slice", row["max us"] / 1e3, 5),
        ]
    if row["deferred %"] == "":  # the machine
        return []
    insert = report.at_most(f"{what}: insert p99 us", row["p99 us"], 100)
    if what in graph_inserts.UNBOUNDED:
        return [insert]
    return [
        insert,
        report.at_most(f"{what}: deferred %", row["deferred %"], 1),
        report.at_most(f"{what}: delay p99 ms", row["delay p99 ms"], 50),
    ]


def _answers(options: argparse.Namespace) -> Found:
    async def measured() -> dict[str, Any]:
        async with nats_server() as (url, _), gateway(url, NETWORK):
            return await answers.run(url, NETWORK, options.requests, IN_FLIGHT, options.seed)

    result = uvloop.run(measured())
    return result, answers.show(result), 1 if result["faults"] else 0


def _floods(options: argparse.Namespace) -> Found:
    found = uvloop.run(floods.run(FLOOD_WINDOWS * options.window))
    bars = floods.bars(found)
    return found | {"bars": bars}, _with(floods.show(found), bars), 0


def _with(text: str, bars: list[report.Bar]) -> str:
    return "\n".join([text, "", *map(str, bars)])


DEFAULT = ("throughput", "deadlocks", "graph", "floods")
BENCHMARKS = {
    "throughput": ("Requests: contenders take turns in one run; medians of the rounds", _throughput),
    "deadlocks": ("Deadlocks: closing request to the last member's failure", _deadlocks),
    "graph": ("Graph: one wait inserted at 100 000 live waits", _graph),
    "floods": ("Floods: what one agent that floods does to another's requests", _floods),
    "answers": ("Answers: none wrong, lost or doubled", _answers),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
