"""What a client sends and receives, and where: the one list that the AsyncAPI document and the types are made from."""

from collections.abc import Iterator
from typing import Final, Literal, cast

from msgspec import Struct

from unknot_schemas import bodies, resources, subjects
from unknot_schemas.subjects import EVENT_VERBS, SESSION_VERBS, Subjects

Does = Literal["send", "receive"]

PARAMETERS: Final = {
    "network": "Tenant; nothing crosses between networks. [A-Za-z0-9_-]{1,64}",
    "agent": "The client's own name. [A-Za-z0-9][A-Za-z0-9_-]{0,63}; `gateway` is reserved",
    "session": "Token of one life of one process, made by the client; 0: never said hello",
    "target": "An agent, or @ and a channel",
    "type": "Event type: lower-case words with dots between, at most 128 characters",
    "request_id": "Id of the request that is answered. [A-Za-z0-9_-]{1,64}",
    "channel": "A channel's name, as an agent's",
}
"""Of subjects; ``type`` stands for one word or more."""

_SUBJECTS: Final = Subjects("{network}")
_EVENTS: Final = {
    "send": "A one-way event",
    "ask": "A request; the sender goes on, its Outcome comes later",
    "request": "A blocking request; its Outcome comes to the NATS reply subject, else to the outcome subject",
}
_VERBS: Final[dict[str, tuple[type[bodies.Body], str]]] = {
    "hello": (bodies.Hello, "A session begins, or goes on after an epoch change"),
    "heartbeat": (bodies.Heartbeat, "What is open and held"),
    "bye": (bodies.Bye, "The session ends"),
    "done": (bodies.Done, "The handlers of these events have returned"),
    "defer": (bodies.Defer, "The answers come later"),
    "facts": (bodies.Facts, "Answer to control confirm"),
    "wait.open": (bodies.WaitOpen, "An execution cannot go on until something is true"),
    "wait.close": (bodies.WaitClose, "A wait has ended on the agent's side"),
    "request.cancel": (bodies.RequestCancel, "The answer is not wanted any more"),
    "lock.acquire": (resources.LockAcquire, "Grant locks and permits, all or none"),
    "lock.renew": (resources.LockRenew, "A lease begins anew"),
    "lock.release": (resources.LockRelease, "What is held is given back"),
    "lock.check": (resources.LockCheck, "Is this fencing token still good?"),
    "pool.declare": (resources.PoolDeclare, "How many permits there are"),
    "artifact.declare": (resources.ArtifactDeclare, "An execution may produce an artifact"),
    "artifact.withdraw": (resources.ArtifactWithdraw, "An execution will not produce it"),
    "artifact.publish": (resources.ArtifactPublish, "An artifact is there"),
    "artifact.forget": (resources.ArtifactForget, "An artifact may be produced anew"),
    "artifact.wait": (resources.ArtifactWait, "Wait for an artifact"),
    "approval.request": (resources.ApprovalRequest, "Wait for a decision"),
    "approval.resolve": (resources.ApprovalResolve, "The decision of the agent that was asked"),
    "holder.set": (resources.HolderSet, "Who holds something outside"),
    "holder.clear": (resources.HolderClear, "It is held no more"),
}
_ANSWERS: Final[dict[str, type[bodies.Body]]] = {
    "hello": bodies.Welcome,
    "heartbeat": bodies.Pulse,
    "request": bodies.Outcome,
}
"""What comes to the NATS reply subject when all is well, where it is no Receipt."""
_CONTROLS: Final[dict[str, tuple[type[bodies.Body], str]]] = {
    subjects.CONTROL_CONFIRM: (bodies.Confirm, "Asks where waits and requests stand"),
    subjects.CONTROL_ABANDONED: (bodies.Abandoned, "Nobody waits for this answer any more"),
    subjects.CONTROL_REPLACED: (bodies.Replaced, "Another session has taken this one's place"),
    subjects.CONTROL_DEADLOCK: (bodies.DeadlockDetected, "Waits that can never end, one of them here"),
    subjects.CONTROL_BLOCKED_BEHIND: (bodies.BlockedBehind, "What these waits hang on is deadlocked"),
    subjects.CONTROL_LAPSED: (resources.Lapsed, "A lease is over"),
    subjects.CONTROL_APPROVAL: (resources.ApprovalRequested, "A decision of this agent is waited for"),
}
_NOTICES: Final[dict[str, tuple[type[bodies.Body], str]]] = {
    subjects.CONTROL_DEADLOCK: _CONTROLS[subjects.CONTROL_DEADLOCK],
    subjects.CONTROL_BLOCKED_BEHIND: _CONTROLS[subjects.CONTROL_BLOCKED_BEHIND],
    subjects.NOTICE_POOLS_DIFFER: (bodies.PoolsDiffer, "Sessions of one agent serve different types"),
    subjects.CONTROL_APPROVAL: _CONTROLS[subjects.CONTROL_APPROVAL],
    subjects.NOTICE_OVER_LIMIT: (bodies.OverLimit, "An agent sends more than it may, and is shed"),
}


