"""What waits for the owner: whoever floods delays others by its share at most, and only it is shed."""

import json
from itertools import pairwise

import pytest

from tests.shell.rig import EchoKernel, MemoryBus, owner, until
from unknot_gateway.shell import fairness
from unknot_gateway.shell.fairness import Inbox
from unknot_gateway.shell.limits import NEVER_BEHIND, SHARE, SHED_ANSWERS_MAX, WEIGHT_BYTES
from unknot_gateway.shell.parsing import Incoming

ROOT = "unknot.echo"


class Clock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def sent(agent: str, number: int, rest: str = "request.echo.echo.say", size: int = 0) -> Incoming:
    body = json.dumps({"unknot": 1, "id": f"{agent}-{number}"}).encode()
    return Incoming(f"{ROOT}.in.{agent}.{rest}", "_INBOX.test", body + b" " * size)


def ids_of(messages: list[Incoming]) -> list[str]:
    return [json.loads(message.data)["id"] for message in messages]


def handled(inbox: Inbox, count: int = 1_000_000) -> list[str]:
    """What the owner takes out, in order, *count* at most."""
    out: list[Incoming] = []
    while len(out) < count and (inbox.waiting or inbox.next_round()):
        out.append(inbox.waiting.popleft())
    return ids_of(out)


def flooded(count: int, agent: str = "flood", **of: object) -> Inbox:
    inbox = Inbox(ROOT, clock=Clock())
    for number in range(count):
        inbox.put(sent(agent, number, **of))  # type: ignore[arg-type]
    return inbox


def test_a_few_messages_are_handled_in_the_order_of_all() -> None:
    inbox = Inbox(ROOT)
    for number in range(NEVER_BEHIND // 2):
        inbox.put(sent("birch", number))
        inbox.put(sent("elm", number))
    assert handled(inbox)[:4] == ["birch-0", "elm-0", "birch-1", "elm-1"]


def test_another_agent_waits_for_one_share_of_a_flood_and_no_more() -> None:
    inbox = flooded(10_000)
    inbox.put(sent("birch", 0))
    assert "birch-0" in handled(inbox, NEVER_BEHIND + SHARE + 1)
    inbox.put(sent("birch", 1))
    assert "birch-1" in handled(inbox, SHARE + 1)


def test_each_agent_keeps_its_order_however_much_it_sends() -> None:
    inbox = Inbox(ROOT)
    for number in range(2_000):
        for agent in ("birch", "elm", "agent:flint") if number % 3 else ("birch",):
            inbox.put(sent(agent, number))
    taken = [one.rsplit("-", 1) for one in handled(inbox)]
    for agent in ("birch", "elm", "agent:flint"):
        numbers = [int(number) for name, number in taken if name == agent]
        assert all(a < b for a, b in pairwise(numbers))
    assert len(taken) == 2_000 + 2 * 1_333


def test_an_alias_is_the_same_agent() -> None:
    inbox = flooded(10_000)
    inbox.put(sent("agent:flood", 1))
    assert handled(inbox)[-1] == "agent:flood-1"


def test_long_messages_use_up_a_share_sooner() -> None:
    inbox = flooded(NEVER_BEHIND + SHARE, size=8 * WEIGHT_BYTES)
    inbox.put(sent("birch", 0))
    assert handled(inbox).index("birch-0") <= NEVER_BEHIND + SHARE // 9 + 1


def test_beyond_its_backlog_new_work_is_shed_and_what_reports_work_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairness, "BACKLOG_MAX", 100)
    inbox = flooded(NEVER_BEHIND + SHARE + 100)
    assert inbox.shed == 0
    for rest in ("send.a.b", "ask.a.b", "request.a.b", "publish.b", "wait.open"):
        inbox.put(sent("flood", 0, rest))
    assert inbox.shed == 5
    for rest in (
        "reply.x",
        "heartbeat",
        "facts",
        "done",
        "defer",
        "bye",
        "hello",
        "wait.close",
        "request.cancel",
    ):
        inbox.put(sent("flood", 0, rest))
    assert inbox.shed == 5
    for number in range(200):
        inbox.put(sent("flood", number, "heartbeat"))
    assert inbox.shed == 5 + 200 - (100 - 9), "at twice as much all is shed"
    inbox.put(sent("birch", 0))
    assert inbox.shed == 5 + 200 - (100 - 9), "nobody else is"


