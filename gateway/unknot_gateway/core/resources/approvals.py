"""Approvals that are waited for, by whoever must decide."""

from collections.abc import Iterator
from typing import Final

from unknot_gateway.core.records import OpenWait
from unknot_schemas import bodies, resources
from unknot_schemas.ids import AgentId, EventId, agent_id

HUMAN: Final = "human:"


class Approvals:
    """Owner of all open approvals: the conditions of kind approval of open waits."""

    def __init__(self) -> None:
        self._open: dict[EventId, OpenWait] = {}
        self.decisions = 0
        """That are waited for: a wait may need several."""
        self._of_agent: dict[AgentId, dict[EventId, OpenWait]] = {}
        self.unshown: list[OpenWait] = []
        """Nobody has been told of these yet."""

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> Iterator[OpenWait]:
        """Waits with an open approval, oldest first."""
        yield from self._open.values()

    def of_agent(self, name: AgentId) -> list[OpenWait]:
        """Those that agent *name* must decide, oldest first."""
        return list(self._of_agent.get(name, {}).values())

    def enter(self, wait: OpenWait, condition: bodies.WaitCondition) -> None:
        """*wait* waits for that decision."""
        if wait.id not in self._open:
            self.unshown.append(wait)
        self._open[wait.id] = wait
        self.decisions += 1
        if (name := approver(condition)) is not None:
            self._of_agent.setdefault(name, {})[wait.id] = wait

    def leave(self, wait: OpenWait, condition: bodies.WaitCondition) -> None:
        """It waits no more."""
        self._open.pop(wait.id, None)
        self.decisions -= 1
        name = approver(condition)
        if name is not None and name in self._of_agent:
            self._of_agent[name].pop(wait.id, None)
            if not self._of_agent[name]:
                del self._of_agent[name]

    def find(self, approval_id: str, by: str) -> tuple[OpenWait, int] | None:
        """The undecided condition of wait *approval_id* that *by* (``human:<name>``, or an agent) may decide."""
        wait = self._open.get(EventId(approval_id))
        if wait is None:
            return None
        for index, condition in undecided(wait):
            if condition.id == by or agent_id(condition.id) == by:
                return wait, index
        return None

    def has(self, approval_id: str) -> bool:
        """Whether somebody waits for a decision under that id."""
        return EventId(approval_id) in self._open


def undecided(wait: OpenWait) -> Iterator[tuple[int, bodies.WaitCondition]]:
    """The approvals that *wait* still waits for, with their places."""
    for index, condition in enumerate(wait.body.on):
        if condition.kind == "approval" and index not in wait.taken and index not in wait.spent:
            yield index, condition


def approver(condition: bodies.WaitCondition) -> AgentId | None:
    """The agent that must decide; None where it is a human, or nobody that can be named."""
    return None if condition.id.startswith(HUMAN) else agent_id(condition.id)


def requested(wait: OpenWait, condition: bodies.WaitCondition, now: float) -> resources.ApprovalRequested:
    """What whoever must decide is told."""
    body = wait.body
    return resources.ApprovalRequested(
        wait.id,
        wait.session.name,
        condition.id,
        max(wait.deadline_at - now, 0.0),
        data=body.data,
        reason=body.reason,
        run=body.run,
    )
