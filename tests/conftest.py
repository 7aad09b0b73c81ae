"""What holds for every test: nothing it started may outlive it, and random tests have named sizes."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# A process inherits the environment of whoever started it: so its descendants are known by this mark, even those
# whose own parent is gone.
MARK = f"UNKNOT_TEST_RUN={uuid.uuid4().hex}"
GRACE_S = 5.0

# In CI 2 000 examples, in `make soak` 50 000. The time limit of a test is pytest's, not each example's.
settings.register_profile("here", max_examples=200, deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("here"), max_examples=2_000)
settings.register_profile("soak", settings.get_profile("here"), max_examples=50_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "here"))


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fail if a process that a test started is still there when all fixtures have ended; then end it."""
    name, _, value = MARK.partition("=")
    os.environ[name] = value
    yield
    give_up_at = time.monotonic() + GRACE_S
    while (left := processes_with(MARK)) and time.monotonic() < give_up_at:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"left behind by tests of this run: {list(left.values())}"


def processes_with(mark: str) -> dict[int, str]:
    """Pid and command line of all living processes but this one that carry *mark* (Linux; elsewhere none)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark.encode() in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # ended meanwhile, or somebody else's
            continue
        if marked and int(folder.name) != os.getpid():
            found[int(folder.name)] = command
    return found
