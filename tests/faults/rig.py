"""Real processes that die, freeze, lose messages and come back; and what must hold of every blocking request."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.sdk.conftest import start_server
from tests.support import gateway as support
from unknot import Connection, WaitFailed
from unknot_schemas import Subjects
from unknot_schemas.limits import CLIENT_GRACE_S

BEAT_S = 0.5
SLACK_S = 2.0
"""What a loaded machine may add to an instant; no law is about less."""
HANG_S = 60.0


class Server:
    """A nats-server that can be killed, frozen, and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process, self.url = start_server(folder)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """On the same port."""
        port = urlsplit(self.url).port
        assert port is not None
        self._process, _ = start_server(self._folder, port)

    def freeze(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it for good."""
        self.thaw()
        self.kill()


class Stable:
    """Where gateways come from, see ``tests.faults.faulty``: one process of Python that forks them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.faulty"],
            cwd=support.ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(support.paths())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def order(self, **order: Any) -> Any:
        """Send one and read the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and what it has started."""
        self._process.communicate(timeout=10)


class House:
    """Gateways, one after the other, for one network on one server. *environment*: their settings."""

    def __init__(
        self, stable: Stable, server: Server, folder: Path, network: str, **environment: str
    ) -> None:
        self.server = server
        self.network = network
        self.pid = 0
        self._stable = stable
        self._environment = environment
        self._faults = folder / "faults"
        self._ready = folder / "ready"
        self._log = folder / "log"
        self._log.touch()

    async def open(self) -> None:
        """Start a gateway, which behaves until ``arm``; returns when it takes messages."""
        self.begin()
        await self.ready()

    def begin(self) -> None:
        """Start a gateway."""
        self._ready.unlink(missing_ok=True)
        where = ["--nats", self.server.url, "--network", self.network]
        self.pid = self._stable.order(
            type="Start",
            arguments=["serve", "--json", "--log-level", "warning", "--ready-file", str(self._ready), *where],
            environment={"FAULTS": str(self._faults), **self._environment},
            log=str(self._log),
        )

    async def ready(self) -> None:
        """Until the gateway takes messages."""
        await until(lambda: self._ready.exists() or self.is_dead)
        assert not self.is_dead, self._log.read_text()

    @property
    def code(self) -> int | None:
        """Exit code of the gateway, as subprocess has it; None while it runs."""
        code: int | None = self._stable.order(type="Poll", pid=self.pid)
        return code

    @property
    def is_dead(self) -> bool:
        """Whether it has ended."""
        return self.code is not None

    @property
    def log(self) -> str:
        """What its gateways have written to stderr."""
        return self._log.read_text()

    def plan(self, **plan: Any) -> None:
        """Have the next gateway follow *plan* (faulty.Plan) from its start."""
        part = self._faults.with_suffix(".part")
        part.write_text(json.dumps(plan))
        part.replace(self._faults)

    async def arm(self, **plan: Any) -> None:
        """Have the gateway follow *plan* from now on."""
        self.plan(**plan)
        os.kill(self.pid, signal.SIGUSR1)
        await until(lambda: not self._faults.exists())

    @property
    def trace(self) -> list[str]:
        """Kinds of the messages that have left since it was armed."""
        return self._faults.with_suffix(".trace").read_text().split("\n")[:-1]

    async def died(self) -> None:
        """Until the gateway has killed itself."""
        await until(lambda: self.is_dead)
        assert self.code == -signal.SIGKILL, self._log.read_text()

    async def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        await self.died()

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        await until(lambda: self.is_dead)
        code = self.code
        assert code is not None
        return code

    def freeze(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Kill what is left. No gateway may have met what it could not handle."""
        if not self.is_dead:
            os.kill(self.pid, signal.SIGKILL)
        errors = [
            line for line in self._log.read_text().splitlines() if '"level":"error"' in line.replace(" ", "")
        ]
        assert not errors, errors


class Ended:
    """How a blocking request ended, by its sender's clock."""

    def __init__(self, outcome: str, value: Any, took_s: float, error: WaitFailed | None = None) -> None:
        self.outcome = outcome
        self.value = value
        self.took_s = took_s
        self.error = error

    def __repr__(self) -> str:
        return f"{self.outcome} {self.value!r} {self.error or ''} after {self.took_s:.2f} s"


async def ended(waiting: Awaitable[Any], timeout: float) -> Ended:
    """How *waiting*, with that timeout, ends; it may not outlive its sender's own clock."""
    began = time.monotonic()
    outcome, value, error = "reply", None, None
    try:
        async with asyncio.timeout(timeout + CLIENT_GRACE_S + SLACK_S):
            value = await waiting
    except WaitFailed as failed:
        outcome, error = failed.code, failed
    return Ended(outcome, value, time.monotonic() - began, error)


def asking(
    me: Connection, target: str, event_type: str, data: Any = None, timeout: float = HANG_S
) -> "asyncio.Task[Ended]":
    """A blocking request of *me*, on its way."""
    return asyncio.create_task(
        ended(me.send_and_wait(target, event_type, data, timeout=timeout), timeout), name=f"asks {target}"
    )


async def until(is_so: Callable[[], bool], within_s: float = HANG_S) -> None:
    """Return when *is_so*."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110  what it looks at is in other processes, too
            await asyncio.sleep(0.01)


class Spy:
    """What the gateways say of requests, on the wire: each ends once, or is told again what it was told."""

    def __init__(self, network: str) -> None:
        self._subjects = Subjects(network)
        self.outcomes: dict[str, Counter[str]] = {}
        self.client: Client | None = None

    async def hear(self, message: Msg) -> None:
        """Take an outcome."""
        said = json.loads(message.data)
        event = said.get("event") or {}
        content = json.dumps([said["outcome"], event.get("data"), said.get("error")], sort_keys=True)
        self.outcomes.setdefault(said["request_id"], Counter())[content] += 1

    async def api(self, endpoint: str) -> Any:
        """What the gateway's api says; None when nobody is there."""
        assert self.client is not None
        try:
            answer = await self.client.request(self._subjects.api(endpoint), b"{}", timeout=2)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            return None
        return json.loads(answer.data)

    async def waits(self, n: int, house: House) -> None:
        """Until the gateway knows of *n* open waits, or is dead."""
        async with asyncio.timeout(HANG_S):
            while not house.is_dead:
                answer = await self.api("waits")
                if answer is not None and answer["total"] == n:
                    return
                await asyncio.sleep(0.02)

    def nothing_was_contradicted(self) -> None:
        """No request has had two different Outcomes."""
        twice = {id: said for id, said in self.outcomes.items() if len(said) > 1}
        assert not twice, twice


@contextlib.asynccontextmanager
async def spying(url: str, network: str) -> AsyncIterator[Spy]:
    """A Spy on one network, until the block ends."""
    spy = Spy(network)
    spy.client = await nats.connect(
        url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=_quiet, ping_interval=2
    )
    await spy.client.subscribe(f"unknot.{network}.out.*.*.outcome", cb=spy.hear)
    await spy.client.flush()
    try:
        yield spy
    finally:
        await spy.client.close()


async def _quiet(_error: Exception) -> None:
    """The spy's server may go away."""


async def all_over(spy: Spy, *sessions: Connection) -> None:
    """Until nothing is open or held any more, neither in the clients nor in the gateway."""
    for me in sessions:
        session = me._links.session
        await until(lambda session=session: not len(session.pending) and not session.running.held)  # type: ignore[misc]
    async with asyncio.timeout(HANG_S):
        while True:
            rows = (await spy.api("agents") or {}).get("rows", [None])
            waits = await spy.api("waits")
            busy = [row for row in rows if row is None or row["busy"] or row["held"] or row["queued"]]
            if not busy and waits is not None and waits["total"] == 0:
                return
            await asyncio.sleep(0.05)


class Program:
    """``unknot run`` of agents in a file: a process of its own."""

    def __init__(self, folder: Path, house: House, *names: str) -> None:
        self._arguments = ("run", *names, "--json")
        self._folder = folder
        self._house = house
        self.process: subprocess.Popen[str] | None = None

    async def start(self) -> "Program":
        """Returns when its agents are up."""
        await asyncio.to_thread(self._start)
        return self

    def _start(self) -> None:
        environment = {
            "PYTHONPATH": os.pathsep.join(support.paths()),
            "UNKNOT_URL": self._house.server.url,
            "UNKNOT_NETWORK": self._house.network,
        }
        with (self._folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "unknot_gateway", *self._arguments],
                cwd=self._folder,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        with self.process.stdout:
            up = self.process.stdout.readline()
        assert up, (self._folder / "log").read_text()

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send it one."""
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, when it has ended by itself."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, HANG_S)

    def end(self) -> None:
        """Kill what is left."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
