"""What the server refuses fails its caller at once, as a type, with what to do now; never by a timeout."""

import asyncio

import nats.errors
import pytest

import unknot
from tests.cli.rig import end_all, ended, start
from tests.cli.rig import unknot as command
from tests.identity.rig import House
from unknot import Agent, Login, Refused, connect
from unknot._refusals import is_denial, refusal

AT_ONCE_S = 3.0
"""Hang limit: far below every timeout of the wire; a refusal takes milliseconds."""
COMMAND_AT_ONCE_S = 8.0
"""The same, with the start of a process on a machine that does much else; by its patience it would take ten."""


async def test_a_request_to_a_target_that_is_not_allowed(house: House) -> None:
    async with connect("grove", house.url, login=house.login("grove")) as me:
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(Refused, match="--may-request") as refused:
                await me.send_and_wait("birch", "work", timeout=60)
        assert (refused.value.code, refused.value.handled) == ("not_permitted", "no")
        assert len(me._links.session.pending) == 0


async def test_a_send_an_ask_and_a_group(house: House) -> None:
    failures: list[unknot.WaitFailed] = []

    async def on_error(failure: unknot.WaitFailed) -> None:
        failures.append(failure)

    async with connect("grove", house.url, login=house.login("grove")) as me, asyncio.timeout(AT_ONCE_S):
        with pytest.raises(Refused, match="--may-request"):
            await me.send("birch", "note")
        with pytest.raises(Refused, match="--may-request"):
            await me.ask("birch", "work", on_error=on_error)
        with pytest.raises(Refused, match="--may-request"):
            await me.wait_all([me.request("birch", "work"), me.request("elm", "work")])
        assert failures == []


async def test_many_refusals_at_once_cost_few_heartbeats(house: House) -> None:
    async with connect("grove", house.url, login=house.login("grove")) as me:
        before = me._links.session.transport.calls.made
        asked = [me.send_and_wait("birch", "work") for _ in range(300)]
        sent = [me.send("elm", "note") for _ in range(300)]
        async with asyncio.timeout(2 * AT_ONCE_S):
            failures = await asyncio.gather(*asked, *sent, return_exceptions=True)
        assert {type(failure) for failure in failures} == {Refused}
        assert me._links.session.transport.calls.made - before - len(sent) < 100


async def test_only_what_was_refused_fails(house: House) -> None:
    """Names that differ in case alone are one to nats-py, and what was sent before a change has arrived."""
    flint = Agent("flint", concurrency=8)
    go_on = asyncio.Event()

    @flint.on("work")
    async def work(_data: object) -> str:
        await go_on.wait()
        return "done"

    async with (
        flint.running(house.url, login=house.login("flint")),
        connect("grove", house.url, login=house.login("grove")) as me,
    ):
        allowed = [asyncio.create_task(me.send_and_wait("flint", "work")) for _ in range(4)]
        async with asyncio.timeout(AT_ONCE_S):
            for _ in range(4):
                with pytest.raises(Refused):
                    await me.send_and_wait("FLINT", "work")
                with pytest.raises(Refused):
                    await me.send("FLINT", "work")
        go_on.set()
        assert await asyncio.gather(*allowed) == ["done"] * 4


async def test_a_request_sent_before_the_permission_was_taken_away_goes_on(own_house: House) -> None:
    flint = Agent("flint", concurrency=8)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @flint.on("work")
    async def work(_data: object) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async with (
        flint.running(own_house.url, login=own_house.login("flint")),
        connect("grove", own_house.url, login=own_house.login("grove")) as me,
    ):
        before = asyncio.create_task(me.send_and_wait("flint", "work"))
        await begun.wait()
        await asyncio.to_thread(own_house.users, "change", "grove", "--may-request", "elm")
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(Refused):
                await me.send_and_wait("flint", "work")
        go_on.set()
        assert await before == "done"


async def test_a_channel_that_may_not_be_heard(house: House) -> None:
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(Refused, match="--channels"):
            async with connect("elm", house.url, login=house.login("elm"), channels=["reviews"]):
                pass


async def test_an_agent_with_the_user_of_another(house: House) -> None:
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(Refused, match="UNKNOT_USER"):
            async with connect("elm", house.url, login=house.login("birch")):
                pass


