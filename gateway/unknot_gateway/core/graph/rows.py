"""The rows of the tables: what is known of a node, a wait, a resource, an artifact, and the links between them."""

from msgspec import Struct

from unknot_gateway.core.graph.bags import Bag
from unknot_gateway.core.graph.conditions import Condition, Label

Entry = tuple[int, int, int, int]
"""A place in the queue of a resource: wait, spot in the wait, units, waiter. Sorted, it is the order of opening."""

Place = tuple[int, int]
"""What an entry begins with, and is known by: wait and spot."""

UNRANKED = 1
"""The rank of a node of which it is not known that it can go on, and of one that nobody's rank rests on."""
STUCK = 2
"""The rank of a node that is known to be stuck."""
GONE = -(1 << 62)
"""The rank of a node that is gone: below all others."""
APART = 1 << 20
"""Between the ranks of new nodes: room for others to be put between them."""

SPOT_BITS = 20
"""The spot of option *j* of condition *i* is ``(i << SPOT_BITS) + j``."""


class NodeRow(Struct, gc=False, eq=False):
    """One node; empty bags cost nothing."""

    label: Label
    waits: "Bag[WaitRow]" = ()
    dependents: "Bag[WaitRow]" = ()
    """Waits with a condition on this node."""
    makes: Bag[int] = ()
    holds: dict[int, int] | None = None
    rank: int = UNRANKED
    """See `ranks`."""


NOBODY = NodeRow("", rank=GONE)
"""Stands for a node that is gone already when it is waited for."""


class WaitRow(Struct, gc=False, eq=False):
    """One open wait: *need* of its conditions must be true."""

    wait: int
    waiter: int
    conditions: tuple[Condition, ...]
    need: int
    tentative: bool
    rests: tuple[NodeRow, ...] = ()
    """The nodes of its conditions on executions: their ranks are read far more often than anything else."""
    others: "tuple[Rest, ...]" = ()
    """What its other conditions rest on, those that are never true excepted."""


class ResourceRow(Struct, gc=False, eq=False):
    """A bounded thing; `queue` has every condition on it, `stuck` those of them whose waiter is known to be stuck."""

    label: Label
    capacity: int | None
    fifo: bool
    held: dict[int, int]
    queue: list[Entry]
    stuck: list[Entry]
    held_units: int = 0
    stuck_units: int = 0
    """Of the held units those of known stuck holders."""
    floor: int = UNRANKED
    """No rank that rests on it is lower."""
    is_gone: bool = False
    """Whether it is in no table any more: who becomes stuck from then on is not among its `stuck`."""


class ArtifactRow(Struct, gc=False, eq=False):
    """Something not produced yet; one that is produced has no producers, and is in no table."""

    label: Label
    producers: Bag[int] = ()
    waits: Bag[WaitRow] = ()
    floor: int = UNRANKED
    """No rank that rests on it is lower."""


Rest = tuple[int, int, "NodeRow | ResourceRow | ArtifactRow | tuple[Rest, ...] | None"]
"""The spot of a condition, its units, and what it rests on: a row, its alternatives, or nothing: then it is true."""
