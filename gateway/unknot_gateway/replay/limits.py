"""Bounds of a replay, and why they are what they are."""

from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is malformed: a descriptor is a few hundred bytes."""
LINES_MAX: Final = 1_000_000
"""Lines of one file; all are in memory at once, to be sorted by time."""
MALFORMED_MAX: Final = 1_000
"""Malformed lines that are named one by one; beyond it they are counted."""
SHOWN_MAX: Final = 64
"""Entries of one list in what is printed; the full count stands beside it."""
DRAIN_STEPS: Final = 100_000
"""Steps of the engine between two looks whether suspects are left."""
HEARTBEAT_S: Final = 15.0
"""Between two descriptors of an agent that stays blocked, unless the caller says otherwise."""
HEARTBEATS_VALID: Final = 2
"""A descriptor counts while it is younger than this many heartbeats."""
