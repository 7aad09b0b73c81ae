"""What an agent's runtime says of itself, as monitoring has it: JSON lines on stdout, from a timer of its own."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from unknot import DeadlockDetected

BEAT_S: Final = 0.25


class Liveness:
    """The heartbeat of one agent. *last_heartbeat* and *tokens_used* are those that were recorded."""

    def __init__(self, agent: str, last_heartbeat: str, tokens_used: int) -> None:
        self.agent = agent
        self._last_heartbeat = last_heartbeat
        self._tokens_used = tokens_used
        self._status = "idle"
        self._timer: threading.Thread | None = None

    @property
    def status(self) -> str:
        """What it is doing."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self._beat()
        if self._timer is None:
            self._timer = threading.Thread(target=self._beats, daemon=True)
            self._timer.start()

    @contextlib.contextmanager
    def says(self, status: str) -> Iterator[None]:
        """Report *status* while the block runs."""
        before, self.status = self.status, status
        try:
            yield
        finally:
            self.status = before

    @contextlib.contextmanager
    def waits(self, what: str, of: str) -> Iterator[None]:
        """Report "waiting for input" while the block runs: all that a runtime knows."""
        with self.says("waiting for input"):
            self._step("waits", what=what, of=of)
            yield

    def was_told(self, knot: DeadlockDetected) -> None:
        """The wait has failed: it could never have ended."""
        self._step("told", incident=knot.incident, cycle=list(knot.cycle))

    def goes_on(self, how: str) -> None:
        """What comes after."""
        self._step("goes on", how=how)

    def _step(self, step: str, **about: Any) -> None:
        _print({"agent": self.agent, "step": step} | about)

    def _beats(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self._beat()

    def _beat(self) -> None:
        _print(
            {
                "agent": self.agent,
                "state": "running",
                "healthy": True,
                "last_heartbeat": self._last_heartbeat,
                "tokens_used": self._tokens_used,
                "status": self._status,
            }
        )


def _print(line: dict[str, Any]) -> None:
    """*at*: the monotonic clock is one for all processes of a machine."""
    os.write(
        1, json.dumps(line | {"at": time.monotonic()}).encode() + b"\n"
    )  # whole: two threads write lines
