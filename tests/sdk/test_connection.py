"""The NATS connection: its traps, its losses, and what the client makes of them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest

import unknot
from tests.sdk.conftest import start_server
from tests.sdk.fake import Fake, faking
from unknot import Agent, Connection, _transport
from unknot._transport import Transport


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


@asynccontextmanager
async def restarted(tmp_path: Path) -> AsyncIterator[tuple[Fake, str, "Server"]]:
    """A scripted gateway on a server of its own that a test may stop and start again."""
    server = Server(tmp_path)
    try:
        async with faking(server.url, "default") as fake:
            yield fake, server.url, server
    finally:
        server.stop()


class Server:
    """A nats-server that keeps its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process, self.url = start_server(folder)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        self._process, _ = start_server(self._folder, port_of(self.url))


async def back(me: Connection, times: int = 1) -> None:
    """Until the connection has come back that often."""
    async with asyncio.timeout(20):
        while me.counters.get("reconnects", 0) < times:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.02)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway is back before the client is."""
    monkeypatch.setattr(_transport, "RECONNECT_S", 1.0)


async def test_a_lost_request_is_found_by_the_heartbeat_after_the_reconnect(
    tmp_path: Path, patient: None
) -> None:
    async with restarted(tmp_path) as (fake, url, server), unknot.connect("birch", url) as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=30))
        request = await fake.next("request")
        server.stop()
        server.start()
        await back(me)
        beat = await fake.next("heartbeat")
        assert beat.body["open"] == [request.id]  # at once, whatever its age
        await fake.answer(request, "found")
        assert await waiting == "found"


async def test_what_is_sent_while_the_server_is_away_leaves_when_it_is_back_in_order(
    tmp_path: Path, patient: None
) -> None:
    async with restarted(tmp_path) as (fake, url, server), unknot.connect("birch", url) as me:
        server.stop()
        async with asyncio.timeout(10):
            while me._links.session.transport._connected.is_set():  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        waiting = [asyncio.ensure_future(me.send_and_wait("elm", "say", n, timeout=30)) for n in range(20)]
        gone = asyncio.ensure_future(me.send_and_wait("elm", "gone"))
        await asyncio.sleep(0)
        gone.cancel()  # nobody waits for it any more: it is never sent
        await asyncio.gather(gone, return_exceptions=True)
        server.start()
        await back(me)
        requests = [await fake.next("request") for _ in waiting]
        assert [request.body["data"] for request in requests] == list(range(20))
        assert [request for request in fake.seen("request") if request.type == "gone"] == []
        for request in requests:
            await fake.answer(request, request.body["data"])
        assert await asyncio.gather(*waiting) == list(range(20))


async def test_what_is_sent_before_anybody_has_said_that_the_connection_is_gone_stops_no_loop(
    tmp_path: Path, patient: None
) -> None:
    """nats-py is not connected from this moment on, and says so only when the old socket is closed."""
    async with restarted(tmp_path) as (fake, url, _server), unknot.connect("birch", url) as me:
        transport = me._links.session.transport
        client = transport._nats
        assert client is not None
        await client._process_op_err(nats.errors.StaleConnectionError())
        assert not client.is_connected
        assert transport._connected.is_set()
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=30))
        await fake.answer(await fake.next("request"), "late")
        assert await waiting == "late"


async def test_a_gateway_that_comes_back_later_than_the_client_is_found(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", timeout=30))
        request = await fake.next("request")
        subject = f"{fake.root}>"
        await fake.subscription.unsubscribe()
        await fake.settled()
        me._links.session.transport.on_up()  # heard by nobody
        await fake.settled()
        assert me.counters["heartbeats_unheard"] == 1
        await fake.client.subscribe(subject, cb=fake._on)
        assert (await fake.next("heartbeat")).body["open"] == [request.id]
        await fake.answer(request, "found")
        assert await waiting == "found"


async def test_a_wait_ends_by_the_own_clock_while_the_server_is_away(tmp_path: Path) -> None:
    async with restarted(tmp_path) as (_fake, url, server), unknot.connect("birch", url) as me:
        server.stop()
        with pytest.raises(unknot.WaitExpired):
            await me.send_and_wait("elm", "say", timeout=0.1)


async def test_a_connection_closed_for_good_is_built_anew(tmp_path: Path) -> None:
    """nats-py never comes back from some errors; here it is closed as those close it."""
    async with restarted(tmp_path) as (fake, url, _server), unknot.connect("birch", url) as me:
        client = me._links.session.transport._nats
        assert client is not None
        await client.close()
        await back(me)
        assert me._links.session.transport._nats is not client
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.answer(await fake.next("request"), "again")
        assert await waiting == "again"


async def test_a_frozen_server_is_noticed_within_seconds() -> None:
    options = Transport("nats://127.0.0.1:1", "birch", is_wanted=lambda _id: True)._options()
    assert options["ping_interval"] * (options["max_outstanding_pings"] + 1) <= 6
    assert options["max_reconnect_attempts"] == -1


async def test_the_largest_data_that_is_allowed_arrives(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        data = "x" * (512 * 1024 - 2)
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", data))
        await fake.answer(await fake.next("request"), data)
        assert await waiting == data
        with pytest.raises(unknot.Refused):
            await me.send_and_wait("elm", "say", data + "x")
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say", "alive"))
        await fake.answer(await fake.next("request"))
        await waiting
        assert me.counters.get("reconnects", 0) == 0


async def test_a_full_outbox_is_over_limit_and_not_a_loss_without_a_word(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with unknot.connect("birch") as me:
        monkeypatch.setattr(_transport, "OUTBOX_MAX", 3)
        waiting = [asyncio.ensure_future(me.send_and_wait("elm", "say", n, timeout=5)) for n in range(10)]
        outcomes = [asyncio.ensure_future(_ended(task)) for task in waiting]
        for _ in range(3):
            await fake.answer(await fake.next("request"), "through")
        ended = await asyncio.gather(*outcomes)
        assert ended.count("through") == 3
        refused = [each for each in ended if isinstance(each, unknot.OverLimit)]
        assert len(refused) == 7
        assert all(each.retry_after_s > 0 for each in refused)
        assert len(me._links.session.pending) == 0


async def _ended(task: "asyncio.Future[object]") -> object:
    try:
        return await task
    except unknot.WaitFailed as failure:
        return failure


async def test_too_many_open_requests_are_over_limit(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    async with unknot.connect("birch") as me:
        monkeypatch.setattr("unknot._pending.OPEN_MAX", 2)
        waiting = [asyncio.ensure_future(me.send_and_wait("elm", "say")) for _ in range(2)]
        await fake.next("request")
        with pytest.raises(unknot.OverLimit):
            await me.send_and_wait("elm", "say")
        with pytest.raises(unknot.OverLimit):
            await me.wait_all([me.request("elm", "say"), me.request("oak", "say")])
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_message_that_cannot_be_read_hurts_no_other(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    async with unknot.connect("birch") as me:
        session = fake.session("birch")
        for bad in (b"{", b"[]", b'{"request_id": 1}', b"\xff"):
            await fake.client.publish(f"unknot.{fake.network}.out.birch.{session}.outcome", bad)
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.answer(await fake.next("request"), "read")
        assert await waiting == "read"
        assert me.counters["errors"] == 4


async def test_messages_for_an_older_session_change_nothing(fake: Fake) -> None:
    async with unknot.connect("birch"):
        pass
    old = fake.session("birch")
    async with unknot.connect("birch") as me:
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        request = await fake.next("request")
        body = {"request_id": request.id, "outcome": "expired", "handled": "no", "epoch": 1}
        await fake.publish(f"out.birch.{old}.outcome", body)
        await fake.answer(request, "mine")
        assert await waiting == "mine"


async def test_bug_096_channel_events_that_nobody_reads_are_dropped_and_counted(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("unknot._serving.BROADCASTS_MAX", 5)
    flint = Agent("flint", channels=["team"])
    go_on = asyncio.Event()

    @flint.on("news")
    async def news(data: object) -> None:
        await go_on.wait()

    async with flint.running() as me:
        await fake.settled()
        event = {"unknot": 1, "type": "news", "source": "oak", "target": "@team", "data": None}
        event |= {"requires_response": False, "epoch": 1}
        for n in range(20):
            await fake.publish("channel.team.news", event | {"id": f"n{n}"})
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.answer(await fake.next("request"), "unhindered")
        assert await waiting == "unhindered"
        await fake.settled()
        assert me.counters["slow_consumer"] in (20 - 5, 20 - 5 - 1)  # one may be in the handler's hands
        assert "slow_consumer" in caplog.text
        go_on.set()


async def test_own_broadcasts_do_not_come_back(fake: Fake) -> None:
    heard: list[str] = []
    elm = Agent("elm", channels=["team"], topics=["build.*"])

    @elm.on("build.done")
    async def done(data: str) -> None:
        heard.append(data)

    async with elm.running():
        await fake.settled()
        event = {"unknot": 1, "type": "build.done", "target": "", "requires_response": False, "epoch": 1}
        await fake.publish("topic.build.done", event | {"id": "n1", "source": "elm", "data": "own"})
        await fake.publish("topic.build.done", event | {"id": "n2", "source": "oak", "data": "oak's"})
        await fake.settled()
        assert heard == ["oak's"]


async def test_a_stray_publish_to_the_inbox_changes_nothing(fake: Fake) -> None:
    async with unknot.connect("birch") as me:
        inbox = me._links.session.transport.calls.inbox
        assert inbox.startswith("_INBOX.birch.")
        await fake.client.publish(f"{inbox}.zz", b"{}")
        await me.send("elm", "say")


async def test_the_receipt_of_a_send_is_asked_for_again_under_the_same_id(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unknot._session.RECEIPT_TRY_S", 0.1)
    fake.answers["send"] = None
    async with unknot.connect("birch") as me:
        sending = asyncio.ensure_future(me.send("elm", "say", 1))
        first = await fake.next("send")
        del fake.answers["send"]
        second = await fake.next("send")
        assert first.payload == second.payload
        assert await sending == first.id


async def test_a_send_that_nobody_takes_is_unreachable(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unknot._session.RECEIPT_TRY_S", 0.05)
    monkeypatch.setattr("unknot._session.RECEIPT_S", 0.2)
    fake.answers["send"] = None
    async with unknot.connect("birch") as me:
        with pytest.raises(unknot.Unreachable):
            await me.send("elm", "say")
        fake.answers["send"] = {"ok": False, "error": {"code": "over_limit", "message": "full"}}
        with pytest.raises(unknot.OverLimit):
            await me.send("elm", "say")


async def test_connections_carry_the_agents_name(fake: Fake, nats_url: str) -> None:
    async with unknot.connect("birch") as me:
        client = me._links.session.transport._nats
        assert client is not None
        assert client.options["name"] == "unknot agent birch"


async def test_nothing_of_a_closed_connection_is_left(fake: Fake) -> None:
    before = {task for task in asyncio.all_tasks() if not task.done()}
    async with unknot.connect("birch"):
        await fake.settled()
    await asyncio.sleep(0.05)
    left = [task for task in asyncio.all_tasks() if task not in before and not task.done()]
    assert left == []


async def test_who_is_cancelled_while_it_says_bye_lets_go_of_the_connection_all_the_same(fake: Fake) -> None:
    leaving = asyncio.Event()
    connections: list[unknot.Connection] = []
    fake.answers["bye"] = None

    async def works() -> None:
        async with unknot.connect("birch") as me:
            connections.append(me)
            leaving.set()

    working = asyncio.create_task(works())
    await leaving.wait()
    await fake.next("bye")
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    [me] = connections
    assert me._links.session.transport._nats is None
    assert len(me._links.session.tasks) == 0


async def test_a_refused_permission_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "unknot")
    transport = Transport("nats://127.0.0.1:1", "birch", is_wanted=lambda _id: True)
    await transport._failed(nats.errors.Error("nats: permissions violation for publish to 'unknot.x'"))
    assert "permissions violation" in caplog.text


async def test_no_password_is_told_to_anybody() -> None:
    with pytest.raises(unknot.Unreachable) as caught:
        async with unknot.connect(
            "birch", "nats://me:secret@127.0.0.1:1,nats://a:b@127.0.0.1:2", timeout=0.2
        ):
            raise AssertionError
    assert "secret" not in str(caught.value)
    assert "nats://127.0.0.1:1,nats://127.0.0.1:2" in str(caught.value)
