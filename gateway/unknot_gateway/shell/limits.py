"""Bounds of the shell, and why they are what they are."""

from typing import Final

INBOX_MAX: Final = 4_096
"""Messages between NATS and an owner task. Full: the subscription waits, and nats-py's own queue fills."""
PENDING_MSGS_MAX: Final = 262_144
"""Messages nats-py keeps for one subscription; beyond it drops the newest (counted; heartbeats cure it)."""
PENDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes nats-py keeps for one subscription."""
BATCH_MAX: Final = 256
"""Messages handled before the timer and the sockets get their turn."""
AFTER_FAILURE_S: Final = 1.0
"""A timer that fails is tried again after this."""
SUBJECT_CACHE_MAX: Final = 8_192
"""Parsed subjects kept for each network; full: forgotten as a whole, then filled again."""
LOG_PAUSE_S: Final = 5.0
"""Between two log lines about the same kind of connection error; all are counted."""
ADDRESSES_MAX: Final = 8_192
"""Sessions whose subjects are kept written; full: forgotten as a whole, then filled again."""

PING_INTERVAL_S: Final = 2
"""A frozen NATS server is noticed after two of these without an answer."""
PINGS_OUTSTANDING_MAX: Final = 2
RECONNECT_WAIT_S: Final = 0.25
LET_GO_S: Final = 0.5
"""For closing a connection that was never open."""
CONNECT_PATIENCE_S: Final = 10.0
"""For the first connection; afterwards the gateway tries for as long as it lives."""
ANOTHER_S: Final = 0.5
"""How long a start waits for the answer of another gateway."""
REBUILD_PAUSE_MAX_S: Final = 2.0
DRAIN_S: Final = 5.0
"""How long a stop waits for what is on its way."""
GC_NEW_OBJECTS: Final = 20_000
"""Between two looks of the cyclic collector at the youngest; the default of 700 looks at every request in flight."""

SERVER_START_S: Final = 10.0
SERVER_STOP_S: Final = 5.0

ROWS_DEFAULT: Final = 1_000
"""Rows of one answer of the api; the total stands beside them."""
ROWS_MAX: Final = 5_000
