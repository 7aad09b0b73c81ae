"""What each role may publish and subscribe. What is not named here is refused by the server."""

from typing import Final, NamedTuple

from unknot_gateway.identity.users import User
from unknot_schemas.ids import GATEWAY
from unknot_schemas.subjects import EVENT_VERBS, SESSION_VERBS, Subjects

READS: Final = ("agents", "approvals", "graph", "holds", "stats", "verdicts", "waits")
"""Endpoints of the api that change nothing."""
GATEWAY_INBOX: Final = f"_INBOX.{GATEWAY}"


class Permissions(NamedTuple):
    """Subjects, as NATS patterns."""

    publish: list[str]
    subscribe: list[str]


def permissions(user: User, prefix: str) -> Permissions:
    """Of *user*, where subjects begin with *prefix*."""
    subjects = Subjects(user.network, prefix)
    match user.role:
        case "agent":
            return Permissions(_agent_publishes(user, subjects), _agent_subscribes(user, subjects))
        case "monitor":
            return Permissions([subjects.api(name) for name in READS], _looks(user, subjects))
        case "operator":
            return Permissions([subjects.api(">")], _looks(user, subjects))
        case "gateway":
            return Permissions(
                [f"{prefix}.>", "_INBOX.>", "$SRV.>", "$JS.>", "$KV.>"],
                [f"{prefix}.>", "$SRV.>", f"{GATEWAY_INBOX}.>"],
            )


def _agent_publishes(user: User, subjects: Subjects) -> list[str]:
    if user.may_request is None:
        return [subjects.verb(user.name, ">")]
    return [
        *(subjects.verb(user.name, verb) for verb in sorted(SESSION_VERBS)),
        subjects.reply(user.name, "*"),
        subjects.publish(user.name, ">"),
        *(
            f"{subjects.verb(user.name, verb)}.{target}.>"
            for verb in sorted(EVENT_VERBS)
            for target in user.may_request
        ),
    ]


def _agent_subscribes(user: User, subjects: Subjects) -> list[str]:
    return [
        f"{subjects.root}.out.{user.name}.>",
        *(subjects.channel(channel, ">") for channel in user.channels),
        subjects.topic(">"),
        f"_INBOX.{user.name}.>",
    ]


def _looks(user: User, subjects: Subjects) -> list[str]:
    return [subjects.notice(">"), f"_INBOX.{user.name}.>"]
