"""Questions that suppose something else than what is: what if the lost never come back, what if these run after all."""

from collections.abc import Collection

from unknot_gateway.core.graph.dependents import Dependents
from unknot_gateway.core.graph.model import Model
from unknot_gateway.core.graph.reduce import Reduction
from unknot_gateway.core.graph.report import Core, cores_among


def orphaned(model: Model, lost: set[int]) -> set[int]:
    """Who is not deadlocked, but stuck when the *lost* never go on."""
    if not lost:
        return set()
    behind = Dependents(model, lost)
    behind.run()
    deadlocked = Reduction(model, set(behind.seen)).run()
    never = Reduction(model, set(behind.seen), barred=lost).run()
    return never - lost - deadlocked


def remaining_cores(
    model: Model, nodes: Collection[int], running: Collection[int], ignore: Collection[int]
) -> list[Core]:
    """The cores with a member of *nodes* when *running* go on and the waits in *ignore* do not count.

    The stuck set is changed for the time of the question, and restored: only the part that could be freed.
    """
    ignored = {wait: row for wait in ignore if (row := model.waits.get(wait)) and row.waiter in model.stuck}
    seeds = {row.waiter for row in ignored.values()}.union(node for node in running if node in model.stuck)
    behind = Dependents(model, seeds, stuck=True)
    behind.run()
    region = seeds | behind.seen
    for node in region:
        model.unmark(node)
    for row in ignored.values():
        model.unlink(row)
    still = Reduction(model, region.difference(running)).run()
    for node in still:
        model.mark(node)
    cores = cores_among(model, [node for node in nodes if node in model.stuck])
    for row in ignored.values():
        model.link(row)
    for node in region - still:
        model.mark(node)
    return [core for core in cores if not set(nodes).isdisjoint(core.members)]
