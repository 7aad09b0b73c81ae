"""Which functions stand in the way of others when they block: coroutines, handlers, and what these call in the file."""

import ast

from unknot_gateway.audit.infer import Inference
from unknot_gateway.audit.module import Module, Scope, owner_of


def in_the_way(module: Module, inference: Inference) -> set[Scope]:
    """Coroutines, functions with an ``@….on(…)`` above them, and the functions of the file that these call."""
    calls: dict[Scope, list[ast.Call]] = {}
    for node in module.walk():
        if isinstance(node, ast.Call) and (caller := module.function_of(node)) is not None:
            calls.setdefault(caller, []).append(node)
    todo = [
        scope
        for node, scope in module.inside.items()
        if isinstance(node, ast.AsyncFunctionDef) or _is_handler(node)
    ]
    found = set(todo)
    while todo:
        for call in calls.get(todo.pop(), []):
            called = _called(call, module, inference)
            if called is not None and called not in found and not _is_generator(called):
                found.add(called)
                todo.append(called)
    return found


def _is_handler(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "on"
        for each in node.decorator_list
    )


def _is_generator(scope: Scope) -> bool:
    """Whether calling it runs nothing yet."""
    return isinstance(scope.node, ast.Lambda)


def _called(call: ast.Call, module: Module, inference: Inference) -> Scope | None:
    """The function of the file that *call* calls; None: another's."""
    scope = module.scopes[call]
    match call.func:
        case ast.Name(id=name):
            home = module.lookup(name, scope)
            return home.functions.get(name) if home is not None else None
        case ast.Attribute(value=ast.Name(id=name), attr=method):
            owner = owner_of(name, scope)
            return inference.method(owner, method) if owner is not None else None
        case _:
            return None
