"""How work in hand ends: an answer, a promise, or nothing owed."""

from typing import Any

from unknot import _handlers
from unknot._asking import payload
from unknot._running import Work
from unknot._session import Session, encode
from unknot._strands import Strand
from unknot.errors import Refused
from unknot_schemas import bodies
from unknot_schemas import errors as codes


class Answers:
    """Answers for the events that one session holds."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def reply(self, work: Work, data: Any = None, error: bodies.Error | None = None) -> None:
        """Answer *work*; when its handler has returned already, that ends it."""
        session = self._session
        body = encode(
            bodies.Envelope(
                unknot=1, session=session.token, data=payload(data), error=error, done=work.returned
            )
        )
        work.answer = body
        session.transport.post(session.subjects.reply(session.agent, work.event.id), body)
        if work.returned:
            session.running.finish(work)

    def returned(self, work: Work, result: Any) -> None:
        """The handler of *work* has returned *result*."""
        work.returned = True
        if not work.event.requires_response or work.answer is not None:
            self._done(work)
        elif work.is_deferred:
            self._promise(work)
        else:
            try:
                self.reply(work, result)
            except (Refused, TypeError, ValueError) as why:  # its result cannot be sent
                self.reply(work, error=_handlers.failure(why))

    def raised(self, work: Work, why: BaseException) -> None:
        """The handler of *work* has ended by an exception."""
        work.returned = True
        if not work.event.requires_response or work.answer is not None:
            self._done(work)
        else:
            self.reply(work, error=_handlers.failure(why))

    def defer(self, work: Work, by: str | None) -> None:
        """*work* will be answered later, from elsewhere: said when its handler returns, at once by a main loop."""
        if not work.event.requires_response or work.answer is not None:
            raise Refused(f"event {work.event.id} awaits no answer", code=codes.UNKNOWN_REPLY, handled="no")
        work.is_deferred = True
        work.deferred_by = by
        if work.execution.is_main and not work.returned:
            work.returned = True
            self._promise(work)

    def read_on(self, work: Work) -> None:
        """The main loop has read on: what it has not answered it owes still, or a task that it was handed to."""
        if work.returned:
            return
        if work.event.requires_response and work.answer is None:
            self.defer(work, None)
        else:
            work.returned = True
            self._done(work)

    def drop(self, work: Work) -> None:
        """*work* was withdrawn before anybody looked at it."""
        work.returned = True
        self._done(work)

    def check(self, work: Work | None, strand: Strand, id: str) -> Work:
        """*work*, if *strand* may answer it now; Refused when not."""
        if work is None or work.answer is not None:
            known = work is not None or self._session.running.state(id) == "done"
            raise Refused(
                f"event {id} has been answered already" if known else f"event {id} is not held here",
                code=codes.DUPLICATE_REPLY if known else codes.UNKNOWN_REPLY,
                handled="no",
            )
        if strand.detached and not work.is_deferred:
            raise Refused(
                f"event {id}: only its handler's own task and ctx.gather's may answer; call ctx.defer() first",
                code=codes.FOREIGN_REPLY,
                handled="no",
            )
        return work

    def _promise(self, work: Work) -> None:
        session = self._session
        session.post("defer", bodies.Defer(session.token, [work.event.id], work.deferred_by))

    def _done(self, work: Work) -> None:
        session = self._session
        session.post("done", bodies.Done(session.token, [work.event.id]))
        session.running.finish(work)
