"""Bounds of locks, permits, artifacts, approvals and reports, each reached."""

from collections.abc import Callable
from typing import Any, Final

from tests.core.resource_stage import ResourceStage, leased
from tests.hostile.answers import outcome_code, receipt_code
from unknot_gateway.core.limits import Limits
from unknot_schemas import bodies, holds, limits, resources

OVER: Final = limits.UNITS_MAX + 1


def three(**bound: Any) -> ResourceStage:
    """A network with these limits, and three agents that can do many things at once."""
    stage = ResourceStage(limits=Limits(**bound))
    stage.join("ash", "birch", "cedar", concurrency=20)
    return stage


# -- locks and permits


def units_max() -> None:
    stage = three()
    assert stage.declare("gpu", limits.UNITS_MAX).ok
    stage.lock("ash", "all", f"gpu*{limits.UNITS_MAX}")
    assert stage.kinds() == {"all": "granted"}
    stage.declare("gpu", OVER)
    assert receipt_code(stage) == "bad_units"
    stage.lock("ash", "more", f"gpu*{OVER}")
    assert outcome_code(stage, "more") == receipt_code(stage) == "bad_units"
    for units in (OVER, 0, -1):
        stage.wait("ash", "outside", bodies.WaitCondition("permits", "seats", units))
        assert receipt_code(stage) == "bad_units"
        set_holder(stage, "seats", units=units)
        assert receipt_code(stage) == "bad_units"
    set_holder(stage, "seats", capacity=OVER)
    assert receipt_code(stage) == "bad_units"


def units_max_of_what_was_held_before() -> None:
    stage = ResourceStage()
    named = holds.Hold("old", 5, [holds.ResourceUnits("gpu", "permits", OVER)])
    stage.join("ash", resume=True, holds=[named])
    assert stage.lapsed("ash") == ["old"]
    assert "holds" not in stage.leftovers()


def lease_min() -> None:
    stage = three()
    stage.lock("ash", "w", "db", lease_s=0.001)
    assert lease_of(stage, "w") == limits.LEASE_MIN_S
    stage.pass_time(limits.LEASE_MIN_S - 0.1)
    assert renewed(stage, "w", 0.001) == limits.LEASE_MIN_S
    stage.pass_time(limits.LEASE_MIN_S - 0.1)
    assert stage.lapsed("ash") == []
    stage.pass_time(0.2)
    assert stage.lapsed("ash") == ["w"]
    assert stage.kernel.counters["leases.lapsed"] == 1


def lease_max() -> None:
    stage = three()
    stage.lock("ash", "w", "db", lease_s=1e9)
    assert lease_of(stage, "w") == limits.LEASE_MAX_S
    assert renewed(stage, "w", 1e300) == limits.LEASE_MAX_S


def lease_of(stage: ResourceStage, wait_id: str) -> float | None:
    fulfilled = stage.outcomes()[wait_id].fulfilled
    assert fulfilled is not None
    return fulfilled.lease_s


def renewed(stage: ResourceStage, wait_id: str, lease_s: float) -> float | None:
    stage.say("ash", resources.LockRenew(wait_id, stage.token(wait_id), lease_s))
    return stage.last_receipt().lease_s


def asks_max() -> None:
    stage = three(asks_max=3)
    stage.lock("ash", "held", "db")
    stage.lock("birch", "first", "db", "gate")
    stage.lock("cedar", "two more", "db", "gate")
    assert outcome_code(stage, "two more") == receipt_code(stage) == "over_limit"
    stage.lock("cedar", "one more", "db")
    assert "one more" not in stage.outcomes(), "every place counts, and one was left"
    stage.lock("ash", "last", "other")
    assert outcome_code(stage, "last") == "over_limit"
    stage.say("birch", bodies.WaitClose("first", stage.sessions["birch"]))
    stage.lock("ash", "again", "other")
    assert stage.kinds()["again"] == "granted"


def asks_max_of_a_newer_generation() -> None:
    stage = three(asks_max=1)
    stage.lock("ash", "held", "db")
    for generation in (1, 2):
        stage.wait("birch", "w", leased("db"), generation=generation)
    assert outcome_code(stage, "w") == "over_limit"
    stage.release("ash", "held")
    assert stage.kinds() == {"held": "granted", "w": "over_limit"}, "one Outcome, and nothing is left waiting"
    assert stage.leftovers().get("holds") is None


