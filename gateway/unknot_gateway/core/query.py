"""What the fronts (NATS api, HTTP, command) may read of a kernel; they have no logic of their own."""

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from unknot_gateway.core import explain
from unknot_gateway.core.graph import Node
from unknot_gateway.core.graph import Wait as GraphWait
from unknot_gateway.core.records import Leg, Message, OpenWait, Session, Wait
from unknot_gateway.core.resources.approvals import undecided
from unknot_gateway.core.verdicts import Judge, Verdicts
from unknot_schemas.ids import MAIN

if TYPE_CHECKING:
    from unknot_gateway.core.kernel import Kernel


class WaitRow(Struct, frozen=True, gc=False):
    """One open wait. *state*: a leg's (see records), queued or reserved for a lock or permits, or open.

    *position*: in its queue, from 1; *orphaned*: it hangs only on what a lost session still holds.
    """

    id: str
    waiter: str
    session: str
    execution: str
    strand: str
    kind: str
    target: str
    type: str
    state: str
    position: int | None
    holder: str | None
    since_s: float
    deadline_in_s: float
    stuck: bool
    run: str | None
    chain: list[str]
    orphaned: bool


class ApprovalRow(Struct, frozen=True, gc=False):
    """One decision that somebody waits for. *by* must decide: ``human:<name>``, or an agent."""

    id: str
    waiter: str
    by: str
    since_s: float
    deadline_in_s: float
    reason: str | None
    data: msgspec.Raw | None
    run: str | None


class HoldRow(Struct, frozen=True, gc=False):
    """Units of a lock or of permits that somebody holds. *is_lost*: its session is: the lease runs out.

    *of*: how many units there are in all; *waiting*: how many waits queue for them.
    """

    id: str
    agent: str
    session: str
    execution: str
    strand: str
    kind: str
    target: str
    units: int
    of: int
    waiting: int
    since_s: float
    lapses_in_s: float
    is_lost: bool


class AgentRow(Struct, frozen=True, gc=False):
    """One session of an agent. *verdict*: idle, working, waiting, deadlocked, silent."""

    agent: str
    session: str
    instance: str | None
    heard_s: float
    fresh: bool
    slots: int | None
    busy: int
    queued: int
    open: int
    held: int
    sdk: str | None
    verdict: str


class Stats(Struct, frozen=True, gc=False):
    """Sizes of all tables, and counters since the start."""

    network: str
    epoch: int
    policy: str
    tables: dict[str, int]
    counters: dict[str, int]


class GraphSteps(Struct, frozen=True, gc=False):
    """The graph in the case format. *total*: its waits; *suspects*: nodes not judged yet."""

    network: str
    epoch: int
    total: int
    suspects: int
    steps: list[dict[str, Any]]


def waits(kernel: "Kernel", now: float, limit: int | None = None) -> list[WaitRow]:
    """Open waits, oldest first, at most *limit*."""
    tables = kernel.tables
    stuck, orphaned = tables.waiting.graph.stuck(), tables.waiting.graph.orphaned()
    requests = (message for message in tables.messages.open.values() if message.verb != "send")
    rows = [_request_row(kernel, message, stuck, orphaned, now) for message in islice(requests, limit)]
    opened = islice(tables.messages.waits.values(), limit)
    rows += [_wait_row(kernel, wait, stuck, orphaned, now) for wait in opened]
    return sorted(rows, key=lambda row: -row.since_s)[:limit]


def approvals(kernel: "Kernel", now: float, limit: int | None = None) -> list[ApprovalRow]:
    """Decisions that are waited for, oldest first, at most *limit*."""
    rows = (
        ApprovalRow(
            wait.id,
            wait.session.name,
            condition.id,
            now - wait.since,
            wait.deadline_at - now,
            wait.body.reason,
            wait.body.data,
            wait.body.run,
        )
        for wait in kernel.tables.resources.approvals.all()
        for _, condition in undecided(wait)
    )
    return list(islice(rows, limit))


def holds(kernel: "Kernel", now: float, limit: int | None = None) -> list[HoldRow]:
    """What is held of locks and permits, the longest held first, at most *limit*."""
    rows = (
        HoldRow(
            hold.id,
            hold.strand.session.name,
            hold.strand.session.id,
            hold.strand.execution,
            hold.strand.id,
            pool.key[0],
            pool.key[1],
            units,
            pool.capacity,
            len(pool.queue),
            now - hold.since,
            hold.lapses_at - now,
            not hold.strand.session.live,
        )
        for hold in kernel.tables.resources.leases.all()
        for pool, units in hold.parts
    )
    return list(islice(rows, limit))


def waits_total(kernel: "Kernel") -> int:
    """How many waits are open."""
    return sum(len(session.open) for session in kernel.tables.sessions.all())


def agents(kernel: "Kernel", now: float) -> list[AgentRow]:
    """All live sessions, by agent."""
    stuck = kernel.tables.waiting.graph.stuck()
    sessions = sorted(kernel.tables.sessions.all(), key=lambda session: (session.name, session.generation))
    return [_agent_row(session, stuck, now) for session in sessions]


