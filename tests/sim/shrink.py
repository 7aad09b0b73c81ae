"""A failing scenario made small: its shortest prefix that fails, then without whatever it fails without."""

import msgspec

from tests.sim.scenario import Scenario
from tests.sim.world import Report, play

TRIES_MAX = 60


def shortest(scenario: Scenario) -> tuple[Scenario, Report]:
    """The shortest failing prefix of *scenario*, which must fail, without items that it does not need."""
    low, high = 0, len(scenario.items)
    while low < high:
        middle = (low + high) // 2
        if play(scenario.cut_to(middle)).violations:
            high = middle
        else:
            low = middle + 1
    found = scenario.cut_to(high)
    if not play(found).violations:  # what fails is no prefix of what fails: rare
        found = scenario
    return _thinned(found)


def _thinned(scenario: Scenario) -> tuple[Scenario, Report]:
    report = play(scenario)
    at, tries = 0, 0
    while at < len(scenario.items) and tries < TRIES_MAX:
        tries += 1
        items = [*scenario.items[:at], *scenario.items[at + 1 :]]
        thinner = msgspec.structs.replace(scenario, items=items)
        again = play(thinner)
        if again.violations:
            scenario, report = thinner, again
        else:
            at += 1
    return scenario, report


def as_case(scenario: Scenario, report: Report) -> str:
    """What ``cases/`` keeps."""
    case = {"violations": report.violations[:3], "scenario": scenario}
    return msgspec.json.format(msgspec.json.encode(case), indent=1).decode()
