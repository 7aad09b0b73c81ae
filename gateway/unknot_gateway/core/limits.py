"""Every bound of the gateway's core, and its reason. Bounds shared with clients: ``unknot_schemas.limits``."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one network. What reaches one is answered ``over_limit`` (or as said here) and counted."""

    messages_max: int = 200_000
    """Open events and requests: at about 2 kB each, 400 MB."""
    open_per_session_max: int = 100_000
    """Open requests and waits of one session: one flooding agent leaves room for others."""
    queue_max: int = 10_000
    """Events queued for one agent: more is minutes of work for anybody."""
    agents_max: int = 20_000
    """Agents with a live session, or with something open."""
    sessions_max: int = 64
    """Live sessions of one agent."""
    ended_connections_max: int = 10_000
    """Ended connections remembered, oldest first out: what was sent over them may still be on its way."""
    tokens_max: int = 100_000
    """Session tokens remembered as used, oldest first out."""
    reconcile_s: float = 10.0
    """Since the epoch's first fact: who resumes later than two usual heartbeats holds nobody up. Who resumes in time
    is waited for as long again, to be heard."""
    claims_max: int = 20_000
    """Events from before the epoch that one session may hold or have answered: all that a hello can name."""
    asks_again_max: int = 3
    """How often an answer that may be lost is asked for: the asking, or what comes of it, may be lost as well."""
    parked_replies_max: int = 10_000
    """Answers kept after an epoch change until their requests are sent again, oldest first out."""
    parked_bytes_max: int = 64 * 1024 * 1024
    """Bytes of them, likewise."""
    remembered_max: int = 100_000
    """Closed ids, oldest first out."""
    remembered_s: float = 30.0
    """How long a closed id and its Outcome are remembered; longer where a session is heard more seldom."""
    kept_bytes_max: int = 64 * 1024 * 1024
    """Bodies of Outcomes kept for repetition, oldest first out."""
    void_max: int = 10_000
    """Ids of ended waits that one session remembers as never to open again, oldest first out."""
    depth_max: int = 64
    """Nested open blocking requests of one chain: more is recursion without an end."""
    groups_max: int = 50_000
    """Open groups."""
    held_events_bytes_max: int = 1 << 30
    """Bytes of ``data`` of all open messages together."""
    members_asked_max: int = 500
    """Members of a channel that one request may ask: some 20 ms."""
    routes_max: int = 1_024
    """Cached routes (event type -> pools) of one agent; the cache starts anew beyond."""
    uncorrelated_max: int = 256
    """Open requests of one agent that accept answers without their name: each such event looks at all of them."""
    late_pairs_max: int = 10_000
    """Agents, by who asked them, whose answer without a name may still come for a request that has ended."""
    expect_search_max: int = 1_000
    """Events of one lane that are searched for the one that an ``expect`` has been opened for."""
    pools_max: int = 10_000
    """Declared pools of permits."""
    holds_max: int = 100_000
    """Holds of locks and permits; what waits already when it is reached is granted still."""
    asks_max: int = 200_000
    """Places in the queues of locks and pools."""
    productions_max: int = 100_000
    """Producers declared for artifacts that are not there yet."""
    artifacts_max: int = 10_000
    """Published artifacts remembered, oldest first out."""
    artifact_bytes_max: int = 256 * 1024 * 1024
    """Bytes of their data, likewise."""
    approvals_max: int = 10_000
    """Decisions that are waited for: more than people can make."""
    reports_max: int = 100_000
    """Reports of who holds or can do something outside."""
    grants_max: int = 100
    """Waits that are ended in one slice by what they waited for; the others follow between messages."""
    incidents_max: int = 1_024
    """Incidents being probed at once; further suspicions wait for the sweep."""
    decisions_max: int = 10_000
    """Decided digests remembered, oldest first out."""
    chain_max: int = 64
    """Steps followed to explain a wait."""
    verdict_waits: int = 1_000
    """Open waits that one question about verdicts looks at, those that cannot end first: some 50 ms."""
    verdict_links: int = 5_000
    """Holders, producers and places in queues that it follows."""
    livelock_decisions: int = 3
    """So many deadlocks of the same cycle of agents within ``livelock_window_s`` are a livelock."""
    livelock_window_s: float = 300.0
    """Several retries fit in, each with the usual timeout."""
    cycles_max: int = 10_000
    """Cycles of agents remembered with the instants of their decisions, oldest first out."""
    requests_per_s: float | None = None
    """New work (send, ask, request, publish, wait.open) of one agent in a second; None: as much as is handled."""
    retry_after_s: float = 1.0
    """What ``over_limit`` advises."""
    hint_retry_s: float = 0.25
    """How often delivery is tried again while the server says that nobody listens."""
    hint_window_s: float = 0.05
    """How long a Receipt waits for the server's word that nobody listens."""
    check_steps: int = 80
    """Steps of one inline graph check."""
    due_max: int = 1_000
    """Deadlines handled in one slice; the others follow between messages."""
    steps_max: int = 200
    """Events placed anew, ended or withdrawn in one slice because a session came, changed or went: some 10 ms. The
    others follow between messages."""
    sweep_waits: int = 5_000
    """Open waits that are swept at every ``sweep_s``; more of them are swept more seldom, in proportion."""
    drain_steps: int = 300
    """Steps of deferred graph work in one slice between messages."""
    second_read_beats: int = 2
    """Heartbeats of a silent member that count as sent after the first read."""
    assumed_session_idle_s: float = 60.0
    """An agent without hello and without anything open is forgotten after this silence."""
