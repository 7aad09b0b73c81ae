"""What ends with an execution: what it holds, what it will produce, what is reported of it."""

from msgspec import Struct

from unknot_gateway.core.records import Session, Strand
from unknot_gateway.core.waiting import Waiting
from unknot_schemas.ids import ExecutionId


class Tie(Struct, eq=False):
    """Something that keeps *strand* a node of the graph, also when it neither handles nor waits for anything."""

    strand: Strand


class Ties:
    """Owner of all ties, by session and execution."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self.sessions: dict[Session, dict[ExecutionId, dict[Tie, None]]] = {}
        """Those that have any."""
        self.ended: list[tuple[Session, ExecutionId]] = []
        """Executions with ties that have ended while this fact is handled."""

    def add(self, tie: Tie) -> None:
        """*tie* ends with its strand's execution, at the latest."""
        strand = tie.strand
        strand.ties += 1
        self.sessions.setdefault(strand.session, {}).setdefault(strand.execution, {})[tie] = None

    def drop(self, tie: Tie) -> None:
        """*tie* is over."""
        strand = tie.strand
        executions = self.sessions[strand.session]
        ties = executions[strand.execution]
        del ties[tie]
        if not ties:
            del executions[strand.execution]
        if not executions:
            del self.sessions[strand.session]
        strand.ties -= 1
        self._waiting.drop_if_idle(strand)

    def of_execution(self, session: Session, execution: ExecutionId) -> list[Tie]:
        """What is over when the own task of *execution* is: all but what its detached strands have."""
        ties = self.sessions.get(session, {}).get(execution, {})
        return [tie for tie in ties if not tie.strand.detached]

    def of_session(self, session: Session) -> list[Tie]:
        """All of *session*, the oldest executions first."""
        return [tie for ties in self.sessions.get(session, {}).values() for tie in ties]