class Operation(Struct, frozen=True):
    """One thing that a client does. *subject* has its PARAMETERS in braces; *answers*: on the NATS reply subject."""

    name: str
    does: Does
    subject: str
    body: type[bodies.Body]
    about: str
    answers: tuple[type[bodies.Body], ...] = ()


def operations() -> Iterator[Operation]:
    """All of them, in the order of the wire's own page."""
    assert set(_EVENTS) == EVENT_VERBS
    assert set(_VERBS) == SESSION_VERBS
    yield from _sent()
    yield from _received()


def _sent() -> Iterator[Operation]:
    for verb, about in _EVENTS.items():
        subject = _SUBJECTS.event(
            "{agent}", cast(Literal["send", "ask", "request"], verb), "{target}", "{type}"
        )
        yield Operation(verb, "send", subject, bodies.Envelope, about, _answers(verb))
    yield Operation(
        "publish",
        "send",
        _SUBJECTS.publish("{agent}", "{type}"),
        bodies.Envelope,
        "An event without target",
        _answers("publish"),
    )
    yield Operation(
        "reply",
        "send",
        _SUBJECTS.reply("{agent}", "{request_id}"),
        bodies.Envelope,
        "An answer",
        _answers("reply"),
    )
    for verb, (body, about) in _VERBS.items():
        yield Operation(verb, "send", _SUBJECTS.verb("{agent}", verb), body, about, _answers(verb))


def _received() -> Iterator[Operation]:
    yield Operation(
        "event",
        "receive",
        _SUBJECTS.deliver("{agent}", "{session}", "{type}"),
        bodies.Delivered,
        "A delivered event; the NATS reply subject of a request is where its answer goes",
        (bodies.Envelope,),
    )
    yield Operation(
        "outcome",
        "receive",
        _SUBJECTS.outcome("{agent}", "{session}"),
        bodies.Outcome,
        "How a request or a wait ended",
    )
    for control, (body, about) in _CONTROLS.items():
        subject = _SUBJECTS.control("{agent}", "{session}", control)
        yield Operation(f"control.{control}", "receive", subject, body, about)
    yield Operation(
        "channel",
        "receive",
        _SUBJECTS.channel("{channel}", "{type}"),
        bodies.Delivered,
        "A one-way event for all members",
    )
    yield Operation(
        "topic", "receive", _SUBJECTS.topic("{type}"), bodies.Delivered, "An event without target"
    )
    for notice, (body, about) in _NOTICES.items():
        yield Operation(
            f"notice.{notice}", "receive", _SUBJECTS.notice(notice), body, f"For monitors: {about}"
        )


def _answers(verb: str) -> tuple[type[bodies.Body], ...]:
    own = _ANSWERS.get(verb)
    return (bodies.Receipt,) if own is None else (own, bodies.Receipt)
