"""Which event types an agent's sessions serve, told to people: near misses, and sessions that differ."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from unknot_gateway.core.records import Agent, Session
from unknot_schemas import bodies, errors
from unknot_schemas.limits import REPORTED_ENTRIES_MAX

_COMPARED_MAX: Final = 32
"""Patterns that a type is compared with, and characters of each: anybody may ask for what nobody serves, often."""
_NAMED_MAX: Final = 3
_SLIP: Final = 2
"""Characters in a row that may differ between what was meant and what was typed."""
_ALL: Final = ">"


def too_many_members(channel: str, found: int, most: int) -> bodies.Error:
    """*channel* has more members than one request may ask."""
    text = f"channel {channel!r} has {found} other members, and one request asks at most {most}"
    return bodies.Error(errors.TOO_LARGE, f"{text}: ask some of them by name, or send to all")


def not_subscribed(agent: Agent, event_type: str) -> bodies.Error:
    """No pool of *agent* serves *event_type*: what it serves instead, and what may have been meant."""
    served = sorted(set(islice(_patterns(agent), _COMPARED_MAX)))
    near = [pattern for pattern in served if _is_near(pattern, event_type)][:_NAMED_MAX]
    hint = "register a handler"
    if near:
        hint = f"did you mean {' or '.join(map(repr, near))}? Else {hint}"
    elif served:
        hint += f"; it serves {', '.join(served[:_NAMED_MAX])}" + (
            " and others" if len(served) > _NAMED_MAX else ""
        )
    text = f"agent {agent.id!r} is there but none of its pools serves {event_type!r}: {hint}"
    return bodies.Error(errors.NOT_SUBSCRIBED, text, {"near": near} if near else None)


def difference(session: Session, network: str) -> bodies.PoolsDiffer | None:
    """What *session* serves and the session before it does not, or the other way; None if they serve the same."""
    others = (
        other for other in session.agent.sessions.values() if other is not session and not other.draining
    )
    other = next(others, None)
    if other is None:
        return None
    own, before = _served(session), _served(other)
    if own == before:
        return None
    more, less = sorted(own - before), sorted(before - own)
    text = (
        f"sessions of agent {session.name!r} serve different types: what only one of them serves waits for that one"
        " alone; two programs may share the name, or a new version is on its way"
    )
    return bodies.PoolsDiffer(
        network,
        session.name,
        session.id,
        other.id,
        more[:REPORTED_ENTRIES_MAX],
        less[:REPORTED_ENTRIES_MAX],
        text,
    )


def _is_near(pattern: str, event_type: str) -> bool:
    """Whether they differ by a slip of the finger, or by their last or first words."""
    one, other = sorted((pattern, event_type), key=len)
    if len(other) > _COMPARED_MAX:
        return False
    if other.startswith(f"{one}.") or other.endswith(f".{one}"):
        return True
    begin = 0
    while begin < len(one) and one[begin] == other[begin]:
        begin += 1
    end = 0
    while end < len(one) - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    return len(other) - begin - end <= _SLIP and begin + end > 0


def _patterns(agent: Agent) -> Iterator[str]:
    return (
        pattern
        for session in agent.sessions.values()
        for pool in session.pools
        for pattern in pool.patterns or ()
    )


def _served(session: Session) -> set[str]:
    return {pattern for pool in session.pools for pattern in (pool.patterns or (_ALL,))}
