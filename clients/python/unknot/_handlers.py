"""Handlers: how a function is called with an event, and how what comes of it becomes the answer."""

import inspect
import typing
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from unknot import _payloads
from unknot_schemas import bodies
from unknot_schemas import errors as codes


class Handler(Struct, frozen=True, kw_only=True):
    """One registered function."""

    pattern: str
    pool: str
    function: Callable[..., Any]
    decode: Callable[[Any], Any]
    takes_context: bool
    is_async: bool

    @property
    def name(self) -> str:
        """As logs show it."""
        return getattr(self.function, "__qualname__", repr(self.function))


class UnreadableData(ValueError):
    """The event's data does not fit the handler's type."""


def describe(function: Callable[..., Any], pattern: str, pool: str) -> Handler:
    """Read the signature of *function*: (data) or (data, ctx), plain or async; TypeError for any other."""
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    required = [each for each in parameters if each.default is each.empty]
    if not len(parameters) >= 1 or len(required) > 2:
        raise TypeError(f"{function!r} must take (data) or (data, ctx)")
    hints = _hints(function)
    kind = hints.get(parameters[0].name, parameters[0].annotation)
    call = function if inspect.isroutine(function) else type(function).__call__
    return Handler(
        pattern=pattern,
        pool=pool,
        function=function,
        decode=_payloads.decoder(Any if isinstance(kind, str) else kind),
        takes_context=len(parameters) >= 2,
        is_async=inspect.iscoroutinefunction(call),
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as why:
        raise TypeError(f"{function!r}: {why}: types of handlers must be importable at module level") from why


def read(handler: Handler, event: bodies.Delivered) -> Any:
    """The event's data as the handler's type; UnreadableData when it does not fit."""
    try:
        return handler.decode(event.data)
    except ValueError as why:
        raise UnreadableData(f"{event.type}: {why}") from why


def failure(why: BaseException) -> bodies.Error:
    """What the asker is told of an exception in a handler."""
    if isinstance(why, UnreadableData):
        return bodies.Error(codes.BAD_REQUEST, str(why), {"type": "UnreadableData"})
    name = type(why).__name__
    return bodies.Error(codes.HANDLER_FAILED, f"{name}: {why}"[:4_000], {"type": name})
