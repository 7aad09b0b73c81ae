"""What a wait really hangs on, for people: a chain of names, followed from record to record."""

from itertools import islice
from typing import Final

from unknot_gateway.core.records import Leg, Message, OpenWait, Strand, Wait
from unknot_gateway.core.tables import Tables
from unknot_schemas.ids import MAIN, OWN_TASK, EventId

_OUTSIDE = ("tool", "human")
_SEARCH_MAX: Final = 1_000
"""Open requests of one session that are searched for the one that an execution waits for."""


def chain(tables: Tables, of: Message | OpenWait) -> list[str]:
    """Names of what *of* hangs on, step by step, at most ``chain_max``; a repeat ends it."""
    found: list[str] = []
    seen: set[int] = set()
    step: Message | OpenWait | None = of
    while step is not None and len(found) < tables.limits.chain_max:
        if id(step) in seen:
            break
        seen.add(id(step))
        if isinstance(step, OpenWait):
            found += [f"{condition.kind}:{condition.id}" for condition in step.body.on[:8]]
            asked = _asked_for(tables, step)
            if asked is None:
                found += _behind(tables, step)
            step = asked
            continue
        leg = _pending(step)
        if leg is None:
            break
        found.append(_name(leg))
        step = _next(tables, leg)
    return found


def sentence(steps: list[str]) -> str:
    """The chain as the end of a sentence."""
    if not steps:
        return "nothing is known of what it hung on"
    if len(steps) == 1:
        return f"it hung on {steps[0]}"
    if steps[-1].startswith(_OUTSIDE):
        return f"blocked on {steps[-1].replace(':', ' ', 1)} via {', '.join(steps[:-1])}"
    return f"it hung on {' -> '.join(steps)}"


def _pending(message: Message) -> Leg | None:
    return next((leg for leg in message.legs if not leg.ended), None)


def _name(leg: Leg) -> str:
    agent = leg.agent.id
    match leg.state:
        case "absent" | "unheard":
            return f"{agent} (not there)"
        case "queued" | "parked":
            return f"{agent} (queued: no free slot)"
        case "deferred" if leg.by is None:
            return f"{agent} (deferred: an answer from outside)"
        case "deferred":
            return f"{agent}/{leg.by.execution if leg.by else ''}"
        case _:
            return f"{agent}/{leg.strand.execution if leg.strand is not None else leg.message.id}"


def _next(tables: Tables, leg: Leg) -> Message | OpenWait | None:
    """The oldest thing that whoever must answer *leg* waits for itself."""
    if leg.state == "deferred":
        return _first_wait(tables, leg.by) if leg.by is not None else None
    if leg.state in ("running", "unheard"):
        return _first_wait(tables, leg.strand) or _asked_by(leg)
    for pool in leg.lane.pools if leg.lane is not None else ():
        if pool.main:
            return _first_wait(tables, pool.session.strands.get((MAIN, OWN_TASK)))
        for other in pool.session.held.values():
            found = _first_wait(tables, other.strand) or _asked_by(other)
            if other.pool is pool and found is not None:
                return found
    return None


def _behind(tables: Tables, wait: OpenWait) -> list[str]:
    """Whose turn it is, for a wait that is no request: executions, from step to step."""
    if wait.wait is None:
        return []
    waiting = tables.waiting
    nodes = waiting.graph.chain(wait.wait.handle, tables.limits.chain_max)
    strands = (waiting.strands.get(node) for node in nodes[1:])
    return [
        f"{strand.session.name}/{strand.execution}" + (" (lost)" if strand.is_lost else "")
        for strand in strands
        if strand is not None
    ]


def _first_wait(tables: Tables, strand: Strand | None) -> Message | OpenWait | None:
    if strand is None:
        return None
    for handle in tables.waiting.graph.waits_of(strand.node):
        wait = tables.waiting.waits.get(handle)
        if wait is not None and (found := first_open(wait)) is not None:
            return found
        inner = tables.waiting.implied.get(handle)
        if inner is not None and inner is not strand:
            for deeper in tables.waiting.graph.waits_of(inner.node):
                wait = tables.waiting.waits.get(deeper)
                if wait is not None and (found := first_open(wait)) is not None:
                    return found
    return None


def _asked_by(leg: Leg) -> Message | None:
    """The oldest request of the execution that handles *leg*; most are not in the graph."""
    if leg.session is None:
        return None
    for item in islice(leg.session.open.values(), _SEARCH_MAX):
        if isinstance(item, Message) and item.blocks and item.envelope.execution == leg.message.id:
            return item
    return None


def first_open(wait: Wait) -> Message | OpenWait | None:
    """The first part of *wait* that is still open."""
    if wait.opened is not None:
        return wait.opened
    return next((message for message in wait.messages if message.is_open), None)


def _asked_for(tables: Tables, wait: OpenWait) -> Message | None:
    for condition in wait.body.on:
        if condition.kind == "reply":
            return tables.messages.open.get(EventId(condition.id))
    return None
