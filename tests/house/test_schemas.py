"""What the repository has for other languages is what the code says: JSON Schema, AsyncAPI, TypeScript."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import ROOT
from unknot_schemas import Subjects, bodies, errors, holds, resources
from unknot_schemas.subjects import Inbound

pytestmark = pytest.mark.once

COMMITTED = ROOT / "schemas"
FILES = ("json/bodies.json", "asyncapi.json", "typescript/unknot.d.ts")
BODIES = {
    found.__name__: found
    for module in (bodies, holds, resources)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, bodies.Body) and found is not bodies.Body
}
EXAMPLES = {
    "network": "default",
    "agent": "writer",
    "session": "s1",
    "target": "@reviews",
    "type": "draft.ready",
    "request_id": "r1",
    "channel": "reviews",
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return json.loads((COMMITTED / "json/bodies.json").read_text())["$defs"]


@pytest.fixture(scope="module")
def asyncapi() -> dict[str, Any]:
    return json.loads((COMMITTED / "asyncapi.json").read_text())


@pytest.fixture(scope="module")
def typescript() -> str:
    return (COMMITTED / "typescript/unknot.d.ts").read_text()


def test_what_is_committed_is_what_make_schemas_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "unknot_schemas.export", str(tmp_path)], check=True)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(FILES)
    for file in FILES:
        assert (COMMITTED / file).read_text() == (tmp_path / file).read_text(), "stale: run `make schemas`"


def test_every_body_is_described(described: dict[str, Any]) -> None:
    assert set(described) == set(BODIES)
    assert all(definition["description"] for definition in described.values())


def test_a_field_that_an_agent_must_send_is_required(described: dict[str, Any]) -> None:
    required = {name for name in described if "session" in described[name].get("required", ())}
    assert {"Hello", "Heartbeat", "Facts", "WaitOpen"} <= required
    assert described["Envelope"].get("required", []) == []


# ---------------------------------------------------------------------------- AsyncAPI


def references(node: Any) -> Iterator[str]:
    """Every ``$ref`` in *node*."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_reference_of_the_asyncapi_document_leads_somewhere(asyncapi: dict[str, Any]) -> None:
    for reference in set(references(asyncapi)):
        found: Any = asyncapi
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_every_operation_uses_messages_of_its_channel(asyncapi: dict[str, Any]) -> None:
    for operation in asyncapi["operations"].values():
        for part in (operation, operation.get("reply")):
            for message in part["messages"] if part else ():
                assert message["$ref"].startswith(f"{part['channel']['$ref']}/messages/")


def test_every_part_of_an_address_is_a_parameter(asyncapi: dict[str, Any]) -> None:
    for channel in asyncapi["channels"].values():
        named = re.findall(r"{(\w+)}", channel["address"] or "")
        assert named == list(channel.get("parameters", {}))


def test_what_a_client_sends_by_asyncapi_is_what_the_gateway_reads(asyncapi: dict[str, Any]) -> None:
    sent = [one for one in asyncapi["operations"].values() if one["action"] == "send"]
    verbs = set()
    for operation in sent:
        channel = asyncapi["channels"][operation["channel"]["$ref"].removeprefix("#/channels/")]
        read = Subjects().parse(channel["address"].format(**EXAMPLES))
        assert isinstance(read, Inbound)
        verbs.add(read.verb)
    assert {"send", "ask", "request", "publish", "reply", "hello", "wait.open", "request.cancel"} <= verbs
    assert len(verbs) == len(sent)


def test_the_asyncapi_document_has_the_bodies_of_the_json_schema(
    asyncapi: dict[str, Any], described: dict[str, Any]
) -> None:
    moved = json.dumps(described, sort_keys=True).replace("#/$defs/", "#/components/schemas/")
    assert json.dumps(asyncapi["components"]["schemas"], sort_keys=True) == moved


# ---------------------------------------------------------------------------- TypeScript


def interface(typescript: str, name: str) -> dict[str, tuple[bool, str]]:
    """Whether each field of an interface must be there, and its type."""
    match = re.search(rf"^export interface {name} {{\n(.*?)^}}", typescript, re.MULTILINE | re.DOTALL)
    assert match, name
    fields = re.findall(r"^  (\w+)(\??): (.*);$", match[1], re.MULTILINE)
    return {field: (not optional, of) for field, optional, of in fields}


def test_every_field_of_every_body_has_a_type(typescript: str, described: dict[str, Any]) -> None:
    for name, definition in described.items():
        fields = interface(typescript, name)
        assert set(fields) == set(definition["properties"])
        must = {field for field, (required, _) in fields.items() if required}
        assert must - {"unknot"} == set(definition.get("required", [])) - {"unknot"}


def test_types_are_those_of_the_structs(typescript: str) -> None:
    assert interface(typescript, "Delivered")["for"] == (False, "string | null")
    assert interface(typescript, "Envelope")["data"] == (False, "Json")
    assert interface(typescript, "Heartbeat")["held"] == (False, "Held[]")
    assert interface(typescript, "Facts")["strands"] == (False, "{ [key: string]: Strands }")
    assert interface(typescript, "Held")["state"] == (False, '"deferred" | "running"')
    assert interface(typescript, "Outcome")["event"] == (False, "Delivered | null")


def test_every_named_type_is_declared(typescript: str) -> None:
    declared = set(re.findall(r"^export (?:interface|type) (\w+)", typescript, re.MULTILINE))
    plain = re.sub(r'/\*\*.*?\*/|//[^\n]*|"[^"]*"|`[^`]*`', "", typescript, flags=re.DOTALL)
    assert set(re.findall(r"\b[A-Z]\w+", plain)) == declared


def test_braces_and_brackets_of_the_types_are_closed(typescript: str) -> None:
    for left, right in ("{}", "[]", "()"):
        assert typescript.count(left) == typescript.count(right)


def test_every_error_code_is_named(typescript: str) -> None:
    codes = [value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)]
    assert codes
    assert all(f'| "{code}"' in typescript for code in codes)
