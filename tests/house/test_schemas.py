"""The JSON Schema in the repository is that of the code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from unknot_schemas import bodies

pytestmark = pytest.mark.once

COMMITTED = ROOT / "schemas" / "json"


def test_the_committed_schema_is_what_make_schemas_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "unknot_schemas.export", str(tmp_path)], check=True)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in COMMITTED.iterdir()} == written, (
        "stale: run `make schemas`"
    )


def test_every_body_is_described() -> None:
    described = json.loads((COMMITTED / "bodies.json").read_text())["$defs"]
    structs = {
        name
        for name, found in vars(bodies).items()
        if isinstance(found, type) and issubclass(found, bodies.Body) and found is not bodies.Body
    }
    assert set(described) == structs
    assert all(definition["description"] for definition in described.values())


def test_a_field_that_an_agent_must_send_is_required() -> None:
    described = json.loads((COMMITTED / "bodies.json").read_text())["$defs"]
    required = {name for name in described if "session" in described[name].get("required", ())}
    assert {"Hello", "Heartbeat", "Facts", "WaitOpen"} <= required
    assert described["Envelope"].get("required", []) == []
