"""Verbs about artifacts, and about what is outside: who can produce, do or hold it."""

import msgspec

from unknot_gateway.core.openwaits import OpenWaits
from unknot_gateway.core.records import Session, Strand
from unknot_gateway.core.resources.holders import ThingKey
from unknot_gateway.core.resources.locks import Locks
from unknot_gateway.core.tables import Tables
from unknot_schemas import bodies, errors, resources
from unknot_schemas.ids import MAIN, OWN_TASK, AgentId, EventId, ExecutionId, StrandId, agent_id
from unknot_schemas.limits import UNITS_MAX

_OfStrand = (
    resources.ArtifactDeclare | resources.ArtifactWithdraw | resources.HolderSet | resources.HolderClear
)
"""What a strand says of itself."""


class Offers:
    """What agents say that they, or others, can make come true."""

    def __init__(self, tables: Tables, openwaits: OpenWaits, locks: Locks) -> None:
        self._t = tables
        self._openwaits = openwaits
        self._locks = locks
        self._artifacts = tables.resources.artifacts
        self._holders = tables.resources.holders

    # -- artifacts

    def declare(self, session: Session, body: resources.ArtifactDeclare, reply_to: str | None) -> None:
        """This strand may produce it; nothing is left to be produced where it is there already."""
        if self._artifacts.data_of(body.id) is not None:
            self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=True))
        elif not self._artifacts.has_room(body.id, self._known(session, body)):
            self._t.over_limit(reply_to, body.id, "too many producers are declared")
        else:
            self._artifacts.declare(body.id, self._strand(session, body, detached=body.detached))
            self._t.receipt(reply_to, bodies.Receipt(True, body.id))

    def withdraw(self, session: Session, body: resources.ArtifactWithdraw, reply_to: str | None) -> None:
        """This strand will not."""
        wanted = self._artifacts.find(body.id)
        strand = self._known(session, body)
        production = wanted.producers.get(strand) if wanted is not None and strand is not None else None
        if production is not None:
            self._artifacts.withdraw(production)
        self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=production is None))

    def publish(self, body: resources.ArtifactPublish, reply_to: str | None) -> None:
        """It is there, once for all; not under a token that is stale."""
        token = body.token
        if token is not None and not self._t.resources.leases.is_good(token.resource, token.token):
            self._locks.refuse_token(reply_to, body.id, token.resource, token.token)
            return
        is_there = self._artifacts.data_of(body.id) is not None
        if not is_there:
            self._t.count("artifacts.published")
            data = msgspec.Raw(bytes(body.data))  # a copy: the message that it came in is let go
            for wait in self._artifacts.publish(body.id, data):
                self._t.resources.touched[wait] = None
            self._reports_over(body.id)
            while self._artifacts.make_room():
                self._t.count("artifacts.forgotten")
        self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=is_there))

    def forget(self, body: resources.ArtifactForget, reply_to: str | None) -> None:
        """It may be produced anew."""
        was_there = self._artifacts.forget(body.id)
        self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=not was_there))

    def wait(self, session: Session, body: resources.ArtifactWait, reply_to: str | None, now: float) -> None:
        """Wait for one."""
        wait = bodies.WaitOpen(
            body.id,
            body.session,
            [bodies.WaitCondition("artifact", body.artifact)],
            execution=body.execution,
            strand=body.strand,
            detached=body.detached,
            run=body.run,
            timeout_s=body.timeout_s,
            cancel_mode=body.cancel_mode,
            reason=body.reason,
        )
        self._openwaits.open(session, wait, reply_to, now)

    def _reports_over(self, name: str) -> None:
        thing = self._holders.find(("artifact", name))
        for report in list(thing.reports.values()) if thing is not None else ():
            self._holders.clear(report)

    # -- outside

    def set(self, session: Session, body: resources.HolderSet, reply_to: str | None, now: float) -> None:
        """Somebody holds it, or can do it, as far as *session* knows. Who cannot be found is nobody: outside."""
        until_s, key = body.until_s, (body.kind, body.id)
        if not 1 <= body.units <= UNITS_MAX or not 0 <= (body.capacity or 0) <= UNITS_MAX:
            self._t.refuse(reply_to, body.id, errors.BAD_UNITS, f"units are 1 to {UNITS_MAX}")
        elif not self._holders.has_room(key, self._holder(session, body, detached=None)):
            self._t.over_limit(reply_to, body.id, "too much is reported of things outside")
        elif body.kind == "artifact" and self._artifacts.data_of(body.id) is not None:
            self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=True))
        else:
            is_over = until_s is not None and not until_s > 0
            strand = self._holder(session, body, detached=None if is_over else body.detached)
            if strand is None:
                self._t.count("holders.unresolved")
            elif is_over:
                self._clear(key, strand)
            else:
                until = now + until_s if until_s is not None else None
                self._holders.set(session, key, strand, body.units, body.capacity, until)
            self._t.receipt(reply_to, bodies.Receipt(True, body.id))

    def clear(self, session: Session, body: resources.HolderClear, reply_to: str | None) -> None:
        """It is so no more."""
        key = (body.kind, body.id)
        was_there = self._clear(key, self._holder(session, body, detached=None))
        if not was_there and body.holder is not None:
            # Its session has ended, or it has several now: whoever was meant, none of them does.
            for strand in self._reported(key, body.holder):
                was_there |= self._clear(key, strand)
        self._t.receipt(reply_to, bodies.Receipt(True, body.id, duplicate=not was_there))

    def _clear(self, key: ThingKey, strand: Strand | None) -> bool:
        thing = self._holders.find(key)
        report = thing.reports.get(strand) if thing is not None and strand is not None else None
        if report is not None:
            self._holders.clear(report)
        return report is not None

    def _reported(self, key: ThingKey, holder: resources.Holder) -> list[Strand]:
        thing = self._holders.find(key)
        meant = (agent_id(holder.agent), holder.execution or MAIN, OWN_TASK)
        strands = thing.reports if thing is not None else ()
        return [each for each in strands if (each.session.name, each.execution, each.id) == meant]

    def _holder(
        self, session: Session, body: resources.HolderSet | resources.HolderClear, *, detached: bool | None
    ) -> Strand | None:
        """The node that is meant; None where nobody can be found. *detached* None: one that is known already."""
        if body.holder is None:
            return (
                self._known(session, body)
                if detached is None
                else self._strand(session, body, detached=detached)
            )
        entry = self._t.sessions.agents.get(AgentId(agent_id(body.holder.agent) or ""))
        if entry is None:
            return None
        execution = ExecutionId(body.holder.execution or MAIN)
        sessions = list(entry.sessions.values()) or ([entry.zero] if entry.zero is not None else [])
        running = [s for s in sessions if EventId(execution) in s.held or (execution, "") in s.strands]
        found = running if execution != MAIN else sessions
        return self._t.waiting.strand(found[0], execution) if len(found) == 1 else None

    def _known(self, session: Session, body: _OfStrand) -> Strand | None:
        return session.strands.get((ExecutionId(body.execution or MAIN), StrandId(body.strand or "")))

    def _strand(self, session: Session, body: _OfStrand, *, detached: bool) -> Strand:
        return self._t.waiting.strand(
            session, ExecutionId(body.execution or MAIN), StrandId(body.strand or ""), detached=detached
        )
