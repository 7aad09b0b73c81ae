"""The simulator itself: the same seed is the same run, and what is broken on purpose is noticed."""

import os
import subprocess
import sys
from typing import get_args

import pytest

from tests.sim.drawing import scenario
from tests.sim.scenario import FaultKind, Scenario
from tests.sim.world import play
from unknot._pending import Pending
from unknot._running import Running
from unknot_gateway.core.detector import Detector
from unknot_gateway.core.heartbeats import Heartbeats
from unknot_gateway.core.incidents import Members

pytestmark = pytest.mark.once


def digests(hash_seed: str) -> str:
    """Digests of a few seeds, from a process with this PYTHONHASHSEED."""
    command = [sys.executable, "-m", "tests.sim", "--seeds", "8", "--jobs", "1", "--digests"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def test_the_same_seed_gives_the_same_digest_in_every_process() -> None:
    first = digests("0")
    assert first.count("\n") > 8
    assert digests("4711") == first


def test_scenarios_are_of_every_kind() -> None:
    drawn = [scenario(seed) for seed in range(60)]
    assert {item.fault for each in drawn for item in each.items} == {None, *get_args(FaultKind)}
    assert {each.policy for each in drawn} == {"fail_all", "refuse", "shadow"}


def accused(word: str, drawn: list[Scenario]) -> bool:
    """Whether a run of one of these is accused of that."""
    return any(word in violation for each in drawn for violation in play(each).violations)


def with_faults(*kinds: str) -> list[Scenario]:
    """Scenarios of short runs in which one of these faults occurs, or nothing breaks where none is named."""
    drawn = [scenario(seed) for seed in range(60)]
    if not kinds:
        return [each for each in drawn if each.is_calm and each.policy != "shadow"]
    return [each for each in drawn if any(item.fault in kinds for item in each.items)]


def test_a_detector_that_is_blind_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Detector, "_suspect", lambda *_: None)
    assert accused("missed", with_faults())


def test_a_verdict_without_the_facts_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Members, "running", lambda *_: set())
    monkeypatch.setattr(Members, "not_awaited", lambda *_: set())
    assert accused("false deadlock", with_faults())


def test_a_client_that_runs_copies_handles_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive(self: Running, event: object) -> str:
        return "new"

    monkeypatch.setattr(Running, "arrive", arrive)
    monkeypatch.setattr(Running, "hold", lambda self, work: self.held.__setitem__(work.event.id, work))
    assert accused("handled twice", with_faults("loss"))


def test_a_gateway_that_delivers_beside_the_slots_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeats, "_compare_held", lambda self, session, *_: self._free_all(session) or [])
    monkeypatch.setattr(Heartbeats, "_free_all", free_all, raising=False)
    assert accused("more at a time than it has slots", with_faults())


def free_all(self: Heartbeats, session: object) -> None:
    """Take every handler for ended."""
    for leg in list(session.held.values()):  # type: ignore[attr-defined]
        self._dispatch.free(leg, session.heard_at)  # type: ignore[attr-defined]


def test_a_client_that_forgets_its_deadlines_waits_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pending, "overdue", lambda *_: [])
    monkeypatch.setattr(Pending, "next_deadline_at", lambda *_: None)
    assert accused("waited", with_faults("restart", "freeze", "cut"))
