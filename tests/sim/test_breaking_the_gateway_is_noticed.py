"""The simulator notices it within a few seeds when one line of the gateway is wrong: that they pass means something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unknot_gateway

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]  # for a machine that does much else

GATEWAY = Path(unknot_gateway.__file__).parent
SEEDS = 60

BREAKS = {  # file, line, what it becomes, what is noticed, a seed to begin with: one that notices it soon
    "a-free-slot-is-not-given-on": (
        "core/dispatch.py",
        "pool.lanes and pool.session.live:",
        "pool.lanes and not pool.session.live:",
        "is not delivered",
        0,
    ),
    "a-delivery-takes-no-slot": (
        "core/dispatch.py",
        "        assert pool is not None\n        pool.used += 1\n",
        "        assert pool is not None\n",
        "more at a time than it has slots",
        0,
    ),
    "what-was-lost-is-not-asked-for": (
        "core/heartbeats.py",
        "                unknown.append(event_id)\n",
        "                pass\n",
        "is not delivered",
        0,
    ),
    "an-open-id-is-new-again": (
        "core/intake.py",
        "        if known is None:\n            return False\n",
        '        if known is None or known.state == "open":\n            return False\n',
        "left in the gateway",
        0,
    ),
    "a-request-ends-twice": (
        "core/settle.py",
        "        if not message.is_open:\n            return\n        message.is_open = False\n",
        "        message.is_open = False\n",
        "two outcomes",
        0,
    ),
    "a-group-is-over-too-early": (
        "core/groups.py",
        "group.n - group.spent >= group.need)",
        "group.n - group.spent > group.need)",
        "though nothing has broken",
        0,
    ),
    "a-wait-that-is-over-stays-an-edge": (
        "core/waiting.py",
        "        self.graph.close(wait.handle)\n",
        "",
        "false deadlock",
        30,
    ),
    "who-held-it-before-a-restart-is-not-asked": (
        "core/dispatch.py",
        "return self._claims.claimant(leg) if self._reconcile.has_begun else None",
        "return None",
        "is not delivered",
        0,
    ),
    "who-queues-waits-for-nobody": (
        "core/waiting.py",
        "            return slot_condition(waiting, leg.lane.pools)\n",
        "            return OUTSIDE\n",
        "missed",
        0,
    ),
    "what-a-session-holds-is-not-lost-with-it": (
        "core/reception.py",
        "            self._settle.lose(leg, backlog.now, why)\n",
        "            pass\n",
        "is not delivered",
        64,
    ),
    "the-last-in-the-queue-is-served-first": (
        "core/resources/pools.py",
        "            ask = next(iter(pool.queue))\n",
        "            ask = next(reversed(pool.queue))\n",
        "out of turn",
        0,
    ),
    "what-is-given-back-stays-taken": (
        "core/resources/pools.py",
        "        pool.held -= units\n",
        "        pool.held -= 0\n",
        "waits still, though all is there",
        0,
    ),
    "what-is-granted-is-free-as-before": (
        "core/resources/pools.py",
        "        for pool, units in parts:\n            pool.held += units\n",
        "        for pool, units in parts:\n            pool.held += 0\n",
        "is held by",
        0,
    ),
    "a-token-comes-twice": (
        "core/resources/leases.py",
        "        self._token += 1\n",
        "        self._token += 0\n",
        "was granted after",
        0,
    ),
    "a-lease-never-lapses": (
        "core/resources/locks.py",
        '            self._t.count("leases.lapsed")\n            self.take_away(hold)\n',
        "            pass\n",
        "left in the gateway",
        38,
    ),
    "what-is-published-is-given-to-nobody": (
        "core/resources/artifacts.py",
        "            wait.taken.update(indexes)\n",
        "            pass\n",
        "waits still, though all is there",
        0,
    ),
    "a-yes-does-not-count": (
        "core/resources/deciding.py",
        "            wait.taken.add(index)\n",
        "            pass\n",
        "waits still, though all is there",
        0,
    ),
    "who-may-produce-it-is-no-edge": (
        "core/resources/artifacts.py",
        "            self._waiting.graph.add_producer(wanted.handle, strand.node)\n",
        "            pass\n",
        "missed",
        0,
    ),
}


def broken_gateway(folder: Path, file: str, old: str, new: str) -> None:
    """A copy of the gateway in *folder*, in whose *file* the one occurrence of *old* is *new*."""
    shutil.copytree(GATEWAY, folder / GATEWAY.name, ignore=shutil.ignore_patterns("__pycache__"))
    broken = folder / GATEWAY.name / file
    text = broken.read_text()
    assert text.count(old) == 1, f"{file} has changed: {old!r} occurs {text.count(old)} times; break it anew"
    broken.write_text(text.replace(old, new))


def first_failure(folder: Path, first: int) -> str:
    """What the simulator says of the gateway in *folder*, from seed *first* up to the first that fails."""
    seeds = ["--first", str(first), "--seeds", str(SEEDS), "--until-failure"]
    command = [sys.executable, "-m", "tests.sim", "--jobs", "1", *seeds]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("name", BREAKS)
def test_one_wrong_line_is_noticed(name: str, tmp_path: Path) -> None:
    file, old, new, accusation, first = BREAKS[name]
    broken_gateway(tmp_path, file, old, new)
    said = first_failure(tmp_path, first)
    assert accusation in said, said
