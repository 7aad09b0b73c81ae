"""Who takes whose place, in simulated networks: the younger process, also where the elder could not hear of it."""

import pytest

from tests.sim.scenario import Ask, Item, Scenario, Step, Team
from tests.sim.world import Report, play
from unknot_gateway.core.sessions import SessionTable

pytestmark = pytest.mark.once

ELDER_BACK: dict[str, list[Item]] = {
    "it-was-cut-off": [
        Item(2.0, fault="cut", who="a0", s=3.0),
        Item(2.5, fault="replace", who="a0", s=0.5),
    ],
    "it-was-cut-off-until-it-was-lost": [
        Item(2.0, fault="cut", who="a0", s=12.0),
        Item(9.0, fault="replace", who="a0", s=0.5),
    ],
    "the-gateway-was-away": [
        Item(2.0, fault="cut", who="a0", s=5.0),
        Item(2.2, fault="restart", s=2.0),
        Item(3.0, fault="replace", who="a0", s=0.5),
    ],
}


def run(items: list[Item], identity: str) -> Report:
    """A team of one process, whose elder comes back when the younger one is there."""
    job = Item(1.0, driver="d0", plan=[Step("ask", 5.0, [Ask("a0")])])
    team = Team("a0", 2, identity=identity)  # type: ignore[arg-type]
    return play(Scenario(7, [team], [], ["d0"], [job, *items]))


@pytest.mark.parametrize("identity", ["instance", "exclusive"])
@pytest.mark.parametrize("name", ELDER_BACK)
def test_an_elder_that_comes_back_does_not_replace_the_younger_one(name: str, identity: str) -> None:
    report = run(ELDER_BACK[name], identity)
    assert report.violations == []
    assert report.figures["fault replace"] == 1


@pytest.mark.parametrize("name", ELDER_BACK)
def test_an_elder_that_does_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionTable, "successor", lambda *_: None)
    monkeypatch.setattr(
        SessionTable, "replaced_by", lambda _table, _hello, agent: list(agent.sessions.values())
    )
    assert any("by its elder" in violation for violation in run(ELDER_BACK[name], "exclusive").violations)
