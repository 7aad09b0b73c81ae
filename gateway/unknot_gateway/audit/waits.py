"""Places that wait outside of unknot's wrappers: calls, awaited futures, locks that are held across a wait."""

import ast
from collections.abc import Iterator

from unknot_gateway.audit import known, rules
from unknot_gateway.audit.infer import ELEMENT, Inference
from unknot_gateway.audit.module import Function, Module, Scope, owner_of

Place = tuple[ast.AST, str]
"""A node, and the rule that it breaks."""

_BY_NAME = (
    ("get", known.QUEUE_NAME, rules.QUEUE, 0),
    ("wait", known.EVENT_NAME, rules.EVENT, 0),
    ("wait", known.PROCESS_NAME, rules.PROCESS, 0),
    ("communicate", known.PROCESS_NAME, rules.PROCESS, 1),
    ("acquire", known.LOCK_NAME, rules.LOCK, 0),
    ("acquire", known.SEMAPHORE_NAME, rules.SEMAPHORE, 0),
)
"""Method, what its owner is called, rule, positional arguments at most: of an awaited call on what is not known."""


class Waits:
    """Finds them in one module. *blocking*: functions that stand in others' way."""

    def __init__(self, module: Module, inference: Inference, blocking: set[Scope]) -> None:
        self._module, self._inference, self._blocking = module, inference, blocking
        self._speaks_nats = any(
            name == "nats" or name.startswith("nats.") for name in module.imports.values()
        )

    def places(self) -> Iterator[Place]:
        """All but locks."""
        for node in self._module.walk():
            if isinstance(node, ast.Call):
                rule = self._call(node)
            elif isinstance(node, ast.Await):
                rule = rules.FUTURE if any(map(self._is_future, self._awaited_by(node))) else None
            else:
                rule = None
            if rule is not None:
                yield node, rule

    # ------------------------------------------------------------------------------------ calls
    def _call(self, node: ast.Call) -> str | None:
        scope = self._module.scopes[node]
        if isinstance(node.func, ast.Name) and node.func.id == "input":
            is_builtin = self._module.lookup("input", scope) is None and "input" not in self._module.imports
            return rules.TERMINAL if is_builtin else None
        name = self._module.qualified(node.func, scope)
        if name is not None:
            return self._function(node, name)
        return self._method(node, node.func) if isinstance(node.func, ast.Attribute) else None

    def _function(self, node: ast.Call, name: str) -> str | None:
        if name == "asyncio.wrap_future":
            is_own = bool(node.args) and self._is_own_work(node.args[0])
            return rules.FUTURE if self.is_awaited(node) and not is_own else None
        if name in known.PROCESSES:
            looks = any(last_name(argument) == "WNOHANG" for argument in node.args)
            return None if looks else rules.PROCESS
        if self._module.function_of(node) not in self._blocking:
            return None
        if name in known.THREAD_SLEEPS:
            return rules.SLEEP
        return rules.HTTP if name in known.HTTP_CALLS else None

    def _method(self, node: ast.Call, function: ast.Attribute) -> str | None:
        found = self._inference.of(function.value)
        if found is None:
            return self._by_name(node, function)
        if found.name in known.HTTP_CLIENTS and function.attr in known.HTTP_METHODS:
            return rules.HTTP if self._module.function_of(node) in self._blocking else None
        rule = known.WAITS.get((self._inference.kind(found), function.attr))
        if rule is None or rule == rules.LOCK or _returns_at_once(node):
            return None
        if rule == rules.FUTURE:  # of a thread: elsewhere it is waiting for own work
            in_the_way = self._module.function_of(node) in self._blocking
            return rule if in_the_way and self._is_made_here(function.value) else None
        return rule

    def _by_name(self, node: ast.Call, function: ast.Attribute) -> str | None:
        called = last_name(function.value)
        if called is None or not self.is_awaited(node):
            return None
        if self._speaks_nats and function.attr == "request" and known.NATS_NAME.search(called):
            return rules.NATS
        for method, pattern, rule, arguments in _BY_NAME:
            if function.attr == method and len(node.args) <= arguments and pattern.search(called):
                return rule
        return None

    def _is_made_here(self, node: ast.expr) -> bool:
        """Whether it is a future that was just made: one that is handed over is mostly done already."""
        if isinstance(node, ast.Call):
            return True
        home = self._module.lookup(node.id, self._module.scopes[node]) if isinstance(node, ast.Name) else None
        return (
            home is not None
            and isinstance(node, ast.Name)
            and all(each.how == "value" for each in home.names.get(node.id, []))
        )

    def _is_own_work(self, node: ast.expr) -> bool:
        """Whether it is the future of work that this very function has given to another thread."""
        found = self._inference.of(node)
        return (
            found is not None and self._inference.kind(found) == "thread future" and self._is_made_here(node)
        )

    # ---------------------------------------------------------------------------------- futures
    def is_awaited(self, node: ast.AST) -> bool:
        """Whether *node* is awaited where it stands, or by what it is given to."""
        for above in self._module.above(node):
            if isinstance(above, ast.Await):
                return True
            if isinstance(above, ast.Call) and last_name(above.func) in known.AWAITERS:
                return True
            if not isinstance(above, ast.List | ast.Set | ast.Tuple | ast.Starred):
                return False
        return False

    def _awaited_by(self, node: ast.Await) -> Iterator[ast.expr]:
        """What *node* awaits itself, or through functions that await what they are given."""
        todo: list[ast.expr] = [node.value]
        while todo:
            each = todo.pop()
            if isinstance(each, ast.Call) and last_name(each.func) in known.AWAITERS:
                todo += each.args
            elif isinstance(each, ast.List | ast.Set | ast.Tuple):
                todo += each.elts
            elif not isinstance(each, ast.Call) or is_element(each):
                yield each

    def _is_future(self, node: ast.expr) -> bool:
        called = last_name(node)
        if (called is not None and "task" in called.lower()) or self._is_done(node):
            return False
        found = self._inference.of(node.value if isinstance(node, ast.Starred) else node)
        found = found.item if found is not None and found.name in ("list", "dict") else found
        if found is not None:
            return self._inference.kind(found) == "future"
        is_named_so = called is not None and known.FUTURE_NAME.search(called) is not None
        return is_named_so and not isinstance(node, ast.Call) and not self._is_an_answer(node)

    def _is_done(self, node: ast.expr) -> bool:
        """Whether the statement before gives the future its result."""
        statement = next((each for each in self._module.above(node) if isinstance(each, ast.stmt)), None)
        around = self._module.parents[statement] if statement is not None else None
        body = getattr(around, "body", None)
        at = body.index(statement) if isinstance(body, list) and statement in body else 0
        match body[at - 1] if isinstance(body, list) and at else None:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="set_result" | "set_exception"))):
                return last_name(of) == last_name(node)
            case _:
                return False

    def _is_an_answer(self, node: ast.expr) -> bool:
        """Whether it is what an await gave, so whatever its name says it is no future of this loop."""
        home = self._module.lookup(node.id, self._module.scopes[node]) if isinstance(node, ast.Name) else None
        given = home.names.get(node.id, []) if home is not None and isinstance(node, ast.Name) else []
        return bool(given) and all(isinstance(each.expression, ast.Await) for each in given)

    # ------------------------------------------------------------------------------------ locks
    def locks(self, waits: set[ast.AST]) -> Iterator[Place]:
        """Acquisitions of locks of which some holder waits; *waits*: nodes that do, besides those that await."""
        taken = [*self._entered(), *self._acquired()]
        held = {key for _, rule, key, body in taken if rule == rules.LOCK and waits_inside(body, waits)}
        yield from ((node, rule) for node, rule, key, _ in taken if rule != rules.LOCK or key in held)

    def _entered(self) -> Iterator[tuple[ast.AST, str, object, list[ast.AST]]]:
        for node in self._module.walk():
            if isinstance(node, ast.With | ast.AsyncWith):
                for item in node.items:
                    rule = self._held(item.context_expr, isinstance(node, ast.AsyncWith))
                    if rule is not None:
                        yield item.context_expr, rule, self._key(item.context_expr), [*node.body]

    def _held(self, node: ast.expr, is_async: bool) -> str | None:
        found = self._inference.of(node)
        if found is not None:
            return known.HELD.get(self._inference.kind(found))
        called = last_name(node)
        if called is None or isinstance(node, ast.Call):
            return None
        if known.LOCK_NAME.search(called):
            return rules.LOCK
        return rules.SEMAPHORE if is_async and known.SEMAPHORE_NAME.search(called) else None

    def _acquired(self) -> Iterator[tuple[ast.AST, str, object, list[ast.AST]]]:
        """By hand: what is held until when is not known, so the rest of the function counts."""
        for node in self._module.walk():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            found = self._inference.of(node.func.value) if node.func.attr == "acquire" else None
            kind = self._inference.kind(found) if found is not None else ""
            if known.HELD.get(kind) == rules.LOCK and not _returns_at_once(node):
                function = self._module.function_of(node)
                inside: list[ast.AST] = [function.node if function is not None else self._module.tree]
                yield node, rules.LOCK, self._key(node.func.value), inside

    def _key(self, node: ast.expr) -> object:
        """What tells one lock of the file from another; the place itself when that is not known."""
        scope = self._module.scopes[node]
        match node:
            case ast.Name(id=name):
                return self._module.lookup(name, scope) or "import", name
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                return owner_of(owner, scope) or owner, attr
            case _:
                return node


