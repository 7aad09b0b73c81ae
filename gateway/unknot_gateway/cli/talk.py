"""Speaking with a gateway: raw, as any program could."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from unknot import BadLogin
from unknot._refusals import is_denial, is_final, refusal
from unknot_gateway.cli import exits
from unknot_gateway.cli.options import Where
from unknot_schemas import Subjects
from unknot_schemas.subjects import DEFAULT_PREFIX

_CONNECT_S: Final = 3
_CLOSE_S: Final = 0.5
_ANSWER_S: Final = 5.0
_T = TypeVar("_T")


class Line(Client):
    """A connection that knows when the server has refused something on it: then the command has failed."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_open = False

    async def on_error(self, error: Exception) -> None:
        """For nats-py. What else matters is raised where it happens."""
        found = refusal(error)
        if found is not None and not self.refused.done():
            self.refused.set_result(
                f"the NATS server does not allow {found.what} of {found.subject!r} to this user"
            )
        if not self.is_open and is_final(error):
            raise error  # trying again, as nats-py would, changes nothing

    def check(self) -> None:
        """Raises Failure when the server has refused something."""
        if self.refused.done():
            raise exits.Failure(self.refused.result())


def subjects_of(network: str) -> Subjects:
    """Subjects of *network*, under the prefix that UNKNOT_PREFIX names."""
    return Subjects(network, os.environ.get("UNKNOT_PREFIX") or DEFAULT_PREFIX)


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run *main* to its end; Ctrl-C ends the command as a shell expects."""
    with asyncio.Runner() as runner:
        return runner.run(main)


@contextlib.asynccontextmanager
async def connected(where: Where, *, again: bool = False) -> AsyncIterator[Line]:
    """A connection; *again*: one that survives the server's restarts. Raises NobodyThere, BadFile or Failure."""
    line = Line()
    try:
        await _open(line, where, again)
        yield line
    finally:
        with contextlib.suppress(
            TimeoutError
        ):  # after a TLS handshake that failed nats-py would wait for ever
            async with asyncio.timeout(_CLOSE_S):
                await line.close()


async def ask_api(
    client: Line, subjects: Subjects, endpoint: str, question: bytes, key: str = "network"
) -> bytes:
    """The answer of the gateway's api, which has *key*. Raises NobodyThere, or Failure with what was said."""
    return await ask(client, subjects, subjects.api(endpoint), question, _ANSWER_S, key)


async def ask(
    client: Line, subjects: Subjects, subject: str, payload: bytes, patience_s: float, *keys: str
) -> bytes:
    """The first answer that has one of *keys*: a stream that captures the prefix acknowledges, too.

    Raises NobodyThere, or Failure with what the gateway said.
    """
    inbox = await client.subscribe(client.new_inbox())
    await client.publish(subject, payload, reply=inbox.subject)
    try:
        async with asyncio.timeout(patience_s):
            while True:
                message = await _next(client, inbox, patience_s)
                headers = message.headers or {}
                if headers.get("Status") == "503":
                    raise nobody_serves(subjects)
                if "Nats-Service-Error" in headers:
                    raise exits.Failure(headers["Nats-Service-Error"])
                answer = msgspec.json.decode(message.data)
                if any(key in answer for key in keys):
                    return message.data
    except TimeoutError as error:
        raise exits.NobodyThere(f"the gateway of network {subjects.network} did not answer") from error


def nobody_serves(subjects: Subjects) -> exits.NobodyThere:
    """No gateway listens to the network."""
    return exits.NobodyThere(
        f"no gateway serves network {subjects.network} there: start one by `unknot serve`"
    )


async def _open(line: Line, where: Where, again: bool) -> None:
    try:
        async with asyncio.timeout(_CONNECT_S):  # with reconnection on, nats-py tries for ever
            await line.connect(
                where.url.split(","),
                name="unknot command",
                inbox_prefix=f"_INBOX.{where.agent}",
                connect_timeout=_CONNECT_S,
                allow_reconnect=again,
                max_reconnect_attempts=-1 if again else 1,
                reconnect_time_wait=1 if again else 0,
                error_cb=line.on_error,
                **where.login.options(where.agent),
            )
            line.is_open = True
    except BadLogin as bad:
        raise exits.BadFile(str(bad)) from bad
    except (OSError, nats.errors.Error, TimeoutError) as error:
        if is_denial(error):
            raise exits.Failure(f"the NATS server at {where.shown} does not let this user in") from error
        why = str(error) or "no answer"
        raise exits.NobodyThere(
            f"no NATS server at {where.shown} ({why}): start one with `unknot serve`, or name another by --nats"
        ) from error


async def _next(line: Line, inbox: Subscription, patience_s: float) -> Msg:
    coming = asyncio.ensure_future(inbox.next_msg(timeout=patience_s))
    try:
        either: set[asyncio.Future[Any]] = {coming, line.refused}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        line.check()
        return coming.result()
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
