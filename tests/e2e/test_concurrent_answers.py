"""Many requests at once, a fifth of them timing out, late answers mixed in. `make soak` runs 200 000."""

import asyncio
import random
from collections import Counter

import pytest

import unknot
from tests.benchmarks import answers
from tests.support.gateway import Gateway, gateway, gateways  # noqa: F401 - fixtures

SEED = 9104


@pytest.mark.parametrize(
    "total", [4_000, pytest.param(200_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
async def test_no_answer_is_wrong_lost_or_doubled(gateway: Gateway, total: int) -> None:  # noqa: F811 - the fixture
    result = await answers.run(gateway.nats, gateway.network, total, lanes=min(total // 10, 2_000), seed=SEED)
    assert result["faults"] == {}, result["first_faults"]
    assert sum(result["ended"].values()) == total


async def test_through_the_client_each_caller_gets_its_own_answer_or_its_own_expiry(
    gateway: Gateway,  # noqa: F811 - the fixture
) -> None:
    responder = unknot.Agent("responder", concurrency=None)
    runs: Counter[int] = Counter()
    late = {number for number in range(1_000) if random.Random(number).random() < 0.2}

    @responder.on("answer")
    async def answer(number: int) -> int:
        runs[number] += 1
        await asyncio.sleep(0.6 if number in late else random.Random(number).random() * 0.1)
        return number

    async def asked(number: int) -> int | None:
        try:
            timeout = 0.3 if number in late else 30.0
            return int(await me.send_and_wait("responder", "answer", number, timeout=timeout))
        except unknot.WaitExpired:
            return None

    url, network = gateway.nats, gateway.network
    async with responder.running(url, network=network), unknot.connect("asker", url, network=network) as me:
        found = await asyncio.gather(*(asked(number) for number in range(1_000)))
        await me.send_and_wait("responder", "answer", 1_000)  # a late answer would have come by now
    assert found == [None if number in late else number for number in range(1_000)]
    assert set(runs.values()) == {1}
