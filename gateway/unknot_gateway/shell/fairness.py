"""What waits for the owner: fair between agents, bounded, and decided on by the subject alone, before any decoding.

Messages are handled in the order in which they came, in rounds. In one round each agent has a share; what it sends
beyond waits behind, in a queue of its own, for the next rounds. So whoever floods delays others by its share at most,
and one agent's messages never change their order. (Those of several agents on one connection keep theirs as long as
none of them is behind.) An agent that has too much waiting behind is shed: first its new work, and only at twice that
what ends or reports work, too: others wait for its answers, and what is lost of it heartbeats cure.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from unknot_gateway.shell.limits import (
    BACKLOG_MAX,
    INBOX_MAX,
    NEVER_BEHIND,
    PRESSED,
    SENDERS_MAX,
    SHARE,
    SHED_ANSWERS_MAX,
    SHED_ANSWERS_PER_S,
    SHED_NAMED_MAX,
    SHED_NOTICE_S,
    WEIGHT_BYTES,
)
from unknot_gateway.shell.parsing import Incoming
from unknot_schemas.ids import ALIAS, agent_id
from unknot_schemas.subjects import EVENT_VERBS, WAIT_VERBS

NEW_WORK: Final = (
    EVENT_VERBS
    | WAIT_VERBS
    | {"publish", "pool.declare", "artifact.declare", "artifact.publish", "holder.set"}
)


class Excess(Struct, gc=False):
    """What is shed of one agent. *told*: of *shed*, what notices have named."""

    agent: str
    shed: int = 0
    told: int = 0
    quiet_until: float = 0.0
    answers: float = float(SHED_ANSWERS_PER_S)
    answered_at: float = 0.0

    def may_be_answered(self, now: float) -> bool:
        """Whether one more answer is within the rate."""
        left = min(self.answers + (now - self.answered_at) * SHED_ANSWERS_PER_S, float(SHED_ANSWERS_PER_S))
        self.answered_at = now
        self.answers = left - 1.0 if left >= 1.0 else left
        return left >= 1.0


class _Behind(Struct):
    """What one agent has sent beyond its share."""

    messages: deque[Incoming]
    weight: int = 0


class Rate(Struct, gc=False):
    """What one agent may still send just now, of the network's quota."""

    left: float
    at: float


