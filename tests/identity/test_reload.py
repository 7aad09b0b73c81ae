"""A running gateway loads its users again: who is gone is cut off, and nobody else notices."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import nats.errors
import pytest
from click.testing import CliRunner

import unknot
from tests.cli.rig import end_all, ended, start
from tests.identity.rig import PATIENCE_S, House
from unknot import Agent, Refused, connect
from unknot_gateway.cli import main


async def test_a_revoked_user_is_cut_off_at_once_and_let_in_no_more(own_house: House) -> None:
    async with own_house.party("elm") as elm, own_house.party("birch") as birch:
        await elm.greets()
        assert (await asyncio.to_thread(own_house.users, "revoke", "elm"))["loaded"]
        await asyncio.wait_for(elm.gone.wait(), PATIENCE_S)
        assert birch.client.is_connected
        await birch.greets()
    with pytest.raises(nats.errors.Error, match="Authorization"):
        async with own_house.party("elm"):
            pass


async def test_a_rotated_user_is_let_in_by_its_new_password_alone(own_house: House) -> None:
    old = own_house.passwords["elm"]
    async with own_house.party("elm") as elm:
        await asyncio.to_thread(own_house.users, "rotate", "elm")
        await asyncio.wait_for(elm.gone.wait(), PATIENCE_S)
    new = own_house.passwords["elm"]
    async with own_house.party("elm") as elm:
        await elm.greets()
    own_house.passwords["elm"] = old
    with pytest.raises(nats.errors.Error, match="Authorization"):
        async with own_house.party("elm"):
            pass
    assert new != old


async def test_an_added_user_is_let_in(own_house: House) -> None:
    await asyncio.to_thread(own_house.users, "add", "heath")
    async with own_house.party("heath") as heath:
        await heath.greets()


async def test_what_is_allowed_anew_is_allowed_on_the_same_connection(own_house: House) -> None:
    async with own_house.party("grove") as grove:
        assert not await grove.publishes("unknot.default.in.grove.send.birch.work")
        await asyncio.to_thread(own_house.users, "change", "grove", "--may-request", "flint,birch")
        assert await grove.publishes("unknot.default.in.grove.send.birch.work")
        await asyncio.to_thread(own_house.users, "change", "grove", "--may-request", "flint")
        assert not await grove.publishes("unknot.default.in.grove.send.birch.work")
        assert not grove.gone.is_set()


async def test_a_channel_is_open_to_who_may_now_be_a_member(own_house: House) -> None:
    async with own_house.party("elm") as elm:
        await asyncio.to_thread(own_house.users, "change", "elm", "--channels", "reviews")
        await elm.greets(channels=["reviews"])


async def test_requests_of_others_go_on_through_reloads(own_house: House) -> None:
    flint = Agent("flint", concurrency=16)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @flint.on("slow")
    async def slow(_data: object) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    @flint.on("double")
    async def double(number: int) -> int:
        return 2 * number

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(flint.running(own_house.url, login=own_house.login("flint")))
        me = await stack.enter_async_context(connect("birch", own_house.url, login=own_house.login("birch")))
        waiting = asyncio.create_task(me.send_and_wait("flint", "slow"))
        await begun.wait()
        counting = asyncio.create_task(count(me))
        for number in range(5):
            await asyncio.to_thread(own_house.users, "add", f"new{number}")
            await asyncio.to_thread(own_house.users, "rotate", "elm")
            await asyncio.to_thread(own_house.users, "revoke", f"new{number}")
        counting.cancel()
        go_on.set()
        assert await waiting == "done"
        assert me.counters.get("reconnects", 0) == 0
        with pytest.raises(asyncio.CancelledError):
            await counting


async def count(me: unknot.Connection) -> None:
    number = 0
    while True:
        number += 1
        assert await me.send_and_wait("flint", "double", number) == 2 * number


async def test_a_revoked_agent_is_told_and_its_session_ends(own_house: House) -> None:
    async with connect("elm", own_house.url, login=own_house.login("elm")) as me:
        waiting = asyncio.create_task(me.send_and_wait("birch", "work", wait_for_target=50))
        await me.send("birch", "note")
        await asyncio.to_thread(own_house.users, "revoke", "elm")
        await asyncio.wait_for(me.closed(), 10)
        assert isinstance(me.denied, Refused)
        assert me.denied.code == "not_permitted"
        with pytest.raises(unknot.Cancelled, match="does not let agent elm in"):
            await waiting
        with pytest.raises(unknot.Cancelled, match="does not let agent elm in"):
            await me.send("birch", "note")


async def test_a_program_ends_with_the_user_of_one_of_its_agents(own_house: House, tmp_path: Path) -> None:
    team = "from unknot import Agent\nelm, birch = Agent('elm'), Agent('birch')\n"
    (tmp_path / "team.py").write_text(team)
    for name in ("elm", "birch"):
        (tmp_path / f"{name}.secret").write_text(own_house.passwords[name])
    names = ("team:elm", "team:birch", "--nats", own_house.url, "--password-file", "{agent}.secret")
    try:
        program = await start("run", *names, cwd=tmp_path)
        assert program.stdout is not None
        assert b"elm, birch up" in await asyncio.wait_for(program.stdout.readline(), 20)
        await asyncio.to_thread(own_house.users, "revoke", "elm")
        done = await ended(program)
    finally:
        await end_all()
    assert done.code == 1
    assert "does not let agent elm in" in done.err.splitlines()[-1]


async def test_an_agent_whose_password_file_was_rewritten_goes_on(own_house: House) -> None:
    secret = own_house.file.with_name("elm.secret")
    secret.write_text(own_house.passwords["elm"] + "\n")
    login = unknot.Login(password_file=str(secret.with_name("{agent}.secret")))
    async with connect("elm", own_house.url, login=login) as me:
        await asyncio.to_thread(own_house.users, "rotate", "elm")
        secret.write_text(own_house.passwords["elm"] + "\n")
        async with asyncio.timeout(10):
            while not me.counters.get("reconnects"):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.02)
            await me.send("birch", "note")
        assert me.denied is None


async def test_a_file_that_cannot_be_loaded_changes_nothing_and_is_told(own_house: House) -> None:
    gateway = own_house.gateway
    assert gateway is not None
    good = own_house.file.read_bytes()
    own_house.file.write_text("nonsense")
    async with own_house.party("elm") as elm:
        os.kill(gateway.pid, signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while not any("not loaded" in line for line in gateway.log):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.02)
        await elm.greets()
    own_house.file.write_bytes(good)
    assert (await asyncio.to_thread(own_house.users, "add", "heath"))["loaded"]


def test_two_gateways_do_not_serve_one_file(own_house: House) -> None:
    done = CliRunner().invoke(main, ["serve", "--port", "0", "--users", str(own_house.file)])
    assert done.exit_code == 1
    assert "another gateway serves the users" in done.stderr


def test_without_a_gateway_a_change_signals_nobody(own_house: House) -> None:
    """The pid file of a gateway that was killed may name any process by now."""
    assert own_house.gateway is not None
    own_house.gateway.kill()
    assert own_house.file.with_name("users.json.pid").exists()
    assert not own_house.users("add", "heath")["loaded"]
