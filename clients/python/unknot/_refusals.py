"""What the NATS server refuses. It says so later and by text, which nats-py lower-cases on the way."""

import re
import ssl
from typing import Final, Literal, NamedTuple

from unknot.errors import Refused
from unknot_schemas import errors as codes

_VIOLATION: Final = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')
_DENIAL: Final = re.compile(
    r"authorization violation|user authentication (?:expired|revoked)|authentication timeout"
)


class Refusal(NamedTuple):
    """One message or subscription that was refused. *subject* is in lower case."""

    what: Literal["publish", "subscription"]
    subject: str


def refusal(error: Exception) -> Refusal | None:
    """What *error* says was refused; None when it says something else."""
    found = _VIOLATION.search(str(error).lower())
    if found is None:
        return None
    return Refusal("publish" if found[1] == "publish" else "subscription", found[2])


def is_denial(error: Exception) -> bool:
    """Whether the server does not know the user: trying again changes nothing."""
    return _DENIAL.search(str(error).lower()) is not None


def is_final(error: Exception) -> bool:
    """Whether a first attempt to connect that failed so will fail again."""
    return is_denial(error) or isinstance(error, ssl.SSLError)


def not_permitted(what: str, subject: str = "") -> Refused:
    """The failure of something that the server does not allow: *what*, and what to do now."""
    return Refused(f"{what}: {_remedy(subject)}", code=codes.NOT_PERMITTED, handled="no")


def _remedy(subject: str) -> str:
    if re.search(r"\.(?:send|ask|request)\.[^.]+\.", subject):
        return "`unknot users change AGENT --may-request TARGET`, or the permissions on your server"
    if ".channel." in subject:
        return "`unknot users change AGENT --channels CHANNEL`, or the permissions on your server"
    return "log in as the agent's own user, by UNKNOT_USER and UNKNOT_PASSWORD, UNKNOT_CREDS or UNKNOT_NKEY"
