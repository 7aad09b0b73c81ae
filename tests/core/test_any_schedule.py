"""Whatever arrives, in whatever order: one Outcome each, slots counted right, and in the end nothing is left."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.core.stage import Stage
from unknot_gateway.core.effects import SendOutcome
from unknot_gateway.core.facts import NobodyListened, TimePassed
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies
from unknot_schemas.ids import AgentId, EventId

AGENTS = ("birch", "elm", "flint")
HELLOS: tuple[dict[str, Any], ...] = (
    {},
    {"concurrency": 1},
    {"concurrency": 2, "channels": ["c"]},
    {"pools": [bodies.Pool(1, ["heavy"]), bodies.Pool(2)]},
    {"concurrency": 1, "reentrant": True},
    {"pools": []},
    {"pools": [bodies.Pool(None)]},
)

names = st.sampled_from(AGENTS)
ids = st.integers(0, 11).map(lambda number: f"r{number}")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("hello"), names, st.sampled_from(range(len(HELLOS))), st.booleans()),
        st.tuples(
            st.just("request"),
            st.sampled_from(["request", "request", "request", "ask", "send"]),
            names,
            st.sampled_from([*AGENTS, "@c"]),
            ids,
            st.sampled_from([None, None, "r0", "r1", "r2", "main"]),
            st.sampled_from([None, ("g", 2, 1), ("g", 2, 2), ("h", 3, 2)]),
            st.sampled_from([None, None, ("s1", True), ("s2", False)]),
        ),
        st.tuples(st.just("reply"), names, ids, st.booleans(), st.booleans()),
        st.tuples(st.sampled_from(["done", "defer", "defer by"]), names, ids),
        st.tuples(st.just("cancel"), names, ids),
        st.tuples(st.just("heartbeat"), names, st.lists(ids, max_size=3), st.lists(ids, max_size=3)),
        st.tuples(st.just("bye"), names, st.sampled_from([0.0, 2.0])),
        st.tuples(st.just("facts"), st.booleans()),
        st.tuples(st.just("wait"), names, ids, st.sampled_from(["reply", "event", "agent", "tool"])),
        st.tuples(st.just("close"), names, ids),
        st.tuples(st.just("nobody"), names, ids),
        st.tuples(st.just("time"), st.sampled_from([0.01, 0.3, 2.0, 11.0])),
    ),
    max_size=60,
)


class Run:
    """One schedule: takes steps, and keeps every Outcome that left."""

    def __init__(self, policy: str, steps_max: int) -> None:
        self.stage = Stage(policy=policy, limits=Limits(queue_max=4, steps_max=steps_max))
        self.sessions: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def take(self, step: tuple[Any, ...]) -> None:
        """One step."""
        getattr(self, f"_{step[0].replace(' ', '_')}")(*step[1:])
        self._read_outcomes()
        self._check_slots()

    def finish(self) -> None:
        """Everybody leaves, time passes."""
        for name in AGENTS:
            self._bye(name, 0.0)
        self.stage.pass_time(4_000.0)
        self.stage.feed(TimePassed())
        self._read_outcomes()

    def _read_outcomes(self) -> None:
        for effect in self.stage.effects:
            if isinstance(effect, SendOutcome):
                outcome = effect.outcome
                assert self.ended.setdefault(outcome.request_id, outcome.outcome) == outcome.outcome
        self.stage.effects = [e for e in self.stage.effects if not isinstance(e, SendOutcome)]

    def _check_slots(self) -> None:
        tables = self.stage.kernel.tables
        for session in tables.sessions.all():
            for pool in session.pools:
                taken = sum(1 for leg in session.held.values() if leg.pool is pool)
                assert pool.used == taken
                assert pool.slots is None or pool.used <= pool.slots
                assert (
                    pool.slots is None or pool.used == pool.slots or not any(lane.legs for lane in pool.lanes)
                )
        for agent in tables.sessions.agents.values():
            lanes = sum(len(lane.legs) for lane in agent.lanes.values())
            assert agent.queued == len(agent.waiting) + len(agent.unplaced) + lanes
        loose = {event_id for asked in tables.uncorrelated.open.values() for event_id in asked}
        assert loose == {id for id, m in tables.messages.open.items() if m.envelope.accept_uncorrelated}
        opened = {message.id for message in tables.messages.open.values() if message.verb != "send"}
        named = {item for session in tables.sessions.all() for item in session.open}
        assert named <= opened | set(tables.messages.waits)
        if not self.stage.kernel.backlog:
            assert named == opened | set(tables.messages.waits)

    def _hello(self, name: str, kind: int, same: bool) -> None:
        fields = dict(HELLOS[kind])
        if same:
            fields["instance"] = "one"
        self.sessions[name] = self.stage.hello(name, **fields)

    def _request(
        self, verb: str, name: str, target: str, event_id: str, execution: Any, group: Any, strand: Any
    ) -> None:
        fields: dict[str, Any] = {
            "session": self.sessions.get(name),
            "execution": execution,
            "timeout_s": 20.0,
        }
        if verb != "send" and int(event_id[1:]) % 2:
            fields["accept_uncorrelated"] = "work"
        if group is not None and verb == "request":
            fields["group"] = bodies.Group(*group)
        if strand is not None:
            fields["strand"], fields["detached"] = strand
        self.stage.request(name, target, event_id, verb=verb, **fields)

    def _reply(self, name: str, event_id: str, done: bool, named: bool) -> None:
        session = self.sessions.get(name) if named else None
        self.stage.reply(name, event_id, done=done, session=session)

    def _done(self, name: str, event_id: str) -> None:
        self.stage.say(name, bodies.Done(self.sessions.get(name, "x"), [event_id]))

    def _defer(self, name: str, event_id: str) -> None:
        self.stage.say(name, bodies.Defer(self.sessions.get(name, "x"), [event_id]))

    def _defer_by(self, name: str, event_id: str) -> None:
        self.stage.say(name, bodies.Defer(self.sessions.get(name, "x"), [event_id], by="r0"))

    def _cancel(self, name: str, event_id: str) -> None:
        self.stage.say(name, bodies.RequestCancel(event_id, self.sessions.get(name)))

    def _heartbeat(self, name: str, opened: list[str], held: list[str]) -> None:
        body = bodies.Heartbeat(
            self.sessions.get(name, "x"), opened, [bodies.Held(h) for h in held], seen=1_000
        )
        self.stage.say(name, body)

    def _bye(self, name: str, drain_s: float) -> None:
        self.stage.say(name, bodies.Bye(self.sessions.get(name, "x"), drain_s))

    def _facts(self, honest: bool) -> None:
        if honest:
            outcomes = [e for e in self.stage.effects if isinstance(e, SendOutcome)]
            self.stage.answer_confirms()
            self.stage.effects += outcomes
            return
        for incident in list(self.stage.kernel.detector.incidents):
            for name, session in self.sessions.items():
                self.stage.say(name, bodies.Facts(session, incident, open=["r0", "r1"]))

    def _wait(self, name: str, event_id: str, kind: str) -> None:
        target = {"reply": "r1", "event": "work", "agent": "elm", "tool": "ocr"}[kind]
        condition = bodies.WaitCondition(kind, target)
        body = bodies.WaitOpen(event_id, self.sessions.get(name, "x"), [condition], timeout_s=20.0)
        self.stage.say(name, body)

    def _close(self, name: str, event_id: str) -> None:
        self.stage.say(name, bodies.WaitClose(event_id, self.sessions.get(name, "x")))

    def _nobody(self, name: str, event_id: str) -> None:
        self.stage.feed(NobodyListened(AgentId(name), EventId(event_id)))

    def _time(self, seconds: float) -> None:
        self.stage.pass_time(seconds)


@given(steps, st.sampled_from(["fail_all", "refuse", "shadow"]), st.sampled_from([200, 2, 1]))
def test_one_outcome_each_slots_counted_and_nothing_left(
    schedule: list[tuple[Any, ...]], policy: str, steps_max: int
) -> None:
    run = Run(policy, steps_max)
    asked = set()
    for step in schedule:
        run.take(step)
        asked |= set(run.stage.kernel.tables.messages.open)
    run.finish()
    tables = run.stage.kernel.tables
    assert not tables.messages.open
    assert not tables.messages.waits
    assert not tables.waiting.waits
    assert len(tables.waiting.graph) == 0
    assert not tables.waiting.strands
    assert not tables.waiting.implied
    assert not run.stage.kernel.detector.incidents
    assert not len(run.stage.kernel.groups)
    assert tables.messages.open_bytes == tables.messages.kept_bytes == tables.messages.remembered == 0
    assert len(tables.deadlines) == 0
    assert not run.stage.kernel.backlog
    assert not tables.uncorrelated.has_any
