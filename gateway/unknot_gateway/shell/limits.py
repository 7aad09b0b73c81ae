"""Bounds of the shell, and why they are what they are."""

from typing import Final

WEIGHT_BYTES: Final = 4_096
"""A message weighs one, and one more for each of these: long ones take longer, and more memory."""
NEVER_BEHIND: Final = 64
"""Messages waiting for an owner of which no account is kept: a few milliseconds of work."""
SHARE: Final = 64
"""Weight that each agent has in one round, in the order of all; the rest of its messages waits behind."""
BACKLOG_MAX: Final = 16_384
"""Weight that one agent may have waiting behind: more than a second of work. Full: its new work is shed."""
INBOX_MAX: Final = 65_536
"""Weight of all that waits behind in one network, 256 MiB at most. The nearer, the less may wait of each agent."""
PRESSED: Final = 4_096
"""Weight waiting behind from which on it is asked how late the gateway hears."""
SENDERS_MAX: Final = 8_192
"""Agents whose excess, or rate, is kept; the oldest is forgotten, or all, then counted anew."""
SHED_ANSWERS_PER_S: Final = 500
"""Shed messages of one agent that are answered; the others are only counted."""
SHED_ANSWERS_MAX: Final = 256
"""Shed messages that are answered in one turn."""
SHED_BODY_MAX: Final = 16 * 1024
"""Bytes of a shed message in which its id is looked for, so that its answer can name it."""
SHED_NAMED_MAX: Final = 100
"""Agents that the counters name, those with most that was shed."""
SHED_NOTICE_S: Final = 5.0
"""Between two notices that name the same agent as over its limit."""
FLOOD_WINDOW_S: Final = 0.5
FLOOD_WEIGHT: Final = 4_096
"""Weight shed within FLOOD_WINDOW_S of which it is said that somebody floods: more than fairness alone should carry."""
FLOOD_PART: Final = 32
"""Whoever has had less than this part of what was shed does not flood."""
NEXT_PART: Final = 8
"""While somebody floods already this part of FLOOD_WEIGHT is enough to say so of the next."""
CROWD_PART: Final = 4
"""Who has sent this part of a street that is used up floods, too."""
STREET_BUDGET: Final = 200
"""Messages of each verb that a gateway hears in a beat of a siege, of all whom it does not hear by themselves."""
BEAT_S: Final = 0.1
CALM_S: Final = 3.0
"""After this without a flooded verb a siege of that agent ends."""
KNOWN_MAX: Final = 20_000
"""Agents heard by themselves in a siege; others are heard by the streets."""
TWINS_MAX: Final = 50_000
"""Copies of messages kept while a siege begins, ends or lets somebody in; beyond it one may be taken twice."""
LOOK_S: Final = 0.5
"""A message to oneself that is not back after this is late; after two of them it is weighed who sends most."""
WEIGH_S: Final = 0.25
"""How long that takes."""
WEIGH_BYTES: Final = 256 * 1024
"""Of fewer bytes nobody floods."""
WEIGH_PART: Final = 4
"""Who has sent this part of them floods."""
SOUNDING_S: Final = 0.1
"""Between two messages to oneself that tell how late the gateway hears."""
PENDING_MSGS_MAX: Final = 262_144
"""Messages nats-py keeps for one subscription; beyond it drops the newest (counted; heartbeats cure it)."""
PENDING_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes nats-py keeps for one subscription."""
BATCH_MAX: Final = 64
"""Messages handled before sockets, timers and other networks get their turn: about 5 ms."""
TURN_S: Final = 0.05
"""The same for messages that take long. Not less: a busy machine would make all turns short, and those cost more."""
AFTER_FAILURE_S: Final = 1.0
"""A timer that fails is tried again after this."""
SUBJECT_CACHE_MAX: Final = 8_192
"""Parsed subjects kept for each network; full: forgotten as a whole, then filled again."""
LOG_PAUSE_S: Final = 5.0
"""Between two log lines about the same kind of connection error; all are counted."""
IDS_KNOWN_MAX: Final = 8_192
"""Ids that need not be looked at letter by letter again, those lately seen."""
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
