"""How a besieged network is heard: by verb, so much at a time, and no copy of a message twice.

A street is a subscription for one verb of all agents that takes a number of messages and then ends in the server by
itself. It is renewed at each beat: one that is not used up loses nothing, of one that is flooded the gateway never has
more than its budget, and nothing queues in the server.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from unknot_gateway.shell.limits import CROWD_PART, STREET_BUDGET, TWINS_MAX
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas.ids import agent_id
from unknot_schemas.subjects import EVENT_VERBS, SESSION_VERBS

_LONG: Final = EVENT_VERBS | {"publish", "reply"}
"""Verbs behind which more words stand."""


def _ends() -> dict[str, str]:
    ends = dict.fromkeys(sorted(_LONG), ".>")
    for verb in sorted(SESSION_VERBS):
        word, dot, _ = verb.partition(".")
        ends.setdefault(word, ".>" if dot else "")
    return ends


ENDS: Final = _ends()
"""What follows on the first word of each verb."""


class Street(Struct):
    """One of them. *word*: its verb's first, "": of whatever no other street takes."""

    word: str
    subject: str
    number: str = ""
    """Of its subscription; "": it has none."""
    budget: int = STREET_BUDGET
    most: int = 0
    """What its subscription brings in all."""
    came: int = 0
    """What it has brought."""
    before: int = 0
    """What it had brought at the last beat."""
    familiar: int = 0
    """Since then: copies for agents that are heard by themselves."""
    flood: int = 0
    """Since then: of agents that flood."""
    is_flooded: bool = True
    """Whether what they send here is shed."""
    senders: dict[str, int] = field(default_factory=dict)
    """Since then: messages of whoever is not heard by itself yet."""

    @property
    def is_used_up(self) -> bool:
        """Whether the server has ended its subscription."""
        return self.came >= self.most

    def crowds(self) -> Iterator[str]:
        """Agents that fill it: nobody else is heard for them."""
        if self.is_used_up:
            for word, count in self.senders.items():
                agent = agent_id(word)
                if agent is not None and count * CROWD_PART >= STREET_BUDGET:
                    yield agent

    def beat(self, number: str) -> bytes:
        """A beat is over: what has the server bring the next budget; *number*: for a new subscription."""
        self.is_flooded = self.is_used_up and 2 * self.flood >= self.came - self.before
        self.budget = STREET_BUDGET + 2 * self.familiar
        self.familiar = self.flood = 0
        self.senders.clear()
        if not self.is_used_up:
            self.before, self.most = self.came, self.came + self.budget
            return f"UNSUB {self.number} {self.most}\r\n".encode()
        return self.open(number)

    def open(self, number: str) -> bytes:
        """What has the server bring a budget from the beginning."""
        self.number, self.most, self.came, self.before = number, self.budget, 0, 0
        return f"SUB {self.subject} {number}\r\nUNSUB {number} {self.most}\r\n".encode()


def streets(inbound: str) -> Iterator[Street]:
    """All of a network whose gateway subscribes *inbound* otherwise."""
    head = inbound.removesuffix(">")
    for word, end in ENDS.items():
        yield Street(word, f"{head}*.{word}{end}")
    yield Street("", inbound)


class Twins:
    """Messages that came by one of two subscriptions, while both may bring the same: one copy of each is taken."""

    def __init__(self) -> None:
        self._single: dict[tuple[str, str, bytes], int] = {}
        """Copies without their second yet: above zero by the outer subscription, below by the inner one."""

    def is_second(self, message: Incoming, step: int) -> bool:
        """Whether *message* has come by the other one. *step*: 1 by the outer subscription, -1 by the inner one."""
        key = (message.subject, message.reply, message.data)
        single = self._single.get(key, 0)
        if single * step < 0:
            if single + step:
                self._single[key] = single + step
            else:
                del self._single[key]
            return True
        if single or len(self._single) < TWINS_MAX:
            self._single[key] = single + step
        return False