def stats(kernel: "Kernel") -> Stats:
    """Sizes and counters."""
    tables = kernel.tables
    sizes = {
        "agents": len(tables.sessions.agents),
        "sessions": sum(len(agent.sessions) for agent in tables.sessions.agents.values()),
        "messages": len(tables.messages.open),
        "message_bytes": tables.messages.open_bytes,
        "waits": len(tables.messages.waits),
        "edges": len(tables.waiting.graph),
        "nodes": len(tables.waiting.strands),
        "remembered": tables.messages.remembered,
        "kept_bytes": tables.messages.kept_bytes,
        "deadlines": len(tables.deadlines),
        "groups": len(kernel.groups),
        "incidents": len(kernel.detector.incidents),
        "suspects": tables.waiting.graph.suspects,
        "queued": sum(agent.queued for agent in tables.sessions.agents.values()),
        "pools": len(tables.resources.pools),
        "holds": len(tables.resources.leases),
        "artifacts": tables.resources.artifacts.published,
        "artifact_bytes": tables.resources.artifacts.published_bytes,
        "productions": tables.resources.artifacts.productions,
        "reports": tables.resources.holders.reports,
        "approvals": len(tables.resources.approvals),
    }
    return Stats(kernel.network, kernel.epoch, kernel.config.policy, sizes, dict(kernel.counters))


def graph(kernel: "Kernel", limit: int) -> GraphSteps:
    """The wait graph as it stands; at most *limit* waits, those that cannot end first."""
    waiting = kernel.tables.waiting

    def id_of(handle: GraphWait) -> str | None:
        wait = waiting.waits.get(handle)
        part = explain.first_open(wait) if wait is not None else None
        return part.id if part is not None else None

    steps = waiting.graph.steps(id_of, limit)
    return GraphSteps(kernel.network, kernel.epoch, len(waiting.graph), waiting.graph.suspects, steps)


def verdicts(kernel: "Kernel", now: float, limit: int) -> Verdicts:
    """The verdicts on who waits for one another, the worst first; at most *limit* waits."""
    return Judge(kernel, now, min(limit, kernel.tables.limits.verdict_waits)).verdicts()


def _request_row(
    kernel: "Kernel", message: Message, stuck: set[Node], orphaned: set[Node], now: float
) -> WaitRow:
    leg = next((leg for leg in message.legs if not leg.ended), None)
    envelope = message.envelope
    return WaitRow(
        message.id,
        message.source.name,
        message.source.id,
        envelope.execution or MAIN,
        envelope.strand or "",
        "request" if message.blocks else "ask",
        message.target,
        message.type,
        leg.state if leg is not None else "open",
        kernel.tables.admission.position(leg) if leg is not None else None,
        _holder(leg),
        now - message.opened_at,
        message.deadline_at - now,
        _is_stuck(message.wait, stuck),
        envelope.run,
        explain.chain(kernel.tables, message),
        _is_stuck(message.wait, orphaned),
    )


def _wait_row(kernel: "Kernel", wait: OpenWait, stuck: set[Node], orphaned: set[Node], now: float) -> WaitRow:
    body = wait.body
    missing = next((at for at in range(len(body.on)) if at not in wait.taken), 0)
    state, position, holder = _place(kernel, wait, missing)
    return WaitRow(
        wait.id,
        wait.session.name,
        wait.session.id,
        body.execution or MAIN,
        body.strand or "",
        body.on[missing].kind,
        body.on[missing].id,
        "",
        state,
        position,
        holder,
        now - wait.since,
        wait.deadline_at - now,
        _is_stuck(wait.wait, stuck),
        body.run,
        explain.chain(kernel.tables, wait),
        _is_stuck(wait.wait, orphaned),
    )


def _place(kernel: "Kernel", wait: OpenWait, index: int) -> tuple[str, int | None, str | None]:
    """State, place in the queue and first holder, where it waits for a lock or permits."""
    resources = kernel.tables.resources
    ask = next((ask for ask in resources.pools.of(wait) if ask.index == index), None)
    if ask is None:
        return "open", None, None
    holds = resources.leases.of_pool(ask.pool.key)
    session = holds[0].strand.session if holds else None
    position = resources.pools.position(ask)
    state = "reserved" if ask in ask.pool.places else "queued"
    return state, position, f"{session.name}/{session.id}" if session is not None else None


def _agent_row(session: Session, stuck: set[Node], now: float) -> AgentRow:
    slots = [pool.slots for pool in session.pools]
    heard_s = now - session.heard_at
    return AgentRow(
        session.name,
        session.id,
        session.hello.instance if session.hello is not None else None,
        heard_s,
        heard_s <= 2 * session.heartbeat_s,
        None if None in slots else sum(slot for slot in slots if slot is not None),
        sum(pool.used for pool in session.pools),
        session.agent.queued,
        len(session.open),
        len(session.held),
        session.hello.sdk if session.hello is not None else None,
        _verdict(session, stuck, now),
    )


def _verdict(session: Session, stuck: set[Node], now: float) -> str:
    strands = session.strands.values()
    if any(strand.node in stuck for strand in strands):
        return "deadlocked"
    if session.said_hello and now - session.heard_at > 2 * session.heartbeat_s:
        return "silent"
    if any(isinstance(item, OpenWait) or item.blocks for item in session.open.values()):
        return "waiting"
    return "working" if session.held else "idle"


def _holder(leg: Leg | None) -> str | None:
    if leg is None or leg.session is None:
        return None
    return f"{leg.session.name}/{leg.session.id}"


def _is_stuck(wait: Wait | None, stuck: set[Node]) -> bool:
    return wait is not None and wait.strand.node in stuck
