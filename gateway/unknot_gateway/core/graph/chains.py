"""What a wait really hangs on, for people: the way from its waiter along the least condition that is not fulfilled."""

from collections.abc import Iterable

from unknot_gateway.core.graph.conditions import ARTIFACT, EXECUTION, RESOURCE, Condition, leaves
from unknot_gateway.core.graph.edges import sort_key
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.rows import SPOT_BITS, Entry, WaitRow


def follow(model: Model, wait: int, limit: int) -> list[int]:
    """At most *limit* nodes from the waiter on, without a repeat; none when the wait is closed."""
    row = model.waits.get(wait)
    if row is None or limit <= 0:
        return []
    way = {row.waiter: None}
    node = _next_node(model, row)
    while node is not None and node not in way and len(way) < limit:
        way[node] = None
        following = _least_wait(model, node)
        node = _next_node(model, following) if following is not None else None
    return list(way)


def _least_wait(model: Model, node: int) -> WaitRow | None:
    waits = sorted(model.nodes[node].waits, key=lambda row: row.wait)
    unsatisfied = (wait for wait in waits if not model.wait_satisfied(wait))
    return next(unsatisfied, waits[0] if waits else None)


def _next_node(model: Model, row: WaitRow) -> int | None:
    """False conditions first, then in the order written; None: it hangs on nobody that is known."""
    false = list(model.false_leaves(row))
    pending = [
        (spot, leaf)
        for index, condition in enumerate(row.conditions)
        for spot, leaf in enumerate(leaves(condition), index << SPOT_BITS)
    ]
    for spot, leaf in false + pending:
        node = _hangs_on(model, leaf, row.wait, spot)
        if node is not None:
            return node
    return None


def _hangs_on(model: Model, leaf: Condition, wait: int, spot: int) -> int | None:
    if leaf.kind == EXECUTION:
        return leaf.target if leaf.target in model.nodes else None
    if leaf.kind == ARTIFACT and leaf.target in model.artifacts:
        return _least(model, model.artifacts[leaf.target].producers)
    if leaf.kind == RESOURCE and leaf.target in model.resources:
        row = model.resources[leaf.target]
        return _least(model, row.held or _ahead(row.queue if row.fifo else [], (wait, spot)))
    return None


def _ahead(queue: list[Entry], place: tuple[int, int]) -> list[int]:
    return [queue[0][3]] if queue and queue[0][:2] < place else []


def _least(model: Model, nodes: Iterable[int]) -> int | None:
    """Who is stuck first, then by label."""
    return min(
        nodes, key=lambda node: (node not in model.stuck, sort_key(model.nodes[node].label)), default=None
    )
