"""Each rule finds what it should, and nothing that only looks like it."""

import ast
import inspect
import re

import pytest

from tests.audit.snippets import BAD, GOOD, code, marked
from unknot import Context
from unknot_gateway.audit import RULES, audit_text

PAIRS = [
    pytest.param(rule, each, id=f"{rule}-{number}")
    for rule, snippets in BAD.items()
    for number, each in enumerate(snippets)
]


def found(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.rule) for each in audit_text(text.encode(), "mine.py")]


@pytest.mark.parametrize(("rule", "snippet"), PAIRS)
def test_a_wait_outside_the_wrappers_is_found_where_it_is(rule: str, snippet: str) -> None:
    assert found(code(snippet)) == marked(snippet, rule)


@pytest.mark.parametrize(("rule", "snippet"), PAIRS)
def test_a_reason_on_the_line_suppresses_it(rule: str, snippet: str) -> None:
    assert found(code(snippet).replace("# <-", "# unknot: ok(it is a test) <-")) == []


@pytest.mark.parametrize("snippet", GOOD)
def test_what_only_looks_like_a_wait_is_not_found(snippet: str) -> None:
    assert found(code(snippet)) == []


def test_every_rule_has_a_snippet_or_is_about_comments_and_files() -> None:
    assert RULES.keys() - BAD.keys() == {"UNK090", "UNK091", "UNK099"}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_says_what_why_and_what_to_write_instead(rule: object) -> None:
    for text in (rule.what, rule.why, rule.instead):  # type: ignore[attr-defined]
        assert text
        assert not text.endswith(".")


CALLS = sorted({call for rule in RULES.values() for call in re.findall(r"ctx\.\w+\([^()]*\)", rule.instead)})


@pytest.mark.parametrize("call", CALLS)
def test_what_a_rule_says_to_write_instead_is_a_call_that_a_context_has(call: str) -> None:
    asked = ast.parse(call, mode="eval").body
    assert isinstance(asked, ast.Call)
    assert isinstance(asked.func, ast.Attribute)
    arguments = {argument.arg or "": argument.value for argument in asked.keywords}
    inspect.signature(getattr(Context, asked.func.attr)).bind(None, *asked.args, **arguments)
