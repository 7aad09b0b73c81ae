"""Each hostile input has its answer, ends no connection, and changes nothing for anybody else."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.hostile import inputs
from tests.hostile.conftest import INBOX, Socket
from tests.hostile.inputs import OK, SILENCE, Hostile
from tests.wire.raw import Json, Net, Peer, new_id, new_session

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Scene:
    """Who is there: the sender, a worker that answers, a third agent that waits for a worker that does not."""

    def __init__(
        self, net: Net, me: Peer, elm: Peer, other: Peer, *, open_id: str, theirs: str, ended: str
    ) -> None:
        self.net = net
        self.me = me
        self.elm = elm
        self.other = other
        self._words = {
            "%SESSION%": me.session,
            "%OTHER%": other.session,
            "%OPEN%": open_id,
            "%THEIRS%": theirs,
            "%ENDED%": ended,
        }
        self.theirs = theirs

    def filled(self, text: bytes, fresh: str) -> bytes:
        """*text* with the names of this scene."""
        for word, value in {**self._words, "%ID%": fresh}.items():
            text = text.replace(word.encode(), value.encode())
        root = self.net.subjects.root
        for word, value in {"{me}": self.me.agent, "{elm}": self.elm.agent, "{root}": root}.items():
            text = text.replace(word.encode(), value.encode())
        return text

    async def rows(self) -> list[Json]:
        """The open waits, and who there is with how much to do: what no hostile input may change."""
        agents = (await self.net.api("agents", {"limit": 10_000}))["rows"]
        waits = (await self.net.api("waits", {"limit": 10_000}))["rows"]
        there = [{key: row[key] for key in ("agent", "sessions", "queued") if key in row} for row in agents]
        return sorted(there, key=str) + sorted(
            ({"id": w["id"], "waiter": w["waiter"]} for w in waits), key=str
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(net: Net) -> AsyncIterator[Scene]:
    me, elm, deaf = await net.peer("birch"), await net.echo("elm"), await net.worker("deaf", 4)
    other = await net.peer("other")
    gone = await net.peer("gone")
    await gone.bye()
    theirs, open_id = await other.request(deaf, timeout_s=3_000), await me.request(deaf, timeout_s=3_000)
    await net.settled()
    yield Scene(net, me, elm, other, open_id=open_id, theirs=theirs, ended=gone.session)
    await deaf.answer_id(theirs, "true")
    assert (await other.outcome(theirs))["event"]["data"] == "true", "nobody else has answered it"


@pytest.mark.parametrize("hostile", inputs.ALL, ids=lambda hostile: hostile.name)
async def test_a_hostile_input_has_its_answer_and_changes_nothing(
    scene: Scene, socket: Socket, hostile: Hostile
) -> None:
    net, fresh = scene.net, new_id()
    fence = net.subjects.verb(scene.me.agent, "request.cancel")
    before = await scene.rows()
    after = hostile.after if isinstance(hostile.after, bytes) else hostile.after.encode()
    subject = scene.filled(after if hostile.whole else b"{root}.in.{me}." + after, fresh)
    reply = scene.filled(hostile.reply, fresh) if hostile.reply is not None else f"{INBOX}.{fresh}".encode()
    await socket.send(subject, scene.filled(hostile.body, fresh), reply, hostile.header)
    answers = await socket.answers(fence)
    assert [said(answer) for answer in answers] == ([] if hostile.said == SILENCE else [hostile.said])
    assert (await scene.other.send_and_wait(scene.elm, data="still here"))["event"]["data"] == "still here"
    if hostile.after == "wait.open" and hostile.said == OK:
        await scene.me.wait_close(fresh)
    assert await scene.rows() == before
    assert await net.counter("failed") == 0


def said(answer: Json) -> str:
    """The code of an answer, which must say what happened."""
    error = answer.get("error")
    if error is None:
        assert answer.get("ok", True) is True
        return OK
    assert error["message"]
    return str(error["code"])


async def test_there_are_enough_of_them_and_no_two_alike() -> None:
    assert len({hostile.name for hostile in inputs.ALL}) == len(inputs.ALL) >= 60


async def test_more_than_the_server_takes_ends_its_senders_connection_alone(
    scene: Scene, socket: Socket
) -> None:
    subject = scene.filled(b"{root}.in.{me}.send.{elm}.x", "")
    await socket.send(subject, b"x" * (1024 * 1024 + 1))
    assert await socket.is_closed()
    assert (await scene.other.send_and_wait(scene.elm, data=1))["outcome"] == "reply"


async def test_a_subject_over_the_control_line_ends_its_senders_connection_alone(
    scene: Scene, socket: Socket
) -> None:
    await socket.send(scene.filled(b"{root}.in.{me}.send.{elm}." + b"x" * 5_000, ""))
    assert await socket.is_closed()
    assert (await scene.other.send_and_wait(scene.elm, data=1))["outcome"] == "reply"


@pytest.mark.parametrize("word", ["a..b", ".a", "a."])
async def test_empty_words_in_a_subject_never_arrive_or_are_refused(
    scene: Scene, socket: Socket, word: str
) -> None:
    subject = scene.filled(b"{root}.in.{me}.send.{elm}." + word.encode(), "")
    await socket.send(subject, b"1", f"{INBOX}.x".encode())
    answers = await socket.answers(scene.net.subjects.verb(scene.me.agent, "request.cancel"))
    assert [said(answer) for answer in answers] in ([], ["bad_id"])


async def test_a_bomb_of_strands_is_bounded_and_ends_with_its_session(scene: Scene) -> None:
    """Each request in a strand of its own, nobody answers: all end with the session, and nothing is left of them."""
    net = scene.net
    bomber = await net.peer("bomber")
    for number in range(2_000):
        await bomber.request(
            "deaf-" + net.tag, execution=f"e{number}", strand=f"s{number}", detached=number % 2 == 0
        )
    await net.settled()
    assert (await scene.other.send_and_wait(scene.elm, data=1))["outcome"] == "reply"
    await bomber.bye()
    await net.settled()
    assert not [wait for wait in await net.waits() if wait["waiter"] == bomber.agent]


async def test_a_token_is_nobody_elses(scene: Scene, socket: Socket) -> None:
    token = new_session()
    first = await scene.net.verb(scene.net.name("first"), "hello", {"session": token})
    assert first["ok"]
    for agent in ("first", "second"):
        await scene.net.verb(scene.net.name("first"), "bye", {"session": token})
        receipt = await scene.net.verb(scene.net.name(agent), "hello", {"session": token})
        assert receipt["error"]["code"] == "session_used"
