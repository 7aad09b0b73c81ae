"""Many requests at once, a fifth of them timing out, late answers mixed in. `make soak` runs 200 000."""

import pytest

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
