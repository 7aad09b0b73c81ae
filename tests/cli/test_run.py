"""``unknot run``: agents of the current folder, from their first line to their goodbye."""

import asyncio
import json
import signal
from pathlib import Path

from tests.cli.rig import ended, start, unknot
from tests.support.gateway import Gateway

TEAM = """
from unknot import Agent, Context

reviewer = Agent("reviewer")
writer = Agent("writer", concurrency=2)
number = 5


@reviewer.on("review")
async def review(draft: dict, ctx: Context) -> dict:
    return {"text": await ctx.send_and_wait("writer", "revise", draft, timeout=20)}


@writer.on("revise")
def revise(draft: dict) -> str:
    return draft["topic"].upper()
"""


async def test_agents_are_run_from_the_current_folder_until_they_are_stopped(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "team.py").write_text(TEAM)
    running = await start("run", "team:reviewer", "team:writer", "--json", gateway=gateway, cwd=tmp_path)
    assert running.stdout is not None
    up = json.loads(await asyncio.wait_for(running.stdout.readline(), 20))
    assert up["agents"] == ["reviewer", "writer"]
    asked = await unknot("request", "reviewer", "review", '{"topic": "knots"}', gateway=gateway)
    assert (asked.code, asked.json) == (0, {"text": "KNOTS"})
    running.send_signal(signal.SIGTERM)
    assert (await ended(running)).code == 0
    listed = (await unknot("agents", "list", "--json", gateway=gateway)).json
    assert {row["agent"] for row in listed["rows"]}.isdisjoint({"reviewer", "writer"}), "they said goodbye"


async def test_what_is_no_agent_is_code_2_and_says_what_there_is(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(TEAM)
    for name in ("team:number", "team:absent"):
        tried = await ended(await start("run", name, gateway=gateway, cwd=tmp_path))
        assert (tried.code, tried.out) == (2, "")
        assert "it has reviewer, writer" in tried.err


async def test_a_module_alone_is_answered_with_the_agents_in_it(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(TEAM)
    for name in ("team", "team.py", "team:"):
        tried = await ended(await start("run", name, cwd=tmp_path))
        assert (tried.code, tried.out) == (2, "")
        assert "unknot run team:reviewer team:writer" in tried.err


async def test_an_error_inside_the_module_is_shown_with_its_traceback(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "team.py").write_text("import no_such_module_of_theirs")
    tried = await ended(await start("run", "team:a", gateway=gateway, cwd=tmp_path))
    assert tried.code == 1
    assert "team.py" in tried.err
    assert "no_such_module_of_theirs" in tried.err


async def test_no_server_is_code_4(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(TEAM)
    tried = await ended(
        await start("run", "team:writer", "--wait", "1.2", "--nats", "nats://127.0.0.1:1", cwd=tmp_path)
    )
    assert (tried.code, tried.out) == (4, "")
    assert tried.err.count("WARNING") == 1, "it has tried several times, and said so once"
    assert tried.err.count("start one with `unknot serve`") == 2, "at the first attempt and at the end"


async def test_a_stop_before_the_agents_are_up_is_heard_at_once(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(TEAM + "print('imported', flush=True)\n")
    arguments = ("run", "team:writer", "--wait", "3600", "--nats", "nats://127.0.0.1:1")
    waiting = await start(*arguments, cwd=tmp_path)
    assert waiting.stdout is not None
    await asyncio.wait_for(waiting.stdout.readline(), 20)
    assert waiting.stderr is not None
    await asyncio.wait_for(waiting.stderr.readline(), 20)  # it has tried once, and says so
    waiting.send_signal(signal.SIGTERM)
    assert (await ended(waiting)).code == 0


async def test_the_next_process_of_the_same_instance_takes_the_place_of_the_one_before(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "team.py").write_text(TEAM)
    command = ("run", "team:writer", "--instance", "writer-0", "--json")
    first = await start(*command, gateway=gateway, cwd=tmp_path)
    assert first.stdout is not None
    await asyncio.wait_for(first.stdout.readline(), 20)
    second = await start(*command, gateway=gateway, cwd=tmp_path)
    assert second.stdout is not None
    await asyncio.wait_for(second.stdout.readline(), 20)
    replaced = await ended(first)
    assert replaced.code == 0
    assert "has taken the place of this one" in replaced.err
    second.send_signal(signal.SIGTERM)
    assert (await ended(second)).code == 0


async def test_an_instance_without_a_name_is_code_2(tmp_path: Path) -> None:
    tried = await ended(await start("run", "team:writer", "--instance", "", cwd=tmp_path))
    assert (tried.code, tried.out) == (2, "")
