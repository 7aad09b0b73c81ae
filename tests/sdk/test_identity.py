"""Which of several processes of an agent this one is, and who takes whose place: the client's half."""

import asyncio

import pytest

import unknot
from tests.sdk.fake import Fake
from unknot import Agent


async def test_a_session_that_is_refused_because_of_its_successor_ends_and_does_not_take_its_place(
    fake: Fake,
) -> None:
    async with unknot.connect("birch", instance="one") as me:
        await fake.next("hello")
        error = {"code": "session_used", "message": "used", "detail": {"replaced_by": "other"}}
        fake.answers["hello"], fake.unknown_session = {"ok": False, "error": error}, True
        waiting = asyncio.ensure_future(me.send_and_wait("elm", "say"))
        await fake.next("request")
        me._links.session.transport.on_up()
        with pytest.raises(unknot.Cancelled, match="other"):
            await waiting
        async with asyncio.timeout(5):
            await me.closed()
    assert [seen.body.get("resume", False) for seen in fake.seen("hello")] == [False, True]


async def test_hello_says_which_of_several_processes_it_is(fake: Fake) -> None:
    elm = Agent("elm", instance="elm-0", exclusive=True)
    said = []
    async with elm.running():
        said.append((await fake.next("hello")).body)
    async with elm.running(instance="elm-1"):
        said.append((await fake.next("hello")).body)
    async with unknot.connect("birch", instance="birch-0", exclusive=True):
        said.append((await fake.next("hello")).body)
    assert [(hello["instance"], hello["exclusive"]) for hello in said] == [
        ("elm-0", True),
        ("elm-1", True),
        ("birch-0", True),
    ]


@pytest.mark.parametrize("name", ["", "x" * 129])
async def test_an_instance_without_a_name_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        Agent("elm", instance=name)
    with pytest.raises(ValueError, match="instance"):
        async with unknot.connect("elm", instance=name):
            raise AssertionError
