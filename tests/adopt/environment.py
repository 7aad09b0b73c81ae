"""An environment with the real frameworks: too large to be made for each run, so it is kept in the checkout.

It is made anew when what belongs into it has changed. unknot's own code is taken from the checkout.
"""

import fcntl
import shutil
import tomllib
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.house.environments import Environment, build_wheel
from tests.house.tree import ROOT

FOLDER = ROOT / ".venv-adopt"
EXTRAS = "gateway,langgraph,openai-agents,autogen"
BESIDE = ("autogen-agentchat", "hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")


def with_the_frameworks() -> Environment:
    """The environment, made if it is not there."""
    FOLDER.mkdir(exist_ok=True)
    environment, made, wanted = FOLDER / "environment", FOLDER / "made-for", _wanted()
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text() != wanted:
            made.unlink(missing_ok=True)
            shutil.rmtree(environment, ignore_errors=True)
            with TemporaryDirectory() as folder:
                build_wheel(Path(folder))
                [wheel] = Path(folder).glob("*.whl")
                Environment.make(environment, f"{wheel}[{EXTRAS}]", *BESIDE)
            made.write_text(wanted)
    return Environment(environment)


def _wanted() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [project["dependencies"], project["optional-dependencies"], EXTRAS, BESIDE]
    return sha256(repr(named).encode() + (ROOT / "constraints.txt").read_bytes()).hexdigest()
