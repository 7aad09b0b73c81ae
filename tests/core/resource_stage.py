"""A kernel whose agents lock, produce and approve."""

from typing import Any

import msgspec

from tests.core.stage import Stage
from unknot_gateway.core.effects import Answer, SendControl
from unknot_gateway.core.graph import Node
from unknot_schemas import bodies, holds, resources


class ResourceStage(Stage):
    """Agents say hello by `join`; their sessions are known by name."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.sessions: dict[str, str] = {}

    def join(self, *agents: str, **fields: Any) -> None:
        """Each says hello."""
        for agent in agents:
            self.sessions[agent] = self.hello(agent, **{"heartbeat_s": 60.0, **fields})

    def lock(self, agent: str, wait_id: str, *names: str, lease_s: float = 600.0, **fields: Any) -> None:
        """Acquire locks (``name``) and permits (``name*units``)."""
        wanted = [units(name) for name in names]
        fields = {"timeout_s": 3000.0, **fields}
        self.say(
            agent, resources.LockAcquire(wait_id, self.sessions[agent], wanted, lease_s=lease_s, **fields)
        )

    def wait(
        self, agent: str, wait_id: str, *on: bodies.WaitCondition, need: Any = "all", **fields: Any
    ) -> None:
        """Open a wait."""
        fields = {"timeout_s": 3000.0, **fields}
        self.say(agent, bodies.WaitOpen(wait_id, self.sessions[agent], list(on), need=need, **fields))

    def release(self, agent: str, hold_id: str, token: int | None = None) -> bodies.Receipt:
        """Release; the Receipt."""
        self.say(agent, resources.LockRelease(hold_id, token))
        return self.last_receipt()

    def declare(self, pool: str, capacity: int) -> bodies.Receipt:
        """So many permits."""
        self.say("anybody", resources.PoolDeclare(pool, capacity))
        return self.last_receipt()

    def publish(self, agent: str, name: str, data: object = None, **fields: Any) -> bodies.Receipt:
        """An artifact is there."""
        raw = msgspec.Raw(msgspec.json.encode(data))
        self.say(agent, resources.ArtifactPublish(name, self.sessions[agent], raw, **fields))
        return self.last_receipt()

    def produces(self, agent: str, name: str, **fields: Any) -> bodies.Receipt:
        """An execution may produce it."""
        self.say(agent, resources.ArtifactDeclare(name, self.sessions[agent], **fields))
        return self.last_receipt()

    def beat(self, agent: str, **fields: Any) -> bodies.Pulse:
        """A heartbeat; its answer."""
        self.say(agent, bodies.Heartbeat(self.sessions[agent], **fields))
        return [e.body for e in self.effects if isinstance(e, Answer) and isinstance(e.body, bodies.Pulse)][
            -1
        ]

    def bye(self, agent: str) -> None:
        """The session ends."""
        self.say(agent, bodies.Bye(self.sessions.pop(agent)))

    def token(self, wait_id: str) -> int:
        """The fencing token that a wait was granted."""
        fulfilled = self.outcomes()[wait_id].fulfilled
        assert fulfilled is not None
        assert fulfilled.fencing_token is not None
        return fulfilled.fencing_token

    def lapsed(self, agent: str) -> list[str]:
        """Holds that *agent* was told it has no more."""
        return [body.id for body in self.controls(agent) if isinstance(body, resources.Lapsed)]

    def controls_of(self, kind: type) -> list[tuple[str, Any]]:
        """Agents and bodies of control messages of one kind."""
        return [
            (e.agent, e.body) for e in self.effects if isinstance(e, SendControl) and isinstance(e.body, kind)
        ]

    @property
    def stuck(self) -> set[str]:
        """Agents that cannot go on."""
        return self._names(self.kernel.tables.waiting.graph.stuck())

    @property
    def orphaned(self) -> set[str]:
        """Agents that wait only for what is lost."""
        return self._names(self.kernel.tables.waiting.graph.orphaned())

    def _names(self, nodes: set[Node]) -> set[str]:
        return {str(self.kernel.tables.waiting.strands[node].session.name) for node in nodes}

    def leftovers(self) -> dict[str, int]:
        """Tables of resources that are not empty."""
        all_of = self.kernel.tables.resources
        graph = self.kernel.tables.waiting.graph._model
        sizes = {
            "pools": len(all_of.pools),
            "asks": all_of.pools.asks,
            "holds": len(all_of.leases),
            "wanted": all_of.artifacts.wanted,
            "productions": all_of.artifacts.productions,
            "things": len(all_of.holders),
            "reports": all_of.holders.reports,
            "approvals": len(all_of.approvals),
            "ties": len(all_of.ties.sessions),
            "waits": len(self.kernel.tables.messages.waits),
            "edges": len(graph.waits),
            "nodes": len(graph.nodes),
            "strands": len(self.kernel.tables.waiting.strands),
            "resources": len(graph.resources),
            "artifacts": len(graph.artifacts),
        }
        return {name: size for name, size in sizes.items() if size}


def units(name: str) -> holds.ResourceUnits:
    """``name`` is a lock, ``name*2`` two permits."""
    bare, star, count = name.partition("*")
    return holds.ResourceUnits(bare, "permits", int(count)) if star else holds.ResourceUnits(bare)


def leased(name: str, lease_s: float = 600.0) -> bodies.WaitCondition:
    """The same as a condition that the gateway grants."""
    wanted = units(name)
    return bodies.WaitCondition(wanted.kind, wanted.id, wanted.units, lease_s=lease_s)
