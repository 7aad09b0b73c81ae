"""User data to bytes and back: msgspec types, dataclasses, TypedDicts, and whatever looks like a pydantic model."""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

Decode = Callable[[bytes | msgspec.Raw], Any]

ANY: Final[Decode] = msgspec.json.Decoder().decode


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} cannot become JSON: give a msgspec type, dataclass or dict")
    return dump(mode="json")


_encode: Final = msgspec.json.Encoder(enc_hook=_plain).encode


def encode(value: Any) -> msgspec.Raw:
    """*value* as JSON; TypeError for what has no JSON form."""
    if value is None:
        return _NULL
    return msgspec.Raw(_encode(value))


_NULL: Final = msgspec.Raw(b"null")


def _model(kind: Any, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"data cannot be read into {kind!r}")
    return validate(value)


@lru_cache(maxsize=1024)
def _decoder_for(kind: Any) -> Decode:
    if kind is Any or kind is inspect.Parameter.empty or kind is object:
        return ANY
    if kind is msgspec.Raw:
        return msgspec.Raw
    read = getattr(kind, "model_validate_json", None)
    if read is not None:
        return lambda data: read(bytes(data))
    return _decoder(kind)


def _decoder(kind: Any) -> Decode:
    decode = msgspec.json.Decoder(kind, dec_hook=_model).decode
    if not _names_dataclass(kind):
        return decode
    return lambda data: _completed(decode(data))


def _names_dataclass(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind) or any(map(_names_dataclass, typing.get_args(kind)))


def _completed(value: Any) -> Any:
    """*value* with every dataclass's defaults set: msgspec leaves them on the class, and would not send them on."""
    todo = [value]
    while todo:
        each = todo.pop()
        if dataclasses.is_dataclass(each) and not isinstance(each, type):
            held = getattr(each, "__dict__", None)
            for field in dataclasses.fields(each):
                inner = getattr(each, field.name)
                if held is not None and field.name not in held:
                    object.__setattr__(each, field.name, inner)
                todo.append(inner)
        elif isinstance(each, list | tuple | set):
            todo.extend(each)
        elif isinstance(each, dict):
            todo.extend(each.values())
    return value


def decoder(kind: Any) -> Decode:
    """Reads JSON into *kind*; ValueError (msgspec.ValidationError, pydantic's) when it does not fit."""
    try:
        return _decoder_for(kind)
    except TypeError as why:
        if "unhashable" not in str(why):
            raise
        return _decoder(kind)
