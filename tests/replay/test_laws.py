"""Random recordings against a truth that is told from nothing at each instant."""

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.examples import share
from tests.replay.naive import Truth
from unknot_gateway.replay import Cured, Dissolved, Incident, Orphaned, Replay
from unknot_gateway.replay.times import SECOND

AGENTS, RUNS = st.sampled_from("ABCD"), st.sampled_from(["r1", "r1", "r1", "r2"])
LOCKS, ARTIFACTS = st.sampled_from(["l1", "l2"]), st.sampled_from(["a1", "a2"])
TIMES = st.integers(0, 18).map(lambda step: 5 * step)


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Any]:
    at = draw(TIMES)
    match draw(
        st.sampled_from(["wait"] * 8 + ["free", "produces", "produces", "holds", "holds", "released", "gone"])
    ):
        case "wait":
            kind = draw(st.sampled_from(["agent"] * 4 + ["lock"] * 4 + ["artifact"] * 3 + ["tool"]))
            ids = {"agent": AGENTS, "lock": LOCKS, "artifact": ARTIFACTS, "tool": st.just("ocr")}[kind]
            on: dict[str, Any] = {"kind": kind, "id": draw(ids)}
            if draw(st.integers(0, 4)) == 0:
                on["wait_deadline"] = at + draw(st.sampled_from([0, 5, 20, 40]))
            return {"run_id": draw(RUNS), "agent": draw(AGENTS), "at": at, "blocked_on": on}
        case "free":
            return {"run_id": draw(RUNS), "agent": draw(AGENTS), "at": at, "blocked_on": None}
        case "produces":
            return {"at": at, "produces": {"agent": draw(AGENTS), "artifact": draw(ARTIFACTS)}}
        case "holds":
            held: dict[str, Any] = {"agent": draw(AGENTS), "lock": draw(LOCKS)}
            if draw(st.booleans()):
                held["until"] = at + draw(st.sampled_from([0, 5, 15, 40]))
            return {"at": at, "holds": held}
        case "released":
            return {"at": at, "released": {"agent": draw(AGENTS), "lock": draw(LOCKS)}}
        case _:
            return {"at": at, "gone": {"agent": draw(AGENTS)}}


recordings = st.lists(lines(), min_size=6, max_size=40)


def written(recording: list[dict[str, Any]]) -> list[bytes]:
    def text(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: text(each, name) for name, each in value.items()}
        if key in ("at", "until", "wait_deadline"):
            return f"00:{value // 60:02}:{value % 60:02}Z"
        return value

    return [json.dumps(text(line)).encode() for line in recording]


def replayed(recording: list[dict[str, Any]], check_steps: int | None = None) -> list[Any]:
    replay = Replay(check_steps=check_steps)
    assert list(replay.read(written(recording))) == []
    return list(replay.findings())


def standing_after(findings: list[Any], at: int) -> list[Incident]:
    found = {each.number: each for each in findings if isinstance(each, Incident) and each.at <= at * SECOND}
    over = {each.number for each in findings if isinstance(each, Dissolved) and each.at <= at * SECOND}
    return [incident for number, incident in found.items() if number not in over]


@share(0.1)
@given(recording=recordings)
def test_every_incident_is_stuck_by_itself(recording: list[dict[str, Any]]) -> None:
    for found in replayed(recording):
        if isinstance(found, Incident):
            truth = Truth(recording, found.at // SECOND)
            members = {(edge.agent, truth.lives[edge.agent], edge.run) for edge in found.edges}
            assert truth.stuck(members) == members


@share(0.1)
@given(recording=recordings, check_steps=st.sampled_from([None, 0, 1, 3]))
def test_at_each_instant_an_incident_stands_iff_somebody_is_stuck(
    recording: list[dict[str, Any]], check_steps: int | None
) -> None:
    findings = replayed(recording, check_steps)
    for at in range(0, max(line["at"] for line in recording) + 1, 5):
        truth = Truth(recording, at)
        stuck, standing = truth.stuck(), standing_after(findings, at)
        assert bool(stuck) == bool(standing), at
        inside = {(edge.agent, edge.run) for each in standing for edge in each.edges}
        assert inside <= {(agent, run) for agent, _, run in stuck}
        for each in standing:
            if each.at == at * SECOND and len(standing) == 1:
                assert {agent for agent, _, _ in stuck} == {*each.members, *each.behind}


@share(0.1)
@given(recording=recordings)
def test_at_each_instant_who_is_stuck_only_behind_the_lost_is_orphaned(
    recording: list[dict[str, Any]],
) -> None:
    findings = replayed(recording)
    assert all(each.gone == each.chain[-1] for each in findings if isinstance(each, Orphaned))
    for at in range(0, max(line["at"] for line in recording) + 1, 5):
        truth = Truth(recording, at)
        stuck = truth.stuck(lost_go_on=False) - truth.stuck()
        assert orphaned_after(findings, at) == {(agent, run) for agent, _, run in stuck}


def orphaned_after(findings: list[Any], at: int) -> set[tuple[str, str]]:
    found: dict[tuple[str, str], bool] = {}
    for each in findings:
        if isinstance(each, Orphaned | Cured) and each.at <= at * SECOND:
            found[each.edge.agent, each.edge.run] = isinstance(each, Orphaned)
    return {execution for execution, is_orphaned in found.items() if is_orphaned}


@share(0.1)
@given(recording=recordings, random=st.randoms(use_true_random=False))
def test_lines_of_one_instant_about_different_things_may_come_in_any_order(
    recording: list[dict[str, Any]], random: Any
) -> None:
    """About the same thing the order of the file counts: a lock released and taken in the same second."""
    places = list(range(len(recording)))
    random.shuffle(places)
    by_thing: dict[Any, list[Any]] = {}
    for line in recording:
        by_thing.setdefault(about(line), []).append(line)
    shuffled = [by_thing[about(recording[place])].pop(0) for place in places]
    assert at_end_of_instants(shuffled) == at_end_of_instants(recording)


def about(line: dict[str, Any]) -> Any:
    """Lines with the same are about the same thing: an agent's lives, a lock."""
    for key in ("holds", "released"):
        if key in line:
            return "lock", line[key]["lock"]
    return "agent", line.get("agent") or (line.get("gone") or line["produces"])["agent"]


def at_end_of_instants(recording: list[dict[str, Any]]) -> Any:
    findings = replayed(recording)
    return [
        Counter(
            json.dumps([each.members, sorted((e.agent, e.run, e.kind, e.id) for e in each.edges)])
            for each in standing_after(findings, at)
        )
        for at in range(0, 95, 5)
    ]


@share(0.1)
@given(junk=st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=20))
def test_no_line_ends_a_replay(junk: list[bytes]) -> None:
    replay = Replay()
    malformed = list(replay.read(junk))
    assert len(malformed) == sum(bool(line.strip()) for line in junk) == replay.malformed
    assert [type(each).__name__ for each in replay.findings()] == ["End"]
