"""Who waits for which Receipt: one inbox for all of them, a subject of it for each."""

import secrets
from collections.abc import Callable

import msgspec

from unknot.errors import WaitFailed
from unknot_schemas import bodies

Answer = Callable[[bytes | None], None]
"""Takes a Receipt; None: nobody listens there."""


class Calls:
    """The open calls of one connection. *made*: how many there have been."""

    def __init__(self, agent: str) -> None:
        self.inbox = f"_INBOX.{agent}.{secrets.token_urlsafe(16)}"
        self.made = 0
        self._open: dict[str, tuple[int, str, Answer]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, subject: str, answer: Answer) -> str:
        """The place in the inbox for the answer to what is sent to *subject*."""
        self.made += 1
        inbox = f"{self.inbox}.{self.made:x}"
        self._open[inbox] = (self.made, subject, answer)
        return inbox

    def forget(self, inbox: str) -> None:
        """No answer is wanted there any more."""
        self._open.pop(inbox, None)

    def answer(self, inbox: str, receipt: bytes | None) -> None:
        """Hand *receipt* to whoever waits there, if somebody does."""
        call = self._open.pop(inbox, None)
        if call is not None:
            call[2](receipt)

    def refuse(self, subject: str, up_to: int, why: WaitFailed) -> int:
        """Answer the first *up_to* calls, as far as they are open and go to *subject* (lower case), with a refusal.

        How many those were.
        """
        receipt = msgspec.json.encode(bodies.Receipt(False, error=bodies.Error(why.code, why.message)))
        refused = [
            inbox
            for inbox, (number, asked, _) in self._open.items()
            if number <= up_to and len(asked) == len(subject) and asked.lower() == subject
        ]
        for inbox in refused:
            self.answer(inbox, receipt)
        return len(refused)

    def close(self) -> None:
        """Nobody answers any more."""
        for inbox in list(self._open):
            self.answer(inbox, None)
