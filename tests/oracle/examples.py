"""How many examples a random test runs: its share of the profile's number, so that all tests together run that many."""

import os

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SOAK_EXAMPLES = int(os.environ.get("UNKNOT_SOAK_EXAMPLES") or settings.get_profile("soak").max_examples)


def share(part: float) -> settings:
    """Settings for a test that runs *part* of the profile's examples; the same ones in every run outside of soak."""
    return _sized(round(part * min(2_000, settings().max_examples)), derandomize=True)


def soak(part: float) -> settings:
    """Settings for *part* of the examples of `make soak`, other ones in every run."""
    return _sized(round(part * SOAK_EXAMPLES), derandomize=False)


def _sized(examples: int, *, derandomize: bool) -> settings:
    return settings(
        max_examples=max(1, examples),
        derandomize=derandomize,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
