"""How a wait begins: its place is reserved, then it is sent; what the gateway refuses ends it."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from unknot._outbound import Outbound
from unknot._pending import Entry, Settle, Wait
from unknot._session import Session, encode
from unknot._strands import Strand
from unknot_schemas import bodies
from unknot_schemas import errors as codes

_receipt: Final = msgspec.json.Decoder(bodies.Receipt).decode


class Opening:
    """Waits of one session, on their way to the gateway."""

    def __init__(self, session: Session, outbound: Outbound) -> None:
        self._session = session
        self._outbound = outbound
        self._subject = session.subjects.verb(session.agent, "wait.open")

    def wait(  # noqa: PLR0913  each is a field of the wire
        self,
        strand: Strand,
        conditions: Sequence[bodies.WaitCondition],
        seconds: float,
        settle: Settle,
        *,
        kind: type[Wait] = Wait,
        need: bodies.Need = "all",
        reason: str | None = None,
        cancel_mode: bodies.CancelMode = "interruptible",
        data: Raw | None = None,
    ) -> Wait:
        """A wait of *strand* for *need* of *conditions*; neither registered nor sent."""
        session = self._session
        id = session.new_id()
        body = bodies.WaitOpen(
            id,
            session.token,
            list(conditions),
            execution=strand.execution.id,
            strand=strand.id or None,
            detached=strand.detached,
            run=strand.execution.run,
            timeout_s=seconds,
            need=need,
            reason=reason,
            cancel_mode=cancel_mode,
            data=data,
        )
        target = ", ".join(f"{condition.kind} {condition.id}" for condition in conditions[:8])
        at = session.deadline_at(seconds)
        return kind(id, self._subject, encode(body), settle, deadline_at=at, strand=strand, target=target)

    def send(self, entry: Entry) -> None:
        """Register *entry*, then send it; a refusal ends it."""
        self._outbound.open(entry)

        def receipt(answer: bytes | None) -> None:
            read = _receipt(answer) if answer is not None else None
            if read is not None and not read.ok:
                error = read.error or bodies.Error(codes.BAD_REQUEST, "refused without a reason")
                session = self._session
                session.pending.settle(bodies.Outcome(entry.id, "refused", "no", session.epoch, error=error))

        self._session.transport.ask(entry.subject, entry.payload, receipt)
