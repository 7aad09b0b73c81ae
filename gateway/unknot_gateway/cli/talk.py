"""Speaking with a gateway as the agent ``cli``: raw, as any program could."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from unknot_gateway.cli import exits
from unknot_schemas import Subjects
from unknot_schemas.subjects import DEFAULT_PREFIX

AGENT: Final = "cli"
_CONNECT_S: Final = 3
_ANSWER_S: Final = 5.0
_T = TypeVar("_T")


def subjects_of(network: str) -> Subjects:
    """Subjects of *network*, under the prefix that UNKNOT_PREFIX names."""
    return Subjects(network, os.environ.get("UNKNOT_PREFIX") or DEFAULT_PREFIX)


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run *main* to its end; Ctrl-C ends the command as a shell expects."""
    with asyncio.Runner() as runner:
        return runner.run(main)


@contextlib.asynccontextmanager
async def connected(url: str, *, again: bool = False) -> AsyncIterator[Client]:
    """A connection; *again*: one that survives the server's restarts. Raises NobodyThere."""
    try:
        async with asyncio.timeout(_CONNECT_S):  # with reconnection on, nats-py tries for ever
            client = await nats.connect(
                url.split(","),
                name="unknot command",
                inbox_prefix=f"_INBOX.{AGENT}",
                connect_timeout=_CONNECT_S,
                allow_reconnect=again,
                max_reconnect_attempts=-1 if again else 1,
                reconnect_time_wait=1 if again else 0,
                error_cb=_quiet,
            )
    except (OSError, nats.errors.Error, TimeoutError) as error:
        why = str(error) or "no answer"
        raise exits.NobodyThere(f"no NATS server at {url}: {why}") from error
    try:
        yield client
    finally:
        await client.close()


async def ask_api(client: Client, subjects: Subjects, endpoint: str, question: bytes) -> bytes:
    """The answer of the gateway's api. Raises NobodyThere, or Failure with what the gateway said."""
    return await ask(client, subjects, subjects.api(endpoint), question, _ANSWER_S, "network")


async def ask(
    client: Client, subjects: Subjects, subject: str, payload: bytes, patience_s: float, *keys: str
) -> bytes:
    """The first answer that has one of *keys*: a stream that captures the prefix acknowledges, too.

    Raises NobodyThere, or Failure with what the gateway said.
    """
    inbox = await client.subscribe(client.new_inbox())
    await client.publish(subject, payload, reply=inbox.subject)
    try:
        async with asyncio.timeout(patience_s):
            while True:
                message = await inbox.next_msg(timeout=patience_s)
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


async def _quiet(_error: Exception) -> None:
    """What matters is raised where it happens."""
