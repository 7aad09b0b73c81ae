"""The NATS server's configuration of the users: a block that stands in any server's file."""

from collections.abc import Iterable
from typing import Any

import msgspec

from unknot_gateway.identity.permissions import permissions
from unknot_gateway.identity.users import User


def authorization(users: Iterable[User], prefix: str) -> str:
    """The block ``authorization``; a NATS configuration may hold JSON, so names need no care."""
    block = {"users": [_entry(user, prefix) for user in users]}
    return "authorization: " + msgspec.json.format(msgspec.json.encode(block), indent=2).decode() + "\n"


def _entry(user: User, prefix: str) -> dict[str, Any]:
    may = permissions(user, prefix)
    known_by = {"nkey": user.nkey} if user.nkey else {"user": user.name, "password": user.secret}
    allowed = {"publish": {"allow": may.publish}, "subscribe": {"allow": may.subscribe}}
    return {**known_by, "permissions": allowed}
