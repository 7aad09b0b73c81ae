"""The command as a process, and a raw agent for it to talk to."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import nats
from click.testing import CliRunner
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.gateway import ROOT, Gateway, paths
from unknot_gateway.cli import main
from unknot_schemas import Subjects

PATIENCE_S = 30.0
"""Hang limit of one command; each takes a fraction of a second."""


STARTED: list[asyncio.subprocess.Process] = []


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout, read as one JSON document."""
        return json.loads(self.out)


async def start(
    *arguments: str, gateway: Gateway | None = None, cwd: Path = ROOT
) -> asyncio.subprocess.Process:
    """Start ``unknot`` with *arguments*, at *gateway* and its network."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "unknot_gateway",
        *arguments,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths())} | _where(gateway),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    STARTED.append(process)
    return process


async def end_all() -> None:
    """End what a test that failed has left."""
    while STARTED:
        process = STARTED.pop()
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process, stdin: bytes = b"") -> Ended:
    """How *process* ends."""
    out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE_S)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def unknot(*arguments: str, gateway: Gateway | None = None, stdin: bytes = b"") -> Ended:
    """Run ``unknot`` to its end, in a thread of this process: what needs signals is started by ``start``."""
    invoke = partial(CliRunner().invoke, main, arguments, input=stdin, env=_where(gateway))
    result = await asyncio.wait_for(asyncio.to_thread(invoke), PATIENCE_S)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def _where(gateway: Gateway | None) -> dict[str, str]:
    return {"UNKNOT_URL": gateway.nats, "UNKNOT_NETWORK": gateway.network} if gateway is not None else {}


class RawAgent:
    """An agent without the SDK. *handle* gets each delivered event."""

    def __init__(self, raw: Client, subjects: Subjects, name: str, session: str) -> None:
        self.raw, self.subjects, self.name, self.session = raw, subjects, name, session

    async def reply(self, request_id: str, **fields: Any) -> None:
        """Answer a request."""
        body = {"unknot": 1, "session": self.session, **fields}
        await self.raw.publish(self.subjects.reply(self.name, request_id), json.dumps(body).encode())

    async def request(self, target: str, execution: str) -> None:
        """Block *execution* on *target*."""
        body = {
            "unknot": 1,
            "id": secrets.token_urlsafe(12),
            "session": self.session,
            "execution": execution,
            "timeout_s": 30,
        }
        subject = self.subjects.event(self.name, "request", target, "work")
        await self.raw.publish(subject, json.dumps(body).encode())


@asynccontextmanager
async def agent(
    gateway: Gateway, name: str, handle: Callable[[RawAgent, Any], Awaitable[None]], concurrency: int = 1
) -> AsyncIterator[RawAgent]:
    """Agent *name* in the gateway's network, until the block ends."""
    subjects = Subjects(gateway.network)
    raw = await nats.connect(gateway.nats)
    session = secrets.token_urlsafe(16)
    self = RawAgent(raw, subjects, name, session)

    async def on_message(message: Msg) -> None:
        if ".event." in message.subject:
            await handle(self, json.loads(message.data))
        elif message.subject.endswith(".control.confirm"):
            asked = json.loads(message.data)
            facts = {
                "session": session,
                "incident": asked["incident"],
                "open": [w["id"] for w in asked["waits"]],
            }
            await raw.publish(subjects.verb(name, "facts"), json.dumps(facts).encode())

    await raw.subscribe(subjects.out(name, session), cb=on_message)
    await raw.flush()
    hello = json.dumps({"session": session, "concurrency": concurrency}).encode()
    assert json.loads((await raw.request(subjects.verb(name, "hello"), hello, timeout=10)).data)["ok"]
    try:
        yield self
    finally:
        await raw.close()


async def echo(agent: RawAgent, event: Any) -> None:
    """Answer with what was asked."""
    if event["requires_response"]:
        await agent.reply(event["id"], data=event["data"])


async def break_down(agent: RawAgent, event: Any) -> None:
    """Fail."""
    await agent.reply(event["id"], error={"code": "handler_failed", "message": "it broke"})


async def say_nothing(agent: RawAgent, event: Any) -> None:
    """Take it, and never answer."""
