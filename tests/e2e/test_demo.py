"""`unknot demo`, run for real: what it prints happened, and when something did not happen it says so."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import processes_with
from tests.support.gateway import ROOT, paths

pytestmark = [pytest.mark.once, pytest.mark.timeout(90)]

DEMO = (sys.executable, "-m", "unknot_gateway", "demo")
WHOLE_S = 30.0
STEP_S = 20.0
ESCAPE = "\x1b["


@pytest.fixture
def mark() -> str:
    return f"UNKNOT_DEMO_TEST={uuid.uuid4().hex}"


def environment(mark: str, **more: str) -> dict[str, str]:
    name, _, value = mark.partition("=")
    plain = {key: text for key, text in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    return plain | {"PYTHONPATH": os.pathsep.join(paths()), "TERM": "xterm-256color", name: value} | more


@contextlib.contextmanager
def started(mark: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        DEMO,
        cwd=ROOT,
        env=environment(mark, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            yield demo
        finally:
            demo.terminate()


def read_until(demo: subprocess.Popen[str], words: str) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if words in line:
            return
    raise AssertionError(f"the demo ended without {words!r}")


def test_in_a_pipe_it_shows_the_healthy_knot_its_end_and_the_run_going_on(mark: str) -> None:
    began = time.monotonic()
    demo = subprocess.run(
        DEMO, cwd=ROOT, env=environment(mark), capture_output=True, text=True, timeout=WHOLE_S, check=False
    )
    assert (demo.returncode, demo.stderr) == (0, "")
    assert time.monotonic() - began < WHOLE_S
    assert ESCAPE not in demo.stdout
    in_order = [
        "run_9104",
        "11:04:58Z  reconciler   waits for extractor-2: clause_table:bundle_b7",
        "11:16:41Z  extractor-2  waits for reconciler",
        "What a liveness probe sees",
        "waiting for input",
        "5 of 5 healthy, 31 000 of 400 000 tokens used",
        "ms after the closing wait",
        "extractor-2 -> reconciler -> extractor-2",
        "remedy",
        "20 minutes until the first timeout",
        "The run goes on",
        "goes on with the draft clause table",
        "run_9104 is complete",
    ]
    places = [demo.stdout.find(words) for words in in_order]
    assert -1 not in places, dict(zip(in_order, places, strict=True))
    assert places == sorted(places)
    assert processes_with(mark) == {}


def test_with_json_it_prints_what_was_observed(mark: str) -> None:
    demo = subprocess.run(
        (*DEMO, "--json"),
        cwd=ROOT,
        env=environment(mark),
        capture_output=True,
        text=True,
        timeout=WHOLE_S,
        check=False,
    )
    assert (demo.returncode, demo.stderr) == (0, "")
    played: dict[str, Any] = json.loads(demo.stdout)
    incident = played["incident"]
    assert incident["notice"]["cycle"] == ["extractor-2", "reconciler", "extractor-2"]
    assert [beat["healthy"] for beat in incident["liveness"]] == [True] * 5
    assert played["answers"]["writer"] == {"clauses": 41, "units": "EUR"}


def test_on_a_terminal_it_is_coloured(mark: str) -> None:
    assert ESCAPE in shown_on_a_terminal(environment(mark))


def test_no_color_is_respected_on_a_terminal_too(mark: str) -> None:
    assert ESCAPE not in shown_on_a_terminal(environment(mark, NO_COLOR="1"))


def shown_on_a_terminal(wanted: dict[str, str]) -> str:
    """The first lines, which are enough to see it; then a Ctrl-C from that terminal."""
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(DEMO, cwd=ROOT, env=wanted, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    give_up_at = time.monotonic() + STEP_S
    while b"gateway are up" not in shown and time.monotonic() < give_up_at:
        if select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 4096)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(STEP_S) == 1
    os.close(ours)
    assert b"gateway are up" in shown
    return shown.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_it_leaves_nothing(mark: str, number: signal.Signals) -> None:
    with started(mark) as demo:
        read_until(demo, "reconciler   waits for")
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=STEP_S)
    assert demo.returncode == 1
    assert "Traceback" not in errors
    assert processes_with(mark) == {}


def test_a_step_that_does_not_happen_is_named_and_ends_it_with_1(mark: str) -> None:
    with started(mark) as demo:
        read_until(demo, "writer       waits for")
        [writer] = [pid for pid, command in processes_with(mark).items() if "agents:writer" in command]
        os.kill(writer, signal.SIGKILL)
        shown, errors = demo.communicate(timeout=STEP_S)
    assert demo.returncode == 1
    assert errors.startswith("missing: ")
    assert "writer" in errors
    assert "is complete" not in shown
    assert processes_with(mark) == {}


def test_without_a_server_it_says_what_is_missing(mark: str, tmp_path: Path) -> None:
    with started(mark, NATS_SERVER_BIN=str(tmp_path / "none")) as demo:
        _, errors = demo.communicate(timeout=STEP_S)
    assert demo.returncode == 1
    assert "NATS_SERVER_BIN" in errors
