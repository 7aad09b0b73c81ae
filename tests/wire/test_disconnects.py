"""WIRE section 5, last rule: who has the server's own word that an agent is gone does not wait for its silence."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.wire.raw import PATIENCE_S, Json, Net, Peer, connect, new_session
from unknot_schemas.limits import DISCONNECT_GRACE_S

AGENT = """
import asyncio, json, sys, nats

async def main():
    url, root, agent, session = sys.argv[1:]
    nc = await nats.connect(url)
    taken = asyncio.Event()
    async def take(msg):
        taken.set()
    await nc.subscribe(f"{root}.out.{agent}.{session}.>", cb=take)
    connection = f"{nc._server_info['server_id']}/{nc.client_id}"
    hello = {"protocol": 1, "session": session, "concurrency": 1, "connection": connection}
    print((await nc.request(f"{root}.in.{agent}.hello", json.dumps(hello).encode(), timeout=5)).data, flush=True)
    await taken.wait()
    print("taken", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@contextmanager
def process(net: Net, agent: str) -> Iterator[subprocess.Popen[str]]:
    """An agent in a process of its own."""
    arguments = [url_of(net), net.subjects.root, agent, new_session()]
    child = subprocess.Popen([sys.executable, "-c", AGENT, *arguments], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        try:
            yield child
        finally:
            child.kill()
            child.wait()


async def line(child: subprocess.Popen[str]) -> str:
    """What it says next."""
    assert child.stdout is not None
    return await asyncio.wait_for(asyncio.to_thread(child.stdout.readline), PATIENCE_S)


def url_of(net: Net) -> str:
    """Where *net* is connected."""
    url = net.nc.connected_url
    assert url is not None
    return url.geturl()


def connection_of(net: Net) -> str:
    """What the server calls the connection of *net*."""
    return f"{net.nc._server_info['server_id']}/{net.nc.client_id}"


async def cut(net: Net) -> None:
    """The connection breaks, and nats-py has made another one."""
    before = net.nc.client_id
    net.nc._transport.close()  # type: ignore[union-attr]
    async with asyncio.timeout(PATIENCE_S):
        while not net.nc.is_connected or net.nc.client_id == before:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


async def test_bug_013_an_agent_that_is_killed_is_lost_at_once(net: Net) -> None:
    birch = await net.peer("birch")
    with process(net, net.name("elm")) as elm:
        assert '"ok":true' in await line(elm)
        request = await birch.request(net.name("elm"), timeout_s=300)
        assert await line(elm) == "taken\n"
        loop = asyncio.get_running_loop()
        killed_at = loop.time()
        elm.kill()
        outcome = await birch.outcome(request)
        assert (outcome["outcome"], outcome["handled"]) == ("responder_lost", "maybe")
        assert loop.time() - killed_at >= DISCONNECT_GRACE_S - 0.1
    assert await net.waits() == []


async def test_a_connection_that_comes_back_within_the_grace_loses_nothing(net: Net) -> None:
    other = await connect(url_of(net), net.subjects)
    other.tag = net.tag
    birch = await net.peer("birch")
    elm = await other.worker("elm", connection=connection_of(other))
    request = await birch.request(elm)
    event = await elm.event()
    await cut(other)
    await beat(elm, event, connection_of(other))
    await asyncio.sleep(DISCONNECT_GRACE_S + 0.5)
    await elm.answer(event, "still there")
    assert (await birch.outcome(request))["event"]["data"] == "still there"
    await other.close()


async def test_what_leaves_by_bye_is_over_before_its_connection_is(net: Net) -> None:
    disconnected = await net.counter("sessions.disconnected")
    other = await connect(url_of(net), net.subjects)
    await other.worker("elm", connection=connection_of(other))
    await other.close()
    await asyncio.sleep(DISCONNECT_GRACE_S + 0.2)
    assert await net.counter("sessions.disconnected") == disconnected


@pytest.mark.parametrize("connection", ["", "S", "S/", "/1", "S/x", "S/1\n", "S.*/1", "S" * 65 + "/1", 7])
async def test_a_connection_is_named_as_the_server_names_it(net: Net, connection: Any) -> None:
    said = await net.verb(
        net.name("elm"), "hello", {"protocol": 1, "session": new_session(), "connection": connection}
    )
    assert not said["ok"]
    assert said["error"]["code"] in ("bad_id", "bad_request")


async def test_only_the_gateway_hears_the_system_account(net: Net) -> None:
    inbox = await net.listen("$SYS.>")
    other = await connect(url_of(net), net.subjects)
    await other.nc.close()
    await net.settled()
    assert not inbox.all


async def beat(peer: Peer, event: Json, connection: str) -> None:
    """A heartbeat that names *event* and the connection."""
    held = [{"id": event["id"], "state": "running"}]
    assert (await peer.verb("heartbeat", held=held, connection=connection))["ok"]
