"""What the program under test plays with: a server, a gateway that can be frozen and killed, and other agents."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from unknot import Login
from unknot_gateway.cli.conformance.record import PATIENCE_S, Broken, Record
from unknot_gateway.cli.conformance.tap import Tap
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_gateway.shell.settings import ENVIRONMENT_PREFIX, Settings
from unknot_schemas.ids import NO_SESSION
from unknot_schemas.subjects import Subjects

NETWORK: Final = "conformance"
AGENT: Final = "pupil"
"""Who the program under test is."""
ASKER: Final = "examiner"
ECHO: Final = "mirror"
SILENT: Final = "sphinx"
KNOT: Final = "knot"
"""The others: who asks; who answers with what it was sent; who never answers; who asks back."""
HEARTBEAT_S: Final = 0.5
SLOTS: Final = 64
_START_S: Final = 60.0
_END_S: Final = 5.0
_LAST_LINES: Final = 5
_OF_AGENTS: Final = ("url", "network", "blocking_waits")


class NotStarted(Exception):
    """The command, or what it is to be tested with, cannot be started; the text says why."""


class Question(NamedTuple):
    """A request to the program. *sent*: subject and payload."""

    id: str
    outcomes: "asyncio.Queue[dict[str, Any]]"
    sent: tuple[str, bytes, str]

    async def outcome(self, within_s: float = 15.0) -> dict[str, Any]:
        """How it ended. Raises Broken when it has not in time."""
        try:
            return await asyncio.wait_for(self.outcomes.get(), within_s)
        except TimeoutError:
            raise Broken(f"a request was not answered within {within_s:g} s") from None

    async def answer(self, within_s: float = 15.0) -> Any:
        """The data of its answer. Raises Broken when it ended otherwise."""
        outcome = await self.outcome(within_s)
        if outcome.get("outcome") != "reply":
            why = (outcome.get("error") or {}).get("message", "")
            raise Broken(f"a request ended {outcome.get('outcome')!r} instead of being answered: {why}")
        return outcome["event"]["data"]


class Others:
    """The agents that it speaks with: plain NATS, without hello. One connection, beside the tap."""

    def __init__(self, subjects: Subjects) -> None:
        self.subjects = subjects
        self.nats = Client()
        self.asked_back: list[str] = []
        """Ids of the requests with which KNOT has asked the program back."""
        self._asked: dict[str, Question] = {}
        self._tied: dict[str, Msg] = {}
        self._numbers = 0

    async def open(self, url: str) -> None:
        """Connect, and listen."""
        self.nats = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        for agent in (ASKER, KNOT):
            await self.nats.subscribe(f"_INBOX.{agent}.*", cb=self._answered)
        await self._listen(ECHO, self._echo)
        await self._listen(SILENT, self._ignore)
        await self._listen(KNOT, self._ask_back)
        await self.nats.flush()

    def new_id(self) -> str:
        """An id that nobody used."""
        self._numbers += 1
        return f"q{self._numbers}"

    async def ask(
        self, event_type: str, data: Any, *, timeout_s: float = 15.0, source: str = ASKER
    ) -> Question:
        """Ask the program."""
        id = self.new_id()
        subject = self.subjects.event(source, "request", AGENT, f"conformance.{event_type}")
        body = {"unknot": 1, "id": id, "timeout_s": timeout_s, "wait_for_target_s": 5.0, "data": data}
        sent = (subject, json.dumps(body).encode(), f"_INBOX.{source}.{id}")
        question = self._asked[id] = Question(id, asyncio.Queue(), sent)
        await self.ask_again(question)
        return question

    async def ask_again(self, question: Question) -> None:
        """Send the same request once more: same id, same content."""
        subject, payload, reply = question.sent
        await self.nats.publish(subject, payload, reply=reply)
        await self.nats.flush()

    async def send(self, event_type: str, data: Any) -> str:
        """Send the program a one-way event; its id."""
        id = self.new_id()
        subject = self.subjects.event(ASKER, "send", AGENT, f"conformance.{event_type}")
        await self.publish(subject, {"unknot": 1, "id": id, "data": data})
        return id

    async def give_up(self, question: Question) -> None:
        """Its answer is not wanted any more."""
        await self.publish(self.subjects.verb(ASKER, "request.cancel"), {"id": question.id})

    async def publish(self, subject: str, body: Any, reply: str = "") -> None:
        """Say anything anywhere: in development nobody is kept from it."""
        await self.nats.publish(
            subject, body if isinstance(body, bytes) else json.dumps(body).encode(), reply
        )
        await self.nats.flush()

    async def _listen(self, agent: str, take: Callable[[Msg], Awaitable[None]]) -> None:
        await self.nats.subscribe(self.subjects.deliver(agent, NO_SESSION, ">"), cb=take)

    async def _answered(self, msg: Msg) -> None:
        question = self._asked.get(msg.subject.rpartition(".")[2])
        if question is None or not msg.data:  # empty: no gateway is there now
            return
        question.outcomes.put_nowait(json.loads(msg.data))
        if question.id in self._tied:
            await self._tied.pop(question.id).respond(b"null")

    async def _echo(self, msg: Msg) -> None:
        data = json.loads(msg.data)["data"]
        await msg.respond(json.dumps({"unknot": 1, "data": data}).encode())

    async def _ignore(self, msg: Msg) -> None:
        """It never answers."""

    async def _ask_back(self, msg: Msg) -> None:
        """While it handles this it asks the program for something that waits for it in turn."""
        if json.loads(msg.data)["type"] == "knot.tie":
            again = {"target": KNOT, "type": "knot.never", "data": None, "timeout_s": 15.0}
            question = await self.ask("ask", again, source=KNOT)
            self.asked_back.append(question.id)
            self._tied[question.id] = msg


class Stage:
    """All of it, in the folder *folder*. *command*: starts the program."""

    def __init__(self, command: list[str], folder: Path, server: EmbeddedServer) -> None:
        self.subjects = Subjects(NETWORK)
        self.record = Record(self.subjects)
        self.others = Others(self.subjects)
        self.process: asyncio.subprocess.Process | None = None
        address = urlsplit(server.url)
        self.tap = Tap(str(address.hostname), int(address.port or 0), self.record.sent, self.record.received)
        self._command = command
        self._folder = folder
        self._server = server
        self._gateway: asyncio.subprocess.Process | None = None
        self._url = ""
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Everything but the program."""
        self._url = await self.tap.open()
        await self.others.open(self._server.url)
        await self.start_gateway()

    async def close(self) -> None:
        """End everything."""
        await self.end_program()
        await self.kill_gateway()
        await self.others.nats.close()
        await self.tap.close()

    # -- the gateway

    async def start_gateway(self) -> None:
        """Return when it takes messages. Raises NotStarted."""
        arguments = (
            "serve",
            "--nats",
            self._server.url,
            "--network",
            NETWORK,
            "--json",
            "--log-level",
            "error",
        )
        with (self._folder / "gateway.log").open("ab") as log:
            self._gateway = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "unknot_gateway", *arguments),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._gateway.stdout is not None
        try:
            ready = await asyncio.wait_for(self._gateway.stdout.readline(), _START_S)
        except TimeoutError:
            ready = b""
        if not ready:
            said = _last_lines(self._folder / "gateway.log") or f"not ready within {_START_S:g} s"
            raise NotStarted(f"no gateway: {said}")

    async def kill_gateway(self) -> None:
        """kill -9."""
        if self._gateway is not None and self._gateway.returncode is None:
            self._gateway.kill()
            await self._gateway.wait()

    def freeze_gateway(self) -> None:
        """It stands still."""
        assert self._gateway is not None
        self._gateway.send_signal(signal.SIGSTOP)

    def thaw_gateway(self) -> None:
        """It goes on."""
        assert self._gateway is not None
        if self._gateway.returncode is None:
            self._gateway.send_signal(signal.SIGCONT)

    # -- the program

    async def start_program(self) -> None:
        """Start it. Raises NotStarted when there is no such command."""
        where = {
            "UNKNOT_URL": self._url,
            "UNKNOT_NETWORK": NETWORK,
            "UNKNOT_AGENT": AGENT,
            "UNKNOT_HEARTBEAT_S": str(HEARTBEAT_S),
        }
        self.record.lose_sight(None)
        with (self._folder / "program.log").open("ab") as log:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env=_environment() | where,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            except OSError as error:
                raise NotStarted(f"{self._command[0]}: {error.strerror}") from error
        self._watching = asyncio.create_task(self._watch(self.process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        said = _last_lines(self._folder / "program.log")
        self.record.lose_sight(f"the program has ended with code {code}{': ' if said else ''}{said}")

    async def end_program(self) -> None:
        """However it stands."""
        if self.process is None or self._watching is None:
            return
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await asyncio.wait_for(self._watching, _END_S)

    async def ask_to_stop(self) -> None:
        """SIGTERM."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    async def exit_code(self, within_s: float) -> int:
        """The code with which the program ends. Raises Broken when it does not."""
        assert self.process is not None
        try:
            return await asyncio.wait_for(self.process.wait(), within_s)
        except TimeoutError:
            raise Broken(f"the program still runs {within_s:g} s after SIGTERM") from None

    # -- what is said to it in the gateway's place

    @property
    def session(self) -> str:
        """The token of its last hello, "" when it has said none."""
        hellos = self.record.of("hello")
        return str(hellos[-1].body.get("session", "")) if hellos else ""

    async def control(self, control_type: str, body: dict[str, Any]) -> None:
        """A control message."""
        await self.others.publish(self.subjects.control(AGENT, self.session, control_type), body)

    async def deliver(self, event_type: str, body: dict[str, Any]) -> None:
        """An event; *body* has all of its fields."""
        reply = self.subjects.reply(AGENT, body["id"])
        subject = self.subjects.deliver(AGENT, self.session, f"conformance.{event_type}")
        await self.others.publish(subject, body, reply)

    async def delivered(self, id: str) -> dict[str, Any]:
        """The first copy of an event, when it is on its way to the program."""
        found = await self.record.until(
            lambda: next(iter(self.record.deliveries(id)), None), "a delivery by the gateway", PATIENCE_S
        )
        return found.body


def _environment() -> dict[str, str]:
    """What is set for other gateways and agents is not for these."""
    names = (*Settings.__struct_fields__, *Login.__struct_fields__, *_OF_AGENTS)
    set_elsewhere = {"NATS_URL", *(ENVIRONMENT_PREFIX + name.upper() for name in names)}
    return {name: value for name, value in os.environ.items() if name not in set_elsewhere}


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " | ".join(lines[-_LAST_LINES:])


@contextlib.asynccontextmanager
async def stage(command: list[str]) -> AsyncIterator[Stage]:
    """A stage that is empty again at the end of the block. Raises NotStarted, ServerFailed."""
    with tempfile.TemporaryDirectory(prefix="unknot-conformance-") as folder:
        server = await EmbeddedServer.start()
        built = Stage(command, Path(folder), server)
        try:
            await built.open()
            yield built
        finally:
            await built.close()
            await server.stop()
