"""Small and flat: a file tells one story, a function does one thing."""

import ast

import pytest

from tests.house.tree import files, modules, name_of

pytestmark = pytest.mark.once

FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 700  # laws stand side by side; they need no story
FUNCTION_LINES_MAX = 40  # without its docstring


def test_no_file_is_longer_than_a_story() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in files("*.py")}
    bounds = {name: TEST_FILE_LINES_MAX if name.startswith("tests/") else FILE_LINES_MAX for name in lines}
    assert {name: n for name, n in lines.items() if n > bounds[name]} == {}


def test_no_function_does_more_than_one_thing() -> None:
    long = {
        f"{name_of(path)}:{node.lineno} {node.name}": lines
        for path, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := lines_of(node)) > FUNCTION_LINES_MAX
    }
    assert long == {}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, less those of the docstring."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_the_docstring_does_not_count() -> None:
    function = ast.parse('def f():\n    """One.\n\n    Two."""\n    return 1\n').body[0]
    assert isinstance(function, ast.FunctionDef)
    assert lines_of(function) == 2
