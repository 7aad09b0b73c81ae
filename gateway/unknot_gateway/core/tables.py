"""All state of one network in one place, and the effects gathered while one fact is handled."""

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from typing import Final, Literal, get_args

from msgspec import Struct, field

from unknot_gateway.core.admission import Admission
from unknot_gateway.core.connections import Connections
from unknot_gateway.core.deadlines import Deadlines
from unknot_gateway.core.effects import Answer, AnyEffect, SendOutcome
from unknot_gateway.core.limits import Limits
from unknot_gateway.core.messages import MessageTable
from unknot_gateway.core.records import Agent, OpenWait, Session
from unknot_gateway.core.resources.resources import Resources
from unknot_gateway.core.sessions import SessionTable
from unknot_gateway.core.uncorrelated import Uncorrelated
from unknot_gateway.core.waiting import Waiting
from unknot_schemas import bodies, errors
from unknot_schemas.ids import EventId
from unknot_schemas.limits import DISCONNECT_GRACE_S, SESSION_LOSS_S

Policy = Literal["shadow", "refuse", "fail_all"]

_COUNTED: Final = {kind: f"outcome.{kind}" for kind in get_args(bodies.OutcomeKind)}


class KernelConfig(Struct, frozen=True, kw_only=True):
    """What an operator may set for one network."""

    policy: Policy = "fail_all"
    assume_serial: bool = True
    """Whether deadlocks that rest on agents without hello are acted on, or only noticed."""
    session_loss_s: float = SESSION_LOSS_S
    disconnect_grace_s: float = DISCONNECT_GRACE_S
    """How long a session whose connection has ended may take to come back."""
    probe_s: float = 0.25
    """How long the members of a suspected core have to say what they wait for."""
    sweep_s: float = 1.0
    """How often everything is checked anew while anybody waits."""
    detect_after_s: Mapping[str, float] = {}
    """How long a wait must have stood to count in a verdict, by its kind (reply, lock, …), else by its evidence
    (observed, reported). None named: at once; what is only reported is read twice, one heartbeat apart, in any case."""
    limits: Limits = field(default_factory=Limits)


class Tables:
    """The tables of one network. Flows read and write them; only the kernel makes one."""

    def __init__(self, network: str, epoch: int, config: KernelConfig) -> None:
        self.network = network
        self.epoch = epoch
        self.config = config
        self.limits = config.limits
        self.counters: defaultdict[str, int] = defaultdict(int)
        """What has happened how often. (No Counter: to count takes twice as long there.)"""
        self.deadlines = Deadlines()
        self.sessions = SessionTable(config.limits)
        self.messages = MessageTable(config.limits)
        self.admission = Admission(config.limits)
        self.uncorrelated = Uncorrelated(config.limits)
        self.connections = Connections(config.limits, self.deadlines, config.disconnect_grace_s)
        self.waiting = Waiting(config.limits)
        self.resources = Resources(epoch, config.limits, self.waiting, self.deadlines)
        self.began_at = math.inf
        """When this epoch's first fact came."""
        self.is_reconciling = False
        """Whether sessions that lived before this epoch are still to be heard."""
        self.opened: OpenWait | None = None
        """The wait that an agent has just opened: it may close a core."""
        self.out: list[AnyEffect] = []
        self._next_id = count(1).__next__

    def new_id(self, kind: str) -> EventId:
        """An id that nothing else in the network has: the epoch makes it unique across restarts."""
        return EventId(f"{kind}{self.epoch:x}-{self._next_id():x}")

    def zero(self, agent: Agent, now: float) -> Session:
        """The stand-in session of an agent that never said hello."""
        if agent.zero is None:
            zero = self.sessions.zero(agent, now)
            self.deadlines.set("idle", zero, now + self.limits.assumed_session_idle_s)
            return zero
        return agent.zero

    def count(self, name: str) -> None:
        """Count something that happened; nothing fails without being counted."""
        self.counters[name] += 1

    def receipt(self, reply_to: str | None, receipt: bodies.Receipt) -> None:
        """Answer with *receipt*, if anybody wants one."""
        if reply_to is not None:
            self.out.append(Answer(reply_to, receipt))

    def refuse(
        self, reply_to: str | None, event_id: str | None, code: str, message: str, **detail: object
    ) -> None:
        """Answer that nothing was done, and why; counted by code."""
        self.count(f"refused.{code}")
        error = bodies.Error(code, message, detail or None)
        self.receipt(reply_to, bodies.Receipt(False, event_id, error=error))

    def outcome(self, session: Session, outcome: bodies.Outcome, reply_to: str | None) -> None:
        """Tell *session* how one of its requests or waits ended."""
        self.counters[_COUNTED[outcome.outcome]] += 1
        self.out.append(SendOutcome(session.name, session.id, outcome, reply_to))

    def over_limit(self, reply_to: str | None, event_id: str | None, what: str) -> None:
        """Refuse because a bound is reached."""
        self.refuse(reply_to, event_id, errors.OVER_LIMIT, what, retry_after_s=self.limits.retry_after_s)
