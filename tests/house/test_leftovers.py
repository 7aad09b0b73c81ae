"""The guard in tests/conftest.py sees what it should."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.conftest import processes_with

pytestmark = [pytest.mark.once, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

STARTS_ONE_AND_LEAVES = """
import subprocess, sys
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen([sys.executable, "-c", "input()"], **quiet).pid)
"""


def test_a_process_whose_parent_is_gone_is_still_seen() -> None:
    name, value = "UNKNOT_TEST_ORPHAN", uuid.uuid4().hex
    read_end, write_end = os.pipe()
    try:
        parent = subprocess.run(
            [sys.executable, "-c", STARTS_ONE_AND_LEAVES],
            env={**os.environ, name: value},
            stdin=read_end,
            capture_output=True,
            check=True,
        )
        assert list(processes_with(f"{name}={value}")) == [int(parent.stdout)]
    finally:
        os.close(read_end)
        os.close(write_end)  # its input ends, and so does it
