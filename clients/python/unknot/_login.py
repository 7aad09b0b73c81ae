"""Who a connection is to the NATS server: what the program says, then the environment, then a NATS CLI context."""

import os
import re
import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

_ENVIRONMENT: Final = "UNKNOT_"
_SECRETS: Final = ("password", "password_file", "creds", "nkey", "token")
_SEED: Final = re.compile(r"SU[A-Z2-7]{56}")
_CONTEXT: Final = {
    "url": "url", "user": "user", "password": "password", "token": "token", "creds": "creds", "nkey": "nkey",
    "ca": "tls_ca", "cert": "tls_cert", "key": "tls_key",
}  # fmt: skip
"""Fields of a NATS CLI context, and what they are called here."""


class BadLogin(ValueError):
    """A login that cannot be used; the text says why."""


class Login(Struct, frozen=True, kw_only=True):
    """How to log in to the NATS server; what is None comes from UNKNOT_USER, UNKNOT_PASSWORD and so on.

    A password without a *user* is that of the agent's own user. ``{agent}`` in the name of a file stands for its name.
    *nkey*: a file with a seed, or the seed. *context*: a NATS CLI context, for what is given nowhere else.
    """

    user: str | None = None
    password: str | None = None
    password_file: str | None = None
    creds: str | None = None
    nkey: str | None = None
    token: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    context: str | None = None
    url: str | None = None
    """Of the server; only a context gives it."""

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Login(user={self.user!r}, context={self.context!r})"

    def or_else(self, other: "Login") -> "Login":
        """This, and from *other* what is missing: never a second secret beside the own one."""
        mine = {name: text for name in self.__struct_fields__ if (text := getattr(self, name)) is not None}
        theirs = {name: text for name in self.__struct_fields__ if (text := getattr(other, name)) is not None}
        if any(name in mine for name in _SECRETS):
            theirs = {name: text for name, text in theirs.items() if name not in _SECRETS}
        return Login(**theirs | mine)

    def resolved(self, environment: Mapping[str, str] = os.environ) -> "Login":
        """With what the environment and the context add. Raises BadLogin."""
        named = {
            name: text
            for name in self.__struct_fields__
            if name != "url" and (text := environment.get(_ENVIRONMENT + name.upper()))
        }
        login = self.or_else(Login(**named))
        return login.or_else(_from_context(login.context, environment)) if login.context else login

    def options(self, agent: str) -> dict[str, Any]:
        """What nats-py's connect takes, for *agent*; files are read now. Raises BadLogin."""
        tls = self._tls()
        return self._secret(agent) | ({"tls": tls} if tls is not None else {})

    def _secret(self, agent: str) -> dict[str, Any]:
        if self.creds is not None:
            _need_nkeys()
            return {"user_credentials": _readable(self.creds, agent)}
        if self.nkey is not None:
            _need_nkeys()
            if _SEED.fullmatch(self.nkey):
                return {"nkeys_seed_str": self.nkey}
            return {"nkeys_seed": _readable(self.nkey, agent)}
        if self.token is not None:
            return {"token": self.token}
        password = self.password
        if self.password_file is not None and password is None:
            password = Path(_readable(self.password_file, agent)).read_text("utf-8").strip()
        return {} if password is None else {"user": self.user or agent, "password": password}

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_ca is None and self.tls_cert is None:
            return None
        try:
            tls = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.tls_ca)
            if self.tls_cert is not None:
                tls.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as why:  # ssl.SSLError is one
            raise BadLogin(f"TLS: {why}: look at UNKNOT_TLS_CA, UNKNOT_TLS_CERT, UNKNOT_TLS_KEY") from why
        return tls


def _from_context(name: str, environment: Mapping[str, str]) -> Login:
    home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    path = Path(home) / "nats" / "context" / f"{name}.json"
    if "/" in name or not path.exists():
        raise BadLogin(f"there is no NATS context {name!r} ({path}): see `nats context ls`")
    try:
        said = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except msgspec.DecodeError as why:
        raise BadLogin(f"{path} is no NATS context: {why}") from why
    if said.get("nsc") and not said.get("creds"):
        raise BadLogin(f"NATS context {name!r} takes its user from nsc: export it as a creds file")
    return Login(**{ours: str(said[theirs]) for theirs, ours in _CONTEXT.items() if said.get(theirs)})


def _readable(file: str, agent: str) -> str:
    path = Path(file.replace("{agent}", agent)).expanduser()
    if not os.access(path, os.R_OK):
        raise BadLogin(f"cannot read {path}")
    return str(path)


def _need_nkeys() -> None:
    if find_spec("nkeys") is None:
        raise BadLogin("creds files and nkeys need another package: pip install 'unknot[nkeys]'")
