"""One parsed file: who is inside whom, which scope binds which name to what, and what the imports mean."""

import ast
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from unknot_gateway.audit.known import canonical

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
How = Literal["value", "annotation", "item", "second", "entered"]
"""How an expression gives a name its value: it is it, its type, one of its elements, the second of a pair it is, or
what a `with` of it gives."""


class Binding(Struct, eq=False):
    """Where a name gets a value from."""

    how: How
    expression: ast.expr
    scope: "Scope"


class Scope(Struct, eq=False):
    """A module, class or function. *attributes*: of a class, what `self.x` is bound to anywhere in it."""

    node: ast.AST
    parent: "Scope | None"
    names: dict[str, list[Binding]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    """Names bound to what nothing is known of: parameters without annotation, `except … as`, deletions."""
    functions: "dict[str, Scope]" = field(default_factory=dict)
    classes: "dict[str, Scope]" = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        """Whether it is a class's."""
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        """Whether it is a function's."""
        return isinstance(self.node, Function)

    def binds(self, name: str) -> bool:
        """Whether *name* means something of its own here."""
        return name in self.names or name in self.hidden or name in self.functions or name in self.classes


class Module:
    """The file's tree with links upwards and scopes."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        """Of each node the scope that it is evaluated in."""
        self.inside: dict[ast.AST, Scope] = {}
        """Of each class and function its own scope."""
        self.imports: dict[str, str] = {}
        self.top = Scope(tree, None)
        self._build()

    def walk(self) -> Iterator[ast.AST]:
        """All nodes."""
        return iter(self.scopes)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What *node* is in, from the closest outwards."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> Scope | None:
        """The closest function that *node* runs in; None: at import."""
        scope: Scope | None = self.scopes[node]
        while scope is not None and not scope.is_function:
            scope = scope.parent
        return scope

    def class_of(self, scope: Scope) -> Scope | None:
        """The class whose method *scope* is, or is inside."""
        found = scope.parent
        while found is not None and not found.is_class:
            found = found.parent
        return found

    def lookup(self, name: str, scope: Scope) -> Scope | None:
        """The scope that *name* belongs to, seen from *scope*; None: an import's, or a builtin."""
        at: Scope | None = scope
        while at is not None:
            if (at is scope or not at.is_class) and at.binds(name):
                return at
            at = at.parent
        return None

    def qualified(self, node: ast.AST, scope: Scope) -> str | None:
        """The full name of what a dotted name imports; None: it is no import."""
        words: list[str] = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or self.lookup(node.id, scope) is not None:
            return None
        root = self.imports.get(node.id)
        return canonical(".".join([root, *reversed(words)])) if root is not None else None

    # ------------------------------------------------------------------------------------ build
    def _build(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, self.top)]
        while stack:
            node, scope = stack.pop()
            self.scopes[node] = scope
            inner = self._enter(node, scope)
            self._bind(node, scope)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                outside = inner is not scope and not _runs_inside(node, child)
                stack.append((child, scope if outside else inner))

    def _enter(self, node: ast.AST, scope: Scope) -> Scope:
        if not isinstance(node, ast.ClassDef | Function):
            return scope
        inner = self.inside[node] = Scope(node, scope)
        if isinstance(node, ast.ClassDef):
            scope.classes[node.name] = inner
        elif not isinstance(node, ast.Lambda):
            scope.functions[node.name] = inner
        if isinstance(node, Function):
            _bind_arguments(node, inner, scope)
        return inner

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    self.imports[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom():
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{module}.{alias.name}"
            case ast.Assign():
                for target in node.targets:
                    self._to(target, Binding("value", node.value, scope))
            case ast.AnnAssign():
                self._to(node.target, Binding("annotation", node.annotation, scope))
                if node.value is not None:
                    self._to(node.target, Binding("value", node.value, scope))
            case ast.NamedExpr():
                self._to(node.target, Binding("value", node.value, scope))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._to(node.target, Binding("item", node.iter, scope))
            case ast.withitem(context_expr=entered, optional_vars=ast.expr() as target):
                self._to(target, Binding("entered", entered, scope))
            case ast.ExceptHandler(name=str() as name):
                scope.hidden.add(name)
            case _:
                pass

    def _to(self, target: ast.expr, binding: Binding) -> None:
        """*target* gets what *binding* gives."""
        scope = binding.scope
        match target:
            case ast.Name(id=name):
                scope.names.setdefault(name, []).append(binding)
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                of = _owner(owner, scope)
                if of is not None:
                    of.attributes.setdefault(attr, []).append(binding)
            case ast.Tuple(elts=[*_, last]) | ast.List(elts=[*_, last]):
                for element in ast.walk(target):
                    if isinstance(element, ast.Name) and element is not last:
                        scope.hidden.add(element.id)
                if len(target.elts) == 2 and binding.how in ("value", "item"):
                    how: How = "second" if binding.how == "value" else "item"
                    self._to(last, Binding(how, binding.expression, scope))
            case _:
                pass


def _runs_inside(node: ast.AST, child: ast.AST) -> bool:
    """Whether *child* of a class or function is evaluated in it: its body is, decorators and defaults are not."""
    if isinstance(node, ast.Lambda):
        return child is node.body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return isinstance(child, ast.stmt)


def _bind_arguments(node: Function, inner: Scope, outer: Scope) -> None:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in every:
        if argument.annotation is not None:
            inner.names.setdefault(argument.arg, []).append(Binding("annotation", argument.annotation, outer))
        else:
            inner.hidden.add(argument.arg)
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            inner.hidden.add(rest.arg)


def _owner(name: str, scope: Scope) -> Scope | None:
    """The class whose instance *name* is here: the first parameter of a method, also seen from inside of it."""
    at: Scope | None = scope
    while at is not None:
        if at.is_function and at.binds(name):
            node, home = at.node, at.parent
            is_method = (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and home is not None
                and home.is_class
            )
            arguments = [*node.args.posonlyargs, *node.args.args] if isinstance(node, Function) else []
            return home if is_method and arguments and arguments[0].arg == name else None
        at = at.parent
    return None


def owner_of(name: str, scope: Scope) -> Scope | None:
    """The class whose `self` or `cls` *name* is, seen from *scope*; None: it is neither."""
    return _owner(name, scope)
