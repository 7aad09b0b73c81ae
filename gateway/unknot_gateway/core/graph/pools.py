"""A resource as a reduction sees it."""

from msgspec import Struct

from unknot_gateway.core.graph.rows import ResourceRow

NO_CELL = -1
"""Of an entry whose waiter is known to be stuck: it makes nothing true here."""

Entered = tuple[int, int, int, int, int]
"""An entry of a queue, and the cell that it fires when it is served."""


class Pool(Struct, gc=False):
    """A resource as the reduction sees it; the places before the cursor are served or gone."""

    row: ResourceRow
    places: list[Entered]
    base: int = 0
    """Units that are not held by known stuck nodes."""
    held: int = 0
    """Units held by nodes of the region that have not gone on."""
    kept: int = 0
    """Units served to places that have not left."""
    cursor: int = 0
    scanned: int = 0
    """Entries of the queue whose waiters were taken into the region."""
    late: list[int] = []
    """Places passed by the cursor that count for nothing, but whose own condition may still become true."""
    sealed: bool = False
