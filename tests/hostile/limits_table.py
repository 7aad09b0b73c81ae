"""The one table of limits: every bound of the gateway, its value, and what happens when it is reached.

python -m tests.hostile.limits_table        writes it into docs/operating.md
"""

import ast
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from unknot_gateway.core.limits import Limits
from unknot_gateway.shell import limits as shell
from unknot_schemas import limits as wire

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
BEGIN: Final = "<!-- limits: written by python -m tests.hostile.limits_table -->"
END: Final = "<!-- end of limits -->"

OVER_LIMIT: Final = "`over_limit` with `retry_after_s`"
TOO_LARGE: Final = "refused, `too_large`"
BAD_ID: Final = "refused, `bad_id`"
BAD: Final = "refused, `bad_request`"
HELD: Final = "held to it; the Receipt says what holds"
LEASED: Final = "held to it; the Outcome `granted`, or the Receipt of a renewal, says what holds"

REACHED: Final[dict[str, str]] = {
    # of one network, in the core
    "messages_max": f"{OVER_LIMIT} for what comes then. Setting `messages_max`",
    "open_per_session_max": f"{OVER_LIMIT} for that session alone",
    "queue_max": f"{OVER_LIMIT} for what is sent to that agent",
    "agents_max": f"{OVER_LIMIT} for hello, and for names not seen before. Setting `agents_max`",
    "sessions_max": f"{OVER_LIMIT} for a further hello of that agent",
    "ended_connections_max": "the oldest is forgotten; heartbeats cure it",
    "tokens_max": "the oldest is forgotten",
    "claims_max": "what is beyond is not taken as held; heartbeats name it again",
    "parked_replies_max": "the oldest is dropped and counted; its request is delivered again",
    "parked_bytes_max": "the same",
    "asks_again_max": "a delivered request that heartbeats go on omitting is `failed`, `no_answer`",
    "late_pairs_max": f"{OVER_LIMIT} for a further such request",
    "remembered_max": "the oldest id is forgotten: sent again, it is new",
    "kept_bytes_max": "the oldest body is dropped: asked for again, `outcome_forgotten`",
    "void_max": "the oldest is forgotten",
    "depth_max": "refused, `depth_limit`",
    "groups_max": f"{OVER_LIMIT} for a further group",
    "held_events_bytes_max": f"{OVER_LIMIT} for what comes then. Setting `bytes_max`",
    "members_asked_max": f"{TOO_LARGE}, for a request to that channel: ask some by name, or send to all",
    "routes_max": "the cache of that agent starts anew",
    "uncorrelated_max": f"{OVER_LIMIT} for a further such request of that agent",
    "expect_search_max": "what lies deeper in the queue is not found for an `expect` opened later",
    "incidents_max": "further suspicions wait for the sweep",
    "decisions_max": "the oldest is forgotten",
    "chain_max": "the chain of an explanation ends there",
    "pools_max": f"{OVER_LIMIT} for a further pool",
    "holds_max": f"{OVER_LIMIT} for a further wait for a lock or permits; what waits already is granted",
    "asks_max": f"{OVER_LIMIT} for a further wait for a lock or permits",
    "productions_max": f"{OVER_LIMIT} for a further producer",
    "artifacts_max": "the oldest is forgotten, and counted",
    "artifact_bytes_max": "the oldest is forgotten, and counted",
    "approvals_max": f"{OVER_LIMIT} for a further approval",
    "reports_max": f"{OVER_LIMIT} for a further report",
    "grants_max": "the others follow between messages",
    "verdict_waits": "the other waits are left out of the verdicts, and what rests on them is not judged",
    "verdict_links": "what rests on the others is not judged",
    "livelock_decisions": "that cycle of agents is a LIVELOCK",
    "livelock_window_s": "decisions before it do not count towards a LIVELOCK",
    "cycles_max": "the oldest is forgotten",
    "requests_per_s": f"{OVER_LIMIT} for that agent's new work, before it is read. Setting `requests_per_s`",
    "check_steps": "the check goes on between messages: never a verdict",
    "due_max": "the other deadlines follow between messages",
    "steps_max": "the others follow between messages",
    "sweep_waits": "sweeps are more seldom, in proportion",
    "drain_steps": "the rest follows between messages",
    # on the wire
    "ID_CHARS_MAX": BAD_ID,
    "TYPE_CHARS_MAX": BAD_ID,
    "PREFIX_CHARS_MAX": "the gateway does not start",
    "CONDITION_ID_CHARS_MAX": BAD_ID,
    "DATA_BYTES_MAX": TOO_LARGE,
    "SUBJECT_BYTES_MAX": f"{BAD_ID}; a reply subject over half of it is not answered",
    "METADATA_BYTES_MAX": TOO_LARGE,
    "NESTING_MAX": BAD,
    "CHANNELS_MAX": TOO_LARGE,
    "POOLS_MAX": TOO_LARGE,
    "POOL_TYPES_MAX": TOO_LARGE,
    "SLOTS_MAX": BAD,
    "NAMED_IDS_MAX": f"{TOO_LARGE}; what does not fit is named by the next heartbeat",
    "GROUP_MEMBERS_MAX": "refused, `group_conflict`",
    "CONDITIONS_MAX": TOO_LARGE,
    "UNITS_MAX": "refused, `bad_units`",
    "LEASE_MIN_S": LEASED,
    "LEASE_MAX_S": LEASED,
    "TIMEOUT_MAX_S": HELD,
    "HEARTBEAT_MIN_S": "held to it; the answer to hello says what holds",
    "HEARTBEAT_MAX_S": "held to it; the answer to hello says what holds",
    "REPORTED_ENTRIES_MAX": "lists in a report end there; full counts stand beside them",
    # in front of the core
    "NEVER_BEHIND": "accounts are kept of each agent",
    "SHARE": "the rest of that agent's messages waits for the next round",
    "BACKLOG_MAX": f"that agent's new work is shed unread, {OVER_LIMIT}; at twice that everything",
    "INBOX_MAX": "the nearer, the less may wait behind of each agent",
    "SENDERS_MAX": "accounts are forgotten, the oldest first",
    "SHED_ANSWERS_PER_S": "shed without an answer, only counted",
    "SHED_ANSWERS_MAX": "shed without an answer, only counted",
    "SHED_NAMED_MAX": "the counters name no more; all are in `shell.shed`",
    "SHED_BODY_MAX": "the answer names no id",
    "STREET_BUDGET": "in a siege: more of that verb is not heard, of whoever is not heard by himself",
    "KNOWN_MAX": "in a siege: further agents are heard as those that the gateway does not know",
    "TWINS_MAX": "while a siege begins or ends: a message may be taken twice",
    "SUBJECT_CACHE_MAX": "the cache starts anew",
    "IDS_KNOWN_MAX": "the one that has not come for longest is forgotten",
    "ADDRESSES_MAX": "the cache starts anew",
    "PENDING_MSGS_MAX": "of a subscription that nats-py reads: the newest are dropped and counted",
    "PENDING_BYTES_MAX": "of a subscription that nats-py reads: the newest are dropped and counted",
    "ROWS_MAX": "fewer rows; the total stands beside them",
    "BATCH_MAX": "sockets, timers and other networks get their turn",
    "TURN_S": "sockets, timers and other networks get their turn",
}  # fmt: skip
"""What happens at each bound."""

