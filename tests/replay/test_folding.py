"""What one line does to another: freshness, deadlines, leases, lives, runs, times, and lines that cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from unknot_gateway.cli import main
from unknot_gateway.replay import Incident, MalformedLine, Orphaned, Replay, Unresolved, limits


def waits(agent: str, at: str, kind: str, id: str, run: str = "r1", **more: str) -> dict[str, Any]:
    return {"run_id": run, "agent": agent, "at": at, "blocked_on": {"kind": kind, "id": id, **more}}


def free(agent: str, at: str, run: str = "r1") -> dict[str, Any]:
    return {"run_id": run, "agent": agent, "at": at, "blocked_on": None}


def replay(*lines: Any, heartbeat_s: float = 15.0) -> list[Any]:
    recording = Replay(heartbeat_s)
    assert list(recording.read(json.dumps(line).encode() for line in lines)) == []
    return [(recording.clock.text(finding.at), finding) for finding in recording.findings()]


def kinds(findings: list[Any]) -> list[tuple[str, str]]:
    return [(at, type(finding).__name__) for at, finding in findings[:-1]]


CYCLE = [waits("A", "10:00:00Z", "agent", "B"), waits("B", "10:00:10Z", "agent", "A")]


def test_a_descriptor_counts_while_it_is_younger_than_two_heartbeats() -> None:
    findings = replay(*CYCLE, free("C", "10:01:00Z"))
    assert kinds(findings) == [("10:00:10Z", "Incident"), ("10:00:30Z", "Dissolved")]
    assert findings[1][1].because == ["A's wait for agent B: it was not renewed within two heartbeats"]
    assert kinds(replay(*CYCLE, free("C", "10:01:00Z"), heartbeat_s=5)) == []
    assert kinds(replay(*CYCLE, free("C", "10:00:29.999999999Z"))) == [("10:00:10Z", "Incident")]


def test_a_descriptor_renewed_in_its_last_moment_was_never_missing() -> None:
    findings = replay(*CYCLE, waits("A", "10:00:30Z", "agent", "B"), waits("B", "10:00:40Z", "agent", "A"))
    assert kinds(findings) == [("10:00:10Z", "Incident")]


def test_what_does_not_outlive_the_second_read_would_not_have_been_acted_on() -> None:
    findings = replay(*CYCLE, free("A", "10:00:20Z"))
    assert kinds(findings) == [("10:00:10Z", "Incident"), ("10:00:20Z", "Dissolved")]
    assert (findings[1][1].because, findings[1][1].is_acted_on) == (
        ["A's wait for agent B: it was taken back"],
        False,
    )


def test_a_wait_ends_at_its_own_deadline() -> None:
    late = waits("B", "10:00:10Z", "agent", "A", wait_deadline="10:00:20Z")
    findings = replay(CYCLE[0], late, free("C", "10:00:25Z"))
    assert findings[0][1].resolves_at is not None
    assert kinds(findings) == [("10:00:10Z", "Incident"), ("10:00:20Z", "Dissolved")]
    over = waits("B", "10:00:10Z", "agent", "A", wait_deadline="10:00:10Z")
    assert kinds(replay(CYCLE[0], over)) == []


def test_a_retry_that_deadlocks_again_is_a_new_incident() -> None:
    again = waits("B", "10:00:14Z", "agent", "A", since="10:00:14Z")
    findings = replay(*CYCLE, free("B", "10:00:12Z"), again)
    assert [finding.number for _, finding in findings if isinstance(finding, Incident)] == [1, 2]


def test_a_lease_that_ends_frees_who_waits_for_it() -> None:
    held = {"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l", "until": "10:00:15Z"}}
    lines = [
        held,
        waits("A", "10:00:01Z", "agent", "B"),
        waits("B", "10:00:02Z", "lock", "l"),
        free("C", "10:00:20Z"),
    ]
    assert kinds(replay(*lines)) == [("10:00:02Z", "Incident"), ("10:00:15Z", "Dissolved")]
    renewed = {"at": "10:00:15Z", "holds": {"agent": "A", "lock": "l", "until": "10:00:30Z"}}
    assert kinds(replay(*lines, renewed)) == [("10:00:02Z", "Incident")]


def test_a_lock_that_is_passed_on_is_its_new_holders() -> None:
    lines = [
        {"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l"}},
        waits("A", "10:00:01Z", "agent", "B"),
        waits("B", "10:00:02Z", "lock", "l"),
        {"at": "10:00:05Z", "holds": {"agent": "C", "lock": "l"}},
    ]
    findings = replay(*lines)
    assert kinds(findings) == [("10:00:02Z", "Incident"), ("10:00:05Z", "Dissolved")]
    assert findings[1][1].because == ["lock l is held by C now"]


def test_a_second_producer_that_can_go_on_is_enough() -> None:
    made = {"at": "10:00:00Z", "produces": {"agent": "B", "artifact": "a"}}
    lines = [made, waits("A", "10:00:01Z", "artifact", "a"), waits("B", "10:00:02Z", "agent", "A")]
    assert kinds(replay(*lines)) == [("10:00:02Z", "Incident")]
    assert kinds(replay(*lines, {"at": "10:00:01Z", "produces": {"agent": "C", "artifact": "a"}})) == []


def test_an_agent_that_comes_back_does_not_hold_what_its_dead_self_held() -> None:
    lines = [
        {"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l"}},
        waits("B", "10:00:01Z", "lock", "l"),
        {"at": "10:00:02Z", "gone": {"agent": "A"}},
        waits("A", "10:00:03Z", "agent", "B"),
    ]
    findings = replay(*lines)
    assert {type(finding) for _, finding in findings[:-1]} == {Orphaned}
    again = {"at": "10:00:04Z", "holds": {"agent": "A", "lock": "l"}}
    assert ("10:00:04Z", "Incident") in kinds(replay(*lines, again))


@pytest.mark.parametrize("is_held_first", [True, False])
def test_what_is_owned_in_the_instant_of_a_return_is_the_new_lifes(is_held_first: bool) -> None:
    held, back = (
        {"at": "10:00:02Z", "holds": {"agent": "A", "lock": "l"}},
        waits("A", "10:00:02Z", "agent", "B"),
    )
    both = [held, back] if is_held_first else [back, held]
    lines = [{"at": "10:00:00Z", "gone": {"agent": "A"}}, waits("B", "10:00:01Z", "lock", "l"), *both]
    assert ("10:00:02Z", "Incident") in kinds(replay(*lines))


def test_who_waits_for_an_agent_waits_for_its_next_life() -> None:
    lines = [
        waits("B", "10:00:00Z", "agent", "A"),
        free("A", "10:00:00Z"),
        {"at": "10:00:01Z", "gone": {"agent": "A"}},
    ]
    assert kinds(replay(*lines)) == [("10:00:01Z", "Orphaned")]
    assert kinds(replay(*lines, free("A", "10:00:02Z"))) == [
        ("10:00:01Z", "Orphaned"),
        ("10:00:02Z", "Cured"),
    ]


def test_work_in_another_run_frees_nobody_in_this_one() -> None:
    assert kinds(replay(*CYCLE, free("A", "10:00:00Z", run="r2"))) == [("10:00:10Z", "Incident")]


def test_who_is_seen_in_a_run_is_waited_for_in_that_run_alone() -> None:
    lines = [free("A", "10:00:00Z", run="r2"), waits("B", "10:00:01Z", "agent", "A")]
    assert kinds(replay(*lines, waits("A", "10:00:02Z", "agent", "B"))) == [("10:00:02Z", "Incident")]
    elsewhere = waits("A", "10:00:02Z", "agent", "B", run="r3")
    assert kinds(replay(*lines, elsewhere)) == []


def test_only_its_holder_releases_a_lock() -> None:
    lines = [
        {"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l"}},
        waits("A", "10:00:01Z", "agent", "B"),
        waits("B", "10:00:02Z", "lock", "l"),
        {"at": "10:00:03Z", "released": {"agent": "C", "lock": "l"}},
    ]
    findings = replay(*lines)
    assert kinds(findings) == [("10:00:02Z", "Incident")]
    assert findings[-1][1].ignored_releases == 1


def test_who_owns_something_goes_on_while_it_does_in_any_run() -> None:
    lines = [
        {"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l"}},
        waits("A", "10:00:01Z", "agent", "B"),
        waits("B", "10:00:02Z", "lock", "l"),
    ]
    assert kinds(replay(*lines)) == [("10:00:02Z", "Incident")]
    assert kinds(replay(*lines, free("A", "10:00:00Z", run="r2"))) == []


def test_lines_out_of_order_are_sorted_and_counted() -> None:
    findings = replay(CYCLE[1], CYCLE[0])
    assert kinds(findings) == [("10:00:10Z", "Incident")]
    assert findings[-1][1].out_of_order == 1


def test_bare_times_cross_midnight() -> None:
    lines = [
        waits("A", "23:59:50Z", "agent", "B", since="23:58:00Z", wait_deadline="00:10:00Z"),
        waits("B", "00:00:05Z", "agent", "A", since="23:59:00Z"),
        free("C", "23:59:58Z"),
    ]
    recording = Replay()
    list(recording.read(json.dumps(line).encode() for line in lines))
    incident = next(iter(recording.findings()))
    assert isinstance(incident, Incident)
    text = recording.clock.text
    assert (text(incident.at), text(incident.since)) == ("00:00:05Z+1d", "23:59:00Z")
    assert incident.resolves_at is not None
    assert text(incident.resolves_at) == "00:10:00Z+1d"


def test_a_since_is_not_after_its_line() -> None:
    found = replay(waits("A", "10:00:00Z", "tool", "ocr", since="22:30:00Z"), free("B", "10:00:01Z"))
    assert found[-1][1].outside[0].since == -1.5 * 3600 * 10**9


def test_full_times_may_have_offsets_and_name_bare_ones_beside_them() -> None:
    lines = [
        waits("A", "2026-03-02T00:00:10+01:00", "agent", "B", since="22:59:00Z"),
        waits("B", "2026-03-01T23:00:20.5Z", "agent", "A"),
    ]
    recording = Replay()
    assert list(recording.read(json.dumps(line).encode() for line in lines)) == []
    incident = next(iter(recording.findings()))
    assert isinstance(incident, Incident)
    assert recording.clock.text(incident.edges[0].since) == "2026-03-01T22:59:00Z"
    assert recording.clock.text(incident.at) == "2026-03-01T23:00:20.5Z"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "truncated"),
        ("[1]", "Expected `object`"),
        ('"\\ud800"', "truncated"),
        ('{"agent": "A", "blocked_on": null}', "`at`"),
        ('{"at": "10:00:00Z"}', "exactly one of blocked_on"),
        ('{"at": "10:00:00Z", "gone": {"agent": "A"}, "holds": {"agent": "A", "lock": "l"}}', "exactly one"),
        ('{"at": "10:00:00Z", "blocked_on": null}', "needs the agent"),
        ('{"at": "10:00:00Z", "agent": "A", "blocked_on": {"kind": "mood", "id": "x"}}', "'mood'"),
        ('{"at": "10:00:00Z", "agent": "A", "blocked_on": {"kind": "tool"}}', "`id`"),
        ('{"at": "10:00", "agent": "A", "blocked_on": null}', "is no time"),
        ('{"at": "25:00:00Z", "agent": "A", "blocked_on": null}', "is no time of day"),
        ('{"at": "2026-02-30T10:00:00Z", "agent": "A", "blocked_on": null}', "is no time"),
        ('{"at": "2026-02-03T10:00:00+99:00", "agent": "A", "blocked_on": null}', "no such offset"),
        (
            '{"at": "10:00:00Z", "holds": {"agent": "A", "lock": "l", "until": "2026-02-03T10:00:00Z"}}',
            "has a date",
        ),
        ('{"at": "10:00:00Z", "gone": {"agent": "' + "A" * 70_000 + '"}}', "longer than"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_the_others_are_replayed(line: str, why: str) -> None:
    text = "\n".join([json.dumps(CYCLE[0]), line, "", json.dumps(CYCLE[1])])
    shown = run(text)
    assert shown.exit_code == 2
    assert shown.stderr.startswith("line 2: ")
    assert why in shown.stderr
    assert "DEADLOCK 1  A -> B -> A" in shown.stdout
    first = json.loads(run(text, "--json").stdout.splitlines()[0])
    assert (first["found"], first["line"]) == ("malformed", 2)


def test_a_line_of_the_other_kind_of_time_is_malformed() -> None:
    shown = run(json.dumps(CYCLE[0]) + "\n" + json.dumps(free("B", "2026-03-02T10:00:00Z")))
    assert shown.stderr.startswith("line 2: at: '2026-03-02T10:00:00Z' has a date")


def test_a_file_of_too_many_lines_is_read_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unknot_gateway.replay.recording.LINES_MAX", 2)
    recording = Replay()
    lines = [json.dumps(line).encode() for line in (*CYCLE, free("A", "10:00:11Z"), free("A", "10:00:12Z"))]
    named = list(recording.read(lines))
    assert [each.line for each in named] == [3]
    assert isinstance(next(recording.findings()), Incident)


def test_more_malformed_lines_than_are_named_are_counted() -> None:
    recording = Replay()
    named = list(recording.read([b"?"] * (limits.MALFORMED_MAX + 5)))
    assert len(named) == limits.MALFORMED_MAX
    assert all(isinstance(each, MalformedLine) for each in named)
    assert recording.malformed == limits.MALFORMED_MAX + 5


def test_an_agent_that_was_not_heard_of_yet_is_said_to_be_unknown_only_at_the_end() -> None:
    findings = replay(waits("A", "10:00:00Z", "agent", "B"), free("C", "10:00:01Z"))
    assert kinds(findings) == []
    assert [each.id for each in findings[-1][1].unresolved] == ["B"]
    findings = replay(waits("A", "10:00:00Z", "agent", "the other one"), free("C", "10:00:01Z"))
    assert isinstance(findings[0][1], Unresolved)


def test_nothing_said_is_nothing_found(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    shown = CliRunner().invoke(main, ["graph", "replay", str(empty)])
    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (
        0,
        "nothing said  END  0 deadlocks found; 0 orphaned",
    )


def run(text: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["graph", "replay", "-", *options], input=text)
