"""What the server says of connections that have ended, told to every owner; the system account alone hears it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support import gateway as support
from unknot_gateway.core.facts import AnyFact, Disconnected
from unknot_gateway.shell import disconnects
from unknot_gateway.shell.bus import NotReachable
from unknot_gateway.shell.disconnects import telling
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_gateway.shell.loop import Owner
from unknot_gateway.shell.settings import BadSettings, load

PATIENCE_S = 5.0
USERS = 'authorization: {{ users: [{{ user: elm, password: "{}" }}, {{ user: oak, password: o }}] }}\n'


class Told:
    """An owner as far as it is told."""

    def __init__(self) -> None:
        self.facts: asyncio.Queue[AnyFact] = asyncio.Queue()

    def tell(self, fact: AnyFact) -> None:
        """Keep *fact*."""
        self.facts.put_nowait(fact)


@asynccontextmanager
async def house(authorization: str = "") -> AsyncIterator[tuple[EmbeddedServer, Told]]:
    """A server, and an owner that hears of its connections."""
    server = await EmbeddedServer.start(authorization=authorization)
    owner = Told()
    try:
        async with telling(server.url, server.system_login, [cast(Owner, owner)], PATIENCE_S):
            yield server, owner
    finally:
        await server.stop()


def name_of(client: Client) -> str:
    return f"{client._server_info['server_id']}/{client.client_id}"


async def connect(server: EmbeddedServer, **options: Any) -> Client:
    return await nats.connect(server.url, allow_reconnect=False, **options)


async def test_the_end_of_a_connection_is_told_by_the_name_that_its_client_knows() -> None:
    async with house() as (server, owner), asyncio.timeout(PATIENCE_S):
        for leave in ("close", "vanish"):
            client = await connect(server)
            name = name_of(client)
            if leave == "close":
                await client.close()
            else:
                client._transport.close()  # type: ignore[union-attr]
            assert await owner.facts.get() == Disconnected(name)
            await client.close()


async def test_who_is_cut_off_by_the_server_is_not_said_to_be_gone() -> None:
    async with house(USERS.format("e")) as (server, owner), asyncio.timeout(PATIENCE_S):
        elm = await connect(server, user="elm", password="e")
        oak = await connect(server, user="oak", password="o")
        await server.reload(USERS.format("new"))
        while elm.is_connected:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        name = name_of(oak)
        await oak.close()
        assert await owner.facts.get() == Disconnected(name)
        assert owner.facts.empty()
        await elm.close()


async def test_what_cannot_be_read_tells_nobody() -> None:
    owner = Told()
    listening = disconnects.Disconnects([cast(Owner, owner)])
    for payload in (b"", b"{}", b"[]", b'{"server":{"id":1},"client":{"id":"x"}}', b"\xff"):
        await listening.take(Msg(cast(Any, None), data=payload))
    assert (listening.counters["unread"], owner.facts.empty()) == (5, True)


async def test_a_login_that_the_server_refuses_ends_the_start() -> None:
    server = await EmbeddedServer.start()
    try:
        with pytest.raises(NotReachable):
            async with telling(server.url, lambda: {"user": "@system", "password": "wrong"}, [], PATIENCE_S):
                pass
    finally:
        await server.stop()


async def test_a_server_of_others_is_heard_by_a_user_of_its_system_account() -> None:
    server = await EmbeddedServer.start()
    login = server.system_login()
    try:
        environment = {"UNKNOT_SYSTEM_PASSWORD": login["password"]}
        gateway = await asyncio.to_thread(
            support.start, "--system-user", login["user"], nats=server.url, environment=environment
        )
        client = await connect(server)
        hello = f'{{"session": "abc", "connection": "{name_of(client)}"}}'.encode()
        await client.request("unknot.default.in.elm.hello", hello, timeout=PATIENCE_S)
        await client.close()
        asking = await connect(server)
        async with asyncio.timeout(PATIENCE_S):
            while b'"abc"' in (await asking.request("unknot.default.api.agents")).data:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asking.close()
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        await server.stop()


async def test_a_user_outside_of_the_system_account_hears_nothing_and_is_warned_of() -> None:
    server = await EmbeddedServer.start(authorization=USERS.format("e"))
    try:
        gateway = await asyncio.to_thread(
            support.start,
            "--system-user",
            "elm",
            "--user",
            "oak",
            nats=server.url,
            environment={"UNKNOT_SYSTEM_PASSWORD": "e", "UNKNOT_PASSWORD": "o"},
        )
        assert await asyncio.to_thread(gateway.stop) == 0
        assert any("no system account" in line["event"] for line in gateway.logged)
    finally:
        await server.stop()


def test_a_system_user_needs_a_password() -> None:
    with pytest.raises(BadSettings, match="password"):
        load({"system_user": "sys"}, {})
