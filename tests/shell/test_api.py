"""The api on the connection's second life, and answers that the server would not take whole."""

import asyncio
import json
from typing import Any

import nats

from tests.shell.rig import PATIENCE_S, until
from unknot_gateway.core.kernel import Kernel
from unknot_gateway.shell.api import Api
from unknot_gateway.shell.bus import NatsBus
from unknot_gateway.shell.egress import Egress
from unknot_gateway.shell.embedded import EmbeddedServer
from unknot_gateway.shell.ingress import Ingress
from unknot_gateway.shell.loop import Owner
from unknot_schemas import Subjects


async def test_a_connection_closed_for_good_comes_back_with_its_api() -> None:
    server = await EmbeddedServer.start()
    bus = NatsBus(server.url)
    await bus.open()
    supervisor = asyncio.create_task(bus.supervise())
    subjects = Subjects("net")
    owner = Owner(Kernel("net", 1), Ingress(subjects), Egress(subjects, bus.max_payload), bus)
    task = asyncio.create_task(owner.run())
    api = Api(bus, [owner], subjects.prefix)
    await api.start()
    await bus.connection.close()
    await until(lambda: bus.counters["connections_rebuilt"] == 1)
    await bus.barrier()
    raw = await nats.connect(server.url)
    said: Any = json.loads((await raw.request(subjects.api("agents"), b"", timeout=PATIENCE_S)).data)
    assert said == {"network": "net", "epoch": 1, "total": 0, "rows": []}
    await raw.close()
    await api.stop()
    owner.stop()
    await task
    await bus.close()
    await supervisor
    await server.stop()


async def test_an_answer_too_large_for_the_server_comes_with_fewer_rows(monkeypatch: Any) -> None:
    server = await EmbeddedServer.start()
    bus = NatsBus(server.url)
    await bus.open()
    supervisor = asyncio.create_task(bus.supervise())
    subjects = Subjects("net")
    kernel = Kernel("net", 1)
    owner = Owner(kernel, Ingress(subjects), Egress(subjects, bus.max_payload), bus)
    task = asyncio.create_task(owner.run())
    await bus.subscribe(subjects.inbound, owner.take)
    api = Api(bus, [owner], subjects.prefix)
    await api.start()
    raw = await nats.connect(server.url)
    for number in range(40):
        hello = json.dumps({"session": f"s{number}", "concurrency": 1}).encode()
        await raw.request(subjects.verb(f"agent{number}", "hello"), hello, timeout=PATIENCE_S)
    monkeypatch.setattr(NatsBus, "max_payload", 4_000)
    said = json.loads((await raw.request(subjects.api("agents"), b"", timeout=PATIENCE_S)).data)
    assert said["total"] == 40
    assert 0 < len(said["rows"]) < 40
    await raw.close()
    await api.stop()
    owner.stop()
    await task
    await bus.close()
    await supervisor
    await server.stop()
