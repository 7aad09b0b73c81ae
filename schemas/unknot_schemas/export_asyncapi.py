"""The wire as an AsyncAPI 3.0 document, seen from a client."""

import re
from collections.abc import Iterable
from typing import Any, Final

from unknot_schemas import bodies
from unknot_schemas.export_operations import PARAMETERS, Operation, operations
from unknot_schemas.limits import PROTOCOL
from unknot_schemas.subjects import DEFAULT_NETWORK

_PLACE: Final = re.compile(r"{(\w+)}")
_ABOUT: Final = (
    "An event gateway between agents on NATS. JSON bodies; unknown fields are ignored; no NATS headers. "
    "A body of an event that is no object with the key `unknot` is the data itself. The prefix `unknot` of all "
    "subjects can be set at the gateway."
)
_NATS: Final = {"nats": {"bindingVersion": "0.1.0"}}


def document(definitions: dict[str, Any]) -> dict[str, Any]:
    """The whole document. *definitions*: schemas of all bodies, with references to ``#/components/schemas``."""
    known = list(operations())
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "unknot", "version": f"{PROTOCOL}.0.0", "description": _ABOUT},
        "defaultContentType": "application/json",
        "servers": {"nats": _server()},
        "channels": {one.name: _channel(one) for one in known} | _reply_channels(known),
        "operations": {f"{one.does}.{one.name}": _operation(one) for one in known},
        "components": {
            "messages": {name: _message(name, definitions[name]) for name in _bodies(known)},
            "schemas": definitions,
        },
    }


def _server() -> dict[str, Any]:
    return {
        "host": "{host}",
        "protocol": "nats",
        "description": "The NATS server of the gateway.",
        "variables": {"host": {"default": "127.0.0.1:4222"}},
    }


def _channel(one: Operation) -> dict[str, Any]:
    return {
        "address": one.subject,
        "description": one.about,
        "messages": {_name(one.body): {"$ref": f"#/components/messages/{_name(one.body)}"}},
        "parameters": {name: _parameter(name) for name in _PLACE.findall(one.subject)},
    }


def _parameter(name: str) -> dict[str, Any]:
    default = {"default": DEFAULT_NETWORK} if name == "network" else {}
    return {"description": PARAMETERS[name], **default}


def _reply_channels(known: Iterable[Operation]) -> dict[str, Any]:
    """One for each set of answers: NATS names the subject in the message that is answered."""
    return {
        _reply_name(one): {
            "address": None,
            "description": "The NATS reply subject.",
            "messages": {
                _name(each): {"$ref": f"#/components/messages/{_name(each)}"} for each in one.answers
            },
        }
        for one in known
        if one.answers
    }


def _operation(one: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "action": one.does,
        "channel": {"$ref": f"#/channels/{one.name}"},
        "summary": one.about,
        "messages": [{"$ref": f"#/channels/{one.name}/messages/{_name(one.body)}"}],
        "bindings": _NATS,
    }
    if one.answers:
        channel = f"#/channels/{_reply_name(one)}"
        described["reply"] = {
            "channel": {"$ref": channel},
            "messages": [{"$ref": f"{channel}/messages/{_name(each)}"} for each in one.answers],
        }
    return described


def _message(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": definition["description"],
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{name}"},
    }


def _bodies(known: Iterable[Operation]) -> list[str]:
    return sorted({_name(each) for one in known for each in (one.body, *one.answers)})


def _reply_name(one: Operation) -> str:
    return "answer." + ".".join(_name(each) for each in one.answers)


def _name(body: type[bodies.Body]) -> str:
    return body.__name__
