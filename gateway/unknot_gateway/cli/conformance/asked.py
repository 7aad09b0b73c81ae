"""What is asked of it before a verdict, and what follows from one."""

from typing import Any, Final

from unknot_gateway.cli.conformance.beginning import own_request
from unknot_gateway.cli.conformance.laws import Law
from unknot_gateway.cli.conformance.record import Message, require
from unknot_gateway.cli.conformance.stage import KNOT, SILENT, Stage

_FACTS_S: Final = 0.25
_ATTEMPTS: Final = 5
"""A machine that is busy elsewhere may be late once."""
_VERDICT_S: Final = 10.0


class _Asked:
    """Three executions in different states, and the facts about them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def begin(self) -> None:
        """One waits, one runs, one is deferred."""
        others = self.stage.others
        ask = {"target": SILENT, "type": "sphinx.ask", "data": None, "timeout_s": 3.0}
        self.waiting = await others.ask("ask", ask)
        self.running = await others.ask("count", {"key": "asked", "s": 2.0})
        self.deferred = await others.ask("defer", {"s": 2.0, "data": None})
        self.request = await own_request(self.stage, self.waiting.id)
        record = self.stage.record
        await self.stage.delivered(self.running.id)
        await record.until(lambda: record.named("defer", self.deferred.id) or None, "a defer")

    async def facts(self) -> tuple[Message, float]:
        """Its answer to confirm, and how long that took."""
        incident = self.stage.others.new_id()
        body: dict[str, Any] = {
            "incident": incident,
            "waits": [{"id": self.request.body["id"], "generation": 0}],
            "requests": [self.running.id, self.deferred.id],
            "executions": [self.waiting.id],
        }
        await self.stage.control("confirm", body)
        record = self.stage.record
        asked = await record.got_next(
            lambda got: got.subject.endswith(".control.confirm") and got.body.get("incident") == incident,
            "confirm",
        )
        facts = await record.said_next(
            lambda said: said.verb == "facts" and said.body.get("incident") == incident,
            "facts with the incident that was asked about",
        )
        return facts, facts.at - asked.at


async def facts_at_once(stage: Stage) -> None:
    """Facts come within 250 ms, whatever handlers do, on the connection that its requests use."""
    asked = _Asked(stage)
    await asked.begin()
    took = []
    for _ in range(_ATTEMPTS):
        facts, took_s = await asked.facts()
        require(
            facts.connection == asked.request.connection, "facts come on another connection than requests"
        )
        require(facts.body.get("session") == stage.session, "facts do not name the session")
        took.append(took_s)
        if took_s <= _FACTS_S:
            return
    require(False, f"facts took {min(took) * 1000:.0f} ms")


async def facts_true(stage: Stage) -> None:
    """Facts name the open wait, where each request stands, and that the waiting execution's own task is not alive."""
    asked = _Asked(stage)
    await asked.begin()
    facts = (await asked.facts())[0].body
    id = asked.request.body["id"]
    require(id in facts.get("open", ()), "a request that is open is not named open")
    states = facts.get("requests", {})
    require(
        states.get(asked.running.id) == "running", f"a running handler is {states.get(asked.running.id)!r}"
    )
    require(
        states.get(asked.deferred.id) == "deferred", f"a deferred one is {states.get(asked.deferred.id)!r}"
    )
    strands = facts.get("strands", {}).get(asked.waiting.id)
    require(strands is not None, "nothing is said of the strands of the execution that was asked about")
    require("" not in strands.get("alive", ()), "its own task is called alive, but it waits")
    for question in (asked.waiting, asked.running, asked.deferred):
        await question.answer()
    facts = (await asked.facts())[0].body
    require(id not in facts.get("open", ()), "a request that has ended is named open")
    state = facts.get("requests", {}).get(asked.running.id, "done")
    require(state == "done", f"a request that was answered is called {state!r}")


async def deadlock_told(stage: Stage) -> None:
    """A request that is part of a deadlock ends so: the gateway asks, the facts are true, the Outcome is passed on."""
    ask = {"target": KNOT, "type": "knot.tie", "data": None, "timeout_s": 15.0}
    question = await stage.others.ask("ask", ask)
    record = stage.record

    def report() -> Message | None:
        return next((said for id in stage.others.asked_back for said in record.answers(id)), None)

    told = await record.until(report, "a verdict and its report", _VERDICT_S)
    outcome = told.data.get("outcome")
    require(outcome == "deadlock", f"it reports {told.data!r}")
    require(
        (await question.answer()).get("outcome") == "reply",
        "who only waited behind the deadlock did not go on",
    )


LAWS: Final = (
    Law("facts.at_once", "serve", facts_at_once),
    Law("facts.true", "serve", facts_true),
    Law("deadlock.told", "serve", deadlock_told),
)
