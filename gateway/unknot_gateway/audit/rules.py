"""The rules: what each finds, why that matters, and what to write instead."""

from typing import Final

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One rule. *what* finishes the sentence of a finding."""

    id: str
    what: str
    why: str
    instead: str

    @property
    def is_about_the_file(self) -> bool:
        """Whether its findings say what is wrong with a file as a whole."""
        return self.id == UNREADABLE


_NOT_SEEN: Final = "unknot does not see this wait: a knot that goes through it ends by a timeout, if at all"

_ALL: Final = (
    Rule(
        "UNK001",
        "waits for an answer or a message on NATS past the gateway",
        _NOT_SEEN,
        "await ctx.send_and_wait(agent, type, data); what no agent answers: async with ctx.tool(name)",
    ),
    Rule(
        "UNK002",
        "waits for whoever puts something into a queue, or takes it out",
        _NOT_SEEN,
        "await ctx.receive(queue, producer=agent)",
    ),
    Rule(
        "UNK003",
        "waits for whoever sets an event, notifies a condition or comes to a barrier",
        _NOT_SEEN,
        'async with ctx.blocking_on("agent", name)',
    ),
    Rule(
        "UNK004",
        "waits for whoever sets the result of a future",
        _NOT_SEEN,
        'async with ctx.blocking_on("agent", name), or ask by ctx.send_and_wait',
    ),
    Rule(
        "UNK005",
        "waits for a lock that is held while its holder waits",
        _NOT_SEEN,
        "async with ctx.lock(name)",
    ),
    Rule(
        "UNK006",
        "waits for a permit of a semaphore",
        _NOT_SEEN,
        "async with ctx.permits(name, units)",
    ),
    Rule(
        "UNK007",
        "asks again and again, with a sleep between, until something has happened",
        "the loop looks busy to everybody, and nobody knows for what it waits",
        "await ctx.wait_for_artifact(name), or async with ctx.blocking_on(kind, id) around the loop",
    ),
    Rule(
        "UNK008",
        "stops the thread for a time: in a coroutine all of its event loop",
        "nothing else of the agent runs meanwhile, heartbeats and answers neither",
        "await asyncio.sleep(seconds)",
    ),
    Rule(
        "UNK009",
        "waits for a web server, and stops the thread: in a coroutine all of its event loop",
        "nothing else of the agent runs meanwhile, heartbeats and answers neither",
        "async with ctx.tool(name), with an asynchronous client inside",
    ),
    Rule(
        "UNK010",
        "waits for another process to end or to say something",
        _NOT_SEEN,
        "async with ctx.tool(name), with asyncio.create_subprocess_exec inside",
    ),
    Rule(
        "UNK011",
        "waits for a human at a terminal",
        _NOT_SEEN,
        "await ctx.approval(by, data)",
    ),
    Rule(
        "UNK090",
        "suppresses without a reason: it suppresses nothing",
        "whoever reads it later cannot know whether it still holds",
        "# unknot: ok(why this wait can do no harm)",
    ),
    Rule(
        "UNK091",
        "suppresses nothing: there is no finding here",
        "what it once excused is gone, and the next wait here would go unnoticed",
        "delete the comment",
    ),
    Rule(
        "UNK099",
        "cannot be read, or is no Python: nothing is known of what it waits for",
        "a file that is left out silently looks like a clean one",
        "repair or exclude it",
    ),
)

RULES: Final = {rule.id: rule for rule in _ALL}
NATS, QUEUE, EVENT, FUTURE, LOCK, SEMAPHORE = "UNK001", "UNK002", "UNK003", "UNK004", "UNK005", "UNK006"
POLLING, SLEEP, HTTP, PROCESS, TERMINAL = "UNK007", "UNK008", "UNK009", "UNK010", "UNK011"
NO_REASON, UNUSED, UNREADABLE = "UNK090", "UNK091", "UNK099"


class Finding(Struct, frozen=True, order=True):
    """One place; *line* and *column* from 1. *text*: what it is there."""

    path: str
    line: int
    column: int
    rule: str
    text: str
