"""``unknot request`` and ``unknot send``."""

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.cli.rig import RawAgent, agent, break_down, echo, ended, say_nothing, start, unknot
from tests.support import gateway as support
from tests.support.gateway import Gateway


async def test_an_answer_is_printed(gateway: Gateway) -> None:
    async with agent(gateway, "elm", echo):
        asked = await unknot("request", "elm", "work.do", '{"topic": "knots"}', gateway=gateway)
        assert (asked.code, asked.json, asked.err) == (0, {"topic": "knots"}, "")
        asked = await unknot("request", "agent:elm", "work.do", "-", gateway=gateway, stdin=b"[1, 2]")
        assert (asked.code, asked.json) == (0, [1, 2])
        asked = await unknot("request", "elm", "work.do", gateway=gateway)
        assert (asked.code, asked.json) == (0, None)
        asked = await unknot("request", "elm", "work.do", "1", "--json", gateway=gateway)
        assert asked.json["outcome"] == "reply"
        assert asked.json["event"]["data"] == 1


async def test_a_failure_is_code_1_with_its_reason(gateway: Gateway) -> None:
    async with agent(gateway, "elm", break_down):
        asked = await unknot("request", "elm", "work.do", gateway=gateway)
        assert (asked.code, asked.out) == (1, "")
        assert "failed: it broke (handler_failed)" in asked.err
        asked = await unknot("request", "elm", "work.do", "--json", gateway=gateway)
        assert (asked.code, asked.json["outcome"]) == (1, "failed")


async def test_time_that_runs_out_is_code_1(gateway: Gateway) -> None:
    async with agent(gateway, "elm", say_nothing):
        asked = await unknot("request", "elm", "work.do", "--timeout", "0.2", gateway=gateway)
    assert asked.code == 1
    assert "expired" in asked.err


async def test_an_agent_that_is_not_there_is_code_4(gateway: Gateway) -> None:
    asked = await unknot("request", "elm", "work.do", "--wait-for-target", "0.2", gateway=gateway)
    assert (asked.code, asked.out) == (4, "")
    assert "unreachable" in asked.err
    assert "--wait-for-target was 0.2 seconds" in asked.err


async def test_a_network_without_a_gateway_is_code_4(gateway: Gateway) -> None:
    for verb in (["request", "elm", "work"], ["send", "elm", "work"], ["waits", "list"], ["agents", "list"]):
        asked = await unknot(*verb, "--network", "nobodys", gateway=gateway)
        assert (asked.code, asked.out) == (4, ""), verb
        assert "no gateway serves network nobodys" in asked.err


async def test_a_wait_in_a_deadlock_is_code_3(gateway: Gateway) -> None:
    """Whoever is asked asks back: the command is one serial main that waits for the answer, and takes nothing."""

    async def ask_back(agent: RawAgent, event: Any) -> None:
        await agent.request("cli", execution=event["id"])

    async with agent(gateway, "elm", ask_back) as elm:
        # Without it the server would say that nobody listens for the command, and the gateway: unreachable.
        await elm.raw.subscribe(elm.subjects.out("cli", "0"), cb=_ignore)
        asked = await unknot("request", "elm", "work.do", "--timeout", "20", gateway=gateway)
    assert (asked.code, asked.out) == (3, "")
    assert "deadlock: cli -> elm -> cli" in asked.err


async def test_a_stream_that_acknowledges_everything_is_no_answer() -> None:
    with support.running() as gateway:
        async with agent(gateway, "elm", echo) as elm:
            await elm.raw.jetstream().add_stream(name="GREEDY", subjects=["unknot.>"])
            for verb in (
                ["request", "elm", "work"],
                ["send", "elm", "work"],
                ["agents", "list"],
                ["waits", "list"],
            ):
                assert (await unknot(*verb, gateway=gateway)).code == 0, verb


async def test_ctrl_c_withdraws_the_request(gateway: Gateway) -> None:
    taken = asyncio.Event()

    async def take(agent: RawAgent, event: Any) -> None:
        taken.set()

    async with agent(gateway, "elm", take):
        waiting = await start("request", "elm", "work.do", gateway=gateway)
        await asyncio.wait_for(taken.wait(), 10)
        waiting.send_signal(signal.SIGINT)
        assert (await ended(waiting)).code == 1
        assert (await unknot("waits", "list", "--json", gateway=gateway)).json["total"] == 0


async def test_an_event_is_sent_and_its_id_printed(gateway: Gateway) -> None:
    got: asyncio.Queue[Any] = asyncio.Queue()

    async def take(agent: RawAgent, event: Any) -> None:
        got.put_nowait(event)

    async with agent(gateway, "elm", take, concurrency=4):
        sent = await unknot("send", "elm", "work.do", '{"n": 1}', gateway=gateway)
        event = await asyncio.wait_for(got.get(), 10)
        assert (sent.code, sent.out.strip(), event["data"]) == (0, event["id"], {"n": 1})
        sent = await unknot("send", "elm", "work.do", "--json", gateway=gateway)
        assert sent.json["ok"]


@pytest.mark.parametrize("data", ['"text"', "1.5", "[]", '{"a": {"b": null}}'])
async def test_any_json_may_be_asked(data: str, gateway: Gateway) -> None:
    async with agent(gateway, "elm", echo):
        assert (await unknot("request", "elm", "work", data, gateway=gateway)).json == json.loads(data)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ("world", """'"world"'"""),
        ("it's", "it"),
        ("{a: 1}", """'{"name": "world"}'"""),
        ("x" * 99, """'"text"'"""),
    ],
)
async def test_what_is_no_json_is_answered_with_what_to_type(data: str, hint: str) -> None:
    asked = await unknot("request", "elm", "work", data)
    assert (asked.code, asked.out) == (2, "")
    assert hint in asked.err.partition("no JSON")[2]


async def _ignore(message: Any) -> None:
    """Seen, not taken."""
