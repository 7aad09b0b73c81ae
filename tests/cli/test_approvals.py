"""``unknot approvals``."""

import json

from tests.cli.rig import RawAgent, agent, say_nothing, unknot
from tests.support.gateway import Gateway


async def ask_for(agent: RawAgent, approval_id: str, from_: str) -> None:
    body = {
        "id": approval_id,
        "from": from_,
        "data": {"cost": 7},
        "reason": "deploy",
        "session": agent.session,
    }
    subject = agent.subjects.verb(agent.name, "approval.request")
    receipt = await agent.raw.request(subject, json.dumps(body).encode(), timeout=5)
    assert json.loads(receipt.data)["ok"]


async def test_people_see_and_make_the_decisions_that_are_waited_for(gateway: Gateway) -> None:
    async with agent(gateway, "elm", say_nothing) as elm:
        for approval_id, from_ in (("a1", "human:eva"), ("a2", "human:max"), ("a3", "oak")):
            await ask_for(elm, approval_id, from_)
        listed = await unknot("approvals", "list", gateway=gateway)
        assert listed.code == 0
        head, *rows = listed.out.splitlines()
        assert head.split()[:3] == ["ID", "WAITER", "BY"]
        assert [row.split()[:3] for row in rows] == [
            ["a1", "elm", "human:eva"],
            ["a2", "elm", "human:max"],
            ["a3", "elm", "oak"],
        ]
        assert 'deploy  {"cost": 7}' in rows[0]
        approved = await unknot("approvals", "approve", "a1", gateway=gateway)
        assert (approved.code, approved.out) == (0, "a1 approved\n")
        denied = await unknot("approvals", "deny", "a2", "--reason", "no", "--json", gateway=gateway)
        assert (denied.code, denied.json["ok"]) == (0, True)
        for approval_id, why in (("a1", "is not open"), ("a3", "not for")):
            refused = await unknot("approvals", "approve", approval_id, gateway=gateway)
            assert refused.code == 1
            assert why in refused.err
        as_json = await unknot("approvals", "list", "--json", gateway=gateway)
        assert [row["id"] for row in as_json.json["rows"]] == ["a3"]


async def test_without_a_gateway_it_says_so() -> None:
    listed = await unknot("approvals", "list", "--nats", "nats://127.0.0.1:1")
    assert listed.code == 4
