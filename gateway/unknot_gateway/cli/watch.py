"""``unknot watch``: notices of deadlocks, as they come."""

import asyncio
import contextlib
import signal
import sys
from typing import Any, Final

import click

from unknot_gateway.cli import exits, options

_DEADLOCK: Final = "agent.wait.deadlock_detected"


@click.command()
@click.option("--once", is_flag=True, help="End after the first deadlock, with exit code 3.")
@click.option("--all", "everything", is_flag=True, help="All notices, not only deadlocks.")
@options.where
def watch(once: bool, everything: bool, where: options.Where, as_json: bool) -> None:
    """Print deadlocks as they are found, until Ctrl-C. With --json one object a line: {"type", "data"}.

    \b
    Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 wrong usage, 3 with --once: a deadlock was found,
                4 no NATS server.
    """
    from unknot_gateway.cli import talk

    if talk.run(_watch(where, once, everything, as_json)):
        sys.exit(exits.DEADLOCK)


async def _watch(where: options.Where, once: bool, everything: bool, as_json: bool) -> bool:
    """Whether it ended because of a deadlock."""
    from unknot_gateway.cli import talk

    subjects = talk.subjects_of(where.network)
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _end, ended, False)

    async def on_notice(message: Any) -> None:
        kind = message.subject.removeprefix(subjects.notice(""))
        if kind != _DEADLOCK and not everything:
            return
        click.echo(_line(kind, message.data) if as_json else _sentence(kind, message.data))
        if once and kind == _DEADLOCK:
            _end(ended, True)

    async with talk.connected(where, again=True) as client:
        await client.subscribe(subjects.notice(">"), cb=on_notice)
        await asyncio.sleep(0)  # the PING must not pass the subscription
        await asyncio.sleep(0)
        await client.flush()
        client.check()
        try:
            await talk.ask_api(client, subjects, "stats", b"")
        except exits.NobodyThere as nobody:
            click.echo(f"{nobody.message}; waiting for one", err=True)
        click.echo(f"watching network {where.network} at {where.shown}", err=True)
        return await ended


def _end(ended: "asyncio.Future[bool]", found: bool) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        ended.set_result(found)


def _line(kind: str, data: bytes) -> bytes:
    return b'{"type":"%b","data":%b}' % (kind.encode(), data)


def _sentence(kind: str, data: bytes) -> str:
    import msgspec

    said = msgspec.json.decode(data)
    if kind != _DEADLOCK:
        return f"{kind}: {data.decode()}"
    behind = ", ".join(said["blocked_behind"]) or "nobody"
    return (
        f"deadlock: {' -> '.join(said['cycle'])}  [{said['incident']}]\n"
        f"  requests:       {', '.join(said['request_ids'])}\n"
        f"  blocked behind: {behind}\n"
        f"  policy:         {said['policy']} (evidence: {said['evidence']})\n"
        f"  remedy:         {said['remedy']}"
    )