def test_the_fuller_it_is_in_all_the_less_may_wait_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "INBOX_MAX", 1_000)
    inbox = Inbox(ROOT, clock=Clock())
    for number in range(200):
        for agent in range(40):
            inbox.put(sent(f"a{agent}", number))
    waiting = len(handled(inbox))
    assert waiting + inbox.shed == 8_000
    assert waiting <= 2 * 1_000 + NEVER_BEHIND + SHARE
    assert len({one.agent for one in inbox.excess.values()}) > 1


def test_what_is_shed_is_answered_at_a_rate_and_named_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairness, "BACKLOG_MAX", 10)
    inbox = flooded(5_000)
    assert inbox.shed > 4_000
    assert len(inbox.refused) == SHED_ANSWERS_MAX
    assert [(one.agent, one.shed) for one in inbox.notices] == [("flood", inbox.shed)]
    assert inbox.excess["flood"].shed == inbox.shed


def test_a_quota_holds_new_work_to_a_rate_of_each_agent() -> None:
    clock = Clock()
    inbox = Inbox(ROOT, rate=10.0, clock=clock)
    for number in range(30):
        inbox.put(sent("birch", number))
        inbox.put(sent("birch", number, "reply.x"))
    inbox.put(sent("elm", 0))
    assert inbox.shed == 20
    clock.now += 0.5
    for number in range(30, 40):
        inbox.put(sent("birch", number))
    assert inbox.shed == 25
    assert handled(inbox).count("elm-0") == 1


async def test_a_shed_request_is_answered_over_limit_and_its_agent_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairness, "BACKLOG_MAX", 10)
    bus = MemoryBus()
    async with owner(bus, EchoKernel()) as at_work:
        for number in range(NEVER_BEHIND + SHARE + 11):
            at_work.put(sent("flood", number))
        await until(lambda: len(bus.published) == NEVER_BEHIND + SHARE + 12)
        counted = at_work.all_counters["shed.flood"]
    assert counted == 1
    bodies = [(subject, json.loads(payload)) for subject, payload, _ in bus.published]
    (refused,) = [body for _, body in bodies if body.get("ok") is False]
    assert refused["id"] == f"flood-{NEVER_BEHIND + SHARE + 10}"
    assert refused["error"]["code"] == "over_limit"
    assert refused["error"]["detail"]["retry_after_s"] > 0
    (notice,) = [body for subject, body in bodies if subject == f"{ROOT}.notice.agent.over_limit"]
    assert (notice["agent"], notice["shed"], notice["shed_total"]) == ("flood", 1, 1)


@pytest.mark.parametrize("subject", ["birch", "", "birch.", ".", "..", "birch.request", "birch.wait.open.x"])
def test_odd_subjects_wait_like_all_others(subject: str) -> None:
    inbox = flooded(NEVER_BEHIND + 1)
    for _ in range(3 * SHARE):
        inbox.put(Incoming(f"{ROOT}.in.{subject}", "", b'{"id":"odd"}'))
    assert handled(inbox).count("odd") == 3 * SHARE


def test_what_names_no_agent_is_counted_together_and_named_to_nobody() -> None:
    inbox = Inbox(ROOT, rate=1.0, clock=Clock())
    for number in range(100):
        for _ in range(2):
            inbox.put(sent(f"{'x' * 900}{number}", 0))
    assert inbox.counted() == {"shed": 100, "shed.": 100}
    assert not inbox.notices
