"""Bounds that both sides of the wire keep. Bounds of the gateway alone live in ``unknot_gateway.core.limits``."""

from typing import Final

PROTOCOL: Final = 1

ID_CHARS_MAX: Final = 64
"""Ids of agents, messages, sessions, executions, strands, groups and runs."""
TYPE_CHARS_MAX: Final = 128
"""Event types: lower-case dotted words."""
PREFIX_CHARS_MAX: Final = 64
CONDITION_ID_CHARS_MAX: Final = 256
"""Ids of things outside the id alphabet: artifacts, locks, tools."""
DATA_BYTES_MAX: Final = 512 * 1024
"""One body; half of NATS's default payload, so that what the gateway adds always fits."""
SUBJECT_BYTES_MAX: Final = 1024
"""NATS closes a connection for good over its 4 KB control line; subject and reply subject share it."""
METADATA_BYTES_MAX: Final = 16 * 1024
NESTING_MAX: Final = 500
"""Levels of JSON nesting; deeper input is refused before a decoder's own recursion limit decides."""
CHANNELS_MAX: Final = 64
"""Channels of one session."""
POOLS_MAX: Final = 64
"""Pools of one session."""
POOL_TYPES_MAX: Final = 256
"""Type patterns of one pool."""
SLOTS_MAX: Final = 100_000
NAMED_IDS_MAX: Final = 3_072
"""Ids in each list of a hello, heartbeat, done, defer or facts: all lists together fit into one body. What is beyond is
named when there is room; a list that is full says nothing about what it leaves out."""
GROUP_MEMBERS_MAX: Final = 1_024
CONDITIONS_MAX: Final = 1_024
"""Conditions of one wait."""

TIMEOUT_DEFAULT_S: Final = 60.0
"""Of a wait that names none, or none that can be read."""
TIMEOUT_MAX_S: Final = 3600.0
SEND_TIMEOUT_DEFAULT_S: Final = 60.0
"""How long a one-way event waits for a slot."""
CLIENT_GRACE_S: Final = 1.0
"""A client settles a wait by its own clock this long after the gateway's deadline."""
WAIT_FOR_TARGET_DEFAULT_S: Final = 5.0
"""The client's default patience for a target that is not there yet; the gateway's own is 0."""
HEARTBEAT_DEFAULT_S: Final = 5.0
HEARTBEAT_MIN_S: Final = 0.5
HEARTBEAT_MAX_S: Final = 60.0
SESSION_LOSS_S: Final = 30.0
"""Silence after which a session is lost."""
DISCONNECT_GRACE_S: Final = 1.0
"""Silence after which a session is lost whose connection has ended, where the gateway hears of that."""
REPORTED_ENTRIES_MAX: Final = 64
"""Entries of each list in a deadlock event; full counts stand beside them."""

LEASE_DEFAULT_S: Final = 30.0
"""Of a hold whose lease is not named, or cannot be read."""
LEASE_MIN_S: Final = 1.0
LEASE_MAX_S: Final = 3600.0
UNITS_MAX: Final = 1_000_000_000
"""Units of one condition, and permits of one pool."""
