"""How ``unknot graph replay`` shows what it finds: sentences for people, one object a line for programs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from unknot_gateway.replay import (
    Cured,
    Dissolved,
    Edge,
    End,
    Finding,
    Incident,
    MalformedLine,
    Orphaned,
    Outside,
    Unresolved,
)

Time = Callable[[int], str]
_INSTANTS = frozenset({"at", "since", "deadline_at", "resolves_at", "until"})
_SECOND = 1_000_000_000


def as_json(finding: Finding, time: Time) -> bytes:
    """One line, with times as the recording has them."""
    return msgspec.json.encode(_shown(msgspec.to_builtins(finding), time))


def as_text(finding: Finding, time: Time) -> str:
    """The finding for people; may have several lines."""
    match finding:
        case MalformedLine():
            return f"line {finding.line}: {finding.why}"
        case End():
            return "\n".join(_end(finding, time))
        case Incident():
            lines: Iterable[str] = _incident(finding, time)
        case Dissolved():
            lines = _dissolved(finding)
        case Orphaned():
            lines = _orphaned(finding, time)
        case Cured():
            lines = [f"CURED       {_waits(finding.edge, time)}: {finding.because}"]
        case Unresolved():
            lines = [f"UNRESOLVED  {_of(finding.wait, time)}: {finding.why}; no edge"]
    first, *rest = lines
    return "\n".join([f"{time(finding.at)}  {first}", *(f"    {line}" for line in rest)])


def _shown(value: Any, time: Time, key: str = "") -> Any:
    if isinstance(value, dict):
        renamed = {"type": "found", "stood": "stood_s"}
        return {renamed.get(name, name): _shown(each, time, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each, time) for each in value]
    if key == "stood":
        return value / _SECOND
    return time(value) if key in _INSTANTS and value is not None else value


def _incident(found: Incident, time: Time) -> Iterator[str]:
    yield f"DEADLOCK {found.number}  {' -> '.join(found.cycle)}"
    for edge in found.edges:
        yield _waits(edge, time)
    resolves = f"; resolves by itself at {time(found.resolves_at)}" if found.resolves_at is not None else ""
    yield f"stands since {time(found.since)}{resolves}; evidence: {found.evidence}"
    if found.behind:
        yield f"blocked behind it: {', '.join(found.behind)}"
    if found.outside:
        yield f"outside it: {'; '.join(_of(each, time) for each in found.outside)}"
    yield f"remedy: {found.remedy}"


def _dissolved(found: Dissolved) -> Iterator[str]:
    yield f"DISSOLVED {found.number} {' -> '.join(found.cycle)}, after {found.stood / _SECOND:g} s"
    yield from found.because
    if not found.is_acted_on:
        yield "before the second read, one heartbeat after the first: it would not have been acted on"


def _orphaned(found: Orphaned, time: Time) -> Iterator[str]:
    yield f"ORPHANED    {_waits(found.edge, time)}"
    cure = "no lease ends it" if found.until is None else f"its lease ends at {time(found.until)}: cured then"
    yield f"{' -> '.join(found.chain)}: {found.gone} is gone; {cure}"


def _end(found: End, time: Time) -> Iterator[str]:
    at = time(found.at) if found.at is not None else "nothing said"
    standing = ", ".join(map(str, found.standing))
    yield (
        f"{at}  END  {found.incidents} deadlock{'' if found.incidents == 1 else 's'} found"
        f"{f', of which {standing} stands' if standing else ''}; {found.orphaned} orphaned"
    )
    for name, waits in (("outside", found.outside), ("unresolved", found.unresolved)):
        yield from _list(name, waits, time)
    yield (
        f"    {found.lines} lines read, {found.malformed} malformed, {found.out_of_order} out of order,"
        f" {found.ignored_releases} releases by who did not hold"
    )


def _list(name: str, waits: Sequence[Outside], time: Time) -> Iterator[str]:
    for each in waits:
        yield f"    {name}: {_of(each, time)}"


def _waits(edge: Edge, time: Time) -> str:
    own = {"artifact": "produced by", "lock": "held by"}.get(edge.kind)
    owners = f", {own} {' or '.join(edge.owners)}" if own and edge.owners else ""
    gives_up = f", gives up at {time(edge.deadline_at)}" if edge.deadline_at is not None else ""
    run = f" ({edge.run})" if edge.run else ""
    return f"{edge.agent}{run} waits for {edge.kind} {edge.id}{owners}, since {time(edge.since)}{gives_up}"


def _of(wait: Outside, time: Time) -> str:
    return f"{wait.agent} waits for {wait.kind} {wait.id} since {time(wait.since)}"
