"""The embedded server: found, checked, private, and gone with its parent whatever happens to that."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nats
import pytest

from tests.support.gateway import paths
from unknot_gateway.shell import embedded
from unknot_gateway.shell.embedded import EmbeddedServer, ServerFailed

PARENT = """
import asyncio, sys
from unknot_gateway.shell.embedded import EmbeddedServer

async def main():
    server = await EmbeddedServer.start(death_signal=sys.argv[1] == "signal")
    print(server.pid, server._folder, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def alive(pid: int) -> bool:
    """Whether a process of this id is there and no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.parametrize("guard", ["signal", "pipe"])
def test_the_server_ends_when_its_parent_is_killed(guard: str) -> None:
    if guard == "signal" and sys.platform != "linux":
        pytest.skip("Linux only; elsewhere the pipe does it")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, guard],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths())},
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid, folder = parent.stdout.readline().split()
    try:
        assert alive(int(pid))
        parent.kill()
        parent.wait()
        give_up_at = time.monotonic() + 5
        while alive(int(pid)) and time.monotonic() < give_up_at:
            time.sleep(0.01)
        assert not alive(int(pid))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_stopped_server_leaves_nothing() -> None:
    server = await EmbeddedServer.start()
    folder = server._folder
    assert folder.exists()
    await server.stop()
    assert not alive(server.pid)
    assert not folder.exists()
    await server.stop()


async def test_it_listens_on_the_loopback_only_and_syncs_always() -> None:
    server = await EmbeddedServer.start()
    try:
        assert server.url.startswith("nats://127.0.0.1:")
        assert "sync_interval: always" in (server._folder / "server.conf").read_text()
        client = await nats.connect(server.url)
        version = client.connected_server_version
        assert (version.major, version.minor) >= embedded.VERSION_MIN
        await client.jetstream().account_info()
        await client.close()
    finally:
        await server.stop()


async def test_its_data_stay_where_the_operator_wants_them(tmp_path: Path) -> None:
    for turn in range(2):
        server = await EmbeddedServer.start(data=str(tmp_path / "data"))
        client = await nats.connect(server.url)
        stream = client.jetstream()
        if turn == 0:
            await stream.add_stream(name="S", subjects=["s"])
            await stream.publish("s", b"kept")
        else:
            assert (await stream.get_last_msg("S", "s")).data == b"kept"
        await client.close()
        await server.stop()


async def test_a_port_that_is_taken_is_a_failure_that_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=f"^port {port} is taken.*use that one, or .*--port"):
            await EmbeddedServer.start(port)


async def test_its_end_is_noticed() -> None:
    server = await EmbeddedServer.start()
    ended = asyncio.create_task(server.wait())
    os.kill(server.pid, signal.SIGTERM)
    assert "Server Exiting" in await asyncio.wait_for(ended, 5)
    await server.stop()


def program(folder: Path, says: str) -> Path:
    path = folder / "nats-server"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_the_named_server_goes_before_the_scripts_folder_and_that_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, scripts, on_path = (tmp_path / name for name in ("named", "scripts", "path"))
    for folder in (named, scripts, on_path):
        folder.mkdir()
        program(folder, "nats-server: v2.12.0")
    monkeypatch.setenv("NATS_SERVER_BIN", str(named / "nats-server"))
    monkeypatch.setattr(embedded.sysconfig, "get_path", lambda _: str(scripts))
    monkeypatch.setenv("PATH", str(on_path))
    assert embedded.find_server() == str(named / "nats-server")
    monkeypatch.delenv("NATS_SERVER_BIN")
    assert embedded.find_server() == str(scripts / "nats-server")
    (scripts / "nats-server").unlink()
    assert embedded.find_server() == str(on_path / "nats-server")
    (on_path / "nats-server").unlink()
    with pytest.raises(ServerFailed, match="pip install"):
        embedded.find_server()
    monkeypatch.setenv("NATS_SERVER_BIN", str(tmp_path / "absent"))
    with pytest.raises(ServerFailed, match="NATS_SERVER_BIN"):
        embedded.find_server()


@pytest.mark.parametrize(
    ("says", "fine"),
    [
        ("nats-server: v2.12.0", True),
        ("nats-server: v2.15.1", True),
        ("nats-server: v3.0.0-preview.1", True),
        ("nats-server: v2.9.10", False),
        ("nats-server: v2.11.99", False),
        ("hello", False),
    ],
)
def test_a_server_that_drops_what_it_does_not_know_is_refused(says: str, fine: bool, tmp_path: Path) -> None:
    path = str(program(tmp_path, says))
    if fine:
        assert embedded.check_version(path) in says
    else:
        with pytest.raises(ServerFailed):
            embedded.check_version(path)
