"""OpenAI Agents SDK itself, with its scripted model: tools that wait, handoffs, approvals."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, Tool, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.adopt.desks import Desks
from tests.adopt.rig import Network, ends
from unknot import Connection
from unknot.adapters import Lock, step
from unknot.adapters.openai_agents import approving, run


@pytest.fixture(autouse=True)
def nothing_is_traced() -> None:
    set_tracing_disabled(True)


def calling(name: str, *tools: Tool, **options: Any) -> Agent[Any]:
    """An agent that calls all *tools* in one turn, and then says that it is done."""
    calls = [function_call(tool.name, {"input": "?"}, call_id=f"call-{tool.name}") for tool in tools]
    model = ScriptedModel([calls, [assistant_message("done")]])
    return Agent(name=name, model=model, tools=list(tools), **options)


def tool(name: str, body: Callable[[], Any], kind: Any = "tool", id: str = "", **options: Any) -> Tool:
    """A tool of that name; how it fails is raised, not told to the model, unless *options* say so."""

    async def called() -> str:
        return str(await body())

    options = {"failure_error_function": None, "strict_mode": False, **options}
    return function_tool(step(called, kind, id or name), name_override=name, **options)


def asking(desks: Desks, other: str, **options: Any) -> Tool:
    return tool(f"ask_{other}", lambda: desks.ask(other, "?"), "agent", other, **options)


async def test_two_agents_that_ask_each_other_are_told(network: Network) -> None:
    desks = Desks()

    async def work(me: Connection, job: Any) -> Any:
        other = "bob" if me.agent == "alice" else "alice"
        return (await run(me, calling(me.agent, asking(desks, other)), job)).final_output

    async with desks.working(network, alice=work, bob=work):
        ended = await ends(desks.ask("alice", "knots"), desks.ask("bob", "knots"))
    assert not any(isinstance(each, str) for each in ended)
    notice = await network.found()
    assert notice["cycle"] == ["alice", "bob", "alice"]
    assert notice["evidence"] == "reported"
    assert {(wait["waiter"], wait["kind"], wait["target"]) for wait in notice["waits"]} == {
        ("alice", "agent", "bob"),
        ("bob", "agent", "alice"),
    }


async def test_where_the_model_is_told_how_a_tool_failed_it_is_told_of_the_deadlock(network: Network) -> None:
    desks, told = Desks(), asyncio.Queue[str]()

    def failed(_context: Any, error: Exception) -> str:
        told.put_nowait(str(error))
        return str(error)

    async def work(me: Connection, job: Any) -> Any:
        other = "bob" if me.agent == "alice" else "alice"
        agent = calling(me.agent, asking(desks, other, failure_error_function=failed))
        return (await run(me, agent, job)).final_output

    async with desks.working(network, alice=work, bob=work):
        ended = await ends(desks.ask("alice", "knots"), desks.ask("bob", "knots"))
        assert ended == ["done", "done"]
        assert "alice -> bob -> alice" in await told.get()


async def test_a_ring_with_a_tool_in_it_is_none(network: Network) -> None:
    desks, found = Desks(), asyncio.Event()

    async def work(me: Connection, job: Any) -> Any:
        used = asking(desks, "bob") if me.agent == "alice" else tool("search", found.wait)
        return (await run(me, calling(me.agent, used), job)).final_output

    async with desks.working(network, alice=work, bob=work):
        asked = desks.ask("alice", "knots")
        await network.until(lambda waits: {wait["kind"] for wait in waits} == {"agent", "tool"})
        await network.for_beats()
        found.set()
        assert await asked == "done"
    assert network.notices == []


async def test_a_tool_beside_the_one_that_waits_may_still_give_back_what_it_holds(network: Network) -> None:
    desks, page, go_on = Desks(), Lock("page"), asyncio.Event()

    async def print_page() -> None:
        async with page:
            await go_on.wait()

    async def read_page() -> None:
        async with page:
            pass

    async def work(me: Connection, job: Any) -> Any:
        if me.agent == "bob":
            return (await run(me, calling("bob", tool("read", read_page)), job)).final_output
        tools = tool("print", print_page), asking(desks, "bob")
        return (await run(me, calling("alice", *tools), job)).final_output

    async with desks.working(network, alice=work, bob=work):
        asked = desks.ask("alice", "knots")
        await network.until(lambda waits: "lock" in {wait["kind"] for wait in waits})
        await network.for_beats()
        go_on.set()
        assert await asked == "done"
    assert network.notices == []


async def test_a_run_that_was_handed_on_or_calls_an_agent_as_a_tool_is_the_same_run(network: Network) -> None:
    """What carol, to whom alice's run was handed, and dave, her tool, wait for is what alice's run waits for."""
    desks = Desks()

    async def work(me: Connection, job: Any) -> Any:
        if me.agent == "bob":
            return (await run(me, calling("bob", asking(desks, "alice")), job)).final_output
        dave = calling("dave", asking(desks, "bob", failure_error_function=None))
        carol = calling("carol", dave.as_tool("dave", "asks bob", failure_error_function=None))
        handing = function_call("transfer_to_carol", {}, call_id="hand-on")
        alice: Agent[Any] = Agent(name="alice", model=ScriptedModel([[handing]]), handoffs=[carol])
        return (await run(me, alice, job)).final_output

    async with desks.working(network, alice=work, bob=work):
        ended = await ends(desks.ask("alice", "knots"), desks.ask("bob", "knots"))
    assert not any(isinstance(each, str) for each in ended)
    assert (await network.found())["cycle"] == ["alice", "bob", "alice"]


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_a_tool_that_ends_badly_waits_no_more(network: Network, how: str) -> None:
    fails = asyncio.Event()

    async def ask() -> None:
        await fails.wait()
        raise ValueError(how)

    async with network.connect("alice") as alice:
        running = asyncio.create_task(run(alice, calling("alice", tool("ask_bob", ask, "agent", "bob")), "?"))
        await network.until(len)
        fails.set() if how == "raises" else running.cancel()
        [ended] = await ends(running)
        assert isinstance(ended, Exception if how == "raises" else asyncio.CancelledError)
        await network.until(lambda waits: not waits)
        assert alice._links.session.beside == {}


async def test_an_approval_is_a_wait_for_a_human(network: Network) -> None:
    async def send() -> str:
        return "sent"

    async with network.connect("alice") as alice:
        agent = calling("alice", tool("send_mail", send, needs_approval=True))
        result = await run(alice, agent, "?")
        assert len(result.interruptions) == 1
        state = result.to_state()
        async with approving(alice, result, "eva"):
            [wait] = await network.until(lambda waits: waits)
            assert (wait["waiter"], wait["kind"], wait["target"]) == ("alice", "human", "eva")
            state.approve(result.interruptions[0])
        await network.until(lambda waits: not waits)
        assert (await run(alice, agent, state)).final_output == "done"


async def test_one_connection_does_one_run_at_a_time_but_any_number_of_named_ones(network: Network) -> None:
    go_on = asyncio.Event()
    async with network.connect("alice") as alice:

        def agent() -> Agent[Any]:
            return calling("alice", tool("search", go_on.wait))

        runs = [
            asyncio.create_task(run(alice, agent(), "?", task=task)) for task in ("one", "two", None, None)
        ]
        await network.until(lambda waits: len(waits) == 3)
        go_on.set()
        ended = await ends(*runs)
        assert [getattr(each, "final_output", None) for each in ended] == ["done"] * 3 + [None]
        assert "one piece of work at a time" in str(ended[3])


async def test_a_ring_of_named_runs_is_found_in_whatever_else_their_agents_do(network: Network) -> None:
    """alice and bob do other things beside; the two runs that wait for each other will never end."""

    async with network.connect("alice") as alice, network.connect("bob") as bob:
        ring = [
            run(me, calling(me.agent, tool("wait", asyncio.Event().wait, "task", other)), "?", task=own)
            for me, own, other in ((alice, "a", "b"), (bob, "b", "a"))
        ]
        ended = await ends(*ring)
        assert all(isinstance(each, Exception) for each in ended)
    assert (await network.found())["cycle"] == ["alice", "bob", "alice"]
