"""What a body must keep beyond its types: sizes, nesting, ids. Raises BadInput, which says what to do."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from unknot_gateway.shell.limits import IDS_KNOWN_MAX
from unknot_schemas import bodies, errors, holds, ids, limits, resources

_is_id: Final = ids.is_id
_is_known_id: Final = lru_cache(IDS_KNOWN_MAX)(ids.is_id)
# For ids that come again and again, of sessions and executions: three times as fast.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_CONNECTION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}/[0-9]{1,20}")
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f]*")
FLAT_BYTES: Final = 2 * limits.NESTING_MAX
"""So short a body cannot be nested too deeply: each level takes two bytes."""


class BadInput(Exception):
    """A body cannot be taken; *error* is what its sender is told."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.error = bodies.Error(code, message)


def known_ids() -> int:
    """How many ids of sessions and executions are known to be well formed."""
    return _is_known_id.cache_info().currsize


def check_json(payload: bytes) -> None:
    """Size, encoding and nesting of a whole body, before any decoder sees it."""
    if len(payload) > limits.DATA_BYTES_MAX:
        raise BadInput(
            errors.TOO_LARGE, f"the body has {len(payload)} bytes; at most {limits.DATA_BYTES_MAX} are taken"
        )
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise BadInput(errors.BAD_REQUEST, f"the body is no UTF-8: {error}") from error
    if len(payload) > FLAT_BYTES and _may_be_deep(payload) and _nesting(payload) > limits.NESTING_MAX:
        raise BadInput(errors.BAD_REQUEST, f"the body is nested deeper than {limits.NESTING_MAX} levels")


def check_envelope(envelope: bodies.Envelope) -> None:
    """Ids, protocol and metadata of an envelope."""
    if envelope.unknot != limits.PROTOCOL:
        raise BadInput(
            errors.PROTOCOL_UNKNOWN, f"unknot: {envelope.unknot} is not spoken here; {limits.PROTOCOL} is"
        )
    # Most are absent, and this runs for every message: no call for what is not there, or is known.
    if envelope.id is not None and not ids.id_match(envelope.id):
        _check_id("id", envelope.id)
    if envelope.session is not None and not _is_known_id(envelope.session):
        _check_id("session", envelope.session)
    if envelope.execution is not None and not _is_known_id(envelope.execution):
        _check_id("execution", envelope.execution)
    if envelope.strand is not None:
        _check_id("strand", envelope.strand)
    if envelope.run is not None:
        _check_id("run", envelope.run)
    if envelope.group is not None:
        _check_id("group.id", envelope.group.id)
    if envelope.response_to is not None:
        _check_id("response_to", envelope.response_to)
    if envelope.accept_uncorrelated is not None:
        _check_pattern("accept_uncorrelated", envelope.accept_uncorrelated)
    if envelope.metadata is not None and len(bytes(envelope.metadata)) > limits.METADATA_BYTES_MAX:
        raise BadInput(errors.TOO_LARGE, f"metadata has more than {limits.METADATA_BYTES_MAX} bytes")


def check_body(body: bodies.Body) -> None:
    """Ids and lengths of what a session says about itself."""
    _check_id("session", getattr(body, "session", None))
    match body:
        case bodies.Hello():
            _check_hello(body)
        case bodies.Heartbeat():
            _check_connection(body.connection)
            _check_ids("open", body.open)
            _check_ids("held", (held.id for held in body.held), len(body.held))
            _check_holds(body.holds)
        case bodies.Done() | bodies.Defer():
            _check_ids("ids", body.ids)
            _check_id("by", getattr(body, "by", None))
        case bodies.Facts():
            _check_facts(body)
        case bodies.WaitOpen():
            _check_wait(body)
        case bodies.WaitClose() | bodies.RequestCancel():
            _check_id("id", body.id)
        case _:
            check_resources(body)


def _check_hello(hello: bodies.Hello) -> None:
    _check_id("instance", hello.instance)
    _check_connection(hello.connection)
    _check_ids("open", hello.open or ())
    held = hello.held or []
    _check_ids("held", (one.id for one in held), len(held))
    _check_ids("answered", hello.answered or ())
    _check_holds(hello.holds)
    channels = hello.channels or []
    _check_count("channels", len(channels), limits.CHANNELS_MAX)
    for channel in channels:
        if ids.agent_id(channel) != channel:
            raise BadInput(errors.BAD_ID, f"channels: {channel[:80]!r} cannot name a channel")
    pools = hello.pools or []
    _check_count("pools", len(pools), limits.POOLS_MAX)
    for pool in pools:
        _check_count("pools: types", len(pool.types or ()), limits.POOL_TYPES_MAX)
        for pattern in pool.types or ():
            _check_pattern("pools: types", pattern)


def _check_facts(facts: bodies.Facts) -> None:
    _check_id("incident", facts.incident)
    _check_ids("open", facts.open)
    _check_ids("requests", facts.requests, len(facts.requests))
    _check_ids("strands", facts.strands, len(facts.strands))
    for strands in facts.strands.values():
        _check_ids("alive", (strand for strand in strands.alive if strand), len(strands.alive))
        _check_ids("awaited", (strand for strand in strands.awaited if strand), len(strands.awaited))


