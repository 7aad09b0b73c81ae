"""Error codes of the wire. Each says what happened; the message says to whom and what to do now."""

from typing import Final

# Input that cannot be read or is not allowed: nothing was touched.
BAD_REQUEST: Final = "bad_request"
BAD_ID: Final = "bad_id"
TOO_LARGE: Final = "too_large"
UNKNOWN_VERB: Final = "unknown_verb"
NOT_PERMITTED: Final = "not_permitted"
"""The NATS user may not do that."""
PROTOCOL_UNKNOWN: Final = "protocol_unknown"

# Sessions.
SESSION_REQUIRED: Final = "session_required"
STALE_SESSION: Final = "stale_session"
UNKNOWN_SESSION: Final = "unknown_session"
SESSION_USED: Final = "session_used"

# Requests and events.
ID_CONFLICT: Final = "id_conflict"
NOT_SUBSCRIBED: Final = "not_subscribed"
DEPTH_LIMIT: Final = "depth_limit"
OVER_LIMIT: Final = "over_limit"
UNREACHABLE: Final = "unreachable"
NO_ANSWER: Final = "no_answer"
NO_READER: Final = "no_reader"
HANDLER_FAILED: Final = "handler_failed"
RESPONDER_LOST: Final = "responder_lost"
DEADLOCK: Final = "deadlock"
EXPIRED: Final = "expired"
CANCELLED: Final = "cancelled"
OUTCOME_FORGOTTEN: Final = "outcome_forgotten"
GATEWAY_STOPPED: Final = "gateway_stopped"
GROUP_CONFLICT: Final = "group_conflict"

# Replies that change nothing: the Receipt says which.
LATE_REPLY: Final = "late_reply"
FOREIGN_REPLY: Final = "foreign_reply"
UNKNOWN_REPLY: Final = "unknown_reply"
DUPLICATE_REPLY: Final = "duplicate_reply"
STALE_REPLY: Final = "stale_reply"
PUB_ACK: Final = "pub_ack"

# Waits.
UNKNOWN_WAIT: Final = "unknown_wait"
STALE_GENERATION: Final = "stale_generation"

# Resources.
UNKNOWN_POOL: Final = "unknown_pool"
OVER_CAPACITY: Final = "over_capacity"
BAD_UNITS: Final = "bad_units"
NOT_HELD: Final = "not_held"
STALE_TOKEN: Final = "stale_token"
UNKNOWN_APPROVAL: Final = "unknown_approval"
DENIED: Final = "denied"

OUTCOMES: Final = (
    "reply",
    "failed",
    "deadlock",
    "expired",
    "unreachable",
    "responder_lost",
    "refused",
    "cancelled",
    "over_limit",
    "granted",
    "produced",
    "approved",
    "denied",
)
"""How a blocking request or a wait ends; each ends in exactly one. The last four: waits only."""
