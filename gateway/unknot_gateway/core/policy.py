"""From verdict to decision: who fails, what everybody is told, and what would have helped."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from unknot_gateway.core.graph import Core
from unknot_gateway.core.incidents import Evidence, Incident, Members, Part, Reading, generation_of, owner_of
from unknot_gateway.core.records import Message, OpenWait, Session, Strand
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors
from unknot_schemas.ids import MAIN
from unknot_schemas.limits import REPORTED_ENTRIES_MAX

RETRY_AFTER_S: Final = 1.0
"""What a member is advised to wait before it tries again."""


class Decision(Struct):
    """What is done about one confirmed core: *fails* end, the rest is only told."""

    event: bodies.DeadlockDetected
    fails: list[Part]
    told: list[Session]
    """Sessions of the members."""
    tails: dict[Session, list[str]]
    """Sessions stuck only behind the core, and their waits that are."""


def decide(tables: Tables, members: Members, incident: Incident, reading: Reading, now: float) -> Decision:
    """Apply the network's policy to a confirmed core."""
    evidence = members.evidence(reading)
    fails = _failing(tables, incident, reading.parts, evidence)
    tails = _tails(tables, members, reading.core)
    event = _event(tables, incident, reading, evidence, tails, now)
    return Decision(event, fails, reading.sessions, tails)


def outcome_error(event: bodies.DeadlockDetected) -> bodies.Error:
    """The error of a wait that fails in the deadlock that *event* tells of."""
    return bodies.Error(
        errors.DEADLOCK,
        event.message,
        {
            "incident": event.incident,
            "cycle": event.cycle,
            "request_ids": event.request_ids,
            "victim": event.victim,
            "remedy": event.remedy,
            "chain": event.cycle,
            "retry_after_s": event.retry_after_s,
        },
    )


def _failing(tables: Tables, incident: Incident, parts: list[Part], evidence: Evidence) -> list[Part]:
    config = tables.config
    if config.policy == "shadow" or (evidence == "assumed" and not config.assume_serial):
        return []
    closing = incident.closing
    if config.policy == "refuse" and closing is not None and closing in parts:
        group = closing.group if isinstance(closing, Message) else None
        return [*group.open.values()] if group is not None else [closing]
    return parts


def _tails(tables: Tables, members: Members, core: Core) -> dict[Session, list[str]]:
    waiting = tables.waiting
    inside = {waiting.strands[node].session for node in core.members}
    found: dict[Session, list[str]] = {}
    for node in waiting.graph.tail_of(core):
        session = waiting.strands[node].session
        if session in inside:
            continue
        waits = found.setdefault(session, [])
        for handle in waiting.graph.waits_of(node):
            if (wait := waiting.waits.get(handle)) is not None:
                waits += [part.id for part in members.open_parts(wait)]
    return dict(sorted(found.items(), key=lambda item: (item[0].name, item[0].generation)))


def _event(
    tables: Tables,
    incident: Incident,
    reading: Reading,
    evidence: Evidence,
    tails: dict[Session, list[str]],
    now: float,
) -> bodies.DeadlockDetected:
    parts = reading.parts
    cycle = agents_of([tables.waiting.strands[node] for node in reading.core.cycle])
    kinds = {on.kind for part in parts if isinstance(part, OpenWait) for on in part.body.on}
    remedy = _remedy(reading.strands, cycle, kinds)
    shown = cycle if len(cycle) <= REPORTED_ENTRIES_MAX else [*cycle[: REPORTED_ENTRIES_MAX - 1], cycle[-1]]
    arrows = " -> ".join(shown if len(cycle) <= REPORTED_ENTRIES_MAX else [*shown[:-1], "…", shown[-1]])
    return bodies.DeadlockDetected(
        incident.id,
        reading.digest,
        tables.network,
        shown,
        [_member_wait(tables, part, now) for part in parts[:REPORTED_ENTRIES_MAX]],
        [part.id for part in parts[:REPORTED_ENTRIES_MAX]],
        sorted({str(session.name) for session in tails})[:REPORTED_ENTRIES_MAX],
        tables.config.policy,
        evidence,
        remedy,
        f"deadlock: {arrows}; {remedy}",
        len({session.name for session in reading.sessions}),
        len(parts),
        len({session.name for session in tails}),
        RETRY_AFTER_S,
    )