def _check_wait(wait: bodies.WaitOpen) -> None:
    _check_id("id", wait.id)
    _check_id("execution", wait.execution)
    _check_id("strand", wait.strand)
    _check_id("group", wait.group)
    _check_id("run", wait.run)
    _check_count("on", len(wait.on), limits.CONDITIONS_MAX)
    for condition in wait.on:
        _check_condition(condition)


def _check_condition(condition: bodies.WaitCondition) -> None:
    what = f"on: {condition.kind[:20]}"
    if condition.source is not None and ids.agent_id(condition.source) is None:
        raise BadInput(errors.BAD_ID, f"{what}: {condition.source[:80]!r} cannot name an agent")
    if condition.kind == "reply":
        _check_id(what, condition.id)
    elif condition.kind == "event":
        _check_pattern(what, condition.id)
    elif condition.kind == "agent" and ids.agent_id(condition.id) is None:
        raise BadInput(errors.BAD_ID, f"{what}: {condition.id[:80]!r} cannot name an agent")
    elif len(condition.id) > limits.CONDITION_ID_CHARS_MAX or not _PRINTABLE.fullmatch(condition.id):
        raise BadInput(
            errors.BAD_ID,
            f"{what}: an id has at most {limits.CONDITION_ID_CHARS_MAX} characters, no control characters",
        )


def _check_holds(named: Sequence[holds.Hold] | None) -> None:
    _check_count("holds", len(named or ()), limits.NAMED_IDS_MAX)
    for hold in named or ():
        check_resources(hold)


def check_resources(body: bodies.Body) -> None:
    """Ids and lengths of what is said about locks, permits, artifacts and approvals."""
    for name in ("execution", "strand", "run"):
        _check_id(name, getattr(body, name, None))
    match body:
        case resources.LockAcquire() | holds.Hold():
            _check_id("id", body.id)
            _check_count("resources", len(body.resources), limits.CONDITIONS_MAX)
            for wanted in body.resources:
                _check_name("resources", wanted.id)
        case resources.LockRenew() | resources.LockRelease() | resources.ApprovalResolve():
            _check_id("id", body.id)
        case resources.ArtifactWait():
            _check_id("id", body.id)
            _check_name("artifact", body.artifact)
        case resources.ApprovalRequest():
            _check_id("id", body.id)
            _check_name("from", body.from_)
        case resources.LockCheck():
            _check_name("resource", body.resource)
        case resources.HolderSet() | resources.HolderClear():
            _check_name("id", body.id)
            if body.holder is not None:
                _check_holder(body.holder)
        case _ if (named := getattr(body, "id", None)) is not None:
            _check_name("id", named)
        case _:
            pass


def _check_holder(holder: resources.Holder) -> None:
    if ids.agent_id(holder.agent) is None:
        raise BadInput(errors.BAD_ID, f"holder: {holder.agent[:80]!r} cannot name an agent")
    _check_id("holder: execution", holder.execution)


def _check_name(field: str, value: str) -> None:
    """Names of things outside the id alphabet."""
    if not value or len(value) > limits.CONDITION_ID_CHARS_MAX or not _PRINTABLE.fullmatch(value):
        raise BadInput(
            errors.BAD_ID,
            f"{field}: a name has 1 to {limits.CONDITION_ID_CHARS_MAX} characters, no control characters",
        )


def _check_id(field: str, value: str | None) -> None:
    if value is not None and not _is_id(value):
        raise BadInput(
            errors.BAD_ID, f"{field}: {value[:80]!r} is no id: letters, digits, '_' and '-', at most 64"
        )


def _check_connection(connection: str | None) -> None:
    if connection is not None and not _CONNECTION.fullmatch(connection):
        raise BadInput(
            errors.BAD_ID, f"connection: {connection[:80]!r} is none: <server id>/<client id>, as INFO says"
        )


def _check_ids(field: str, values: Iterable[str], count: int | None = None) -> None:
    _check_count(field, len(values) if count is None else count, limits.NAMED_IDS_MAX)  # type: ignore[arg-type]
    for value in values:
        _check_id(field, value)


def _check_count(field: str, count: int, most: int) -> None:
    if count > most:
        raise BadInput(errors.TOO_LARGE, f"{field} names {count}; at most {most} are taken")


def _check_pattern(field: str, pattern: str) -> None:
    if not ids.is_pattern(pattern):
        raise BadInput(errors.BAD_ID, f"{field}: {pattern[:80]!r} is no pattern of event types ('thread.>')")


def _may_be_deep(payload: bytes) -> bool:
    # In what has few of them replace() is five times as fast as count(), which looks at each byte by itself.
    flat = payload.replace(b"[", b"").replace(b"{", b"")
    return len(payload) - len(flat) > limits.NESTING_MAX


def _nesting(payload: bytes) -> int:
    brackets = _STRINGS.sub(b"", payload).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
