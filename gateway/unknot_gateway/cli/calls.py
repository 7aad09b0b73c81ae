"""``unknot request`` and ``unknot send``: one message to an agent, from the agent that the user names, else ``cli``."""

import asyncio
import secrets
import sys
from typing import Any, Final

import click

from unknot_gateway.cli import exits, options

_KEYS: Final = ("outcome", "ok")
"""Of an Outcome, and of a Receipt."""
_RECEIPT_S: Final = 5.0
_SHOWN_CHARS_MAX: Final = 60
_UNREACHABLE: Final = frozenset({"unreachable"})


class _Target(click.ParamType[str]):
    name = "agent"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from unknot_schemas import ids

        named = ids.agent_id(value.removeprefix("@"))
        if named is None:
            self.fail(f"{value!r} names no agent and no @channel", param, ctx)
        return f"@{named}" if value.startswith("@") else named


class _Type(click.ParamType[str]):
    name = "type"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from unknot_schemas import ids

        if not ids.is_type(value):
            self.fail(f"{value!r} is no event type: lower-case dotted words", param, ctx)
        return value


class _Json(click.ParamType[bytes]):
    name = "json"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        import msgspec

        text = sys.stdin.read() if value == "-" else value
        try:
            return msgspec.json.encode(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError) as error:
            self.fail(f"no JSON: {error}{_json_hint(value)}", param, ctx)


def _json_hint(value: str) -> str:
    """What to type instead of *value*; nothing when it did not come from the command line."""
    if value == "-":
        return ""
    if value.startswith(("{", "[")):
        return """; double quotes inside, single quotes around all: '{"name": "world"}'"""
    import json
    import shlex

    text = value if len(value) <= _SHOWN_CHARS_MAX else "text"
    return f"; text needs quotes inside quotes: {shlex.quote(json.dumps(text, ensure_ascii=False))}"


_message = (
    click.argument("target", metavar="AGENT", type=_Target()),
    click.argument("event_type", metavar="TYPE", type=_Type()),
    click.argument("data", metavar="[JSON]", type=_Json(), default="null"),
)


def _with_message(function: Any) -> Any:
    for argument in reversed(_message):
        function = argument(function)
    return function


@click.command()
@_with_message
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="Seconds."
)
@click.option(
    "--wait-for-target",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Seconds that an agent who is not there yet is waited for.",
)
@options.where
def request(
    target: str,
    event_type: str,
    data: bytes,
    timeout: float,
    wait_for_target: float,
    where: options.Where,
    as_json: bool,
) -> None:
    """Ask AGENT (or @CHANNEL) with an event of TYPE, and print the answer. JSON '-' is read from stdin.

    With --json the whole outcome is printed, also when there is no answer.

    \b
    Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 the wait was in a deadlock,
                4 no NATS server, no gateway, or the agent is not there.
    """
    import msgspec

    from unknot_gateway.cli import talk
    from unknot_schemas import bodies

    asked = bodies.Envelope(
        unknot=1,
        id=secrets.token_urlsafe(16),
        data=msgspec.Raw(data),
        timeout_s=timeout,
        wait_for_target_s=min(wait_for_target, timeout),
    )
    payload = talk.run(_ask(where, target, event_type, asked))
    try:
        outcome = msgspec.json.decode(payload, type=bodies.Outcome)
    except msgspec.DecodeError:
        refused = msgspec.json.decode(payload, type=bodies.Receipt)
        raise exits.Failure(_said(refused.error)) from None
    if as_json:
        click.echo(payload)
    elif outcome.outcome == "reply" and outcome.event is not None:
        click.echo(msgspec.json.format(bytes(outcome.event.data), indent=2))
    if outcome.outcome != "reply":
        click.echo(f"{outcome.outcome}: {_said(outcome.error)}", err=True)
    if outcome.outcome in _UNREACHABLE:
        click.echo(
            f"--wait-for-target was {asked.wait_for_target_s:g} seconds: start {target}, or give more"
            " (at most --timeout)",
            err=True,
        )
    sys.exit(_code_of(outcome.outcome))


@click.command()
@_with_message
@options.where
def send(target: str, event_type: str, data: bytes, where: options.Where, as_json: bool) -> None:
    """Send AGENT (or @CHANNEL) a one-way event of TYPE; print its id. JSON '-' is read from stdin.

    The gateway keeps it until the agent has a free slot, at most 60 seconds. With --json the receipt is printed.

    \b
    Exit codes: 0 taken by the gateway, 1 refused, 2 wrong usage, 4 no NATS server or no gateway.
    """
    import msgspec

    from unknot_gateway.cli import talk
    from unknot_schemas import bodies

    event = bodies.Envelope(unknot=1, id=secrets.token_urlsafe(16), data=msgspec.Raw(data))
    payload = talk.run(_send(where, target, event_type, event))
    receipt = msgspec.json.decode(payload, type=bodies.Receipt)
    if as_json:
        click.echo(payload)
    elif receipt.ok:
        click.echo(receipt.id)
    if not receipt.ok:
        code = receipt.error.code if receipt.error is not None else ""
        click.echo(f"refused: {_said(receipt.error)}", err=True)
        sys.exit(exits.NOT_REACHABLE if code in _UNREACHABLE else exits.FAILED)


async def _ask(where: options.Where, target: str, event_type: str, asked: Any) -> bytes:
    import msgspec

    from unknot_gateway.cli import talk
    from unknot_schemas import limits

    subjects = talk.subjects_of(where.network)
    patience_s = asked.timeout_s + asked.wait_for_target_s + 2 * limits.CLIENT_GRACE_S
    async with talk.connected(where) as client:
        subject = subjects.event(where.agent, "request", target, event_type)
        try:
            return await talk.ask(client, subjects, subject, msgspec.json.encode(asked), patience_s, *_KEYS)
        except asyncio.CancelledError:  # Ctrl-C: nobody wants the answer any more
            await client.publish(
                subjects.verb(where.agent, "request.cancel"), b'{"id":"%b"}' % asked.id.encode()
            )
            raise


async def _send(where: options.Where, target: str, event_type: str, event: Any) -> bytes:
    import msgspec

    from unknot_gateway.cli import talk

    subjects = talk.subjects_of(where.network)
    async with talk.connected(where) as client:
        subject = subjects.event(where.agent, "send", target, event_type)
        return await talk.ask(client, subjects, subject, msgspec.json.encode(event), _RECEIPT_S, *_KEYS)


def _code_of(outcome: str) -> int:
    if outcome == "reply":
        return exits.OK
    if outcome == "deadlock":
        return exits.DEADLOCK
    return exits.NOT_REACHABLE if outcome in _UNREACHABLE else exits.FAILED


def _said(error: Any) -> str:
    return f"{error.message} ({error.code})" if error is not None else "no reason was given"
