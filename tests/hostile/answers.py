"""How what is one over a limit is answered; asserts that it is counted."""

from tests.core.stage import Stage


def receipt_code(stage: Stage) -> str | None:
    """Code of the last Receipt; ``over_limit`` says when to try again."""
    error = stage.last_receipt().error
    assert error is not None
    if error.code == "over_limit":
        assert error.detail is not None
        assert isinstance(error.detail["retry_after_s"], float)
    assert stage.kernel.counters[f"refused.{error.code}"] >= 1
    return error.code


def outcome_code(stage: Stage, request_id: str) -> str | None:
    """Code of the Outcome of *request_id*, likewise."""
    outcome = stage.outcomes()[request_id]
    assert outcome.error is not None
    assert outcome.outcome == ("over_limit" if outcome.error.code == "over_limit" else "refused")
    assert outcome.error.code != "over_limit" or (outcome.error.detail or {})["retry_after_s"] == 1.0
    assert stage.kernel.counters[f"outcome.{outcome.outcome}"] >= 1
    return outcome.error.code
