"""One wait over things of any kind: requests, asks, artifacts, locks and permits, decisions.

Requests are sent as asks, and the wait names them; the gateway says when so many of its conditions are true that it is
over, and grants all or none. What only this side can see (an ask that was answered before) is no condition any more.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from unknot import _payloads
from unknot._asking import Answer, Request, Waitable, payload, timeout_s
from unknot._come import Come
from unknot._leases import Holds, Lease
from unknot._opening import Opening
from unknot._outbound import Outbound
from unknot._pending import Entry, Several, Wait
from unknot._requests import worst
from unknot._sends import Asked, Sends
from unknot._session import Session
from unknot._strands import Strand
from unknot._things import Acquire, Artifact, Decision
from unknot.errors import HandlerFailed, OverLimit, Refused, WaitFailed, from_outcome
from unknot_schemas import bodies, holds
from unknot_schemas import errors as codes
from unknot_schemas.limits import CONDITIONS_MAX

Branch = Waitable[Any]


class Open(NamedTuple):
    """A wait that is open: what has to be undone when it is over."""

    come: Come
    asked: dict[int, Asked[Any]]
    settles: list[tuple[Asked[Any], Any]]
    own: list[Entry]
    wait: list[Wait]


class Mixed:
    """Such waits of the executions of one session."""

    def __init__(self, session: Session, outbound: Outbound, sends: Sends, opening: Opening) -> None:
        self._session = session
        self._outbound = outbound
        self._sends = sends
        self._opening = opening
        self._loop = asyncio.get_running_loop()

    @property
    def _holds(self) -> Holds:
        return self._session.holds

    async def wait(
        self,
        strand: Strand,
        branches: Sequence[Branch],
        need: int,
        timeout: float | None,
        reason: str | None = None,
    ) -> list[Answer[Any]]:
        """Wait until *need* of *branches* are true, and give those; a Lease among them is the caller's from now on."""
        self._outbound.may_block(strand)
        self._check(branches, need)
        opened = Open(Come(len(branches), need, self._loop.create_future()), {}, [], [], [])
        try:
            self._open(opened, strand, branches, timeout_s(timeout), reason)
            await opened.come.future
            return await self._read(strand, opened, branches)
        except BaseException:
            if opened.come.lease is not None:
                opened.come.lease.release()
            raise
        finally:
            self._undo(opened)

    def _check(self, branches: Sequence[Branch], need: int) -> None:
        n = len(branches)
        if not 1 <= need <= n <= CONDITIONS_MAX:
            raise Refused(
                f"a wait needs 1 to n of its n things, at most {CONDITIONS_MAX}; asked: {need} of {n}",
                code=codes.BAD_REQUEST,
                handled="no",
            )
        if sum(isinstance(branch, Decision) and branch.data is not None for branch in branches) > 1:
            raise Refused(
                "one wait shows one piece of data to those who decide: give it to one decision of them",
                code=codes.BAD_REQUEST,
                handled="no",
            )
        if self._holds.is_full and any(isinstance(branch, Acquire) for branch in branches):
            raise OverLimit("too much is held in this session", code=codes.OVER_LIMIT, handled="no")
        self._outbound.check_open(n + 1)

    # -- open

    def _open(
        self, opened: Open, strand: Strand, branches: Sequence[Branch], seconds: float, reason: str | None
    ) -> None:
        prepared = [
            self._sends.prepare(strand, branch, seconds) if isinstance(branch, Request) else None
            for branch in branches
        ]
        for place, branch in enumerate(branches):
            made = prepared[place]
            if made is not None:
                opened.asked[place], entry = made
                opened.own.append(entry)
            elif isinstance(branch, Asked):
                opened.asked[place] = branch
        opened.come.asked = opened.asked.keys()
        for place, asked in opened.asked.items():
            self._listen(opened, place, asked)
        if opened.come.future.done():
            return
        for entry in opened.own:
            self._opening.send(entry)
        self._send(opened, strand, branches, seconds, reason)

    def _listen(self, opened: Open, place: int, asked: Asked[Any]) -> None:
        if asked.outcome is not None:
            opened.come.answered(place, asked.outcome)
            return
        settle = partial(opened.come.answered, place)
        asked.waiters.append(settle)
        opened.settles.append((asked, settle))

    def _send(
        self, opened: Open, strand: Strand, branches: Sequence[Branch], seconds: float, reason: str | None
    ) -> None:
        come = opened.come
        need, conditions = _left(opened, branches)
        shown = [
            branch.data for branch in branches if isinstance(branch, Decision) and branch.data is not None
        ]

        def settle(outcome: bodies.Outcome) -> None:
            lease = self._lease(wait, strand, conditions, outcome)
            if lease is not None and come.future.done():
                lease.release()  # its waiter is gone, or has enough, and has not run yet
            else:
                come.ended(outcome, lease)

        wait = self._opening.wait(
            strand,
            conditions,
            seconds,
            settle,
            kind=Several,
            need=need,
            reason=reason,
            data=payload(shown[0]) if shown else None,
        )
        assert isinstance(wait, Several)

        def left() -> bodies.WaitOpen:
            nonlocal conditions
            need, conditions = _left(opened, branches)
            body = msgspec.json.decode(wait.payload, type=bodies.WaitOpen)
            return msgspec.structs.replace(body, on=conditions, need=need)

        wait.left = left
        wait.future = come.future
        opened.wait.append(wait)
        self._opening.send(wait)

    def _lease(
        self,
        wait: Wait,
        strand: Strand,
        conditions: Sequence[bodies.WaitCondition],
        outcome: bodies.Outcome,
    ) -> Lease | None:
        fulfilled = outcome.fulfilled
        if fulfilled is None or fulfilled.fencing_token is None:
            return None
        taken = [conditions[index] for index in fulfilled.true if index < len(conditions)]
        granted = [
            holds.ResourceUnits(each.id, "lock" if each.kind == "lock" else "permits", each.units)
            for each in taken
            if each.lease_s is not None
        ]
        return self._holds.granted(wait.id, strand, granted, fulfilled)

    def _undo(self, opened: Open) -> None:
        opened.come.lease = None  # the caller's alone: when that is dropped, nobody can use it
        for asked, settle in opened.settles:
            if settle in asked.waiters:
                asked.waiters.remove(settle)
        for entry in [*opened.wait, *opened.own]:
            self._session.give_up(entry)

    # -- read

    async def _read(self, strand: Strand, opened: Open, branches: Sequence[Branch]) -> list[Answer[Any]]:
        come = opened.come
        true = come.true
        if len(true) < come.need:
            raise self._failure(come)
        answers = []
        for place in true[: come.need]:
            branch = branches[place]
            if isinstance(branch, Artifact):
                value = await self._artifact(strand, branch, come.outcome)
            else:
                value = _value(branch, come, place)
            answers.append(Answer(place, value))
        if come.lease is not None and not any(answer.data is come.lease for answer in answers):
            come.lease.release()  # enough was there without it
        return answers

    async def _artifact(self, strand: Strand, branch: Artifact[Any], outcome: bodies.Outcome | None) -> Any:
        """Its data; what did not fit into one message with others is waited for alone."""
        fulfilled = outcome.fulfilled if outcome is not None else None
        data = fulfilled.artifacts.get(branch.id) if fulfilled is not None else None
        if data is None and outcome is not None and fulfilled is not None and len(fulfilled.true) > 1:
            return (await self.wait(strand, [branch], 1, None))[0].data
        try:
            return _payloads.decoder(branch.into)(data or bodies.NULL)
        except ValueError as why:
            raise HandlerFailed(
                f"artifact {branch.id} does not fit: {why}", code="unreadable_answer", handled="yes"
            ) from why

    def _failure(self, come: Come) -> WaitFailed:
        failures = tuple(from_outcome(come.answers[place]) for place in sorted(come.failed))
        if come.outcome is not None:
            failure = from_outcome(come.outcome)
            failure.failures = failures
            return failure
        return worst(failures)


def _left(opened: Open, branches: Sequence[Branch]) -> tuple[bodies.Need, list[bodies.WaitCondition]]:
    """What is still to come: how much, and of what; the places of that are what the gateway's word counts by."""
    come = opened.come
    come.wire = [place for place in range(come.n) if place not in come.answers]
    need = come.need - len(come.replied)
    conditions = [_condition(branches[place], opened.asked.get(place)) for place in come.wire]
    return "all" if need == len(conditions) else need, conditions


def _condition(branch: Branch, asked: Asked[Any] | None) -> bodies.WaitCondition:
    if asked is not None:
        return bodies.WaitCondition("reply", asked.id)
    if isinstance(branch, Artifact | Acquire | Decision):
        return branch.condition()
    raise TypeError(
        f"{branch!r} is nothing that can be waited for: ctx.request, ctx.artifact, ctx.acquire, …"
    )


def _value(branch: Branch, come: Come, place: int) -> Any:
    if isinstance(branch, Request):
        return branch.read(come.answers[place])
    if isinstance(branch, Asked):
        return branch.request.read(come.answers[place])
    if isinstance(branch, Acquire):
        return come.lease
    return True  # a decision that is no would be no branch that has come true