def agents_of(strands: Sequence[Strand]) -> list[str]:
    """The cycle by agents, from the least one, first == last; steps inside one agent are one."""
    names: list[str] = []
    for strand in strands:
        if not names or names[-1] != strand.session.name:
            names.append(strand.session.name)
    while len(names) > 1 and names[0] == names[-1]:
        names.pop()
    least = names.index(min(names))
    names = names[least:] + names[:least]
    return [*names, names[0]]


def _member_wait(tables: Tables, part: Part, now: float) -> bodies.MemberWait:
    session = owner_of(part)
    if isinstance(part, Message):
        envelope = part.envelope
        return bodies.MemberWait(
            part.id,
            session.name,
            session.id,
            envelope.execution or MAIN,
            0,
            "reply",
            part.target,
            max(now - part.since, 0.0),
            strand=envelope.strand,
            type=part.type,
            deadline_in_s=max(part.deadline_at - now, 0.0),
            run=envelope.run,
        )
    false = tables.waiting.graph.false_conditions(part.wait.handle) if part.wait is not None else []
    first = part.body.on[false[0] if false else 0]
    return bodies.MemberWait(
        part.id,
        session.name,
        session.id,
        part.body.execution or MAIN,
        generation_of(part),
        first.kind,
        first.id,
        max(now - part.since, 0.0),
        strand=part.body.strand,
        deadline_in_s=max(part.deadline_at - now, 0.0),
        run=part.body.run,
    )


def _remedy(strands: list[Strand], cycle: list[str], kinds: set[str]) -> str:
    """One sentence: what to change so that this cannot happen again. *kinds*: of conditions waited for."""
    if kinds and kinds <= {"lock", "permits"}:
        if len(cycle) == 2:
            return f"{cycle[0]} waits for what it holds itself: acquire all at once, or release before acquiring again"
        return "acquire the locks in one step (all or none), or everywhere in the same order"
    if kinds & {"lock", "permits"}:
        return f"{cycle[0]}: release locks and permits before waiting for something else"
    if len(cycle) == 2:
        return _self_remedy(strands, cycle[0])
    serial = [
        s for s in strands if s.leg is not None and s.leg.pool is not None and s.leg.pool.slots is not None
    ]
    if serial:
        least = min(serial, key=lambda strand: strand.session.name)
        assert least.leg is not None
        assert least.leg.pool is not None
        name, slots = least.session.name, least.leg.pool.slots
        if slots == 1:
            return f"{name} serves one event at a time: concurrency=2 or ctx.defer()"
        return f"all {slots} slots of {name} wait: more concurrency, or ctx.defer() instead of waiting in a handler"
    loops = min((s.session.name for s in strands if s.execution == MAIN), default=None)
    if loops is not None:
        return f"{loops} reads no event while it waits: answer first, or serve events in a handler (Agent)"
    return f"let {cycle[0]} ask without waiting: ask() and defer() instead of send_and_wait()"


def _self_remedy(strands: list[Strand], name: str) -> str:
    pools = [s.leg.pool for s in strands if s.leg is not None and s.leg.pool is not None]
    slots = next((pool.slots for pool in pools if pool.slots is not None), None)
    if slots is None:
        return f"{name} waits for itself: call the function instead of sending a request"
    if slots == 1:
        return f"{name} waits for its own only slot: concurrency=2, or call the function instead of sending"
    return (
        f"all {slots} slots of {name} wait for the same slots: serve the sub-requests in a pool of their own"
    )
