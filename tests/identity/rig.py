"""Houses with users, and raw connections of one user each, which know what the server has refused them."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support import gateway as support
from tests.support.gateway import Gateway
from unknot import Login
from unknot_gateway.cli import main
from unknot_schemas import Subjects

SUBJECTS = Subjects()
PATIENCE_S = 5.0
USERS = (
    ("birch",),
    ("elm",),
    ("flint", "--channels", "reviews"),
    ("grove", "--may-request", "flint,@reviews"),
    ("eye", "--role", "monitor"),
    ("ops", "--role", "operator"),
    ("spy", "--role", "gateway"),
)


class House:
    """A users file and, once started, the gateway that serves it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.passwords: dict[str, str] = {}
        self.gateway: Gateway | None = None

    @property
    def url(self) -> str:
        assert self.gateway is not None
        return self.gateway.nats

    def users(self, *arguments: str) -> Any:
        """``unknot users`` with *arguments*; what it says."""
        done = CliRunner().invoke(main, ["users", *arguments, "--users", str(self.file), "--json"])
        assert done.exit_code == 0, done.output
        said = json.loads(done.stdout)
        if "password" in said:
            self.passwords[said["user"]] = said["password"]
        return said

    def login(self, name: str) -> Login:
        """The login of user *name*."""
        return Login(user=name, password=self.passwords[name])

    @asynccontextmanager
    async def party(self, name: str) -> AsyncIterator["Party"]:
        """A raw connection as user *name*."""
        party = Party(name)
        try:
            await party.client.connect(
                self.url,
                user=name,
                password=self.passwords[name],
                inbox_prefix=f"_INBOX.{name}",
                error_cb=party.on_error,
                closed_cb=party.on_gone,
                disconnected_cb=party.on_gone,
                allow_reconnect=False,
            )
            yield party
            await party.leave()
        finally:
            await party.client.close()


@contextmanager
def housing(folder: Path, *arguments: str) -> Iterator[House]:
    """A house with USERS and its gateway."""
    house = House(folder / "users.json")
    for user in USERS:
        house.users("add", *user)
    with support.running("--users", str(house.file), *arguments) as gateway:
        house.gateway = gateway
        yield house


class Party:
    """One raw connection. *heard*: what came, whatever it was subscribed by."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client = Client()
        self.heard: list[Msg] = []
        self.gone = asyncio.Event()
        self._session = ""
        self._errors: list[str] = []
        self._news = asyncio.Event()

    async def on_error(self, error: Exception) -> None:
        self._errors.append(str(error))

    async def on_gone(self) -> None:
        self.gone.set()

    async def publishes(self, subject: str, body: Any = None, **options: Any) -> bool:
        """Whether the server lets it publish there; it has when this returns."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.client.publish(subject, payload, **options)
        return await self._is_allowed("publish", subject)

    async def subscribes(self, subject: str, queue: str = "") -> bool:
        """Whether the server lets it subscribe that; what comes is ``heard``."""
        await self.client.subscribe(subject, queue=queue, cb=self._hear)
        return await self._is_allowed("subscription", subject)

    async def hears(self, subject: str) -> Msg:
        """The first message on *subject* (or under it)."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self.heard:
                    if message.subject.startswith(subject):
                        self.heard.remove(message)
                        return message
                self._news.clear()
                await self._news.wait()

    async def greets(self, **hello: Any) -> str:
        """Say hello, subscribed; the session."""
        self._session = session = secrets.token_urlsafe(16)
        assert await self.subscribes(SUBJECTS.out(self.name, session))
        said = await self.asks("hello", {"session": session, "concurrency": 4, **hello})
        assert said["ok"], said
        return session

    async def asks(self, verb: str, body: Any) -> Any:
        """The Receipt for an own verb."""
        subject = SUBJECTS.verb(self.name, verb)
        return json.loads((await self.client.request(subject, json.dumps(body).encode(), timeout=5)).data)

    async def leave(self) -> None:
        """Say bye: nothing more is delivered to it."""
        if self._session and not self.gone.is_set():
            assert (await self.asks("bye", {"session": self._session}))["ok"]

    async def settled(self) -> None:
        """Return when the gateway has handled all that this connection has sent, and it has heard the answers."""
        await self.asks("request.cancel", {"id": "nothing"})
        await self.client.flush()

    async def _is_allowed(self, what: str, subject: str) -> bool:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.client.flush()
        text = f'permissions violation for {what} to "{subject.lower()}"'
        found = [error for error in self._errors if text in error]
        assert len(found) == len(self._errors), self._errors
        self._errors.clear()
        return not found

    async def _hear(self, message: Msg) -> None:
        self.heard.append(message)
        self._news.set()
