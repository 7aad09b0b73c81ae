"""Who takes whose place: a process that ends because it was replaced was replaced by a younger one."""

from typing import Final

from msgspec import Struct, json

REPLACED: Final = "has taken the place of this one"
"""What a client rightly logs as an error."""


class _Hello(Struct):
    session: str
    resume: bool = False


_hello: Final = json.Decoder(_Hello).decode


class Successors:
    """The hellos of one run."""

    def __init__(self) -> None:
        self._hellos = 0
        self._process: dict[str, str] = {}
        """By session: who said hello under it first."""
        self._first: dict[str, tuple[str, int]] = {}
        """By process: its first session, and the number of its first hello."""
        self._last: dict[str, int] = {}
        """By session: the number of its last hello that resumed nothing."""
        self._resumed: set[str] = set()

    def greeted(self, process: str, payload: bytes) -> None:
        """*process* says hello."""
        hello = _hello(payload)
        self._hellos += 1
        self._process.setdefault(hello.session, process)
        self._first.setdefault(process, (hello.session, self._hellos))
        if hello.resume:
            self._resumed.add(hello.session)
        else:
            self._last[hello.session] = self._hellos

    def fault(self, process: str, session: str, by: str) -> str | None:
        """Why *by* must not have taken the place of the *session* of *process*; None where it may.

        The elder may where it had not been welcomed before the younger came, and where both have resumed: then nobody
        knows who is younger.
        """
        successor = self._process.get(by)
        if successor is None:
            return f"{process} was replaced by {by}, which nobody is"
        if _number(successor) > _number(process) or {session, by} <= self._resumed:
            return None
        first, _ = self._first[successor]
        if first == by and self._last[by] > self._first[process][1]:
            return None
        return f"{process} was replaced by its elder {successor}"


def _number(process: str) -> int:
    return int(process.rpartition("#")[2])
