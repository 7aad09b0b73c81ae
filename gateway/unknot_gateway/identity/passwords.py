"""Passwords: made at random, kept as bcrypt hashes where the operating system can make them."""

import ctypes
import ctypes.util
import secrets
from typing import Final

_BYTES: Final = 24
_ALPHABET: Final = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LAST: Final = ".Oeu"
"""128 bits are 21 characters and a third: the last one has four values."""
_SETTING: Final = "$2b$04$"
"""The lowest cost: 192 random bits cannot be guessed, and a reload checks every connection again."""
_HASH_CHARS: Final = 60


def new_password() -> str:
    """192 random bits, in characters that no shell or URL minds."""
    return secrets.token_urlsafe(_BYTES)


def sealed(password: str) -> str:
    """What the server knows *password* by: its bcrypt hash, or *password* itself where there is no bcrypt."""
    salt = "".join(secrets.choice(_ALPHABET) for _ in range(21)) + secrets.choice(_LAST)
    hashed = _crypt(password, _SETTING + salt)
    return hashed if is_sealed(hashed) and _crypt(password, hashed) == hashed else password


def is_sealed(secret: str) -> bool:
    """Whether *secret* is a hash."""
    return secret.startswith(_SETTING) and len(secret) == _HASH_CHARS


def _crypt(password: str, setting: str) -> str:
    """crypt(3) of the system's libcrypt; "" where that is absent or knows no bcrypt."""
    found = ctypes.util.find_library("crypt")
    if found is None:
        return ""
    crypt = ctypes.CDLL(found).crypt
    crypt.restype = ctypes.c_char_p
    answer: bytes | None = crypt(password.encode(), setting.encode())
    return (answer or b"").decode("ascii", "replace")
