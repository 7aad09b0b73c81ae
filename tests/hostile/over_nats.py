"""The same letters through a real server to a gateway process: no connection ends, and others are answered."""

import asyncio
from random import Random
from urllib.parse import urlsplit

from tests.hostile.conftest import Socket
from tests.hostile.letters import Letters
from tests.support import gateway as support
from tests.wire.raw import Peer, connect
from unknot_schemas import Subjects

NETWORK = "fuzz"
AT_ONCE = 200
"""Letters between two requests of those that keep to the rules."""


async def play_over_nats(seed: int, messages: int) -> dict[str, int]:
    """Figures; an assertion that nothing failed, was logged, or ended."""
    with support.running(networks=[NETWORK]) as gateway:
        net = await connect(gateway.nats, Subjects(NETWORK))
        good, helper = await net.peer("good"), await net.echo("helper")
        at = urlsplit(gateway.nats)
        raw = Socket(*await asyncio.open_connection(at.hostname, at.port))
        raw.begin()
        letters, sent, answered = Letters(Random(f"fuzz {seed}")), 0, 0
        async with good.beating(2.0), helper.beating(2.0):
            while sent < messages:
                sent += await _send(raw, net.subjects.root, letters)
                answered += await _is_answered(good, helper)
        counters = (await net.api("stats"))["counters"]
        await raw.close()
        await net.close()
        assert counters.get("shell.failed", 0) == 0
        assert [line for line in gateway.logged if line["level"] not in ("info", "debug")] == []
    refused = sum(count for name, count in counters.items() if name.startswith(("refused.", "input.")))
    return {"seed": seed, "sent": sent, "refused": refused, "answered": answered, "closed": 0}


async def _send(raw: Socket, root: str, letters: Letters) -> int:
    count = 0
    while count < AT_ONCE:
        letter = letters.draw()
        words = f"{root}.in.{letter.after}".encode(), letter.reply.encode()
        if any(set(word) & set(b" \t\r\n") for word in words):
            continue  # the server would read another line
        header = f"NATS/1.0 {letter.status}\r\n\r\n".encode() if letter.status else None
        await raw.send(words[0], letter.body, words[1], header)
        count += 1
    return count


async def _is_answered(good: Peer, helper: Peer) -> int:
    outcome = await good.send_and_wait(helper, data="still here")
    assert outcome["outcome"] == "reply", outcome
    assert outcome["event"]["data"] == "still here"
    return 1
