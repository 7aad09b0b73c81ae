"""What was said to the gateway and holds on: it is said again when a gateway begins anew, which knows nothing of it.

No I/O. Later words about a thing take the place of earlier ones; what has been unsaid, or whose strand is over, is said
no more.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from unknot_schemas import bodies

STANDING_MAX: Final = 10_000
"""Words kept, oldest first out."""
STANDING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of published artifacts kept, oldest first out."""

Key = tuple[str, ...]
Make = Callable[[str], bodies.Body | None]
"""Makes the body for the session of that token; None: it holds no more."""


class Said(Struct):
    """One of them."""

    verb: str
    make: Make
    weight: int


class Standing:
    """All of them, of one session."""

    def __init__(self) -> None:
        self._said: OrderedDict[Key, Said] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._said)

    def say(self, key: Key, verb: str, make: Make, weight: int = 0) -> None:
        """It holds from now on. *weight*: bytes that it takes."""
        self.unsay(key)
        self._said[key] = Said(verb, make, weight)
        self._weight += weight
        while len(self._said) > STANDING_MAX or self._weight > STANDING_BYTES_MAX:
            self.unsay(next(iter(self._said)))

    def unsay(self, key: Key) -> None:
        """It holds no more."""
        said = self._said.pop(key, None)
        self._weight -= said.weight if said is not None else 0

    def again(self, session: str) -> Iterator[tuple[str, bodies.Body]]:
        """All that holds still, as verbs and bodies, in the order in which it was said."""
        for key, said in list(self._said.items()):
            body = said.make(session)
            if body is None:
                self.unsay(key)
            else:
                yield said.verb, body
