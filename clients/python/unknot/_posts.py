"""Posts of channels: what names which, and what is kept of the answers to own posts. No I/O.

Each event of a channel is one of three: a plain post; a reply, which names a post; a reaction, which names a post and
whose type says so.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from unknot_schemas import bodies
from unknot_schemas.ids import matches

Fits = Callable[[bodies.Delivered], bool]

KEPT_MAX: Final = 1_024
"""Replies and reactions kept for one post that nobody has waited for yet; what comes then is dropped and counted."""
REACTION: Final = "reaction"
"""First word of the type of every reaction."""
REPLY: Final = "reply"
"""Last word of the type of every reply made here."""


class Post:
    """A post made here. As long as the program keeps it, what answers it is kept until it is waited for."""

    __slots__ = ("__weakref__", "_kept", "channel", "id", "type")

    def __init__(self, id: str, channel: str, type: str) -> None:
        self.id = id
        self.channel = channel
        self.type = type
        self._kept: deque[bodies.Delivered] = deque()

    def _keep(self, event: bodies.Delivered) -> bool:
        """Keep a reply or reaction that came before anybody waited for it; False when there are too many."""
        if len(self._kept) >= KEPT_MAX:
            return False
        self._kept.append(event)
        return True

    def _take(self, fits: Fits) -> bodies.Delivered | None:
        """The first kept one that *fits*, which is kept no longer; None when there is none."""
        for event in self._kept:
            if fits(event):
                self._kept.remove(event)
                return event
        return None

    def __repr__(self) -> str:
        return f"Post({self.type!r} in {self.channel!r}, id={self.id!r})"


def is_reaction(event: bodies.Delivered) -> bool:
    """Whether *event* is a reaction to what it names."""
    return event.response_to is not None and event.type.startswith(f"{REACTION}.")


def plain(channel: str, pattern: str, source: str | None) -> Fits:
    """Posts of *channel* of this type that name no other."""

    def fits(event: bodies.Delivered) -> bool:
        return _is_of(event, channel, source) and event.response_to is None and matches(pattern, event.type)

    return fits


def replies(channel: str, post: str, source: str | None) -> Fits:
    """What names *post* and is no reaction."""

    def fits(event: bodies.Delivered) -> bool:
        return _is_of(event, channel, source) and event.response_to == post and not is_reaction(event)

    return fits


def reactions(channel: str, post: str, reaction: str, source: str | None) -> Fits:
    """Reactions to *post* that fall under the pattern *reaction*."""

    def fits(event: bodies.Delivered) -> bool:
        names_it = _is_of(event, channel, source) and event.response_to == post
        return names_it and matches(f"{REACTION}.{reaction}", event.type)

    return fits


def reply_type(post_type: str) -> str:
    """The type of a reply to a post: a reply to a reply has the same."""
    return post_type if post_type.endswith(f".{REPLY}") else f"{post_type}.{REPLY}"


def _is_of(event: bodies.Delivered, channel: str, source: str | None) -> bool:
    return event.target == f"@{channel}" and not event.requires_response and source in (None, event.source)
