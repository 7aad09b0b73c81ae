"""From a line of a recording to what it says: a descriptor of an agent, or a fact about who owns what."""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from unknot_gateway.replay.limits import LINE_BYTES_MAX
from unknot_gateway.replay.malformed import Malformed
from unknot_gateway.replay.times import Clock

Kind = Literal["agent", "artifact", "lock", "tool", "human"]
OUTSIDE: Final = frozenset[Kind]({"tool", "human"})
"""Kinds that somebody outside ends: never an edge."""


class Target(Struct, frozen=True, order=True):
    """What is waited for."""

    kind: Kind
    id: str


class Blocked(Struct, frozen=True):
    """*agent* stands still in *run*. *since*: when that began, None: not said; *deadline_at*: when it gives up."""

    at: int
    agent: str
    run: str
    target: Target
    since: int | None
    deadline_at: int | None


class Unblocked(Struct, frozen=True):
    """*agent* waits for nothing in *run*."""

    at: int
    agent: str
    run: str


class Produces(Struct, frozen=True):
    """*agent* owns a task that produces *artifact*."""

    at: int
    agent: str
    artifact: str


class Holds(Struct, frozen=True):
    """*agent* holds *lock*, until its lease ends."""

    at: int
    agent: str
    lock: str
    until: int | None


class Released(Struct, frozen=True):
    """*agent* holds *lock* no more."""

    at: int
    agent: str
    lock: str


class Gone(Struct, frozen=True):
    """The process of *agent* is lost, with what it held."""

    at: int
    agent: str


Said = Blocked | Unblocked | Produces | Holds | Released | Gone


class _On(Struct):
    kind: Kind
    id: str
    since: str | None = None
    wait_deadline: str | None = None


class _Produces(Struct):
    agent: str
    artifact: str


class _Holds(Struct):
    agent: str
    lock: str
    until: str | None = None


class _Released(Struct):
    agent: str
    lock: str


class _Gone(Struct):
    agent: str


class _Line(Struct):
    at: str
    run_id: str = ""
    agent: str | None = None
    blocked_on: _On | msgspec.UnsetType | None = msgspec.UNSET
    produces: _Produces | msgspec.UnsetType = msgspec.UNSET
    holds: _Holds | msgspec.UnsetType = msgspec.UNSET
    released: _Released | msgspec.UnsetType = msgspec.UNSET
    gone: _Gone | msgspec.UnsetType = msgspec.UNSET


_decode: Final = msgspec.json.Decoder(_Line).decode
_KEYS: Final = ("blocked_on", "produces", "holds", "released", "gone")


def read(line: bytes, clock: Clock) -> Said:
    """What *line* says; Malformed when that cannot be said."""
    if len(line) > LINE_BYTES_MAX:
        raise Malformed(f"longer than {LINE_BYTES_MAX} bytes")
    try:
        said = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
    if sum(getattr(said, key) is not msgspec.UNSET for key in _KEYS) != 1:
        raise Malformed(f"exactly one of {', '.join(_KEYS)} says what it is about")
    return _said(said, clock)


def _said(line: _Line, clock: Clock) -> Said:
    at = clock.at(line.at)
    if line.produces is not msgspec.UNSET:
        return Produces(at, _name(line.produces.agent), line.produces.artifact)
    if line.holds is not msgspec.UNSET:
        until = clock.beside(line.holds.until, at) if line.holds.until is not None else None
        return Holds(at, _name(line.holds.agent), line.holds.lock, until)
    if line.released is not msgspec.UNSET:
        return Released(at, _name(line.released.agent), line.released.lock)
    if line.gone is not msgspec.UNSET:
        return Gone(at, _name(line.gone.agent))
    if line.agent is None:
        raise Malformed("blocked_on needs the agent that it is about")
    agent, on = _name(line.agent), line.blocked_on
    if on is None:
        return Unblocked(at, agent, line.run_id)
    assert on is not msgspec.UNSET, "one of the keys is there"
    return Blocked(
        at,
        agent,
        line.run_id,
        Target(on.kind, _name(on.id) if on.kind == "agent" else on.id),
        clock.since(on.since, at) if on.since is not None else None,
        clock.beside(on.wait_deadline, at) if on.wait_deadline is not None else None,
    )


def _name(raw: str) -> str:
    return raw.removeprefix("agent:")
