"""Verdicts for people: each component of the wait graph, worst first, and what each of its waits hangs on."""

from collections.abc import Iterator
from typing import Any, Final

_SAID: Final = {
    "DEADLOCK": "can never end",
    "LIVELOCK": "the same deadlock is built up again and again",
    None: "not judged yet",
    "ORPHANED": "goes on when the lease of a holder that was lost is over",
    "STARVATION_RISK": "all wait, and some for what nobody is known to do",
    "WAITING_OUTSIDE": "goes on when a tool or a human does",
    "CONTENTION": "goes on when its holder does, who works",
    "PROGRESSING": "goes on",
}
_UNJUDGED: Final = "not judged"


def lines(answer: dict[str, Any]) -> Iterator[str]:
    """The answer of ``api.verdicts`` as lines."""
    for component in answer["components"]:
        yield from _component(component)
    for run, found in answer["runs"].items():
        yield f"run {run}: {_with_others(found)}"
    agents = (f"{agent} {verdict or _UNJUDGED}" for agent, verdict in answer["agents"].items())
    yield f"agents: {', '.join(agents) or 'none'}"
    if answer["suspects"]:
        yield f"{answer['suspects']} strands are not judged yet: ask again"


def is_deadlocked(answer: dict[str, Any]) -> bool:
    """Whether one of the verdicts is a deadlock."""
    return any(component["verdict"] == "DEADLOCK" for component in answer["components"])


def _with_others(found: dict[str, Any]) -> str:
    others = [verdict or _UNJUDGED for verdict in found["others"]]
    return (found["verdict"] or _UNJUDGED) + (f" (also {', '.join(others)})" if others else "")


def _component(component: dict[str, Any]) -> Iterator[str]:
    yield f"{_with_others(component)}: {_SAID[component['verdict']]}"
    for cycle in component["cycles"]:
        often = f", {component['decided']} times lately" if component["decided"] else ""
        yield f"  cycle {' -> '.join(cycle)}{often}"
    for waiter in component["waiters"]:
        for edge in waiter["edges"]:
            yield f"  {_edge(waiter, edge)}"


def _edge(waiter: dict[str, Any], edge: dict[str, Any]) -> str:
    what = f"{edge['kind']} {edge['id']} {edge['type']}".rstrip()
    holders = ", ".join(edge["holders"]) or "nobody known"
    times = f"since {edge['age_s']:.1f}s, ends in {edge['deadline_in_s']:.1f}s"
    who = f"{waiter['agent']}/{waiter['execution']} {waiter['verdict'] or _UNJUDGED}"
    return f"{who}: {what} <- {holders}; {times}, {edge['evidence']} ({edge['wait']})"
