"""What happens in one simulated run, written down before it begins: who is there, who asks whom what, what breaks.

A plan travels in the data of its request, so a scenario says all; it is JSON, and a failing one is kept as it is.
"""

from typing import Literal

import msgspec
from msgspec import Struct

Op = Literal[
    "sleep", "ask", "all", "any", "quorum", "gather", "tasks", "race",
    "background", "give_up", "later", "send", "expect", "reply", "defer", "raise",
    "lock", "make", "publish", "mix", "approve", "decide", "tool", "borrow", "receive", "put", "hear",
]  # fmt: skip
"""expect: wait for a ``note``, which somebody may send, or nobody. make: promise an artifact. mix: wait for several
kinds at once. borrow: have a lock or permits of which the gateway is only told. hear: wait for a post, or post one."""
ThingKind = Literal["lock", "permits", "artifact", "approval", "agent", "outside lock", "outside permits"]
FaultKind = Literal[
    "loss", "cut", "deaf", "mute", "stall", "blackout",
    "crash", "leave", "replace", "pause", "restart", "freeze", "drop",
]  # fmt: skip
"""What breaks for a while.

loss: letters are lost, repeated, late. cut: one process has no network; deaf, mute: in one direction; stall: what it
sends and gets is held up. blackout: the NATS server is gone.

crash: a process is killed; its next life comes later, and ``welcomes`` answers to its hello are lost. leave: it says
bye and drains. replace: its next life comes while it is still there: it is replaced (``identity``), or leaves when the
other one is there. pause: it is stopped, as by SIGSTOP.

drop: the next letter of one kind (``who``: a grant, a release, …) is lost.

restart: the gateway is killed; the next one comes later, and ``welcomes`` answers to everybody are lost. freeze: it is
stopped.
"""
Policy = Literal["fail_all", "refuse", "shadow"]


class Ask(Struct, omit_defaults=True):
    """One request: whom, and what its handler does."""

    target: str
    type: str = "work"
    plan: "list[Step]" = []


class Thing(Struct, omit_defaults=True):
    """What is waited for. *id* of an approval: who decides; it takes *s* seconds, and *yes* None: it is left open."""

    kind: ThingKind
    id: str
    units: int = 1
    s: float = 0.0
    yes: bool | None = None


class Step(Struct, omit_defaults=True):
    """One thing that an execution does. *s*: how long it sleeps, or until it gives up, or the request's timeout."""

    op: Op
    s: float = 0.0
    asks: list[Ask] = []
    need: int = 0
    branches: "list[list[Step]]" = []
    loud: bool = False
    """Whether a failure here fails the handler."""
    things: list[Thing] = []
    lease: float = 1.0
    to_other: bool = False
    """defer: the answer is left to another execution there, if there is one."""


class Team(Struct, omit_defaults=True):
    """One agent with handlers: slots of its pool, of its second pool for ``heavy``, whether it is in the channel.

    *instances*: processes, each with a session of its own. *identity*: what their hellos say of them.
    """

    name: str
    slots: int
    heavy: int = 0
    channel: bool = False
    main_runs: bool = True
    instances: int = 1
    identity: Literal["", "instance", "exclusive"] = ""
    reentrant: bool = False

    @property
    def keys(self) -> list[str]:
        """A name for each process."""
        return [self.name, *(f"{self.name}-{number}" for number in range(1, self.instances))]


class Item(Struct, omit_defaults=True):
    """What begins at an instant: a job of a driver, or a fault. *p*: how likely a letter suffers from a loss."""

    at: float
    driver: str = ""
    plan: list[Step] = []
    fault: FaultKind | None = None
    who: str = ""
    s: float = 0.0
    p: float = 0.0
    welcomes: int = 0


class Scenario(Struct, omit_defaults=True):
    """One run. *items* in order of time."""

    seed: int
    teams: list[Team]
    scripts: list[str]
    drivers: list[str]
    items: list[Item]
    policy: Policy = "fail_all"
    heartbeat_s: float = 1.0
    session_loss_s: float = 5.0
    pools: dict[str, int] = {}
    """Capacities of the pools of permits."""
    system_account: bool = False
    """Whether the gateway hears from the server whose connection has ended."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing breaks."""
        return all(item.fault is None for item in self.items)

    def cut_to(self, items: int) -> "Scenario":
        """Its first *items* items."""
        return msgspec.structs.replace(self, items=self.items[:items])


NOTE = "note"