@pytest.mark.parametrize(
    "login",
    [Login(), Login(password="wrong"), Login(user="nobody", password="x")],
    ids=["none", "wrong", "nobody"],
)
async def test_a_user_who_is_not_known(house: House, login: Login) -> None:
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(Refused, match="does not let agent elm in") as refused:
            async with connect("elm", house.url, login=login, timeout=30):
                pass
    assert refused.value.code == "not_permitted"


async def test_a_subscription_that_is_taken_away_ends_the_session(own_house: House) -> None:
    await asyncio.to_thread(own_house.users, "change", "elm", "--channels", "reviews")
    async with connect("elm", own_house.url, login=own_house.login("elm"), channels=["reviews"]) as me:
        await asyncio.to_thread(own_house.users, "change", "elm", "--channels", "plans")
        await asyncio.wait_for(me.closed(), 10)
        assert isinstance(me.denied, Refused)


def of(house: House, name: str) -> dict[str, str]:
    return {"UNKNOT_URL": house.url, "UNKNOT_USER": name, "UNKNOT_PASSWORD": house.passwords[name]}


@pytest.fixture
def as_user(house: House, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("UNKNOT_URL", house.url)
    return monkeypatch


def become(house: House, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in of(house, name).items():
        monkeypatch.setenv(variable, text)


async def test_the_command_is_told_at_once(house: House, as_user: pytest.MonkeyPatch) -> None:
    become(house, "grove", as_user)
    for arguments in (["request", "birch", "work"], ["send", "birch", "work"], ["waits", "list"]):
        done = await asyncio.wait_for(command(*arguments), COMMAND_AT_ONCE_S)
        assert done.code == 1, arguments
        assert "does not allow" in done.err


async def test_watch_is_told_at_once(house: House, as_user: pytest.MonkeyPatch) -> None:
    become(house, "grove", as_user)
    try:
        done = await asyncio.wait_for(ended(await start("watch")), COMMAND_AT_ONCE_S)
    finally:
        await end_all()
    assert done.code == 1
    assert "subscription of 'unknot.default.notice.>'" in done.err


async def test_the_command_speaks_as_its_user(house: House, as_user: pytest.MonkeyPatch) -> None:
    flint = Agent("flint")

    @flint.on("who")
    async def who(_data: object, ctx: unknot.Context) -> str:
        return ctx.event.source

    async with flint.running(house.url, login=house.login("flint")):
        become(house, "grove", as_user)
        done = await command("request", "flint", "who")
        assert (done.code, done.json) == (0, "grove")
        become(house, "eye", as_user)
        done = await command("agents", "list", "--json")
        assert "flint" in {row["agent"] for row in done.json["rows"]}


async def test_a_command_without_a_user_is_told_so(house: House, as_user: pytest.MonkeyPatch) -> None:
    try:
        watching = await asyncio.wait_for(ended(await start("watch")), COMMAND_AT_ONCE_S)
    finally:
        await end_all()
    for done in (watching, await asyncio.wait_for(command("waits", "list"), AT_ONCE_S)):
        assert done.code == 1
        assert "does not let this user in" in done.err


async def test_a_gateway_that_the_server_does_not_let_in_says_so_at_once(house: House) -> None:
    try:
        done = await asyncio.wait_for(ended(await start("serve", "--nats", house.url)), COMMAND_AT_ONCE_S)
    finally:
        await end_all()
    assert done.code == 4
    assert "Authorization Violation" in done.err


@pytest.mark.parametrize(
    ("text", "what", "subject"),
    [
        ('nats: permissions violation for publish to "a.b"', "publish", "a.b"),
        ('nats: Permissions Violation for Subscription to "A.>"', "subscription", "a.>"),
        ('nats: permissions violation for subscription to "a" using queue "q"', "subscription", "a"),
    ],
)
def test_the_servers_words_are_understood(text: str, what: str, subject: str) -> None:
    assert refusal(nats.errors.Error(text)) == (what, subject)


@pytest.mark.parametrize("text", ["nats: maximum payload exceeded", "permissions violation", ""])
def test_other_words_of_the_server_are_no_refusal(text: str) -> None:
    assert refusal(nats.errors.Error(text)) is None
    assert not is_denial(nats.errors.Error(text))
