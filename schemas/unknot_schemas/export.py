"""Writes the wire's bodies as JSON Schema: `python -m unknot_schemas.export FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from msgspec import NODEFAULT, Raw, defstruct
from msgspec.json import schema_components
from msgspec.structs import FieldInfo, fields

from unknot_schemas import bodies

FILE: Final = "bodies.json"


def schema() -> dict[str, Any]:
    """All bodies under ``$defs`` (JSON Schema 2020-12)."""
    shown = [
        _twin(found)
        for found in vars(bodies).values()
        if isinstance(found, type) and issubclass(found, bodies.Body) and found is not bodies.Body
    ]
    _, components = schema_components(shown, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "unknot, the wire, version 1: bodies",
        "$defs": components,
    }


def export(folder: Path) -> None:
    """Write the schema into *folder*: for the same bodies the same file, byte by byte."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(schema(), indent=2, ensure_ascii=False, sort_keys=True)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")


def _twin(body: type[bodies.Body]) -> type:
    """*body* itself, or its like where a default is Raw, which msgspec reads and writes but cannot describe."""
    if not any(isinstance(known.default, Raw) for known in fields(body)):
        return body
    return defstruct(
        body.__name__, [_field(known) for known in fields(body)], namespace={"__doc__": body.__doc__}
    )


def _field(known: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if known.required:
        return known.encode_name, known.type
    assert known.default is not NODEFAULT, "a body with a Raw default has plain defaults only"
    return known.encode_name, known.type, None if isinstance(known.default, Raw) else known.default


if __name__ == "__main__":
    export(Path(sys.argv[1]))