def last_name(node: ast.AST) -> str | None:
    """The last word of a dotted name, also of what is called or indexed; None: it has none."""
    while isinstance(node, ast.Call | ast.Subscript | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def is_element(node: ast.Call) -> bool:
    """Whether it may be an element of a container that is called for."""
    return isinstance(node.func, ast.Attribute) and node.func.attr in ELEMENT


def waits_inside(body: list[ast.AST], waits: set[ast.AST]) -> bool:
    """Whether something in *body* waits, functions that are only defined there left out."""
    todo = [*body]
    first = set(body)
    while todo:
        node = todo.pop()
        if node in waits or isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if node in first or not isinstance(node, Function | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return False


def _returns_at_once(node: ast.Call) -> bool:
    """Whether it is told not to wait."""
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and first.value is False:
        return True
    return any(
        isinstance(each.value, ast.Constant)
        and (
            (each.arg in known.NOT_BLOCKING and each.value.value is False)
            or (each.arg == "timeout" and each.value.value == 0)
        )
        for each in node.keywords
    )


def is_covered(module: Module, node: ast.AST) -> bool:
    """Whether *node* waits inside of a wrapper that tells unknot of it."""
    for above in module.above(node):
        if isinstance(above, Function):
            return False
        if isinstance(above, ast.With | ast.AsyncWith) and any(
            isinstance(item.context_expr, ast.Call)
            and isinstance(item.context_expr.func, ast.Attribute)
            and item.context_expr.func.attr in known.COVERS
            for item in above.items
        ):
            return True
    return False
