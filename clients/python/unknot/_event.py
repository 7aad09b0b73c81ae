"""An event as its handler sees it."""

import builtins
from typing import Any, TypeVar

from unknot import _payloads
from unknot_schemas import bodies

T = TypeVar("T")


class Event:
    """A delivered event; ``data`` is read when first asked for."""

    __slots__ = ("_body", "_data")

    def __init__(self, body: bodies.Delivered) -> None:
        self._body = body
        self._data: Any = _UNREAD

    @property
    def id(self) -> str:
        """Names this event; of a request: the request."""
        return self._body.id

    @property
    def type(self) -> str:
        """Lower-case dotted words."""
        return self._body.type

    @property
    def source(self) -> str:
        """The agent that sent it."""
        return self._body.source

    @property
    def target(self) -> str:
        """Whom it was sent to: an agent, or ``@channel``."""
        return self._body.target

    @property
    def requires_response(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._body.requires_response

    @property
    def response_to(self) -> str | None:
        """The request, or the post of a channel, that it answers; None when it is no answer."""
        return self._body.response_to

    @property
    def run(self) -> str | None:
        """The run that it belongs to."""
        return self._body.run

    @property
    def is_redelivered(self) -> bool:
        """Whether another session, or this one, may have seen it before."""
        return self._body.redelivered

    @property
    def metadata(self) -> dict[str, Any]:
        """Marks beside the data."""
        return dict(_payloads.ANY(self._body.metadata) or {}) if self._body.metadata is not None else {}

    @property
    def raw(self) -> bytes:
        """The data as it came: JSON."""
        return bytes(self._body.data)

    @property
    def data(self) -> Any:
        """The data as plain Python values."""
        if self._data is _UNREAD:
            self._data = _payloads.ANY(self._body.data)
        return self._data

    def into(self, kind: builtins.type[T]) -> T:
        """The data as *kind*; ValueError when it does not fit."""
        value: T = _payloads.decoder(kind)(self._body.data)
        return value

    def __repr__(self) -> str:
        return f"Event({self.type!r} from {self.source!r}, id={self.id!r})"


_UNREAD: Any = object()
