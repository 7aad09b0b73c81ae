"""How things fail, as types with fields.

UnknotError
  WaitFailed             a request or a wait ended without its answer
    DeadlockDetected     it can never end: what it waits for waits, in a cycle, for its waiter
    WaitExpired          its time ran out; ``chain`` says what it really hung on
    HandlerFailed        the other side's handler raised, or returned without an answer
    Unreachable          nobody is there to take it
    ResponderLost        who had taken it is gone
    Refused              it is not allowed, or names something that cannot be
    Cancelled            it was withdrawn
    OverLimit            a bound was reached; try again after ``retry_after_s``
    Denied               who was asked for approval has said no; ``reason``
    LeaseLost            what was held is held no more: its lease was over before it was given back
"""

from typing import Any, Literal

from unknot_schemas import bodies
from unknot_schemas import errors as codes

Handled = Literal["no", "maybe", "yes"]


class UnknotError(Exception):
    """Base of everything that this package raises on purpose."""


class WaitFailed(UnknotError):
    """A request or wait ended without its answer.

    *handled*: "no" = never delivered, "yes" = answered or reported running, "maybe" = delivered, else unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        request_id: str | None = None,
        handled: Handled = "maybe",
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.request_id = request_id
        self.handled = handled
        self.detail = detail or {}
        self.failures: tuple[WaitFailed, ...] = ()
        """Of a group: how each branch that failed has failed, in the order of its requests."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (type(self), self.message, self.__dict__))


def _rebuilt(cls: type[WaitFailed], message: str, fields: dict[str, Any]) -> WaitFailed:
    failure = cls(message)
    failure.__dict__.update(fields)
    return failure


class DeadlockDetected(WaitFailed):
    """The wait can never end: what it waits for waits, in a cycle, for its waiter."""

    @property
    def cycle(self) -> tuple[str, ...]:
        """Agents, each waiting for the next; the first one is also the last."""
        return tuple(map(str, self.detail.get("cycle", ())))

    @property
    def request_ids(self) -> tuple[str, ...]:
        """The requests that make the cycle."""
        return tuple(map(str, self.detail.get("request_ids", ())))

    @property
    def incident(self) -> str:
        """Names this deadlock in logs, notices and queries."""
        return str(self.detail.get("incident", ""))

    @property
    def victim(self) -> str | None:
        """The one member that was failed so that the others go on; None when that is not the policy."""
        return self.detail.get("victim")

    @property
    def remedy(self) -> str:
        """What to change so that it does not come again."""
        return str(self.detail.get("remedy", ""))

    def __str__(self) -> str:
        who = "" if self.message and " -> " in self.message else f"deadlock: {' -> '.join(self.cycle)}"
        cure = "" if self.remedy in self.message else self.remedy
        return "; ".join(part for part in (who, self.message, cure) if part)


class WaitExpired(WaitFailed):
    """The time of the wait ran out."""

    @property
    def chain(self) -> tuple[str, ...]:
        """What it really hung on, readable, nearest first; empty when only the own clock knows."""
        return tuple(map(str, self.detail.get("chain", ())))


class HandlerFailed(WaitFailed):
    """The handler raised, could not read the data, or returned without an answer (``code``)."""

    @property
    def type(self) -> str:
        """Name of the exception's type on the other side; empty when there was none."""
        return str(self.detail.get("type", ""))


class Unreachable(WaitFailed):
    """No live session of the target, or no gateway."""


class ResponderLost(WaitFailed):
    """The session that had taken the request has ended; ``handled`` says what is known."""


class Refused(WaitFailed):
    """Not allowed, or it names something that cannot be; nothing was done (``code``)."""


class Cancelled(WaitFailed):
    """Withdrawn: by its group, by an operator, or because the connection was closed."""


class OverLimit(WaitFailed):
    """A bound was reached; nothing was done."""

    @property
    def retry_after_s(self) -> float:
        """When to try again, in seconds."""
        return float(self.detail.get("retry_after_s", 1.0))


class Denied(WaitFailed):
    """Who was asked for approval has said no."""

    @property
    def reason(self) -> str:
        """Why, as they said it; empty when they said nothing."""
        return str(self.detail.get("reason") or ("" if self.message == self.code else self.message))


class LeaseLost(WaitFailed):
    """A lock or permit is held no more; another may hold it since, with a higher token."""

    @property
    def token(self) -> int:
        """The fencing token that counts no more; 0 when not known."""
        return int(self.detail.get("token", 0))


_KINDS: dict[str, type[WaitFailed]] = {
    "failed": HandlerFailed,
    "deadlock": DeadlockDetected,
    "expired": WaitExpired,
    "unreachable": Unreachable,
    "responder_lost": ResponderLost,
    "refused": Refused,
    "cancelled": Cancelled,
    "over_limit": OverLimit,
    "denied": Denied,
    codes.NOT_HELD: LeaseLost,
    codes.STALE_TOKEN: LeaseLost,
}


def from_outcome(outcome: bodies.Outcome) -> WaitFailed:
    """The failure that *outcome* tells of; it must be one."""
    error = outcome.error or bodies.Error(outcome.outcome, outcome.outcome)
    return _KINDS.get(outcome.outcome, WaitFailed)(
        error.message,
        code=error.code,
        request_id=outcome.request_id,
        handled=outcome.handled,
        detail=error.detail,
    )


def from_receipt(receipt: bodies.Receipt, request_id: str | None = None) -> WaitFailed:
    """The failure that a Receipt with ``ok: false`` tells of."""
    error = receipt.error or bodies.Error(codes.BAD_REQUEST, "refused without a reason")
    kind = _KINDS.get(error.code, Refused)
    return kind(
        error.message,
        code=error.code,
        request_id=receipt.id or request_id,
        handled="no",
        detail=error.detail,
    )
