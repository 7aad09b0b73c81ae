"""A comment suppresses with a reason only, only what is there, and only where it stands."""

import pytest

from unknot_gateway.audit import audit_text


def found(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.rule) for each in audit_text(text.encode(), "mine.py")]


def test_a_reason_alone_on_the_line_above_suppresses() -> None:
    assert found("# unknot: ok(only at the desk)\ninput()\n") == []
    assert found("def f():\n    # unknot: ok(only at the desk)\n    return input()\n") == []


def test_it_may_stand_on_any_line_of_what_it_is_about() -> None:
    assert found("input(\n    'a',  # unknot: ok(only at the desk)\n)\n") == []


def test_two_lines_above_is_too_far() -> None:
    assert found("# unknot: ok(only at the desk)\n\ninput()\n") == [(1, "UNK091"), (3, "UNK011")]


def test_a_comment_behind_code_is_about_its_own_line() -> None:
    assert found("a = 1  # unknot: ok(only at the desk)\ninput()\n") == [(1, "UNK091"), (2, "UNK011")]


@pytest.mark.parametrize("comment", ["# unknot: ok()", "# unknot: ok( )", "# unknot: ok", "#unknot:ok()"])
def test_without_a_reason_it_suppresses_nothing_and_is_a_finding_itself(comment: str) -> None:
    assert found(f"input()  {comment}\n") == [(1, "UNK011"), (1, "UNK090")]


def test_one_that_suppresses_nothing_is_a_finding() -> None:
    assert found("print()  # unknot: ok(once there was a wait)\n") == [(1, "UNK091")]


def test_one_reason_may_be_about_several_findings_of_its_line() -> None:
    assert found("input(), input()  # unknot: ok(only at the desk)\n") == []


def test_a_reason_may_have_parentheses_and_other_comments_beside_it() -> None:
    assert found("input()  # noqa: A001  # unknot: ok(at the desk (only))  # see above\n") == []


def test_a_string_is_no_comment() -> None:
    assert found("input('# unknot: ok(no comment)')\n") == [(1, "UNK011")]


def test_a_wrapped_wait_needs_none() -> None:
    text = "async def f(ctx, inbox):\n    async with ctx.tool('a'):\n        await inbox.get()  # unknot: ok(why)\n"
    assert found(text) == [(3, "UNK091")]
