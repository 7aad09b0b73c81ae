"""A real gateway process on a real NATS server, for tests: start it, ask where it is, stop or kill it."""

import contextlib
import copy
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
START_S = 20.0
STOP_S = 15.0
NETWORKS = 32
"""Networks of the shared gateway; when all have been given out, a further gateway is started."""


class Gateway:
    """A running ``unknot serve``. *nats*: URL of its server; *log*: its stderr so far."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any], log: list[str]) -> None:
        self.process = process
        self.nats: str = ready["nats"]
        self.network: str = ready["network"]
        self.networks: list[str] = ready["networks"]
        self.epoch: int = ready["epoch"]
        self.pid: int = ready["pid"]
        self.server_pid: int | None = ready["server_pid"]
        self.log = log

    @property
    def logged(self) -> list[dict[str, Any]]:
        """The JSON lines it has logged."""
        return [json.loads(line) for line in self.log if line.startswith("{")]

    def stop(self) -> int:
        """Ask it to stop (SIGTERM: it drains); its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        """Kill it at once (SIGKILL)."""
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def start(
    *arguments: str,
    networks: Sequence[str] = ("default",),
    nats: str | None = None,
    environment: dict[str, str] | None = None,
) -> Gateway:
    """Start a gateway on a free port (or on the server at *nats*) and return when it takes messages.

    *arguments*: further ones of ``unknot serve``, such as ``"--policy", "shadow"``.
    """
    where = ["--nats", nats] if nats else ["--port", "0"]
    named = [word for network in networks for word in ("--network", network)]
    process = subprocess.Popen(
        [sys.executable, "-m", "unknot_gateway", "serve", "--json", *where, *named, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths())} | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(process.stderr, log.append), daemon=True).start()
    threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True).start()
    try:
        ready = lines.get(timeout=START_S)
    except queue.Empty:
        ready = ""
    if not ready:
        process.kill()
        process.wait()
        raise AssertionError("the gateway did not start: " + "".join(log[-20:]))
    return Gateway(process, json.loads(ready), log)


@contextlib.contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Gateway]:
    """``start`` for the length of a block; stopped at its end, if it still runs."""
    gateway = start(*arguments, **options)
    try:
        yield gateway
    finally:
        gateway.stop()


def paths() -> list[str]:
    """Where the three packages are, for processes that tests start."""
    return [str(ROOT / part) for part in ("schemas", "clients/python", "gateway")] + [str(ROOT)]


@pytest.fixture(scope="session")
def gateways() -> Iterator[list[Gateway]]:
    """The shared gateways of this test process, started as networks are asked for."""
    started: list[Gateway] = []
    yield started
    for gateway in started:
        gateway.stop()


@pytest.fixture
def gateway(gateways: list[Gateway]) -> Gateway:
    """A shared gateway; its ``network`` is one that no test had before: what happens there is this test's alone."""
    if not gateways or not gateways[-1].networks:
        gateways.append(start(networks=[f"n{len(gateways)}-{number}" for number in range(NETWORKS)]))
    own = copy.copy(gateways[-1])
    own.network = gateways[-1].networks.pop()
    return own


def _read(stream: Any, take: Any) -> None:
    with stream:
        for line in stream:
            take(line)
    take("")
