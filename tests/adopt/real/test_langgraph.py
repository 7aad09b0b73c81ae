"""LangGraph itself: nodes that wait, tools, interrupts, subgraphs."""

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from tests.adopt.desks import Desks
from tests.adopt.rig import Network, ends
from unknot import Connection, DeadlockDetected
from unknot.adapters import Lock, context, step
from unknot.adapters.langgraph import Graphs


class State(TypedDict, total=False):
    topic: str
    text: str
    notes: str


def graph_of(*nodes: tuple[str, Any], checkpointer: Any = None) -> Any:
    """*nodes* side by side."""
    builder = StateGraph(State)
    for name, function in nodes:
        builder.add_node(name, function)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    return builder.compile(checkpointer=checkpointer)


def asking(desks: Desks, other: str) -> Any:
    """A node that asks the agent *other*."""

    async def ask(state: State) -> State:
        return {"text": await desks.ask(other, state)}

    return step(ask, "agent", other)


async def text(state: State) -> State:
    return {"text": "done"}


async def test_two_graphs_that_ask_each_other_are_told(network: Network) -> None:
    desks = Desks()
    graphs = {
        "alice": graph_of(("ask", asking(desks, "bob"))),
        "bob": graph_of(("ask", asking(desks, "alice"))),
    }

    async def work(me: Connection, job: Any) -> Any:
        return await Graphs(me).run(graphs[me.agent], job)

    async with desks.working(network, alice=work, bob=work):
        ended = await ends(desks.ask("alice", {"topic": "knots"}), desks.ask("bob", {"topic": "knots"}))
    assert DeadlockDetected in [type(each) for each in ended]
    notice = await network.found()
    assert notice["cycle"] == ["alice", "bob", "alice"]
    assert notice["evidence"] == "reported"
    assert {(wait["waiter"], wait["kind"], wait["target"]) for wait in notice["waits"]} == {
        ("alice", "agent", "bob"),
        ("bob", "agent", "alice"),
    }


async def test_a_ring_with_a_tool_in_it_is_none(network: Network) -> None:
    desks = Desks()
    found: asyncio.Event = asyncio.Event()

    async def search(state: State) -> State:
        await found.wait()
        return {"text": "found"}

    graphs = {
        "alice": graph_of(("ask", asking(desks, "bob"))),
        "bob": graph_of(("search", step(search, "tool"))),
    }

    async def work(me: Connection, job: Any) -> Any:
        return await Graphs(me).run(graphs[me.agent], job)

    async with desks.working(network, alice=work, bob=work):
        asked = desks.ask("alice", {})
        waits = await network.until(lambda waits: waits if len(waits) >= 2 else None)
        assert {"tool"} <= {wait["kind"] for wait in waits}
        await network.for_beats()
        found.set()
        assert await asked == {"text": {"text": "found"}}
    assert network.notices == []


async def test_a_node_beside_the_one_that_waits_may_still_give_back_what_it_holds(network: Network) -> None:
    """alice waits for bob, and bob for a lock that alice has; but the node that has it works."""
    desks, page, go_on = Desks(), Lock("page"), asyncio.Event()

    async def print_page(state: State) -> State:
        async with page:
            await go_on.wait()
        return {"notes": "printed"}

    async def read_page(state: State) -> State:
        async with page:
            return {"text": "read"}

    alice = graph_of(("ask", asking(desks, "bob")), ("print", step(print_page)))
    bob = graph_of(("read", step(read_page)))

    async def work(me: Connection, job: Any) -> Any:
        return await Graphs(me).run(alice if me.agent == "alice" else bob, job)

    async with desks.working(network, alice=work, bob=work):
        asked = desks.ask("alice", {})
        await network.until(lambda waits: any(wait["kind"] == "lock" for wait in waits))
        await network.for_beats()
        go_on.set()
        assert await asked == {"text": {"text": "read"}, "notes": "printed"}
    assert network.notices == []


