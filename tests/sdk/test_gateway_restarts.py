"""A gateway that dies and comes back: nothing asked is lost, nothing handled runs twice (WIRE section 5)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import unknot
from tests.sdk.conftest import start_server
from tests.support import gateway as support
from unknot import Agent, Context

BEAT_S = 0.5


async def test_requests_queued_running_deferred_and_answered_outlive_the_gateway(tmp_path: Path) -> None:
    server, url = start_server(tmp_path)
    first = second = None
    try:
        first = await asyncio.to_thread(support.start, nats=url, networks=["n"])
        runs: list[object] = []
        go_on = asyncio.Event()
        deferred: list[Context] = []
        elm = Agent("elm", concurrency=2, heartbeat_s=BEAT_S)

        @elm.on("say")
        async def say(data: Any, ctx: Context) -> Any:
            runs.append(data)
            if data == "deferred":
                ctx.defer()
                deferred.append(ctx)
                return None
            await go_on.wait()
            return data

        async with (
            elm.running(url, network="n"),
            unknot.connect("birch", url, network="n", heartbeat_s=BEAT_S, serves=False) as me,
        ):
            names = ["deferred", "one", "two", "queued"]
            waiting = {}
            for name in names:
                waiting[name] = asyncio.ensure_future(me.send_and_wait("elm", "say", name, timeout=60))
                await asyncio.sleep(0.05)
            assert runs == ["deferred", "one", "two"]
            await asyncio.to_thread(first.kill)
            await asyncio.sleep(0.2)
            go_on.set()  # answers go out while nobody is there to take them
            await deferred[0].reply("deferred")
            await asyncio.sleep(0.2)
            second = await asyncio.to_thread(support.start, nats=url, networks=["n"])
            async with asyncio.timeout(25):
                assert await asyncio.gather(*waiting.values()) == names
            assert sorted(map(str, runs)) == sorted(names), "each handler has run once"
            assert me.counters["resumed"] == 1
            assert len(me._links.session.pending) == 0
    finally:
        for gateway in (first, second):
            if gateway is not None:
                await asyncio.to_thread(gateway.stop) if gateway is second else gateway.process.wait()
        server.terminate()
        server.wait()


async def test_a_gateway_that_stops_for_good_leaves_nobody_waiting(tmp_path: Path) -> None:
    server, url = start_server(tmp_path)
    gateway = await asyncio.to_thread(support.start, nats=url, networks=["n"])
    try:
        elm = Agent("elm")

        @elm.on("say")
        async def say(data: object) -> None:
            await asyncio.sleep(3600)

        async with (
            elm.running(url, network="n"),
            unknot.connect("birch", url, network="n", serves=False) as me,
        ):
            waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=3600))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(gateway.stop)
            with pytest.raises(unknot.WaitFailed) as caught:
                await waiting
            assert caught.value.code == "gateway_stopped"
    finally:
        server.terminate()
        server.wait()
