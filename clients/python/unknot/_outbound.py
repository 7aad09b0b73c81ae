"""What everything that is sent has in common: checked names, the envelope, the place reserved before."""

import logging
from typing import Any, Final, Literal

from msgspec import Raw

from unknot._asking import RETRY_AFTER_S, bad_id, full, metadata
from unknot._pending import Entry
from unknot._session import Session, encode
from unknot._strands import Strand
from unknot.errors import Refused
from unknot_schemas import bodies
from unknot_schemas import errors as codes
from unknot_schemas.ids import agent_id, is_type

logger = logging.getLogger("unknot")

SUBJECTS_KEPT_MAX: Final = 4_096


class Outbound:
    """The way out of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._subjects: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._warned: set[str] = set()

    def open(self, entry: Entry) -> None:
        """Register *entry*, before it is sent; Cancelled on a closed session, OverLimit when too much is open."""
        self.check_open(1)
        self._session.open_entry(entry)

    def check_open(self, more: int) -> None:
        """Cancelled on a closed session, OverLimit when *more* waits do not fit."""
        self._session.check_alive()
        if self._session.pending.is_full(more):
            raise full()

    def send(self, entry: Entry) -> None:
        """Send what has been registered; over_limit ends it when the way out is full."""
        if not self._session.transport.post(entry.subject, entry.payload, request_id=entry.id):
            error = bodies.Error(
                codes.OVER_LIMIT, "too much waits to be sent", {"retry_after_s": RETRY_AFTER_S}
            )
            self._session.settle_locally(entry, "over_limit", error)

    def envelope(  # noqa: PLR0913  each is a field of the wire
        self,
        strand: Strand,
        id: str,
        data: Raw,
        seconds: float | None,
        patience_s: float | None,
        marks: dict[str, Any] | None,
        group: bodies.Group | None = None,
        *,
        names: str | None = None,
        accepts: str | None = None,
    ) -> bytes:
        """The body of what *strand* sends. *names*: the post that it answers; *accepts*: types that answer it."""
        execution = strand.execution
        return encode(
            bodies.Envelope(
                unknot=1,
                id=id,
                session=self._session.token,
                data=data,
                execution=execution.id,
                strand=strand.id or None,
                detached=strand.detached,
                group=group,
                run=execution.run,
                timeout_s=seconds,
                wait_for_target_s=patience_s,
                metadata=metadata(marks),
                traceparent=execution.traceparent,
                tracestate=execution.tracestate,
                response_to=names,
                accept_uncorrelated=accepts,
            )
        )

    def subject(self, verb: Literal["send", "ask", "request"], target: str, type: str) -> tuple[str, str]:
        """Where *verb* for *target* is sent, and the target without ``agent:``; Refused when either cannot be."""
        key = (verb, target, type)
        known = self._subjects.get(key)
        if known is None:
            channel = target.startswith("@")
            bare = agent_id(target[1:] if channel else target)
            if bare is None or (channel and ":" in target):
                raise bad_id(
                    f"{target!r} cannot name an agent or @channel: letters, digits, - and _, at most 64"
                )
            if not is_type(type):
                raise bad_id(f"{type!r} is no event type: lower-case dotted words, at most 128 characters")
            if len(self._subjects) >= SUBJECTS_KEPT_MAX:
                self._subjects.clear()
            named = f"@{bare}" if channel else bare
            known = self._session.subjects.event(self._session.agent, verb, named, type), named
            self._subjects[key] = known
        return known

    def may_block(self, strand: Strand) -> None:
        """Refused where handlers may not stand still; a warning, once, where that can deadlock."""
        mode = self._session.profile.blocking_waits
        if mode == "allow" or not strand.in_handler:
            return
        if mode == "forbid":
            raise Refused(
                f"agent {self._session.agent}: a handler may not block on others here (blocking_waits='forbid'):"
                " ctx.ask and ctx.defer, or a task of its own",
                code="blocking_waits_forbidden",
                handled="no",
            )
        name = strand.execution.handler
        if strand.execution.serial and name not in self._warned:
            self._warned.add(name)
            logger.warning(
                "agent %s: %s blocks on another agent while it holds the only slot; two such agents that need each"
                " other are a deadlock: concurrency=2, ctx.defer(), or blocking_waits='allow'",
                self._session.agent,
                name,
            )
