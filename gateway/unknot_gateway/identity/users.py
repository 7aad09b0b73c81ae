"""The users file: who may connect, in which role, known by what. Written whole; its owner alone may read it."""

import base64
import binascii
import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from unknot_schemas import ids
from unknot_schemas.subjects import DEFAULT_NETWORK

FORMAT: Final = 1
USERS_MAX: Final = 100_000
_ROLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NKEY: Final = re.compile(r"U[A-Z2-7]{55}")
_NKEY_USER: Final = 20 << 3

Role = Literal["agent", "gateway", "monitor", "operator"]


class BadUsers(Exception):
    """A users file, or a change of one, that cannot be; the text says why."""


class User(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One user of the NATS server. Its name is the agent's, or anything else for the other roles."""

    name: str
    role: Role = "agent"
    network: str = DEFAULT_NETWORK
    """The one network that it speaks in; a gateway's user speaks in all."""
    secret: str = ""
    """Its password: a bcrypt hash, or plain where this machine cannot hash; "" with *nkey*."""
    nkey: str = ""
    """Its public key; the server never sees the other half."""
    may_request: list[str] | None = None
    """Agents and ``@channels`` that it may send to and ask; None: all."""
    channels: list[str] = []
    """Channels that it may be a member of."""


class Users(Struct, frozen=True, forbid_unknown_fields=True):
    """All users, by name."""

    format: int = FORMAT
    users: list[User] = []

    def named(self, name: str) -> User:
        """The user of that *name*. Raises BadUsers."""
        found = next((user for user in self.users if user.name == name), None)
        if found is None:
            raise BadUsers(f"there is no user {name!r}: see `unknot users list`")
        return found

    def with_user(self, user: User) -> "Users":
        """With *user* as well. Raises BadUsers when the name is taken."""
        if any(known.name == user.name for known in self.users):
            raise BadUsers(f"user {user.name!r} exists: `unknot users change`, `rotate` or `revoke` it")
        return checked(Users(users=sorted([*self.users, user], key=lambda one: one.name)))

    def with_changed(self, user: User) -> "Users":
        """With *user* in the place of the one of that name."""
        return checked(Users(users=[user if known.name == user.name else known for known in self.users]))

    def without(self, name: str) -> "Users":
        """Without the user of that *name*. Raises BadUsers when there is none."""
        gone = self.named(name)
        return Users(users=[known for known in self.users if known is not gone])

    def channels_of(self, network: str) -> dict[str, frozenset[str]]:
        """Which channels each agent of *network* may be a member of."""
        return {
            user.name: frozenset(user.channels)
            for user in self.users
            if user.role == "agent" and user.network == network
        }


def load(path: Path) -> Users:
    """Read the file at *path*; without one there are no users. Raises BadUsers."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Users()
    except OSError as error:
        raise BadUsers(f"cannot read {path}: {error.strerror}") from error
    try:
        return checked(msgspec.json.decode(text, type=Users))
    except (msgspec.DecodeError, BadUsers) as error:
        raise BadUsers(f"{path}: {error}") from error


def digest(users: Users) -> str:
    """Names this very set of users."""
    return hashlib.sha256(msgspec.json.encode(users)).hexdigest()[:16]


@contextlib.contextmanager
def changing(path: Path) -> Iterator["Change"]:
    """Read, change, write: nobody else changes the file meanwhile. Raises BadUsers."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Change(path)
    except OSError as error:
        raise BadUsers(f"cannot write {path}: {error.strerror}") from error


class Change:
    """The file at *path* in the hands of one writer. *users*: as they were read."""

    def __init__(self, path: Path) -> None:
        self.users = load(path)
        self._path = path

    def write(self, users: Users) -> None:
        """Put *users* in the file: who reads it sees the old or the new ones, whole."""
        part = self._path.with_name(f"{self._path.name}.part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(users), indent=1) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        part.replace(self._path)


def checked(users: Users) -> Users:
    """*users*, if they can be. Raises BadUsers."""
    if users.format != FORMAT:
        raise BadUsers(f"format {users.format} is not known; {FORMAT} is")
    if len(users.users) > USERS_MAX:
        raise BadUsers(f"at most {USERS_MAX} users")
    seen: set[str] = set()
    for user in users.users:
        _check(user)
        # The server tells what it refuses in lower case, and an inbox is its name's in every network.
        if user.name.lower() in seen:
            raise BadUsers(f"there are two of {user.name!r}: case and network make no difference")
        seen.add(user.name.lower())
    return users


def _check(user: User) -> None:
    legal = ids.agent_id(user.name) == user.name if user.role == "agent" else _is_role_name(user)
    if not legal:
        raise BadUsers(f"{user.name!r} cannot name a user: letters, digits, - and _, at most 64")
    if not ids.is_id(user.network):
        raise BadUsers(f"{user.name}: {user.network!r} cannot name a network")
    if bool(user.secret) == bool(user.nkey):
        raise BadUsers(f"{user.name}: either a secret or an nkey is needed")
    if user.nkey and not _is_public_nkey(user.nkey):
        raise BadUsers(f"{user.name}: {user.nkey!r} is no public user nkey: U and 55 more characters")
    if user.role != "agent" and (user.may_request is not None or user.channels):
        raise BadUsers(f"{user.name}: only agents have targets and channels")
    _check_names(user.name, user.channels)
    _check_names(user.name, [target.removeprefix("@") for target in user.may_request or ()])


def _is_public_nkey(text: str) -> bool:
    """Whether *text* is base32 of: what it is (a user), 32 bytes, their checksum. A server takes no other."""
    if not _NKEY.fullmatch(text):
        return False
    key = base64.b32decode(text)
    return key[0] == _NKEY_USER and binascii.crc_hqx(key[:-2], 0) == int.from_bytes(key[-2:], "little")


def _is_role_name(user: User) -> bool:
    reserved = user.name == ids.GATEWAY and user.role != "gateway"
    return _ROLE_NAME.fullmatch(user.name) is not None and not reserved


def _check_names(user: str, names: Iterable[str]) -> None:
    for name in names:
        if ids.agent_id(name) != name:
            raise BadUsers(f"{user}: {name!r} can name no agent and no channel")