def grants_max() -> None:
    stage = three(grants_max=2)
    stage.declare("gpu", 5)
    stage.lock("ash", "all", "gpu*5")
    for number in range(5):
        stage.lock("birch", f"w{number}", "gpu*1", execution=f"e{number}")
    stage.clear()
    assert stage.release("ash", "all").ok
    assert list(stage.kinds()) == ["w0", "w1"]
    stage.request("cedar", "ash", "between", session=stage.sessions["cedar"])
    assert stage.delivered("ash") == ["between"]
    stage.pass_time(0.001)
    assert list(stage.kinds()) == ["w0", "w1", "w2", "w3", "w4"]
    assert stage.kernel.counters["outcome.granted"] == 6


# -- artifacts


def productions_max() -> None:
    stage = three(productions_max=2)
    assert stage.produces("ash", "a").ok
    assert stage.produces("birch", "a").ok
    stage.produces("cedar", "a")
    assert receipt_code(stage) == "over_limit"
    assert stage.produces("ash", "a").ok, "one that is known is none more"
    stage.publish("ash", "a")
    assert stage.produces("cedar", "b").ok


def artifacts_max() -> None:
    stage = three(artifacts_max=2)
    for name in ("a", "b", "c"):
        assert stage.publish("ash", name).ok
    assert is_there(stage, "a", "b", "c") == [False, True, True]
    assert stage.kernel.counters["artifacts.forgotten"] == 1
    assert not stage.publish("ash", "a").duplicate, "it is produced anew"
    assert stage.publish("ash", "c").duplicate


def artifact_bytes_max() -> None:
    stage = three(artifact_bytes_max=100)
    stage.wait("birch", "w", bodies.WaitCondition("artifact", "much"))
    for name, size in (("a", 60), ("b", 60), ("c", 38), ("much", 101)):
        assert stage.publish("ash", name, "x" * (size - 2)).ok
        assert stage.kernel.tables.resources.artifacts.published_bytes <= 100
    assert is_there(stage, "a", "b", "c", "much") == [False, False, False, False]
    assert stage.kernel.counters["artifacts.forgotten"] == 4
    assert stage.kinds()["w"] == "produced", "who waits for it gets it, however big it is"


def is_there(stage: ResourceStage, *names: str) -> list[bool]:
    return [stage.kernel.tables.resources.artifacts.data_of(name) is not None for name in names]


# -- approvals and reports


def approvals_max() -> None:
    stage = three(approvals_max=3)
    people = [bodies.WaitCondition("approval", f"human:{name}") for name in ("eva", "jon")]
    stage.wait("ash", "both", *people)
    stage.wait("ash", "two more", *people)
    assert outcome_code(stage, "two more") == "over_limit"
    stage.say("birch", resources.ApprovalRequest("third", stage.sessions["birch"], "cedar"))
    assert stage.last_receipt().ok, "every decision counts, and one was left"
    stage.say("birch", resources.ApprovalRequest("fourth", stage.sessions["birch"], "cedar"))
    assert outcome_code(stage, "fourth") == receipt_code(stage) == "over_limit"
    stage.say("cedar", resources.ApprovalResolve("third", "approved"))
    stage.say("birch", resources.ApprovalRequest("fifth", stage.sessions["birch"], "cedar"))
    assert stage.last_receipt().ok


def reports_max() -> None:
    stage = three(reports_max=1)
    set_holder(stage, "seats", units=1, capacity=3)
    assert stage.last_receipt().ok
    nodes = stage.leftovers()["nodes"]
    set_holder(stage, "other", execution="new")
    assert receipt_code(stage) == "over_limit"
    assert stage.leftovers()["nodes"] == nodes
    set_holder(stage, "seats", units=2)
    assert stage.last_receipt().ok, "one that is known is none more"
    stage.say("ash", resources.HolderClear(stage.sessions["ash"], "permits", "seats"))
    set_holder(stage, "other")
    assert stage.last_receipt().ok


def set_holder(stage: ResourceStage, name: str, **fields: Any) -> None:
    stage.say("ash", resources.HolderSet(stage.sessions["ash"], "permits", name, **fields))


def both(*reaches: Callable[[], None]) -> Callable[[], None]:
    """Of a bound that is reached in several ways."""

    def reach() -> None:
        for each in reaches:
            each()

    return reach


REACHES: Final[dict[str, Callable[[], None]]] = {
    "UNITS_MAX": both(units_max, units_max_of_what_was_held_before),
    "LEASE_MIN_S": lease_min,
    "LEASE_MAX_S": lease_max,
    "asks_max": both(asks_max, asks_max_of_a_newer_generation),
    "grants_max": grants_max,
    "productions_max": productions_max,
    "artifacts_max": artifacts_max,
    "artifact_bytes_max": artifact_bytes_max,
    "approvals_max": approvals_max,
    "reports_max": reports_max,
}
