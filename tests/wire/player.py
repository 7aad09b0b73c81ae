"""Plays the steps of a case of ``cases/graphs.json`` with raw clients, and reads what the gateway makes of them.

Every execution of a case is the main of an agent of its name. Waits and what they wait for:

    exec alone      a blocking request to that agent, whose main must answer it
    anything else   ``wait.open``; an exec in it is the reply to an ``ask``
    resource        a lock where there is one unit, else a declared pool of permits, under long leases
    artifact        declared by its producers, published when it is produced
    external        a tool
    deadline        a timeout; ``tick`` waits until the gateway has told what ran out by then
    exec with gen   a new session of the same instance takes the old one's place
    crash           the session falls silent and is lost
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any, Final

from tests.wire.raw import TIMEOUT_S, Json, Net, Peer, new_session

LEASE_S: Final = 600.0
SOON_S: Final = 0.6
"""A timeout that runs out within the case."""
PAST_S: Final = 0.001
"""The wire has no instants, so what is over before it begins has the shortest timeout there is."""
PATIENCE_S: Final = 8.0


class Player:
    """One case on one network."""

    def __init__(self, net: Net, steps: list[Json], *, heartbeat_s: float | None = None) -> None:
        """*heartbeat_s*: between two heartbeats of each agent; None: the case is over before one is due."""
        self._net = net
        self._heartbeat_s = heartbeat_s
        self._peers: dict[str, Peer] = {}
        self._aliases = {step["from"]: step["to"] for step in steps if step["op"] == "alias"}
        self._ticks = [step["now"] for step in steps if step["op"] == "tick"]
        self._now = 0.0
        self._kinds: dict[str, str] = {}
        self._holds: dict[tuple[str, str], str] = {}
        self._waits: dict[str, tuple[Peer, Json]] = {}
        self._beats: dict[str, AsyncExitStack] = {}

    async def close(self) -> None:
        """No more heartbeats."""
        for beats in self._beats.values():
            await beats.aclose()

    async def play(self, step: Json) -> None:
        """One step that is no ``expect``."""
        await getattr(self, f"_{step['op']}")(**{k: v for k, v in step.items() if k != "op"})

    # -- who and what

    def _id(self, plain: str) -> str:
        return f"{plain}-{self._net.tag}"

    async def _peer(self, plain: str) -> Peer:
        name = plain.removeprefix("agent:")
        name = self._aliases.get(name, name)
        if name not in self._peers:
            peer = self._peers[name] = await self._net.peer(
                name, instance=name, heartbeat_s=self._heartbeat_s
            )
            if self._heartbeat_s is not None:
                self._beats[name] = AsyncExitStack()
                await self._beats[name].enter_async_context(peer.beating(self._heartbeat_s / 2))
        return self._peers[name]

    def _target(self, plain: str, peer: Peer) -> str:
        return f"agent:{peer.agent}" if plain.startswith("agent:") else peer.agent

    # -- waits

    async def _wait(
        self,
        id: str,
        waiter: str,
        on: list[Json],
        mode: str = "all",
        k: int | None = None,
        gen: int | None = None,
        deadline: float | None = None,
    ) -> None:
        peer, timeout_s = await self._peer(waiter), self._timeout_s(deadline)
        is_request = len(on) == 1 and "exec" in on[0] and gen is None
        if is_request:
            other = await self._peer(on[0]["exec"])
            await peer.request(self._target(on[0]["exec"], other), id=self._id(id), timeout_s=timeout_s)
        else:
            conditions = [await self._condition(peer, each) for each in on]
            fields: Json = {
                "need": k if mode == "k" else mode,
                "generation": gen or 0,
                "timeout_s": timeout_s,
            }
            receipt = await peer.wait_open(*conditions, **fields, id=self._id(id))
            assert receipt["ok"], receipt
        self._waits[id] = (peer, {"deadline": deadline, "gen": gen, "is_request": is_request})
        if timeout_s == PAST_S:
            await self._expired(id)

    def _timeout_s(self, deadline: float | None) -> float:
        if deadline is None or all(deadline > tick for tick in self._ticks):
            return TIMEOUT_S
        return SOON_S if deadline > self._now else PAST_S

    async def _condition(self, peer: Peer, condition: Json) -> Json:
        if "exec" in condition:
            other = await self._peer(condition["exec"])
            receipt = await peer.ask(self._target(condition["exec"], other))
            assert receipt["ok"], receipt
            return {"kind": "reply", "id": receipt["id"]}
        if "artifact" in condition:
            return {"kind": "artifact", "id": self._id(condition["artifact"])}
        if "resource" in condition:
            return {**self._units(condition["resource"], condition["units"]), "lease_s": LEASE_S}
        kind, _, name = condition["external"].partition(":")
        return {"kind": kind, "id": name}

    async def _close(self, id: str, gen: int | None = None) -> None:
        peer, known = self._waits[id]
        if known["is_request"]:
            await peer.cancel(self._id(id))
            return
        receipt = await peer.verb("wait.close", id=self._id(id), generation=gen)
        is_old = gen is not None and gen < (known["gen"] or 0)
        assert receipt["ok"] is not is_old, receipt
        if not is_old:
            peer.open.discard(self._id(id))

    async def _exec(self, id: str, gen: int) -> None:
        assert gen > 0, "a new attempt"
        peer = Peer(self._net, self._peers[id].agent, new_session())
        self._net.peers.append(peer)
        await peer.listen()
        await peer.hello(instance=id, heartbeat_s=self._heartbeat_s)
        self._peers[id] = peer

    async def _expired(self, id: str) -> None:
        peer, _ = self._waits.pop(id)
        assert (await peer.outcome(self._id(id)))["outcome"] == "expired"

    async def _tick(self, now: float) -> None:
        self._now = now
        for wait_id, (_, known) in list(self._waits.items()):
            if known["deadline"] is not None and known["deadline"] <= now:
                await self._expired(wait_id)

    # -- resources

    def _units(self, plain: str, units: int) -> Json:
        return {"kind": self._kinds[plain], "id": self._id(plain), "units": units}

    async def _resource(self, id: str, capacity: int, held: Json) -> None:
        self._kinds[id] = "lock" if capacity == 1 else "permits"
        if capacity != 1:
            body = {"id": self._id(id), "capacity": capacity}
            assert (await self._net.verb(self._net.name("ops"), "pool.declare", body))["ok"]
        for holder, units in held.items():
            peer, hold_id = await self._peer(holder), self._id(f"{id}-{holder}".replace(":", "_"))
            resources = [self._units(id, units)]
            await peer.verb(
                "lock.acquire", id=hold_id, resources=resources, lease_s=LEASE_S, timeout_s=TIMEOUT_S
            )
            assert (await peer.outcome(hold_id))["outcome"] == "granted"
            self._holds[id, holder] = hold_id

    async def _release(self, resource: str, holder: str) -> None:
        peer = self._peers[holder]
        assert (await peer.verb("lock.release", id=self._holds[resource, holder]))["ok"]

    async def _artifact(self, id: str, producers: list[str]) -> None:
        for producer in producers:
            peer = await self._peer(producer)
            assert (await peer.verb("artifact.declare", id=self._id(id)))["ok"]
            self._holds[id, "producer"] = producer

    async def _produce(self, id: str) -> None:
        peer = self._peers[self._holds[id, "producer"]]
        assert (await peer.verb("artifact.publish", id=self._id(id)))["ok"]

    async def _crash(self, id: str) -> None:
        peer = self._peers[id]
        await self._beats.pop(id).aclose()
        give_up = time.monotonic() + PATIENCE_S
        while any(row["session"] == peer.session for row in (await self._net.api("agents"))["rows"]):
            assert time.monotonic() < give_up, f"{id} is not lost"
            await asyncio.sleep(0.05)

    async def _alias(self, **_: Any) -> None:
        """Known from the beginning."""

    # -- what the gateway says

    async def seen(self) -> Json:
        """What `expect` compares, by the verdicts; and what the engine says, by the exported graph, is the same."""
        await self._net.settled()
        answer = await self._net.api("verdicts", {"limit": 5_000})
        components = [c for c in answer["components"] if any(self._is_ours(agent) for agent in c["agents"])]
        found: Json = {
            "deadlocked": [],
            "cycles": [],
            "cores": [],
            "tail": [],
            "orphaned": [],
            "unjudged": [],
        }
        for component in components:
            found["cycles"] += [self.plain(cycle[:-1]) for cycle in component["cycles"]]
            core = [self._plain(w["agent"]) for w in component["waiters"] if w["in_core"]]
            found["cores"] += [sorted(core)] if core else []
            for waiter in component["waiters"]:
                self._sort_in(found, waiter, self._plain(waiter["agent"]))
        return {key: sorted(values) for key, values in found.items()}

    def _sort_in(self, found: Json, waiter: Json, name: str) -> None:
        match waiter["verdict"]:
            case "DEADLOCK":
                found["deadlocked"].append(name)
                if not waiter["in_core"]:
                    found["tail"].append(name)
            case "ORPHANED":
                found["orphaned"].append(name)
            case None:
                found["unjudged"].append(name)
            case _:
                pass

    async def engine(self) -> Json:
        """The last step of the exported graph, of this case's agents; empty: suspects are left, nobody knows yet."""
        await self._net.settled()
        steps = (await self._net.api("graph", {"limit": 5_000}))["steps"]
        if not steps or steps[-1]["op"] != "expect":
            return {}
        expect = {key: value for key, value in steps[-1].items() if key != "op"}
        return {key: self._ours(value) for key, value in expect.items()}

    def _ours(self, values: list[Any]) -> list[Any]:
        if values and isinstance(values[0], list):
            return [ours for value in values if (ours := self._ours(value))]
        return [self._plain(name.split("#")[0]) for name in values if self._is_ours(name.split("#")[0])]

    def own(self, event: Json) -> list[str]:
        """The cycle of a deadlock of this case; empty: it is another's."""
        cycle: list[str] = event["cycle"]
        return cycle if self._is_ours(cycle[0]) else []

    def plain(self, agents: list[str]) -> list[str]:
        """Agents by the names of the case."""
        return [self._plain(agent) for agent in agents]

    def _is_ours(self, agent: str) -> bool:
        return agent.endswith(f"-{self._net.tag}")

    def _plain(self, agent: str) -> str:
        return agent.removesuffix(f"-{self._net.tag}")
