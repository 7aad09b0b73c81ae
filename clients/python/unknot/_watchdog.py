"""Names the handler that blocks the event loop itself: everything of its agent stands still meanwhile."""

import asyncio
import logging
import sys
import threading
import traceback
from typing import Final

logger = logging.getLogger("unknot")

THRESHOLD_S: Final = 1.0
LOOKS: Final = 4
"""How often a threshold's time is looked at."""
FRAMES_MAX: Final = 8


class Watchdog:
    """A thread that feels the pulse of one event loop; costs the loop a few callbacks a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_s: float = THRESHOLD_S) -> None:
        self._loop = loop
        self._threshold_s = threshold_s
        self._thread_id = threading.get_ident()
        self._beat = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="unknot: watchdog", daemon=True)
        self.warnings = 0

    def start(self) -> None:
        """Watch from now on; called on the loop's own thread."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        self._beat.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._threshold_s / LOOKS):
            self._beat.clear()
            try:
                self._loop.call_soon_threadsafe(self._beat.set)
            except RuntimeError:  # the loop is closed
                return
            if not self._beat.wait(self._threshold_s):
                self._warn()
                self._beat.wait()

    def _warn(self) -> None:
        self.warnings += 1
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._thread_id)
        stack = traceback.format_stack(frame)[-FRAMES_MAX:] if frame is not None else []
        logger.warning(
            "the event loop was blocked for %g s by %s: use await, or a plain `def` handler (it gets a thread)\n%s",
            self._threshold_s,
            task.get_name() if task is not None else "a callback",
            "".join(stack),
        )


_watchdogs: dict[asyncio.AbstractEventLoop, tuple[Watchdog, int]] = {}


def watch() -> None:
    """Watch the running loop; one thread however many sessions it has."""
    loop = asyncio.get_running_loop()
    watchdog, users = _watchdogs.get(loop, (None, 0))
    if watchdog is None:
        watchdog = Watchdog(loop)
        watchdog.start()
    _watchdogs[loop] = (watchdog, users + 1)


def unwatch() -> None:
    """One session less; the last one ends the watch."""
    loop = asyncio.get_running_loop()
    watchdog, users = _watchdogs.pop(loop)
    if users > 1:
        _watchdogs[loop] = (watchdog, users - 1)
    else:
        watchdog.stop()