PACES: Final = frozenset(
    {
        "reconcile_s", "remembered_s", "retry_after_s", "hint_retry_s", "hint_window_s", "second_read_beats",
        "assumed_session_idle_s",
        "LEASE_DEFAULT_S", "PROTOCOL", "WEIGHT_BYTES", "TIMEOUT_DEFAULT_S", "SEND_TIMEOUT_DEFAULT_S", "CLIENT_GRACE_S",
        "WAIT_FOR_TARGET_DEFAULT_S", "HEARTBEAT_DEFAULT_S", "SESSION_LOSS_S", "DISCONNECT_GRACE_S", "SHED_NOTICE_S",
        "AFTER_FAILURE_S", "LOG_PAUSE_S", "PING_INTERVAL_S", "PINGS_OUTSTANDING_MAX", "RECONNECT_WAIT_S", "LET_GO_S",
        "CONNECT_PATIENCE_S", "ANOTHER_S", "REBUILD_PAUSE_MAX_S", "DRAIN_S", "GC_NEW_OBJECTS", "SERVER_START_S",
        "SERVER_STOP_S", "ROWS_DEFAULT", "PRESSED", "FLOOD_WINDOW_S", "FLOOD_WEIGHT", "FLOOD_PART",
        "NEXT_PART", "CROWD_PART", "BEAT_S", "CALM_S",
        "SOUNDING_S", "LOOK_S", "WEIGH_S", "WEIGH_BYTES", "WEIGH_PART",
    }
)  # fmt: skip
"""Defaults and paces, which nothing can exceed."""


def values() -> dict[str, Any]:
    """Every number in the three files of limits."""
    found = {name: getattr(Limits(), name) for name in Limits.__struct_fields__}
    for module in (wire, shell):
        found |= {name: getattr(module, name) for name in _named(module)}
    return found


def _named(module: ModuleType) -> list[str]:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    return [
        node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def table() -> str:
    """As it stands on the page."""
    shown = values()
    rows = [
        f"| `{name}` | {_shown(shown[name])} | {text} |" for name, text in REACHED.items() if name in shown
    ]
    return "\n".join([BEGIN, "| limit | value | when it is reached |", "|---|---|---|", *rows, END])


def _shown(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def on_the_page() -> str:
    """The table that the page has now."""
    page = PAGE.read_text()
    return page[page.index(BEGIN) : page.index(END) + len(END)]


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(on_the_page(), table()))
