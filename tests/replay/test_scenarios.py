"""The given scenarios as recordings, replayed by the command."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from unknot_gateway.cli import main

CASES = Path(__file__).parent / "cases"


def replay(name: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["graph", "replay", str(CASES / f"{name}.jsonl"), *options])


def found(name: str, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in replay(name, "--json", *options).stdout.splitlines()]


def test_run_9104_is_found_when_the_closing_descriptor_comes_and_the_writer_is_outside() -> None:
    assert replay("run_9104").exit_code == 3
    incident, end = found("run_9104")
    assert (incident["found"], incident["at"]) == ("incident", "11:16:41Z")
    assert incident["cycle"] == ["extractor-2", "reconciler", "extractor-2"]
    assert [(e["agent"], e["kind"], e["id"], e["owners"], e["since"]) for e in incident["edges"]] == [
        ("extractor-2", "agent", "reconciler", ["reconciler"], "11:05:20Z"),
        ("reconciler", "artifact", "clause_table:bundle_b7", ["extractor-2"], "11:04:58Z"),
    ]
    assert (incident["evidence"], incident["since"]) == ("reported", "11:05:20Z")
    assert incident["resolves_at"] == "11:34:58Z"
    assert "publish artifact clause_table:bundle_b7" in incident["remedy"]
    assert [(each["agent"], each["kind"]) for each in end["outside"]] == [("writer", "tool")]
    assert end["standing"] == [1]


def test_run_9104_is_told_to_people() -> None:
    assert replay("run_9104").stdout.splitlines()[:4] == [
        "11:16:41Z  DEADLOCK 1  extractor-2 -> reconciler -> extractor-2",
        "    extractor-2 (run_9104) waits for agent reconciler, since 11:05:20Z",
        (
            "    reconciler (run_9104) waits for artifact clause_table:bundle_b7, produced by extractor-2,"
            " since 11:04:58Z, gives up at 11:34:58Z"
        ),
        "    stands since 11:05:20Z; resolves by itself at 11:34:58Z; evidence: reported",
    ]


def test_the_review_and_the_browser_are_found_until_the_browser_is_released() -> None:
    incident, dissolved, end = found("review_and_browser")
    assert incident["at"] == "2026-03-02T09:00:09.25Z"
    assert [(e["agent"], e["kind"], e["id"]) for e in incident["edges"]] == [
        ("A", "artifact", "review-42"),
        ("B", "lock", "browser-9"),
    ]
    assert incident["resolves_at"] == "2026-03-02T09:10:01Z"  # A's lease
    assert (dissolved["found"], dissolved["at"]) == ("dissolved", "2026-03-02T09:00:30Z")
    assert dissolved["because"] == ["lock browser-9 is free now"]
    assert (dissolved["stood_s"], dissolved["is_acted_on"]) == (20.75, True)
    assert (end["incidents"], end["standing"]) == (1, [])


def test_a_crashed_holder_orphans_who_waits_until_its_lease_ends() -> None:
    ended = replay("crashed_holder")
    assert ended.exit_code == 0
    orphaned, behind, *cured, end = found("crashed_holder")
    assert [orphaned["found"], behind["found"]] == ["orphaned", "orphaned"]
    assert (orphaned["edge"]["agent"], orphaned["gone"], orphaned["until"]) == (
        "reconciler",
        "extractor-2",
        "11:21:00Z",
    )
    assert behind["chain"] == ["writer", "reconciler", "extractor-2"]
    assert {each["at"] for each in cured} == {"11:21:00Z"}
    assert [each["because"] for each in cured] == ["lock page_lock is free now", "who it waits for can go on"]
    assert (end["incidents"], end["orphaned"]) == (0, 0)


def test_a_late_release_by_the_dead_holder_changes_nothing() -> None:
    assert found("crashed_holder")[-1]["ignored_releases"] == 1


def test_a_cycle_of_delegation_is_found_with_who_is_blocked_behind_it() -> None:
    incident, _ = found("delegation_cycle")
    assert (incident["at"], incident["cycle"]) == ("10:00:03Z", ["A", "B", "C", "A"])
    assert incident["behind"] == ["D"]
    assert "let A ask B without waiting" in incident["remedy"]


def test_a_sentence_where_an_id_belongs_is_no_edge_and_is_said_to_be_none() -> None:
    assert replay("a_sentence_for_an_id").exit_code == 0
    *unresolved, end = found("a_sentence_for_an_id")
    assert [(each["found"], each["wait"]["agent"]) for each in unresolved] == [
        ("unresolved", "reconciler"),
        ("unresolved", "extractor-2"),
    ]
    assert len(end["unresolved"]) == 2
    assert end["incidents"] == 0
