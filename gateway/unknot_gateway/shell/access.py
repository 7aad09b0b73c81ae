"""The users of a serving gateway: loaded at its start, and again on SIGHUP."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog

from unknot_gateway.identity import configuration, passwords, users
from unknot_gateway.identity.presence import Presence
from unknot_gateway.identity.users import BadUsers, User, Users
from unknot_gateway.shell.embedded import EmbeddedServer, ServerFailed

log = structlog.get_logger()

_OWN: Final = "@gateway"
"""No user of the file can have this name."""


class Access:
    """Holds the users of the file at *path*. Raises BadUsers, AlreadyPresent."""

    def __init__(self, path: str, prefix: str) -> None:
        self.on_loaded: Callable[[Users], None] = lambda _users: None
        """Called with the users that hold from now on."""
        self._path = Path(path)
        self._prefix = prefix
        self._asked = asyncio.Event()
        self._password = passwords.new_password()
        self._sealed = passwords.sealed(self._password)
        self.users = users.load(self._path)
        self._presence = Presence(self._path)
        self._presence.tell(users.digest(self.users))
        self._warn_of_readers()

    @property
    def authorization(self) -> str:
        """The block of the server's configuration: the file's users, and this gateway."""
        return self._authorization(self.users)

    def login(self) -> dict[str, Any]:
        """How this gateway logs in to its own server: by a password that lives as long as both."""
        return {"user": _OWN, "password": self._password}

    def ask_to_reload(self) -> None:
        """Load the file again, soon. For a signal handler."""
        self._asked.set()

    async def keep(self, server: EmbeddedServer | None) -> None:
        """Load the file again whenever asked, and have *server* do so; what cannot be taken changes nothing."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._load_again(server)
            except (BadUsers, ServerFailed) as error:
                log.error("the users were not loaded; those before hold", why=str(error))
                self._presence.tell(users.digest(self.users), str(error))

    def close(self) -> None:
        """Nobody serves the file any more."""
        self._presence.close()

    async def _load_again(self, server: EmbeddedServer | None) -> None:
        loaded = users.load(self._path)
        if server is not None:
            await server.reload(self._authorization(loaded))
        self.users = loaded
        self.on_loaded(loaded)
        log.info("users loaded", users=len(loaded.users))
        self._presence.tell(users.digest(loaded))

    def _authorization(self, loaded: Users) -> str:
        own = User(name=_OWN, role="gateway", secret=self._sealed)
        return configuration.authorization([own, *loaded.users], self._prefix)

    def _warn_of_readers(self) -> None:
        try:
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            return
        if mode & 0o077:
            log.warning("others may read the users file: chmod 600", file=str(self._path))
