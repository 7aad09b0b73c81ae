"""From a payload to a body of the contract. Raises BadInput, which says what its sender is told."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from unknot_gateway.shell.checks import FLAT_BYTES, BadInput, check_body, check_envelope, check_json
from unknot_schemas import bodies, errors, ids, limits, resources

_EMPTY: Final = bodies.Envelope()
_MISSES_SESSION: Final = "required field `session`"


class _Marked(Struct, gc=False):
    unknot: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Readable(Struct, gc=False):
    """What can still be said of a body that cannot be taken."""

    id: Any = None
    session: Any = None


class _AckError(Struct, gc=False):
    err_code: int


class _PubAck(Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    seq: int
    domain: str | None = None
    duplicate: bool = False
    error: _AckError | None = None
    """A refusal (stream full, for one) has it, too."""


_decode_envelope = msgspec.json.Decoder(bodies.Envelope).decode
_marked = msgspec.json.Decoder(_Marked)
_readable = msgspec.json.Decoder(_Readable)
_pub_ack = msgspec.json.Decoder(_PubAck)
_bodies: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "hello": msgspec.json.Decoder(bodies.Hello),
    "heartbeat": msgspec.json.Decoder(bodies.Heartbeat),
    "bye": msgspec.json.Decoder(bodies.Bye),
    "done": msgspec.json.Decoder(bodies.Done),
    "defer": msgspec.json.Decoder(bodies.Defer),
    "facts": msgspec.json.Decoder(bodies.Facts),
    "wait.open": msgspec.json.Decoder(bodies.WaitOpen),
    "wait.close": msgspec.json.Decoder(bodies.WaitClose),
    "request.cancel": msgspec.json.Decoder(bodies.RequestCancel),
    "lock.acquire": msgspec.json.Decoder(resources.LockAcquire),
    "lock.renew": msgspec.json.Decoder(resources.LockRenew),
    "lock.release": msgspec.json.Decoder(resources.LockRelease),
    "lock.check": msgspec.json.Decoder(resources.LockCheck),
    "pool.declare": msgspec.json.Decoder(resources.PoolDeclare),
    "artifact.declare": msgspec.json.Decoder(resources.ArtifactDeclare),
    "artifact.withdraw": msgspec.json.Decoder(resources.ArtifactWithdraw),
    "artifact.publish": msgspec.json.Decoder(resources.ArtifactPublish),
    "artifact.forget": msgspec.json.Decoder(resources.ArtifactForget),
    "artifact.wait": msgspec.json.Decoder(resources.ArtifactWait),
    "approval.request": msgspec.json.Decoder(resources.ApprovalRequest),
    "approval.resolve": msgspec.json.Decoder(resources.ApprovalResolve),
    "holder.set": msgspec.json.Decoder(resources.HolderSet),
    "holder.clear": msgspec.json.Decoder(resources.HolderClear),
}


def read_envelope(payload: bytes) -> bodies.Envelope:
    """The envelope; of JSON without the key ``unknot`` one that has all of it as data. Empty is null."""
    if not payload:
        return _EMPTY
    if len(payload) > FLAT_BYTES or not payload.isascii():
        check_json(payload)
    try:
        envelope = _decode_envelope(payload)
    except msgspec.ValidationError as error:
        if _has_mark(payload):
            raise BadInput(errors.BAD_REQUEST, str(error)) from error
        return _bare(payload)
    except msgspec.DecodeError as error:
        raise BadInput(errors.BAD_REQUEST, f"the body is no JSON: {error}") from error
    if not envelope.unknot:
        return _bare(payload)
    check_envelope(envelope)
    return envelope


def read_body(verb: str, payload: bytes) -> Any:
    """The body of one of the verbs about sessions, waits and requests, in the verb's own type."""
    check_json(payload)
    try:
        body = _bodies[verb].decode(payload)
    except msgspec.ValidationError as error:
        code = errors.SESSION_REQUIRED if _MISSES_SESSION in str(error) else errors.BAD_REQUEST
        raise BadInput(code, f"{verb}: {error}") from error
    except msgspec.DecodeError as error:
        raise BadInput(errors.BAD_REQUEST, f"{verb}: the body is no JSON: {error}") from error
    check_body(body)
    return body


def is_pub_ack(payload: bytes) -> bool:
    """Whether JetStream says here that a stream has taken a message, or could not."""
    try:
        _pub_ack.decode(payload)
    except msgspec.DecodeError:
        return False
    return True


def id_and_session(payload: bytes) -> tuple[str | None, str | None]:
    """Of a body that cannot be taken, where they can be read at all."""
    if len(payload) > limits.DATA_BYTES_MAX:
        return None, None
    try:
        seen = _readable.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None, None
    return _if_id(seen.id), _if_id(seen.session)


def _if_id(value: Any) -> str | None:
    return value if isinstance(value, str) and ids.is_id(value) else None


def _bare(payload: bytes) -> bodies.Envelope:
    """The whole body is data; the decoder of Raw skips, so this one reads it all."""
    try:
        msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise BadInput(errors.BAD_REQUEST, f"the body is no JSON: {error}") from error
    return bodies.Envelope(data=msgspec.Raw(payload))


def _has_mark(payload: bytes) -> bool:
    try:
        return _marked.decode(payload).unknot is not msgspec.UNSET
    except msgspec.DecodeError:
        return False
