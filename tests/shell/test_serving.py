"""A whole gateway process: how it starts, what it tells, how it ends."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.shell.test_embedded import alive
from tests.support import gateway as support
from tests.support.gateway import Gateway
from unknot_gateway.shell import serving
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_schemas import Subjects

PATIENCE_S = 5.0


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    """A raw client."""
    connection = await nats.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def hello(raw: Client, subjects: Subjects, agent: str) -> str:
    """A session of *agent*; its token."""
    session = secrets.token_urlsafe(16)
    body = json.dumps({"session": session, "concurrency": 4}).encode()
    answer = await raw.request(subjects.verb(agent, "hello"), body, timeout=PATIENCE_S)
    assert json.loads(answer.data)["ok"], answer.data
    return session


async def api(raw: Client, subjects: Subjects, endpoint: str, **question: Any) -> Any:
    """What the api says."""
    answer = await raw.request(subjects.api(endpoint), json.dumps(question).encode(), timeout=PATIENCE_S)
    return json.loads(answer.data) if answer.data else answer.headers


async def api_when_there(raw: Client, subjects: Subjects, endpoint: str) -> Any:
    """What the api says as soon as the gateway is back."""
    async with asyncio.timeout(3 * PATIENCE_S):
        while True:
            try:
                return await api(raw, subjects, endpoint)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(0.05)


def request_body(timeout_s: float = 30, **more: Any) -> bytes:
    return json.dumps({"unknot": 1, "id": secrets.token_urlsafe(16), "timeout_s": timeout_s, **more}).encode()


def wait_until(true: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


async def test_a_request_is_carried_there_and_back(gateway: Gateway) -> None:
    subjects = Subjects(gateway.network)
    async with client(gateway.nats) as raw:
        session = await hello(raw, subjects, "echo")

        async def echo(message: Any) -> None:
            await message.respond(json.dumps(json.loads(message.data)["data"]).encode())

        await raw.subscribe(f"{subjects.root}.out.echo.{session}.event.>", cb=echo)
        await raw.flush()
        answer = await raw.request(
            subjects.event("cli", "request", "echo", "say"), b'{"hi":1}', timeout=PATIENCE_S
        )
    outcome = json.loads(answer.data)
    assert (outcome["outcome"], outcome["event"]["data"]) == ("reply", {"hi": 1})
    assert outcome["epoch"] == gateway.epoch


async def test_a_stop_ends_every_open_wait_and_the_process_with_success() -> None:
    gateway = support.start()
    subjects = Subjects()
    raw = await nats.connect(gateway.nats, allow_reconnect=False, error_cb=_quiet)
    session = await hello(raw, subjects, "busy")
    taken = await raw.subscribe(f"{subjects.root}.out.busy.{session}.event.>")
    ended: list[Any] = []

    async def end(message: Any) -> None:
        ended.append(json.loads(message.data))

    await raw.subscribe("_INBOX.open.*", cb=end)
    for number in range(3):
        await raw.publish(
            subjects.event("cli", "request", "busy", "work"), request_body(), reply=f"_INBOX.open.{number}"
        )
    for _ in range(3):
        await taken.next_msg(PATIENCE_S)
    code = await asyncio.to_thread(gateway.stop)
    assert code == 0
    assert [outcome["outcome"] for outcome in ended] == ["cancelled"] * 3
    assert {outcome["error"]["code"] for outcome in ended} == {"gateway_stopped"}
    assert gateway.server_pid is not None
    assert not alive(gateway.server_pid)
    await raw.close()


def test_a_killed_gateway_takes_its_server_with_it() -> None:
    gateway = support.start()
    assert gateway.server_pid is not None
    assert alive(gateway.server_pid)
    gateway.kill()
    pid = gateway.server_pid
    wait_until(lambda: not alive(pid))


def test_a_gateway_whose_server_ends_ends_with_a_failure_and_the_reason() -> None:
    gateway = support.start()
    assert gateway.server_pid is not None
    os.kill(gateway.server_pid, signal.SIGKILL)
    assert gateway.process.wait(PATIENCE_S) == 1
    wait_until(lambda: "the embedded NATS server ended" in "".join(gateway.log))


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``unknot serve`` that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "unknot_gateway", "serve", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(support.paths())},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_no_server_where_one_was_named_is_code_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNKNOT_CONNECT_S", "0.5")
    ended = serve("--nats", "nats://127.0.0.1:1")
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "no NATS server at nats://127.0.0.1:1" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--network", "a b"], ["--policy", "loud"], ["--config", "no/such/file"], ["--port", "70000"]],
)
def test_settings_that_cannot_be_used_are_code_2(arguments: list[str]) -> None:
    ended = serve(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Error" in ended.stderr


async def test_a_network_has_one_gateway() -> None:
    with support.running(networks=["one"]) as first:
        second = await asyncio.to_thread(serve, "--nats", first.nats, "--network", "two", "--network", "one")
        assert second.returncode == 1
        assert "another gateway serves network one" in second.stderr
        with support.running(nats=first.nats, networks=["two"]):
            pass


async def test_outside_development_a_foreign_inbox_is_never_answered() -> None:
    with support.running(environment={"UNKNOT_ANY_INBOX": "false"}) as gateway:
        subjects = Subjects()
        async with client(gateway.nats) as raw:
            with pytest.raises(nats.errors.TimeoutError):
                await raw.request(subjects.verb("elm", "hello"), b'{"session":"s1"}', timeout=0.3)
            own = await raw.subscribe("_INBOX.elm.1")
            await raw.publish(subjects.verb("elm", "hello"), b'{"session":"s2"}', reply="_INBOX.elm.1")
            assert json.loads((await own.next_msg(PATIENCE_S)).data)["ok"]
            stats = await api(raw, subjects, "stats")
    assert stats["counters"]["shell.reply_subjects_refused"] == 1


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("nats://127.0.0.1:4222", True),
        ("localhost", True),
        ("nats://user:secret@[::1]:4222", True),
        ("nats://10.0.0.7:4222", False),
        ("nats://127.0.0.1:4222,nats://nats-2:4222", False),
    ],
)
def test_development_mode_is_for_the_loopback_only(url: str, loopback: bool) -> None:
    assert serving._is_loopback(url) is loopback


def test_a_ready_file_is_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    with support.running("--ready-file", str(file)) as gateway:
        assert json.loads(file.read_text())["nats"] == gateway.nats


def test_every_log_line_is_json_with_level_event_and_time() -> None:
    with support.running() as gateway:
        pass
    lines = [line for line in gateway.log if line]
    assert len(lines) == len(gateway.logged) >= 3
    for record in gateway.logged:
        assert {"level", "event", "timestamp"} <= record.keys()


async def test_a_stop_without_a_server_ends_with_success() -> None:
    server = await EmbeddedServer.start()
    gateway = await asyncio.to_thread(support.start, nats=server.url, networks=["one", "two", "three"])
    os.kill(server.pid, signal.SIGKILL)
    try:
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        await server.stop()


def test_a_stop_while_no_server_is_found_yet_is_heard_at_once() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "unknot_gateway", "serve", "--nats", "nats://127.0.0.1:1"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(support.paths()), "UNKNOT_CONNECT_S": "3600"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        assert "connection_errors" in process.stderr.readline()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


async def test_a_server_that_comes_back_finds_the_gateway_at_work_with_all_it_knew() -> None:
    server = await EmbeddedServer.start()
    port = int(server.url.rpartition(":")[2])
    gateway = await asyncio.to_thread(support.start, nats=server.url)
    try:
        async with client(server.url) as raw:
            await hello(raw, Subjects(), "elm")
        await server.stop()
        server = await EmbeddedServer.start(port)
        async with client(server.url) as raw:
            agents = await api_when_there(raw, Subjects(), "agents")
        assert [row["agent"] for row in agents["rows"]] == ["elm"]
        assert agents["epoch"] == gateway.epoch
    finally:
        assert await asyncio.to_thread(gateway.stop) == 0
        await server.stop()


async def test_a_log_that_nobody_reads_any_more_does_not_end_the_gateway() -> None:
    read, write = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "unknot_gateway", "serve", "--json", "--port", "0", "--log-level", "debug"),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(support.paths())},
        stdout=asyncio.subprocess.PIPE,
        stderr=write,
    )
    os.close(write)
    os.close(read)
    assert process.stdout is not None
    url = json.loads(await process.stdout.readline())["nats"]
    async with client(url) as raw:
        assert (await api(raw, Subjects(), "agents"))["total"] == 0
    process.terminate()
    await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0


async def test_nothing_crosses_between_networks() -> None:
    with support.running(networks=["one", "two"]) as gateway:
        async with client(gateway.nats) as raw:
            await hello(raw, Subjects("one"), "elm")
            for network, there in (("one", 1), ("two", 0)):
                assert (await api(raw, Subjects(network), "agents"))["total"] == there


async def test_the_api_is_a_micro_service(gateway: Gateway) -> None:
    subjects = Subjects(gateway.network)
    async with client(gateway.nats) as raw:
        about = json.loads((await raw.request("$SRV.INFO.unknot", b"", timeout=PATIENCE_S)).data)
        names = {endpoint["subject"] for endpoint in about["endpoints"]}
        assert {subjects.api(name) for name in ("waits", "agents", "stats")} <= names
        stats = await api(raw, subjects, "stats")
        assert (stats["network"], stats["epoch"]) == (gateway.network, gateway.epoch)
        assert (await api(raw, subjects, "waits", limit="many"))["Nats-Service-Error-Code"] == "400"


async def test_the_api_shows_some_waits_and_says_how_many_there_are(gateway: Gateway) -> None:
    subjects = Subjects(gateway.network)
    async with client(gateway.nats) as raw:
        session = await hello(raw, subjects, "busy")
        await raw.subscribe(f"{subjects.root}.out.busy.{session}.event.>", cb=_ignore)
        for _ in range(30):
            await raw.publish(subjects.event("cli", "request", "busy", "work"), request_body())
        await raw.flush()
        answer = await api(raw, subjects, "waits", limit=20)
        assert (answer["total"], len(answer["rows"])) == (30, 20)
        assert answer["rows"][0]["target"] == "busy"
        assert len((await api(raw, subjects, "waits"))["rows"]) == 30


async def test_a_stream_that_captures_the_prefix_is_warned_of() -> None:
    with support.running() as first:
        async with client(first.nats) as raw:
            await raw.jetstream().add_stream(name="GREEDY", subjects=["unknot.>"])
            with support.running(nats=first.nats, networks=["other"]) as second:
                pass
    warnings = [record for record in second.logged if record["level"] == "warning"]
    assert [record["stream"] for record in warnings] == ["GREEDY"]


async def test_bad_input_of_every_kind_leaves_the_gateway_at_work(gateway: Gateway) -> None:
    subjects = Subjects(gateway.network)
    async with client(gateway.nats) as raw:
        for body in (b"{", b"\xff", b"[" * 100_000, b'{"unknot":1,"id":7}', b"x" * 600_000):
            for verb in ("request.elm.work", "reply.r1", "hello", "facts", "nonsense", "publish.a.b"):
                subject = f"{subjects.root}.in.birch.{verb}"
                answer = await raw.request(subject, body, timeout=PATIENCE_S)
                said = json.loads(answer.data)
                assert said.get("error"), (verb, body[:20], said)
        stats = await api(raw, subjects, "stats")
    assert stats["counters"]["shell.refused"] == 30
    assert "shell.failed" not in stats["counters"]


async def _ignore(message: Any) -> None:
    """Taken, never answered."""


async def _quiet(error: Exception) -> None:
    """The server ends with the gateway."""
