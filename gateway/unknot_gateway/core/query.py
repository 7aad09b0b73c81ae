"""What the fronts (NATS api, HTTP, command) may read of a kernel; they have no logic of their own."""

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from unknot_gateway.core.kernel import Kernel


class WaitRow(Struct, frozen=True, gc=False):
    """One open wait. *state*: absent, queued, parked, delivered, deferred, open; *position*: in its queue, from 1."""

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


class AgentRow(Struct, frozen=True, gc=False):
    """One session of an agent."""

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


def waits(kernel: "Kernel", now: float) -> list[WaitRow]:
    """All open waits, oldest first."""
    return []


def agents(kernel: "Kernel", now: float) -> list[AgentRow]:
    """All live sessions, by agent."""
    return []


def stats(kernel: "Kernel", now: float) -> Stats:
    """Sizes and counters."""
    return Stats(kernel.network, kernel.epoch, "", {}, {})
