"""A real NATS server for all SDK tests; on it a scripted gateway, in a network of its own for each test.

``house``: the real gateway, in such a network, too.
"""

import contextlib
import itertools
import json
import subprocess
import sysconfig
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.sdk.fake import Fake, faking
from tests.support.gateway import Gateway, gateway, gateways  # noqa: F401  fixtures

_numbers = itertools.count(1)


def start_server(folder: Path, port: int = -1) -> tuple[subprocess.Popen[bytes], str]:
    """A nats-server on a free port; its process and URL."""
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    ports = folder / "ports"
    ports.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [binary, "-a", "127.0.0.1", "-p", str(port), "--ports_file_dir", ports],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for file in ports.glob(f"*_{process.pid}.ports"):
            with contextlib.suppress(ValueError):
                return process, json.loads(file.read_text())["nats"][0]
        time.sleep(0.01)
    process.kill()
    process.wait()
    raise AssertionError("nats-server did not start")


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process, url = start_server(tmp_path_factory.mktemp("nats"))
    yield url
    process.terminate()
    process.wait(10)


@pytest.fixture
async def fake(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fake]:
    """The gateway's side, in a network of its own; connect() and Agent.running() find it by themselves."""
    network = f"n{next(_numbers)}"
    monkeypatch.setenv("UNKNOT_URL", nats_url)
    monkeypatch.setenv("UNKNOT_NETWORK", network)
    async with faking(nats_url, network) as scripted:
        yield scripted


@pytest.fixture
def house(gateway: Gateway) -> Gateway:  # noqa: F811  the fixture
    return gateway
