"""What all bodies have in common."""

from typing import TYPE_CHECKING, Final

from msgspec import Raw, Struct

NULL: Final = Raw(b"null")

if TYPE_CHECKING:
    MaybeRaw = Raw | None
else:
    MaybeRaw = Raw  # msgspec reads no Raw inside a union; what is absent stays None


class Body(Struct, frozen=True, gc=False, omit_defaults=True):
    """Base of all bodies: immutable, defaults left out of the JSON."""
