"""Loops that ask again and again: a condition, a sleep, the condition again.

Two shapes are told: a `while` with a condition whose body does nothing but sleep and look; and an endless or counted
loop that leaves when what it has just asked for is there. A loop that works between its sleeps is a schedule, one
that sleeps after an error a retry, and one that only looks whether it is to stop a service: they wait for nobody.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from unknot_gateway.audit import known, rules
from unknot_gateway.audit.module import Function, Module
from unknot_gateway.audit.waits import Place, last_name

_Loop = ast.While | ast.For
_STOPPING: Final = re.compile(
    r"stop|shut|clos|cancel|running|alive|exit|terminat|quit|attempt|retr|tries|deadline|timeout|elapsed|count|left|max_",
    re.IGNORECASE,
)
_RETRY: Final = re.compile(r"attempt|retr|tries|backoff|jitter", re.IGNORECASE)
_SAYING: Final = frozenset({"debug", "info", "warning", "warn", "error", "log", "print", "write", "flush"})


def polling(module: Module) -> Iterator[Place]:
    """The loops of a module that poll; of each the sleep."""
    for node in module.walk():
        if isinstance(node, _Loop):
            sleeps = [each for each in _inside(node.body) if _is_sleep(module, each)]
            sleeps = [each for each in sleeps if not _is_after_an_error(module, each, node)]
            if sleeps and not _is_a_retry(node, sleeps) and _polls(module, node):
                yield sleeps[0], rules.POLLING


def _polls(module: Module, loop: _Loop) -> bool:
    if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return not _is_a_clock(loop.test) and all(_only_looks(module, each) for each in loop.body)
    if all(_yields(each) for each in _inside(loop.body) if _is_sleep(module, each)):
        return False
    asked = {name for each in _inside(loop.body) for name in _answers(each)}
    return any(
        isinstance(each, ast.If) and _leaves(each) and _is_an_answer(each.test, asked)
        for each in _inside(loop.body)
    )


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a loop's body, without inner loops, functions and handlers of errors."""
    todo: list[ast.AST] = [*body]
    while todo:
        node = todo.pop()
        if not isinstance(
            node, Function | ast.ClassDef | ast.While | ast.For | ast.AsyncFor | ast.ExceptHandler
        ):
            yield node
            todo += ast.iter_child_nodes(node)


def _is_sleep(module: Module, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and module.qualified(node.func, module.scopes[node]) in known.SLEEPS


def _yields(sleep: ast.AST) -> bool:
    """Whether it only lets others run."""
    length = sleep.args[0] if isinstance(sleep, ast.Call) and sleep.args else None
    return isinstance(length, ast.Constant) and length.value == 0


def _is_after_an_error(module: Module, node: ast.AST, loop: ast.AST) -> bool:
    for above in module.above(node):
        if above is loop:
            return False
        if isinstance(above, ast.ExceptHandler):
            return True
    return False


def _is_a_retry(loop: _Loop, sleeps: list[ast.AST]) -> bool:
    """Whether it tries something several times: it counts attempts, or sleeps longer each time."""
    words = [loop.target] if isinstance(loop, ast.For) else [loop.test]
    return any(_RETRY.search(name) for node in [*words, *sleeps] for name in _names(node)) or any(
        isinstance(each, ast.Pow | ast.LShift) for sleep in sleeps for each in ast.walk(sleep)
    )


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def _is_a_clock(test: ast.expr) -> bool:
    """Whether only time is looked at."""
    return any(name in ("time", "monotonic", "perf_counter", "now") for name in _names(test))


def _only_looks(module: Module, node: ast.stmt) -> bool:
    """Whether a statement of a loop's body does nothing but sleep, look, count, say so, or leave."""
    match node:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Return() | ast.Raise() | ast.Assert():
            return True
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            return True
        case ast.Expr(value=value):
            value = value.value if isinstance(value, ast.Await) else value
            return isinstance(value, ast.Constant) or _is_sleep(module, value) or _says(value)
        case ast.If():
            return all(_only_looks(module, each) for each in [*node.body, *node.orelse])
        case _:
            return False


def _says(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in _SAYING


def _answers(node: ast.AST) -> Iterator[str]:
    """Names that a statement of the loop binds to the answer of a call."""
    if isinstance(node, ast.Assign | ast.NamedExpr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _leaves(node: ast.If) -> bool:
    return any(isinstance(each, ast.Break | ast.Return) for each in node.body)


def _is_an_answer(test: ast.expr, asked: set[str]) -> bool:
    """Whether what was just asked decides, and not that the loop itself is to stop, or its time is over."""
    names = set(_names(test))
    if any(_STOPPING.search(name) for name in names) or _is_a_clock(test):
        return False
    return bool(names & asked) or any(isinstance(each, ast.Call) for each in ast.walk(test))
