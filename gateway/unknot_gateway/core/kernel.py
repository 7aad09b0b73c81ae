"""The one door: from fact to table, effects gathered."""

from collections import Counter
from typing import Literal

from msgspec import Struct

from unknot_gateway.core.effects import AnyEffect
from unknot_gateway.core.facts import AnyFact

Policy = Literal["shadow", "refuse", "fail_all"]


class KernelConfig(Struct, frozen=True, kw_only=True):
    """What an operator may set for one network."""

    policy: Policy = "fail_all"
    assume_serial: bool = True
    session_loss_s: float = 30.0
    probe_s: float = 0.25
    sweep_s: float = 1.0
    strict_subjects: bool = False


class Kernel:
    """One network's state and rules. One task owns it and calls it; it never calls anybody."""

    def __init__(self, network: str, epoch: int, config: KernelConfig | None = None) -> None:
        self.network = network
        self.epoch = epoch
        self.config = config or KernelConfig()
        self.counters: Counter[str] = Counter()

    def handle(self, fact: AnyFact, now: float) -> list[AnyEffect]:
        """Take *fact* in at instant *now* (seconds, monotonic, never running back); return what is to be done, in order."""
        raise NotImplementedError

    def next_wakeup_at(self) -> float | None:
        """When TimePassed is due; None if nothing is. An instant in the past means: there is work left, come back soon."""
        raise NotImplementedError
