"""``unknot waits``, ``unknot agents`` and ``unknot watch``."""

import asyncio
import json
import signal
from typing import Any

from tests.cli.rig import RawAgent, agent, ended, say_nothing, start, unknot
from tests.support import gateway as support
from tests.support.gateway import Gateway


async def test_waits_say_who_waits_for_whom_and_what_it_hangs_on(gateway: Gateway) -> None:
    taken = asyncio.Event()

    async def take(agent: RawAgent, event: Any) -> None:
        taken.set()

    async with agent(gateway, "elm", take):
        waiting = await start("request", "elm", "work.do", gateway=gateway)
        await asyncio.wait_for(taken.wait(), 10)
        listed = await unknot("waits", "list", gateway=gateway)
        assert listed.code == 0
        head, row = listed.out.splitlines()
        assert head.split()[:2] == ["WAITER", "EXECUTION"]
        assert row.split()[0] == "cli"
        assert "elm work.do" in row
        judged = await unknot("waits", "list", "--verdicts", gateway=gateway)
        assert judged.code == 0
        assert "CONTENTION: goes on when its holder does" in judged.out
        assert "agents: cli CONTENTION, elm PROGRESSING" in judged.out
        assert "cli/main CONTENTION: reply elm work.do <- elm/" in judged.out
        both = await unknot("waits", "list", "--verdicts", "--json", gateway=gateway)
        assert [row["target"] for row in both.json["rows"]] == ["elm"]
        assert [one["verdict"] for one in both.json["verdicts"]["components"]] == ["CONTENTION"]
        as_json = await unknot("waits", "list", "--json", gateway=gateway)
        assert [row["target"] for row in as_json.json["rows"]] == ["elm"]
        waiting.send_signal(signal.SIGINT)
        await ended(waiting)


async def test_agents_say_who_lives(gateway: Gateway) -> None:
    async with agent(gateway, "elm", say_nothing, concurrency=3):
        listed = await unknot("agents", "list", gateway=gateway)
        assert listed.code == 0
        assert listed.out.splitlines()[1].split()[0] == "elm"
        as_json = await unknot("agents", "list", "--json", gateway=gateway)
        assert [(row["agent"], row["slots"]) for row in as_json.json["rows"]] == [("elm", 3)]


async def test_a_name_that_was_only_asked_for_is_no_agent(gateway: Gateway) -> None:
    asked = await unknot("request", "nobody", "work", "--wait-for-target", "0", gateway=gateway)
    assert asked.code == 4
    listed = await unknot("agents", "list", gateway=gateway)
    assert "nobody" not in listed.out


async def test_holds_say_who_holds_what(gateway: Gateway) -> None:
    async with agent(gateway, "elm", say_nothing) as elm:
        wanted = [{"id": "page"}, {"id": "db"}]
        asked = json.dumps({"id": "h1", "session": elm.session, "resources": wanted}).encode()
        await elm.raw.request(elm.subjects.verb("elm", "lock.acquire"), asked, timeout=10)
        listed = await unknot("holds", "list", gateway=gateway)
        assert listed.code == 0
        head, *rows = listed.out.splitlines()
        assert head.split()[:4] == ["HELD", "BY", "EXECUTION", "KIND"]
        assert [row.split()[:4] for row in rows] == [
            ["elm", "main", "lock", "page"],
            ["elm", "main", "lock", "db"],
        ]
        as_json = await unknot("holds", "list", "--json", gateway=gateway)
        assert [(row["target"], row["is_lost"]) for row in as_json.json["rows"]] == [
            ("page", False),
            ("db", False),
        ]


async def ask_each_other(agent: RawAgent, event: Any) -> None:
    await agent.request("oak" if agent.name == "elm" else "elm", execution=event["id"])


async def test_a_deadlock_is_watched_as_it_is_found(gateway: Gateway) -> None:
    async with agent(gateway, "elm", ask_each_other), agent(gateway, "oak", ask_each_other):
        watching = [
            await start("watch", *flags, gateway=gateway) for flags in (("--once",), ("--once", "--json"), ())
        ]
        for process in watching:
            assert process.stderr is not None
            assert b"watching network" in await asyncio.wait_for(process.stderr.readline(), 10)
        assert (await unknot("send", "elm", "start", gateway=gateway)).code == 0
        people, machine = [await ended(process) for process in watching[:2]]
        assert (people.code, machine.code) == (3, 3)
        assert "deadlock: elm -> oak -> elm" in people.out
        assert "remedy:" in people.out
        notice = machine.json
        assert notice["type"] == "agent.wait.deadlock_detected"
        assert notice["data"]["cycle"] == ["elm", "oak", "elm"]
        forever = watching[2]
        forever.send_signal(signal.SIGTERM)
        went_on = await ended(forever)
        assert went_on.code == 0
        assert "deadlock: elm -> oak -> elm" in went_on.out


async def test_a_listed_deadlock_is_code_3_with_verdicts() -> None:
    with support.running("--policy", "shadow") as gateway:
        async with agent(gateway, "elm", ask_each_other), agent(gateway, "oak", ask_each_other):
            watching = await start("watch", "--once", gateway=gateway)
            assert watching.stderr is not None
            await asyncio.wait_for(watching.stderr.readline(), 10)
            await unknot("send", "elm", "start", gateway=gateway)
            assert (await ended(watching)).code == 3
            judged = await unknot("waits", "list", "--verdicts", gateway=gateway)
            assert judged.code == 3
            assert "DEADLOCK: can never end\n  cycle elm -> oak -> elm\n" in judged.out
            assert judged.out.count(" DEADLOCK: reply ") == 2
            plain = await unknot("waits", "list", "--json", gateway=gateway)
            assert plain.code == 0
            assert {row["stuck"] for row in json.loads(plain.out)["rows"]} == {True}


async def test_an_exported_deadlock_is_found_again_by_check() -> None:
    with support.running("--policy", "shadow") as gateway:
        async with agent(gateway, "elm", ask_each_other), agent(gateway, "oak", ask_each_other):
            watching = await start("watch", "--once", gateway=gateway)
            assert watching.stderr is not None
            await asyncio.wait_for(watching.stderr.readline(), 10)
            await unknot("send", "elm", "start", gateway=gateway)
            assert (await ended(watching)).code == 3
            exported = await unknot("graph", "export", gateway=gateway)
            assert exported.code == 0, exported.err
            expected = exported.json["cases"][0]["steps"][-1]
            assert [name.split("#")[0] for name in expected["deadlocked"]] == ["elm", "oak"]
            assert len(expected["cycles"]) == 1
            checked = await unknot("graph", "check", "-", stdin=exported.out.encode())
            assert (checked.code, checked.out) == (0, f"ok {gateway.network}-{gateway.epoch}\n")
            in_one_line = await unknot("graph", "export", "--json", gateway=gateway)
            assert in_one_line.json == exported.json
            assert in_one_line.out.count("\n") == 1
            wrong = exported.out.replace('"deadlocked": [', '"deadlocked": ["nobody",', 1)
            assert (await unknot("graph", "check", "-", stdin=wrong.encode())).code == 1
