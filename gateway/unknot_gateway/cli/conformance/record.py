"""What the program under test has said and got, in order, read as the wire says."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from unknot_gateway.cli.conformance.frames import Frame
from unknot_schemas.subjects import Inbound, Subjects

PATIENCE_S: Final = 8.0
"""For what comes in milliseconds when it comes at all."""

Found = TypeVar("Found")


class Broken(Exception):
    """A law does not hold; the text says what was seen."""


def require(holds: bool, otherwise: str) -> None:
    """Raise Broken with *otherwise* unless it *holds*."""
    if not holds:
        raise Broken(otherwise)


class Message(Struct):
    """Something published. *number*: its place in the order of everything; *read*: None when it is not of the wire."""

    number: int
    at: float
    connection: int
    subject: str
    reply: str
    payload: bytes
    read: Inbound | None = None
    passed: bool = True
    value: Any = field(default=None)

    @property
    def verb(self) -> str:
        """Its verb, "" when it is not of the wire."""
        return self.read.verb if self.read is not None else ""

    @property
    def body(self) -> dict[str, Any]:
        """Its body when that is an object, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def data(self) -> Any:
        """The data of an event or an answer: in an envelope, or bare."""
        return self.body.get("data") if "unknot" in self.body else self.value


class Subscribed(Struct):
    """A subscription that was asked for."""

    number: int
    connection: int
    subject: str
    queue: str


class Record:
    """Everything, as it passes the tap; who waits for something is told when it comes."""

    def __init__(self, subjects: Subjects) -> None:
        self.said: list[Message] = []
        self.got: list[Message] = []
        self.subscribed: list[Subscribed] = []
        self.over: str | None = None
        """Why nothing more will come: the program has ended."""
        self._subjects = subjects
        self._numbers = itertools.count()
        self._news = asyncio.Event()
        self._losing: list[tuple[str, Callable[[Message], bool]]] = []
        self._then: list[tuple[Callable[[Message], bool], Callable[[], None]]] = []

    # -- what passes

    def sent(self, connection: int, frame: Frame) -> bool:
        """The program has sent *frame*; whether it passes."""
        if frame.verb == "SUB":
            self.subscribed.append(Subscribed(next(self._numbers), connection, frame.subject, frame.queue))
        if not frame.verb.endswith("PUB"):
            return True
        message = self._message(connection, frame)
        read = self._subjects.parse(frame.subject) if self._is_inbound(frame.subject) else None
        message.read = read if isinstance(read, Inbound) else None
        return self._keep(self.said, "said", message)

    def received(self, connection: int, frame: Frame) -> bool:
        """*frame* is on its way to the program; whether it arrives."""
        if not frame.verb.endswith("MSG"):
            return True
        return self._keep(self.got, "got", self._message(connection, frame))

    def lose(self, where: str, wanted: Callable[[Message], bool]) -> None:
        """The next message that is *wanted*, of those it "said" or "got", gets lost."""
        self._losing.append((where, wanted))

    def on_said(self, wanted: Callable[[Message], bool], then: Callable[[], None]) -> None:
        """Call *then*, once, before such a message passes."""
        self._then.append((wanted, then))

    def lose_sight(self, why: str | None) -> None:
        """Nothing more will come, because of *why*; None: a new life has begun."""
        self.over = why
        self._news.set()

    # -- what is asked

    async def until(self, find: Callable[[], Found | None], what: str, within_s: float = PATIENCE_S) -> Found:
        """What *find* finds as soon as it does. Raises Broken when *what* has not come *within_s* seconds."""
        try:
            async with asyncio.timeout(within_s):
                while (found := find()) is None:
                    require(self.over is None, f"{what} did not come: {self.over}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Broken(f"{what} did not come within {within_s:g} s") from None
        return found

    async def said_next(
        self,
        wanted: Callable[[Message], bool],
        what: str,
        *,
        after: int = -1,
        within_s: float = PATIENCE_S,
    ) -> Message:
        """The first message behind number *after* that is *wanted*; waits for it."""
        return await self.until(lambda: first(self.said, wanted, after), what, within_s)

    async def got_next(
        self,
        wanted: Callable[[Message], bool],
        what: str,
        *,
        after: int = -1,
        within_s: float = PATIENCE_S,
    ) -> Message:
        """The same of what was on its way to the program."""
        return await self.until(lambda: first(self.got, wanted, after), what, within_s)

    @property
    def number(self) -> int:
        """What comes from now on has a higher one."""
        return next(self._numbers)

    def of(self, verb: str) -> list[Message]:
        """All it said with this verb."""
        return [message for message in self.said if message.verb == verb]

    def answers(self, request_id: str) -> list[Message]:
        """Its answers to one request."""
        return [m for m in self.of("reply") if m.read is not None and m.read.request_id == request_id]

    def named(self, verb: str, id: str) -> list[Message]:
        """Its ``done`` or ``defer`` that name this event."""
        return [message for message in self.of(verb) if id in message.body.get("ids", ())]

    def deliveries(self, id: str) -> list[Message]:
        """The copies of one event that came to it."""
        return [m for m in self.got if ".event." in m.subject and m.body.get("id") == id and m.passed]

    def _is_inbound(self, subject: str) -> bool:
        return subject.startswith(self._subjects.inbound.removesuffix(">"))

    def _message(self, connection: int, frame: Frame) -> Message:
        try:
            value = json.loads(frame.payload) if frame.payload else None
        except ValueError:
            value = None
        now = asyncio.get_running_loop().time()
        return Message(
            next(self._numbers), now, connection, frame.subject, frame.reply, frame.payload, value=value
        )

    def _keep(self, kept: list[Message], where: str, message: Message) -> bool:
        for then in [then for then in self._then if where == "said" and then[0](message)]:
            self._then.remove(then)
            then[1]()
        for losing in self._losing:
            if losing[0] == where and losing[1](message):
                self._losing.remove(losing)
                message.passed = False
                break
        kept.append(message)
        self._news.set()
        return message.passed


def first(messages: list[Message], wanted: Callable[[Message], bool], after: int = -1) -> Message | None:
    """The first one behind number *after* that is *wanted*."""
    return next((each for each in messages if each.number > after and wanted(each)), None)
