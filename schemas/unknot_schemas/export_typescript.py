"""The bodies as TypeScript: an interface for each, as msgspec sees its fields."""

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from msgspec import NODEFAULT, Raw, inspect, json

from unknot_schemas import bodies, errors
from unknot_schemas.export_operations import Operation, operations

_WIDTH: Final = 100
_HEAD: Final = """\
// The wire of unknot, version 1. Written by `make schemas` from unknot_schemas: do not edit.
//
// Unknown fields are ignored. A field with `?` may be left out; its default is said where it is not null.

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
"""
_PLAIN: Final[dict[type[inspect.Type], str]] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "Json",
    inspect.RawType: "Json",
}


def text(found: list[type[bodies.Body]]) -> str:
    """The whole file, for these bodies."""
    return "\n".join(
        [_HEAD, *(_interface(body) for body in found), _error_codes(), *_subjects(), _by_subject()]
    )


def _interface(body: type[bodies.Body]) -> str:
    shown = inspect.type_info(body)
    assert isinstance(shown, inspect.StructType)
    lines = [*_comment(body.__doc__ or "", ""), f"export interface {body.__name__} {{"]
    for field in shown.fields:
        lines += _field(field)
    return "\n".join([*lines, "}\n"])


def _field(field: inspect.Field) -> Iterator[str]:
    default = _default(field)
    if default not in ("", "null"):
        yield from _comment(f"Default: {default}.", "  ")
    # What a factory makes anew, unless it is empty, is always written.
    written = field.required or (default == "" and field.default_factory is not NODEFAULT)
    yield f"  {field.encode_name}{'' if written else '?'}: {_type(field.type)};"


def _default(field: inspect.Field) -> str:
    if field.default_factory in (list, dict):
        return "[]" if field.default_factory is list else "{}"
    if field.default is NODEFAULT or isinstance(field.default, Raw):
        return ""
    return json.encode(field.default).decode()


def _type(given: inspect.Type) -> str:
    match given:
        case inspect.UnionType():
            return " | ".join(_type(each) for each in given.types)
        case inspect.LiteralType():
            return " | ".join(json.encode(each).decode() for each in given.values)
        case inspect.ListType():
            inside = _type(given.item_type)
            return f"({inside})[]" if "|" in inside else f"{inside}[]"
        case inspect.DictType():
            return f"{{ [key: string]: {_type(given.value_type)} }}"
        case inspect.StructType():
            return given.cls.__name__
        case _:
            return _PLAIN[type(given)]


def _error_codes() -> str:
    """Codes may be added: a reader takes any string."""
    codes = [value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)]
    known = "".join(f"\n  | {json.encode(code).decode()}" for code in codes)
    return f"/** Codes of errors so far; more may come. */\nexport type ErrorCode ={known};\n"


def _subjects() -> Iterator[str]:
    for does, about in (("send", "what a client sends"), ("receive", "what a client receives")):
        name = f"{does.capitalize()}Subject"
        known = "".join(f"\n  | `{_template(one.subject)}`" for one in operations() if one.does == does)
        yield f"/** Subjects of {about}, with the prefix `unknot`. */\nexport type {name} ={known};\n"


def _template(subject: str) -> str:
    return re.sub(r"{\w+}", "${string}", subject)


def _by_subject() -> str:
    lines = ["/** Body of each operation, and what answers it on the NATS reply subject. */"]
    lines.append("export interface Operations {")
    for one in operations():
        lines += [*_comment(f"{one.about}.", "  "), *_operation(one)]
    return "\n".join([*lines, "}\n"])


def _operation(one: Operation) -> Iterator[str]:
    yield f"  {json.encode(one.name).decode()}: {{"
    yield f'    does: "{one.does}";'
    yield f"    subject: `{_template(one.subject)}`;"
    yield f"    body: {one.body.__name__};"
    yield f"    answer: {' | '.join(each.__name__ for each in one.answers) or 'null'};"
    yield "  };"


def _comment(about: str, indent: str) -> list[str]:
    lines = textwrap.wrap(" ".join(about.split()), _WIDTH)
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]
