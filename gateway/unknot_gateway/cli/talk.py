"""Speaking with a gateway as the agent ``cli``: raw, as any program could."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

import nats
import nats.errors
from nats.aio.client import Client

from unknot_gateway.cli import exits
from unknot_schemas import Subjects

AGENT: Final = "cli"
_CONNECT_S: Final = 3
_ANSWER_S: Final = 5.0
_T = TypeVar("_T")


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
                url,
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
    try:
        answer = await client.request(subjects.api(endpoint), question, timeout=_ANSWER_S)
    except nats.errors.NoRespondersError as error:
        raise nobody_serves(subjects) from error
    except nats.errors.TimeoutError as error:
        raise exits.NobodyThere(f"the gateway of network {subjects.network} did not answer") from error
    if answer.headers and "Nats-Service-Error" in answer.headers:
        raise exits.Failure(answer.headers["Nats-Service-Error"])
    return answer.data


def nobody_serves(subjects: Subjects) -> exits.NobodyThere:
    """No gateway listens to the network."""
    return exits.NobodyThere(
        f"no gateway serves network {subjects.network} there: start one by `unknot serve`"
    )


async def _quiet(_error: Exception) -> None:
    """What matters is raised where it happens."""