class Inbox:
    """Of one network; *root*: what its subjects begin with. *rate*: new work a second of each agent, None: no quota.

    ``waiting`` is this round: the owner takes it from the left, and calls ``next_round`` when it is empty.
    """

    def __init__(
        self, root: str, rate: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.waiting: deque[Any] = deque()
        self.refused: deque[Incoming] = deque()
        """What was shed and will be answered."""
        self.notices: deque[Excess] = deque()
        """Agents to be named to monitors."""
        self.excess: dict[str, Excess] = {}
        """By agent, the latest SENDERS_MAX."""
        self.shed = 0
        self.on_shed: Callable[[str, int], None] | None = None
        """Told of each agent of which something cannot be taken, and its weight."""
        self.on_pressed: Callable[[], None] | None = None
        """Called with each message that has to wait while it ``is_pressed``."""
        self._sender_at = len(root) + len(".in.")
        self._rate = rate
        self._rates: dict[str, Rate] = {}
        self._clock = clock
        self._shares: dict[str, int] = {}
        """What each agent has had of this round, but for its first messages."""
        self._counted = 0
        """Weight of this round; what has been handled of it counts until its end."""
        self._behind: dict[str, _Behind] = {}
        self._weight_behind = 0

    def __bool__(self) -> bool:
        return bool(self.waiting or self._behind or self.refused or self.notices)

    def put(self, message: Incoming) -> None:
        """Let *message* wait for its turn, or shed it."""
        if self._rate is not None and not self._within_rate(message, self._rate):
            self._refuse(message, self._sender(message.subject))
        elif len(self.waiting) < NEVER_BEHIND and not self._behind:
            self.waiting.append(message)
        else:
            self._put_fairly(message)

    def shed_unread(self, message: Incoming) -> None:
        """Count *message* as one that was not taken; it is answered within the rate."""
        self._shed(message, self._sender(message.subject))

    def counted(self) -> dict[str, int]:
        """What was shed in all, and of the agents of which most was."""
        most = sorted(self.excess.values(), key=lambda one: -one.shed)[:SHED_NAMED_MAX]
        return {"shed": self.shed} | {f"shed.{one.agent}": one.shed for one in most}

    @property
    def is_pressed(self) -> bool:
        """Whether so much waits behind that it may be late, too, what has not been read yet."""
        return self._weight_behind >= PRESSED

    def far_behind(self, weight: int) -> list[str]:
        """Agents of which so much waits behind."""
        return [agent for agent, one in self._behind.items() if one.weight >= weight and agent_id(agent)]

    def next_round(self) -> bool:
        """Begin a round with the shares of those that are behind; False if nothing waits."""
        self._shares.clear()
        self._counted = 0
        for sender, behind in list(self._behind.items()):
            taken = 0
            while behind.messages and taken < SHARE:
                message = behind.messages.popleft()
                taken += weight_of(message)
                self.waiting.append(message)
            behind.weight -= taken
            self._weight_behind -= taken
            self._counted += taken
            self._shares[sender] = taken
            if not behind.messages:
                del self._behind[sender]
        return bool(self.waiting)

    def _put_fairly(self, message: Incoming) -> None:
        sender, weight = self._sender(message.subject), weight_of(message)
        behind = self._behind.get(sender)
        if behind is None:
            share = self._shares.get(sender, 0)
            if share < SHARE and self._counted < INBOX_MAX:
                self._shares[sender] = share + weight
                self._counted += weight
                self.waiting.append(message)
                return
            behind = _Behind(deque())
        # The fuller it is in all, the less may wait of each: whoever sends little always finds room.
        room = min(BACKLOG_MAX, INBOX_MAX - self._weight_behind)
        if behind.weight >= room and (behind.weight >= 2 * room or self._is_new_work(message.subject)):
            self._refuse(message, sender)
            return
        self._behind[sender] = behind
        behind.messages.append(message)
        behind.weight += weight
        self._weight_behind += weight
        if self._weight_behind >= PRESSED and self.on_pressed is not None:
            self.on_pressed()

    def _sender(self, subject: str) -> str:
        return subject[self._sender_at : subject.find(".", self._sender_at)].removeprefix(ALIAS)

    def _is_new_work(self, subject: str) -> bool:
        at = subject.find(".", self._sender_at) + 1
        rest = subject[at:]
        if subject[at : subject.find(".", at)] in NEW_WORK:
            return rest != "request.cancel"
        return rest in NEW_WORK

    def _within_rate(self, message: Incoming, rate: float) -> bool:
        if not self._is_new_work(message.subject):
            return True
        sender, now = self._sender(message.subject), self._clock()
        own = self._rates.get(sender)
        if own is None:
            if len(self._rates) >= SENDERS_MAX:
                self._rates.clear()
            own = self._rates[sender] = Rate(max(rate, 1.0), now)
        own.left = min(own.left + (now - own.at) * rate, max(rate, 1.0))
        own.at = now
        if own.left < 1.0:
            return False
        own.left -= 1.0
        return True

    def _refuse(self, message: Incoming, sender: str) -> None:
        self._shed(message, sender)
        if self.on_shed is not None:
            self.on_shed(sender if agent_id(sender) is not None else "", weight_of(message))

    def _shed(self, message: Incoming, sender: str) -> None:
        now = self._clock()
        excess = self.excess.get(sender) or self._excess_of(sender, now)
        self.shed += 1
        excess.shed += 1
        if len(self.refused) < SHED_ANSWERS_MAX and excess.may_be_answered(now):
            self.refused.append(message)
        if now >= excess.quiet_until and excess.agent:
            excess.quiet_until = now + SHED_NOTICE_S
            self.notices.append(excess)

    def _excess_of(self, sender: str, now: float) -> Excess:
        """Of an agent that is new here; what can name no agent is counted together, under no name."""
        name = sender if agent_id(sender) is not None else ""
        excess = self.excess.get(name)
        if excess is None:
            if len(self.excess) >= SENDERS_MAX:
                del self.excess[next(iter(self.excess))]
            excess = self.excess[name] = Excess(name, answered_at=now)
        return excess


def weight_of(message: Incoming) -> int:
    """What *message* counts for: one, and more when it is long."""
    return 1 + len(message.data) // WEIGHT_BYTES
