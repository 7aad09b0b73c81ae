"""What an expression is: by what names are bound to in the file itself. Unknown is None; nothing is guessed.

Simple on purpose: no flow, no other files. Of several bindings the one that is known counts, unless two known ones
differ. Every question has a bound on its depth, so that names bound to each other end it.
"""

import ast

from msgspec import Struct

from unknot_gateway.audit import known
from unknot_gateway.audit.limits import ANNOTATION_CHARS_MAX, INFERENCE_DEPTH_MAX
from unknot_gateway.audit.module import Binding, Module, Scope, owner_of


class Type(Struct, frozen=True):
    """A class by its full name; *item*: of a container, what its elements are. One of this file: *local*."""

    name: str
    item: "Type | None" = None
    local: Scope | None = None


_FUTURE, _TASK = "asyncio.Future", "asyncio.Task"
_AWAITED = frozenset({_FUTURE, _TASK})
"""Awaiting one of these gives what it is of, which is their item."""
_DICTS = frozenset(
    {
        "dict",
        "Dict",
        "defaultdict",
        "DefaultDict",
        "OrderedDict",
        "Mapping",
        "MutableMapping",
        "WeakValueDictionary",
    }
)
_LISTS = frozenset(
    {
        "list",
        "List",
        "set",
        "Set",
        "frozenset",
        "FrozenSet",
        "deque",
        "Deque",
        "Sequence",
        "Iterable",
        "Collection",
    }
    | {"MutableSequence", "Iterator", "tuple", "Tuple", "type", "Type", "AsyncIterator", "WeakSet"}
)
_TRANSPARENT = frozenset(
    {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired", "Awaitable", "Coroutine"}
)
ELEMENT = frozenset({"get", "pop", "setdefault", "popleft", "popitem"})
_ALL_ELEMENTS = frozenset({"values", "items", "copy"})
_COPIES = frozenset({"list", "tuple", "set", "sorted", "reversed", "iter", "enumerate", "filter"})


class Inference:
    """Answers for one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[Binding, tuple[int, Type | None]] = {}
        """What was found out, and at which depth: nothing found may be found from less deep."""

    def kind(self, found: Type) -> str:
        """The kind (see `known`) of a class, by its name or by what it is derived from; empty: none."""
        if found.local is None:
            return known.KINDS.get(found.name, "")
        for home in self._bases(found.local):
            for base in home.node.bases if isinstance(home.node, ast.ClassDef) else ():
                plain = base.value if isinstance(base, ast.Subscript) else base
                name = self._module.qualified(plain, home.parent or home)
                if name in known.KINDS:
                    return known.KINDS[name]
        return ""

    def of(self, node: ast.expr) -> Type | None:
        """What *node* evaluates to."""
        return self._of(node, self._module.scopes[node], 0)

    def _of(self, node: ast.expr | None, scope: Scope, depth: int) -> Type | None:
        depth += 1
        if depth > INFERENCE_DEPTH_MAX:
            return None
        match node:
            case ast.Name():
                return self._name(node, scope, depth)
            case ast.Attribute():
                return self._attribute(node, scope, depth)
            case ast.Call():
                return self._call(node, scope, depth)
            case ast.Await():
                found = self._of(node.value, scope, depth)
                return found.item if found is not None and found.name in _AWAITED else found
            case ast.NamedExpr():
                return self._of(node.value, scope, depth)
            case ast.Subscript():
                of = self._of(node.value, scope, depth)
                return of.item if of is not None else None
            case ast.BoolOp():
                return _one([self._of(value, scope, depth) for value in node.values])
            case ast.IfExp():
                return _one([self._of(node.body, scope, depth), self._of(node.orelse, scope, depth)])
            case ast.List() | ast.Set() | ast.Tuple():
                return Type("list", _one([self._of(each, scope, depth) for each in node.elts[:8]]))
            case ast.Dict():
                return Type("dict", _one([self._of(each, scope, depth) for each in node.values[:8]]))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return Type("list", self._of(node.elt, scope, depth))
            case ast.DictComp():
                return Type("dict", self._of(node.value, scope, depth))
            case _:
                return None

    def _name(self, node: ast.Name, scope: Scope, depth: int) -> Type | None:
        owner = owner_of(node.id, scope)
        if owner is not None:
            return Type(node.id, local=owner)
        home = self._module.lookup(node.id, scope)
        return self._bound(home.names.get(node.id, []), depth) if home is not None else None

    def _bound(self, bindings: list[Binding], depth: int) -> Type | None:
        said = _one([self._binding(each, depth) for each in bindings if each.how == "annotation"])
        given = [self._binding(each, depth) for each in bindings if each.how != "annotation"]
        if said is not None and said.name == _FUTURE:
            task = next((each for each in given if each is not None and each.name == _TASK), None)
            return task or said  # a task may be called a future; awaiting it is waiting for own work
        return said or _one(given)

    def _binding(self, binding: Binding, depth: int) -> Type | None:
        known_at, found = self._known.get(binding, (INFERENCE_DEPTH_MAX + 1, None))
        if found is None and depth < known_at:
            self._known[binding] = depth, None  # while it is being found out, so that a circle ends
            found = self._given(binding, depth)
            self._known[binding] = depth, found
        return found

    def _given(self, binding: Binding, depth: int) -> Type | None:
        expression, scope = binding.expression, binding.scope
        match binding.how:
            case "annotation":
                return self.annotation(expression, scope, depth)
            case "item":
                found = self._of(expression, scope, depth)
                return found.item if found is not None else None
            case "second":
                return self._second(expression, scope, depth)
            case "value" | "entered":
                return self._of(expression, scope, depth)

    def _second(self, node: ast.expr, scope: Scope, depth: int) -> Type | None:
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            return self._of(node.elts[1], scope, depth)
        made = node.func if isinstance(node, ast.Call) else node
        made = made.value if isinstance(made, ast.Subscript) else made
        name = known.SECOND_OF_PAIR.get(self._module.qualified(made, scope) or "")
        return Type(name) if name is not None else None

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> Type | None:
        of = self._of(node.value, scope, depth)
        return self._member(of.local, node.attr, depth) if of is not None and of.local is not None else None

    def _member(self, owner: Scope, attr: str, depth: int) -> Type | None:
        for home in self._bases(owner):
            found = self._bound([*home.names.get(attr, []), *home.attributes.get(attr, [])], depth)
            if found is not None:
                return found
        return None

    def _bases(self, owner: Scope) -> list[Scope]:
        """The class and those of its bases that are in the file, each once."""
        found = [owner]
        for each in found:
            node = each.node
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                local = self._local_class(base, each.parent or each)
                if local is not None and local not in found and len(found) < INFERENCE_DEPTH_MAX:
                    found.append(local)
        return found

    def method(self, owner: Scope, name: str) -> Scope | None:
        """The method *name* of a class of the file."""
        return next((home.functions[name] for home in self._bases(owner) if name in home.functions), None)

    def _local_class(self, node: ast.AST, scope: Scope) -> Scope | None:
        node = node.value if isinstance(node, ast.Subscript) else node
        if not isinstance(node, ast.Name):
            return None
        home = self._module.lookup(node.id, scope)
        return home.classes.get(node.id) if home is not None else None

    # ------------------------------------------------------------------------------------ calls
    def _call(self, node: ast.Call, scope: Scope, depth: int) -> Type | None:
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        name = self._module.qualified(function, scope)
        if name is not None:
            return self._made(name, node, scope, depth)
        if isinstance(function, ast.Name):
            if function.id in _COPIES and self._module.lookup(function.id, scope) is None and node.args:
                return self._of(node.args[0], scope, depth)
            local = self._local_class(function, scope)
            if local is not None:
                return Type(function.id, local=local)
            home = self._module.lookup(function.id, scope)
            return self._returned(home.functions.get(function.id) if home is not None else None, depth)
        if isinstance(function, ast.Attribute):
            return self._called_on(node, function, scope, depth)
        return None

    def _returns(self, name: str, node: ast.Call, scope: Scope, depth: int) -> Type:
        """An instance of *name*; of a task, what it is of: the call that it is given."""
        is_task = name == _TASK and len(node.args) == 1
        return Type(name, self._of(node.args[0], scope, depth) if is_task else None)

    def _made(self, name: str, node: ast.Call, scope: Scope, depth: int) -> Type | None:
        last = name.rpartition(".")[2]
        if name in known.RETURNS:
            return self._returns(known.RETURNS[name], node, scope, depth)
        if last in ("defaultdict", "field", "Field") or name == "contextvars.ContextVar":
            factory = next((each.value for each in node.keywords if each.arg == "default_factory"), None)
            factory = node.args[0] if last == "defaultdict" and node.args else factory
            made = self._class(factory, scope) if factory is not None else None
            return Type("dict", made) if last == "defaultdict" else made
        if last in _DICTS | _LISTS:
            return self._of(node.args[0], scope, depth) if node.args else None
        if name in known.AWAITED_FIRST and node.args:
            return self._of(node.args[0], scope, depth)
        return Type(name) if last[:1].isupper() else None

    def _called_on(self, node: ast.Call, function: ast.Attribute, scope: Scope, depth: int) -> Type | None:
        of = self._of(function.value, scope, depth)
        if of is None:
            returned = known.RETURNED_BY_ANY.get(function.attr)
            return self._returns(returned, node, scope, depth) if returned is not None else None
        if of.local is not None:
            return self._returned(self.method(of.local, function.attr), depth)
        if of.name in ("list", "dict"):
            return of.item if function.attr in ELEMENT else of if function.attr in _ALL_ELEMENTS else None
        returned = known.RETURNS.get(f"{of.name}.{function.attr}")
        return self._returns(returned, node, scope, depth) if returned is not None else None

    def _returned(self, function: Scope | None, depth: int) -> Type | None:
        node = function.node if function is not None else None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
            return None
        assert function is not None
        return self.annotation(node.returns, function.parent or function, depth)

    def _class(self, node: ast.expr, scope: Scope) -> Type | None:
        """The instance that calling *node*, a class or a lambda, makes."""
        if isinstance(node, ast.Lambda):
            return self._of(node.body, self._module.scopes[node.body], INFERENCE_DEPTH_MAX - 2)
        name = self._module.qualified(node, scope)
        local = self._local_class(node, scope)
        return Type(name) if name is not None else Type("", local=local) if local is not None else None

    # ------------------------------------------------------------------------------ annotations
    def annotation(self, node: ast.expr, scope: Scope, depth: int) -> Type | None:
        """What a value annotated with *node* is."""
        depth += 1
        if depth > INFERENCE_DEPTH_MAX:
            return None
        match node:
            case ast.Constant(value=str() as text) if len(text) <= ANNOTATION_CHARS_MAX:
                return self._quoted(text, scope, depth)
            case ast.BinOp(op=ast.BitOr()):
                return _one([self.annotation(side, scope, depth) for side in (node.left, node.right)])
            case ast.Subscript():
                return self._generic(node, scope, depth)
            case ast.Name() | ast.Attribute():
                return self._class(node, scope)
            case _:
                return None

    def _quoted(self, text: str, scope: Scope, depth: int) -> Type | None:
        try:
            return self.annotation(ast.parse(text, mode="eval").body, scope, depth)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _generic(self, node: ast.Subscript, scope: Scope, depth: int) -> Type | None:
        base = node.value
        last = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        parameters = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if last in _TRANSPARENT and parameters:
            return self.annotation(parameters[-1 if last == "Coroutine" else 0], scope, depth)
        if last == "Union":
            return _one([self.annotation(each, scope, depth) for each in parameters])
        if last in _DICTS:
            return Type("dict", self.annotation(parameters[-1], scope, depth) if parameters else None)
        if last in _LISTS:
            return Type("list", self.annotation(parameters[0], scope, depth) if parameters else None)
        return self._class(base, scope)


def _one(found: list[Type | None]) -> Type | None:
    """The one that is known; None when there is none, or they differ."""
    different = {each for each in found if each is not None}
    return different.pop() if len(different) == 1 else None
