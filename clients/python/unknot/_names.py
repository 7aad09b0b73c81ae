"""Names that a program gives: checked when it is written down, not when it is first sent."""

import os
from collections.abc import Sequence

from unknot_schemas import Subjects
from unknot_schemas.ids import agent_id, is_id, is_pattern
from unknot_schemas.limits import CHANNELS_MAX
from unknot_schemas.subjects import DEFAULT_NETWORK, DEFAULT_PREFIX

INSTANCE_CHARS_MAX = 128
DEFAULT_URL = "nats://127.0.0.1:4222"


def agent_name(name: str) -> str:
    """*name* without an ``agent:`` prefix; ValueError when it can name no agent."""
    bare = agent_id(name)
    if bare is None:
        raise ValueError(
            f"{name!r} cannot name an agent: letters, digits, - and _, at most 64; not 'gateway'"
        )
    return bare


def channel_name(name: str) -> str:
    """*name* without ``@``; ValueError when it can name no channel."""
    return agent_name(name.removeprefix("@"))


def channel_names(names: Sequence[str]) -> tuple[str, ...]:
    """*names* without ``@``; ValueError for what can be no channel, or too many."""
    if len(names) > CHANNELS_MAX:
        raise ValueError(f"at most {CHANNELS_MAX} channels; got {len(names)}")
    return tuple(map(channel_name, names))


def topic_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """*patterns*, each an event type or NATS pattern; ValueError for any other."""
    for pattern in patterns:
        if not is_pattern(pattern):
            raise ValueError(f"{pattern!r} is no event type or pattern: lower-case dotted words, * and >")
    return tuple(patterns)


def instance_name(name: str | None) -> str | None:
    """*name*; ValueError for an empty one: all processes that have it would replace one another."""
    if name is not None and not (name and len(name) <= INSTANCE_CHARS_MAX):
        raise ValueError(f"an instance has a name of 1 to {INSTANCE_CHARS_MAX} characters; got {name!r}")
    return name


def subjects_of(network: str | None) -> Subjects:
    """Of *network*, else UNKNOT_NETWORK, else ``default``; ValueError when it can name none."""
    name = network or os.environ.get("UNKNOT_NETWORK") or DEFAULT_NETWORK
    if not is_id(name):
        raise ValueError(f"{name!r} cannot name a network: letters, digits, - and _, at most 64")
    return Subjects(name, os.environ.get("UNKNOT_PREFIX") or DEFAULT_PREFIX)


def server_url(given: str | None, otherwise: str | None = None) -> str:
    """*given*, else UNKNOT_URL, NATS_URL, *otherwise*, the local server; several are parted by commas."""
    named = given or os.environ.get("UNKNOT_URL") or os.environ.get("NATS_URL")
    return named or otherwise or DEFAULT_URL
