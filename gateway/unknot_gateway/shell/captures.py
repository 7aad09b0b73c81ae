"""JetStream streams that capture our subjects: they acknowledge every request as if they had answered it."""

import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client

from unknot_gateway.shell.settings import Settings
from unknot_schemas.subjects import Subjects

log = structlog.get_logger()


async def capturing_streams(connection: Client, settings: Settings) -> list[str]:
    """Names of streams without ``no_ack`` that take what agents or the gateway send; empty where JetStream is off."""
    try:
        streams = await connection.jetstream().streams_info()
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError):
        return []
    roots = [Subjects(network, settings.prefix).root for network in settings.networks]
    return [
        stream.config.name or "?"
        for stream in streams
        if not stream.config.no_ack
        and any(_overlaps(subject, root) for subject in stream.config.subjects or () for root in roots)
    ]


async def warn_of_captures(connection: Client, settings: Settings) -> None:
    """Log each capturing stream, and what to do."""
    for name in await capturing_streams(connection, settings):
        log.warning(
            "a JetStream stream captures unknot's subjects and answers every request with its own acknowledgement;"
            " set no_ack on it, or narrow its subjects",
            stream=name,
        )


def _overlaps(pattern: str, root: str) -> bool:
    """Whether *pattern* can match a subject under *root*."""
    words = root.split(".")
    for at, word in enumerate(pattern.split(".")):
        if word == ">" or at >= len(words):
            return True
        if word not in ("*", words[at]):
            return False
    return False
