"""`unknot conformance`: clients that keep the laws pass, and each law that a client breaks is named."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.gateway import ROOT, paths
from unknot_gateway.cli import main
from unknot_gateway.cli.conformance.examination import LAWS
from unknot_gateway.cli.conformance.frames import Frame, Parser

pytestmark = [pytest.mark.once, pytest.mark.timeout(180)]

RAW = Path(__file__).with_name("raw_client.py")
HANG_S = 150.0


async def conformance(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "unknot_gateway", "conformance", *arguments),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths())},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), HANG_S)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    """The rows of an examination by their laws; its exit code is as they say."""
    code, out, err = await conformance("--json", *arguments)
    assert out, err
    report = json.loads(out)
    assert report["passed"] == all(row["passed"] for row in report["rows"])
    assert code == (0 if report["passed"] else 1)
    return {row["law"]: row for row in report["rows"]}


@pytest.mark.parametrize(
    "client", [("-m", "unknot_gateway.cli.conformance.example"), (str(RAW),)], ids=["the SDK", "plain NATS"]
)
async def test_a_client_that_keeps_the_laws_passes(client: tuple[str, ...]) -> None:
    shown = await rows("--", sys.executable, *client)
    assert {law: row["why"] for law, row in shown.items() if not row["passed"]} == {}
    assert list(shown) == [law.name for law in LAWS]


BREAKS = [
    (
        {
            "queue_group": "hello.subscribed",
            "short_token": "hello.token",
            "few_slots": "hello.serves",
            "shared_inbox": "inbox.own",
        },
        ["hello.*", "inbox.own", "ids.legal"],
    ),
    (
        {
            "late_subscription": "hello.subscribed",
            "new_session": "restart.resumed",
            "old_token": "life.second",
        },
        ["hello.*", "restart.resumed", "life.second"],
    ),
    (
        {"slow_heart": "heartbeat.rhythm", "hides_held": "heartbeat.held", "no_execution": "request.tagged"},
        ["heartbeat.rhythm", "heartbeat.held", "request.tagged", "answer.data"],
    ),
    (
        {
            "never_done": "event.done",
            "runs_abandoned": "abandoned.early",
            "strict": "unknown.ignored",
            "sees_the_last": "lost.delivery",
            "sends_once": "lost.request",
            "late_facts": "facts.at_once",
        },
        ["event.*", "abandoned.*", "unknown.*", "lost.*", "facts.at_once", "answer.*", "heartbeat.open"],
    ),
    (
        {"runs_copies": "copy.running", "answers_twice": "answer.once", "denies_waits": "facts.true"},
        ["copy.*", "answer.*", "facts.*"],
    ),
    (
        {"last_outcome": "outcome.first", "no_clock": "deadline.own", "no_goodbye": "bye.drained"},
        ["outcome.*", "deadline.*", "bye.*", "bodies.typed"],
    ),
    (
        {"silent_on_copies": "lost.answer", "forgets_answers": "restart.answered"},
        ["lost.answer", "restart.answered"],
    ),
]


@pytest.mark.parametrize(("breaks", "shown"), BREAKS, ids=[",".join(breaks) for breaks, _ in BREAKS])
async def test_each_break_is_noticed_by_its_law_and_by_no_other(
    breaks: dict[str, str], shown: list[str]
) -> None:
    only = [word for pattern in shown for word in ("--only", pattern)]
    found = await rows(*only, "--", sys.executable, str(RAW), *breaks)
    whys = {law: row["why"] for law, row in found.items() if not row["passed"]}
    assert set(whys) == set(breaks.values()), whys
    assert all(whys.values())


async def test_a_program_that_ends_or_says_nothing_breaks_every_law() -> None:
    found = await rows("--", sys.executable, "-c", "raise SystemExit('no NATS in this language')")
    assert {row["passed"] for row in found.values()} == {False}
    assert {row["why"].partition("ended with code ")[2] for row in found.values()} == {
        "1: no NATS in this language"
    }


@pytest.mark.parametrize(
    "arguments", [[], ["--only", "no.such.law", "--", "true"], ["--", "no-such-command-of-theirs"]]
)
def test_wrong_usage_is_code_2_and_prints_nothing(arguments: list[str]) -> None:
    done = CliRunner().invoke(main, ["conformance", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr


def test_every_law_is_listed_and_stands_in_the_document() -> None:
    done = CliRunner().invoke(main, ["conformance", "--list", "--json"])
    listed = {row["law"]: row["about"] for row in json.loads(done.stdout)}
    assert done.exit_code == 0
    assert listed == {law.name: law.about for law in LAWS}
    document = (ROOT / "docs" / "conformance.md").read_text()
    table = dict(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| ([^|]*) \|$", document, re.MULTILINE))
    assert table == listed


# ---------------------------------------------------------------------------- what it sees by

STREAM = (
    b'CONNECT {"verbose":false}\r\nSUB a.> 1\r\nSUB b group 2\r\nPUB a.b 5\r\na\r\nbc\r\n'
    b"PUB a.b _INBOX.x 0\r\n\r\nHPUB a.c 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG a.b 1 r.1 2\r\nok\r\nPING\r\n"
)
FRAMES = [
    ("CONNECT", "", "", "", b""),
    ("SUB", "a.>", "", "", b""),
    ("SUB", "b", "", "group", b""),
    ("PUB", "a.b", "", "", b"a\r\nbc"),
    ("PUB", "a.b", "_INBOX.x", "", b""),
    ("HPUB", "a.c", "", "", b"hi"),
    ("MSG", "a.b", "r.1", "", b"ok"),
    ("PING", "", "", "", b""),
]


@pytest.mark.parametrize("chunk", [1, 2, 7, 1_000])
def test_a_stream_is_read_alike_however_it_is_cut(chunk: int) -> None:
    parser = Parser()
    frames: list[Frame] = []
    for at in range(0, len(STREAM), chunk):
        frames += parser.feed(STREAM[at : at + chunk])
    assert [(f.verb, f.subject, f.reply, f.queue, f.payload) for f in frames] == FRAMES
    assert b"".join(frame.raw for frame in frames) == STREAM
