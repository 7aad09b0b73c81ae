"""Random lives of agents: the verdicts, read from records, agree with what the engine's own graph says.

The graph is exported as steps, and followed naively. A request whose handler waits for nothing is no wait of it: who
waits there waits for somebody who works. A failing seed is the test's parameter.
"""

import random
from typing import Any

import pytest

from tests.core.resource_stage import ResourceStage
from unknot_gateway.core import query
from unknot_gateway.core.verdicts import Verdicts, Waiter
from unknot_schemas import bodies, resources
from unknot_schemas.bodies import WaitCondition

EVERYTHING = 10_000
SOMEBODY = "a free slot"
AGENTS = ("ash", "birch", "cedar", "elm", "fir")
STEPS = 60


class Life:
    """Random verbs of a few agents; what they hold in their hands is remembered."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stage = ResourceStage(policy="shadow", session_loss_s=5.0, sweep_s=1e9)
        self.stage.join("ash", "birch")
        self.stage.join("cedar", "elm", "fir", concurrency=1)
        self.stage.declare("gpu", 2)
        self._made = 0

    def step(self) -> None:
        """One random verb."""
        verbs = (
            self._request,
            self._request,
            self._answer,
            self._lock,
            self._lock,
            self._release,
            self._open,
        )
        others = (
            self._open,
            self._close,
            self._produce,
            self._publish,
            self._report,
            self._approval,
            self._lose,
        )
        self.rng.choice(verbs + others)()
        for _ in range(3):
            self.stage.answer_confirms()

    def _id(self) -> str:
        self._made += 1
        return f"i{self._made}"

    def _agent(self) -> str:
        return self.rng.choice([agent for agent in AGENTS if agent in self.stage.sessions])

    def _where(self, agent: str) -> dict[str, Any]:
        """An execution of *agent*: main, or something that it handles."""
        entry = self.stage.kernel.tables.sessions.agents[agent]  # type: ignore[index]
        held = [str(event_id) for session in entry.sessions.values() for event_id in session.held]
        return {"execution": self.rng.choice(["main", *held])}

    def _request(self) -> None:
        agent, other = self._agent(), self._agent()
        where = self._where(agent)
        session = self.stage.sessions[agent]
        self.stage.request(agent, other, self._id(), session=session, timeout_s=3000.0, **where)

    def _answer(self) -> None:
        agent = self._agent()
        execution = self._where(agent)["execution"]
        if execution != "main":
            self.stage.reply(agent, execution)

    def _lock(self) -> None:
        agent = self._agent()
        names = self.rng.sample(["one", "two", "gpu*1"], self.rng.choice([1, 1, 2]))
        self.stage.lock(agent, self._id(), *names, **self._where(agent))

    def _release(self) -> None:
        holds = list(self.stage.kernel.tables.resources.leases.all())
        if holds:
            hold = self.rng.choice(holds)
            self.stage.release(hold.strand.session.name, hold.id)

    def _open(self) -> None:
        agent = self._agent()
        choices = [
            WaitCondition("artifact", self.rng.choice("xy")), WaitCondition("tool", "t"), WaitCondition("task", "z"),
            WaitCondition("lock", "outside"), WaitCondition("agent", self._agent()), WaitCondition("human", "eva"),
            WaitCondition("lock", "one", lease_s=600.0),
        ]  # fmt: skip
        on = self.rng.sample(choices, self.rng.choice([1, 1, 2, 3]))
        need = self.rng.choice(["all", "all", "any", 1])
        self.stage.wait(agent, self._id(), *on, need=need, **self._where(agent))

    def _close(self) -> None:
        waits = list(self.stage.kernel.tables.messages.waits.values())
        if waits:
            wait = self.rng.choice(waits)
            self.stage.say(wait.session.name, bodies.WaitClose(wait.id, wait.session.id))

    def _produce(self) -> None:
        agent = self._agent()
        self.stage.produces(agent, self.rng.choice("xy"), **self._where(agent))

    def _publish(self) -> None:
        if self.rng.random() < 0.3:
            name = self.rng.choice("xy")
            self.stage.publish(self._agent(), name)
            self.stage.say("anybody", resources.ArtifactForget(name))

    def _report(self) -> None:
        agent = self._agent()
        kind, name = self.rng.choice([("task", "z"), ("lock", "outside"), ("artifact", "x")])
        session = self.stage.sessions[agent]
        self.stage.say(agent, resources.HolderSet(session, kind, name, **self._where(agent)))  # type: ignore[arg-type]

    def _approval(self) -> None:
        agent = self._agent()
        session = self.stage.sessions[agent]
        by = self.rng.choice([self._agent(), "human:eva"])
        where = self._where(agent)
        self.stage.say(agent, resources.ApprovalRequest(self._id(), session, by, timeout_s=3000.0, **where))

    def _lose(self) -> None:
        """Now and then one session is lost."""
        if len(self.stage.sessions) < 4 or self.rng.random() < 0.7:
            return
        gone = self._agent()
        del self.stage.sessions[gone]
        for _ in range(6):
            self.stage.pass_time(25.0)
            for agent in self.stage.sessions:
                session = self.stage.sessions[agent]
                self.stage.say(agent, resources.LockCheck("x", 1, session))


class Naive:
    """The exported graph, followed step by step."""

    def __init__(self, steps: list[dict[str, Any]], unentered: set[str]) -> None:
        self.unentered = unentered
        self.expect = steps[-1]
        self.waits = [step for step in steps if step["op"] == "wait"]
        self.lost = {step["id"] for step in steps if step["op"] == "crash"}
        self.resources = {step["id"]: step for step in steps if step["op"] == "resource"}
        self.artifacts = {step["id"]: step for step in steps if step["op"] == "artifact"}

    def reaches_work(self, node: str) -> bool:
        """Whether some chain from *node* ends in a strand that waits for nothing."""
        seen, todo = set(), [node]
        while todo:
            at = todo.pop()
            own = [wait for wait in self.waits if wait["waiter"] == at]
            if at in self.unentered or (not own and at not in self.lost):
                return True
            if at not in seen:
                seen.add(at)
                todo += [other for wait in own for on in wait["on"] for other in self._behind(wait, on)]
        return False

    def _behind(self, wait: dict[str, Any], on: dict[str, Any]) -> list[str]:
        if "any" in on:
            return [node for option in on["any"] for node in self._behind(wait, option)]
        if "exec" in on:
            return [on["exec"]]
        if "artifact" in on:
            return list(self.artifacts[on["artifact"]]["producers"])
        if "resource" not in on:
            return []
        row = self.resources[on["resource"]]
        free = row.get("capacity", 1 << 60) - sum(row["held"].values())
        if not row["fifo"]:
            fits = [SOMEBODY] if "#pool#" in row["id"] else []
            return fits if on["units"] <= free else list(row["held"])
        queued: list[str] = []
        for other in self.waits[: self.waits.index(wait)]:
            for asked in (c for c in other["on"] if c.get("resource") == row["id"]):
                queued.append(other["waiter"])
                free = free - asked["units"] if asked["units"] <= free else -1
        return [] if on["units"] <= free else [*row["held"], *queued]


def name_of(waiter: Waiter) -> str:
    parts = [waiter.agent, waiter.session, waiter.execution, waiter.strand]
    return "#".join(part for part in parts if part)


def check(life: Life) -> None:
    kernel = life.stage.kernel
    found: Verdicts = query.verdicts(kernel, life.stage.now, EVERYTHING)
    unentered = {
        "#".join((*map(str, (message.source.name, message.source.id)), message.envelope.execution or "main"))
        for message in kernel.tables.messages.open.values()
        if message.is_unentered
    }
    naive = Naive(query.graph(kernel, EVERYTHING).steps, unentered)
    waiters = {name_of(waiter): waiter for component in found.components for waiter in component.waiters}
    deadlocked, orphaned = set(naive.expect["deadlocked"]), set(naive.expect["orphaned"])
    of: dict[str | None, set[str]] = {}
    for name, waiter in waiters.items():
        of.setdefault(waiter.verdict, set()).add(name)
    assert of.get("DEADLOCK", set()) | of.get(None, set()) == deadlocked, (
        "not judged: only reported, not read twice"
    )
    assert of.get("ORPHANED", set()) == orphaned - deadlocked
    in_core = {name for name, waiter in waiters.items() if waiter.in_core}
    assert in_core <= {name for core in naive.expect["cores"] for name in core} & of.get("DEADLOCK", set())
    for wait in naive.waits:
        name = wait["waiter"]
        verdict = waiters[name].verdict
        if name in deadlocked | orphaned or verdict == "LIVELOCK":
            continue
        assert (verdict == "CONTENTION") is naive.reaches_work(name), (name, verdict)


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_agree_with_the_graph(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
        check(life)