async def test_when_both_nodes_wait_it_is_a_deadlock(network: Network) -> None:
    desks, page = Desks(), Lock("page")

    async def print_page(state: State) -> State:
        async with page:
            return {"notes": (await asking(desks, "bob")(state))["text"]}

    async def read_page(state: State) -> State:
        async with page:
            return {"text": "read"}

    alice, bob = graph_of(("print", step(print_page))), graph_of(("read", step(read_page)))

    async def work(me: Connection, job: Any) -> Any:
        return await Graphs(me).run(alice if me.agent == "alice" else bob, job)

    async with desks.working(network, alice=work, bob=work):
        [ended] = await ends(desks.ask("alice", {}))
    assert isinstance(ended, DeadlockDetected)
    assert {wait["kind"] for wait in (await network.found())["waits"]} == {"agent", "lock"}


async def test_a_graph_that_a_node_runs_is_work_of_its_own_agent(network: Network) -> None:
    page = Lock("page")

    async def read_page(state: State) -> State:
        async with page:
            return {"text": "read"}

    reading = graph_of(("read", step(read_page)))
    async with network.connect("alice") as alice, network.connect("bob") as bob:

        async def delegate(state: State) -> Any:
            return await Graphs(bob).run(reading, state)

        async def print_page(state: State) -> Any:
            async with page:
                return await Graphs(bob).run(reading, state)

        assert await Graphs(alice).run(graph_of(("a", step(delegate))), {}) == {"text": "read"}
        assert network.notices == []
        with pytest.raises(DeadlockDetected):
            await Graphs(alice).run(graph_of(("a", step(print_page))), {})
        notice = await network.found()
        assert set(notice["cycle"]) == {"alice", "bob"}
        assert {wait["kind"] for wait in notice["waits"]} == {"task", "lock"}


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_a_node_that_ends_badly_waits_no_more(network: Network, how: str) -> None:
    fails = asyncio.Event()

    async def ask(state: State) -> State:
        await fails.wait()
        raise ValueError(how)

    async with network.connect("alice") as alice:
        graphs = Graphs(alice)
        running = asyncio.create_task(graphs.run(graph_of(("ask", step(ask, "agent", "bob"))), {}))
        await network.until(len)
        fails.set() if how == "raises" else running.cancel()
        [ended] = await ends(running)
        assert type(ended) is (ValueError if how == "raises" else asyncio.CancelledError)
        await network.until(lambda waits: not waits)
        assert alice._links.session.beside == {}
        assert await graphs.run(graph_of(("text", text)), {}) == {"text": "done"}


async def test_an_interrupted_thread_waits_for_a_human_until_it_is_resumed(network: Network) -> None:
    async def decide(state: State) -> State:
        return {"text": interrupt("may it be printed?")}

    graph = graph_of(("decide", step(decide)), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "order 7"}}
    async with network.connect("alice") as alice, network.connect("bob") as bob:
        graphs = Graphs(alice, human="eva")
        assert "__interrupt__" in await graphs.run(graph, {}, thread, task="print-7")

        async def waits_for_it() -> None:
            async with bob.blocking_on("task", "print-7"):
                await asyncio.Event().wait()

        waiting = asyncio.create_task(waits_for_it())
        waits = await network.until(lambda waits: waits if len(waits) == 2 else None)
        [human] = [wait for wait in waits if wait["kind"] == "human"]
        assert human["target"] == "eva"
        await network.for_beats()
        assert await graphs.run(graph, Command(resume="yes"), thread, task="print-7") == {"text": "yes"}
        await network.until(lambda waits: len(waits) == 1)
        waiting.cancel()
        await ends(waiting)
        assert alice._links.session.beside == {}
    assert network.notices == []


async def test_of_too_many_parked_threads_the_oldest_is_forgotten(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unknot.adapters.langgraph.PARKED_MAX", 3)

    async def decide(state: State) -> State:
        return {"text": interrupt("may it be printed?")}

    graph = graph_of(("decide", step(decide)), checkpointer=InMemorySaver())
    async with network.connect("alice") as alice:
        graphs = Graphs(alice)
        for number in range(5):
            await graphs.run(graph, {}, {"configurable": {"thread_id": str(number)}})
        await network.until(lambda waits: len(waits) == 3)
        for number in range(5):
            graphs.forget(str(number))
        await network.until(lambda waits: not waits)
        assert alice._links.session.beside == {}


async def test_without_work_a_step_is_the_plain_function() -> None:
    assert context() is None
    assert await graph_of(("text", step(text, "agent", "bob"))).ainvoke({}) == {"text": "done"}
