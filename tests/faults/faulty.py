"""``unknot serve`` with faults, as a program: it dies at a message, or loses messages. The production code is as it is.

The environment variable FAULTS names a file. At its start, if it is there, and on SIGUSR1 a gateway reads its plan
(JSON, see Plan) there and removes it; from then on every message that it sends is one line of FILE.trace. Until its
first plan it behaves.

``python -m tests.faults.faulty`` imports everything once and forks a gateway for each line on its stdin: a start costs
a fraction of a second, however often gateways die. See Start, and ``tests.faults.rig.Stable``.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
from nats.aio.msg import Msg

from unknot_gateway.cli import main
from unknot_gateway.core import effects
from unknot_gateway.shell import serving
from unknot_gateway.shell.bus import Message, NatsBus, Take
from unknot_gateway.shell.egress import Egress

SIGNS_OF_LIFE = ("welcome", "pulse")
"""Sent for hello and heartbeats, whenever these come: they have no number among the effects of a request."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong from now on. *effect*: number of the message, from 1, before or after which the process dies."""

    effect: int = 0
    when: Literal["before", "after"] = "after"
    count_all: bool = False
    """Whether signs of life are counted, too."""
    lose_out: list[str] = []
    """Kinds of messages of which the first *lose_n* do not leave."""
    lose_in: list[str] = []
    """Verbs of which the first *lose_n* do not arrive."""
    lose_n: int = 1
    share: float = 0.0
    """This share of all messages, both ways, is lost; drawn from *seed*."""
    seed: int = 0


class Kinded(Message, frozen=True, gc=False):
    """A message that knows what effect it comes from."""

    kind: str = ""


class FaultyEgress(Egress):
    """Says of each message what it is."""

    def message(self, effect: effects.AnyEffect) -> Message | None:
        """As Egress."""
        made = super().message(effect)
        return None if made is None else Kinded(made.subject, made.payload, made.reply, _kind(effect))


class FaultyBus(NatsBus):
    """A NatsBus that follows a plan."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._file = Path(os.environ["FAULTS"])
        self._plan = Plan()
        self._random = Random()
        self._sent = 0
        self._lost: Counter[str] = Counter()
        self._trace = False

    async def open(self, patience_s: float = 10.0) -> None:
        """As NatsBus."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._arm)
        if self._file.exists():
            self._arm()
        await super().open(patience_s)

    def _arm(self) -> None:
        self._plan = msgspec.json.decode(self._file.read_bytes(), type=Plan)
        self._random = Random(self._plan.seed)
        self._sent = 0
        self._lost.clear()
        self._trace = True
        self._file.with_suffix(".trace").write_text("")
        self._file.unlink()

    async def publish(self, messages: Iterable[Message]) -> None:
        """As NatsBus, one by one."""
        for message in messages:
            if not isinstance(message, Kinded):  # what the gateway says of itself is no effect of the kernel
                await super().publish([message])
                continue
            plan = self._plan
            if self._loses(message.kind, plan.lose_out):
                continue
            self._sent += plan.count_all or message.kind not in SIGNS_OF_LIFE
            dies = self._sent == plan.effect and (plan.count_all or message.kind not in SIGNS_OF_LIFE)
            if dies and plan.when == "before":
                await self._die()
            await super().publish([message])
            self._note(message.kind)
            if dies:
                await self._die()

    async def subscribe(self, subject: str, take: Take) -> None:
        """As NatsBus."""

        async def hear(message: Msg) -> None:
            if not self._loses(_verb(message.subject), self._plan.lose_in):
                await take(message)

        await super().subscribe(subject, hear)

    async def listen(self, subject: str, put: Any) -> None:
        """As NatsBus."""

        def take(message: Any) -> None:
            if not self._loses(_verb(message.subject), self._plan.lose_in):
                put(message)

        own = ".in." not in subject  # a message of the gateway to itself
        await super().listen(subject, put if own else take)

    def _loses(self, kind: str, doomed: list[str]) -> bool:
        if kind in doomed and self._lost[kind] < self._plan.lose_n:
            self._lost[kind] += 1
            self._note(f"lost {kind}")
            return True
        return self._random.random() < self._plan.share

    def _note(self, what: str) -> None:
        if self._trace:
            with self._file.with_suffix(".trace").open("a") as trace:
                trace.write(f"{what}\n")

    async def _die(self) -> None:
        await self.barrier()  # what left before has really left
        os.kill(os.getpid(), signal.SIGKILL)


def _kind(effect: effects.AnyEffect) -> str:
    match effect:
        case effects.Deliver():
            return "event"
        case effects.Broadcast():
            return "broadcast"
        case effects.SendOutcome():
            return "outcome"
        case effects.SendControl():
            return effect.type
        case effects.SendNotice():
            return "notice"
        case effects.Answer():
            return type(effect.body).__name__.lower()


def _verb(subject: str) -> str:
    """Of ``unknot.<net>.in.<agent>.<verb…>``: "request", "reply", "hello", "wait.open" and so on."""
    words = subject.split(".")[4:]
    return ".".join(words) if words[0] == "wait" or words == ["request", "cancel"] else words[0]


class Start(msgspec.Struct, tag=True):
    """A line on stdin: start a gateway. The answer on stdout is its pid."""

    arguments: list[str]
    environment: dict[str, str]
    log: str
    """File of its stderr."""


class Poll(msgspec.Struct, tag=True):
    """A line on stdin: the answer on stdout is the exit code of *pid*, as subprocess has it, or null."""

    pid: int


def _gateway(order: Start) -> int:
    """In the child: the command, to its end; its exit code."""
    os.environ.update(order.environment)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, file in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(file, number)
    try:
        main(order.arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _start(order: Start) -> int:
    pid = os.fork()
    if not pid:
        code = 70
        try:
            code = _gateway(order)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def _poll(codes: dict[int, int | None], pid: int) -> int | None:
    if codes[pid] is None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        codes[pid] = os.waitstatus_to_exitcode(status) if ended else None
    return codes[pid]


def _stable() -> None:
    """Start gateways until stdin ends, and then end those that are left."""
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        order: Start | Poll = msgspec.json.decode(line, type=Start | Poll)
        answer = _poll(codes, order.pid) if isinstance(order, Poll) else _start(order)
        if isinstance(order, Start):
            codes[answer] = None
        sys.stdout.write(f"{'null' if answer is None else answer}\n")
        sys.stdout.flush()
    for pid in [pid for pid in codes if _poll(codes, pid) is None]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    serving.Egress = FaultyEgress  # type: ignore[misc]
    serving.NatsBus = FaultyBus  # type: ignore[misc]
    _stable()
