"""Which gateway serves a users file, and which users it has loaded: how ``unknot users`` reaches a running one.

The gateway holds a lock on FILE.pid for as long as it lives, so a pid in it is never somebody else's.
"""

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

RELOAD_S: Final = 10.0
_LOOK_S: Final = 0.02


class Present(Struct, frozen=True):
    """What FILE.pid says. *digest*: of the users that hold now; *error*: why the last ones were not taken."""

    pid: int
    digest: str
    error: str = ""
    loads: int = 0
    """How often it has loaded, or tried to."""


class AlreadyPresent(Exception):
    """Another gateway serves this users file."""


class Presence:
    """Held by the gateway that serves the users of *path*. Raises AlreadyPresent."""

    def __init__(self, path: Path) -> None:
        self._path = _pid_file(path)
        self._loads = 0
        self._file: IO[bytes] = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise AlreadyPresent(f"another gateway serves the users of {path}") from error

    def tell(self, digest: str, error: str = "") -> None:
        """Say which users hold now."""
        self._loads += 1
        self._file.seek(0)
        self._file.truncate()
        self._file.write(msgspec.json.encode(Present(os.getpid(), digest, error, self._loads)))
        self._file.flush()

    def close(self) -> None:
        """Nobody serves them any more."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def reload(path: Path, digest: str) -> str | None:
    """Have the gateway that serves *path* load it again, and wait until the users *digest* hold.

    None: nobody serves it. "": done. Else why it was not done.
    """
    present = _present(path)
    if present is None:
        return None
    os.kill(present.pid, signal.SIGHUP)
    give_up_at = time.monotonic() + RELOAD_S
    while time.monotonic() < give_up_at:
        now = _present(path)
        if now is None or now.digest == digest:
            return "" if now is not None else None
        if now.error and now.loads != present.loads:
            return now.error
        time.sleep(_LOOK_S)
    return f"the gateway (pid {present.pid}) has not loaded it within {RELOAD_S:g} s"


def _present(path: Path) -> Present | None:
    try:
        with _pid_file(path).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return _read(file)
            return None  # its gateway is gone
    except FileNotFoundError:
        return None


def _read(file: IO[bytes]) -> Present | None:
    give_up_at = time.monotonic() + RELOAD_S
    while time.monotonic() < give_up_at:
        file.seek(0)
        try:
            return msgspec.json.decode(file.read(), type=Present)
        except msgspec.DecodeError:  # it is being written
            time.sleep(_LOOK_S)
    return None


def _pid_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.pid")
