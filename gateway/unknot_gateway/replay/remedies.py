"""What would have kept a core from closing, in one sentence: by the kinds of its edges."""

from collections.abc import Sequence

from unknot_gateway.replay.verdicts import Edge


def remedy(edges: Sequence[Edge]) -> str:
    """The cheapest change first: not holding while waiting, then another producer, then not standing still."""
    if len(edges) == 1:
        return _alone(edges[0])
    for kind, advise in (("lock", _lock), ("artifact", _artifact)):
        found = min((edge for edge in edges if edge.kind == kind), key=lambda edge: edge.id, default=None)
        if found is not None:
            return advise(found)
    least = min(edges, key=lambda edge: (edge.agent, edge.run))
    return (
        f"let {least.agent} ask {least.id} without waiting: ask() and defer() instead of send_and_wait(),"
        " or concurrency=2 where it is asked"
    )


def _alone(edge: Edge) -> str:
    return f"{edge.agent} waits for itself: it owns {edge.kind} {edge.id}"


def _lock(edge: Edge) -> str:
    holder = edge.owners[0]
    return (
        f"let {holder} release lock {edge.id} before it waits, or take it together with what it waits for:"
        " several at once are granted all or none"
    )


def _artifact(edge: Edge) -> str:
    holder = edge.owners[0]
    return f"let {holder} publish artifact {edge.id} before it waits, or let a second agent be able to produce it"
