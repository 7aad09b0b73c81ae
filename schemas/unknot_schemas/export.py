"""Writes the contract for other languages: `python -m unknot_schemas.export FOLDER`.

``json/bodies.json``: JSON Schema of all bodies. ``asyncapi.json``: who sends what on which subject.
``typescript/unknot.d.ts``: both as types.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from msgspec import NODEFAULT, Raw, defstruct
from msgspec.json import schema_components
from msgspec.structs import FieldInfo, fields

from unknot_schemas import bodies, export_asyncapi, export_typescript, holds, resources

BODIES: Final = Path("json/bodies.json")
ASYNCAPI: Final = Path("asyncapi.json")
TYPESCRIPT: Final = Path("typescript/unknot.d.ts")


def all_bodies() -> list[type[bodies.Body]]:
    """Every body of the wire."""
    return [
        found
        for found in {**vars(bodies), **vars(holds), **vars(resources)}.values()
        if isinstance(found, type) and issubclass(found, bodies.Body) and found is not bodies.Body
    ]


def definitions(ref_template: str) -> dict[str, Any]:
    """The schema of each body by its name (JSON Schema 2020-12)."""
    _, components = schema_components([_twin(body) for body in all_bodies()], ref_template=ref_template)
    return components


def schema() -> dict[str, Any]:
    """All bodies under ``$defs``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "unknot, the wire, version 1: bodies",
        "$defs": definitions("#/$defs/{name}"),
    }


def export(folder: Path) -> None:
    """Write everything into *folder*: for the same contract the same files, byte by byte."""
    _write(folder / BODIES, _as_json(schema(), sort_keys=True))
    described = export_asyncapi.document(definitions("#/components/schemas/{name}"))
    _write(folder / ASYNCAPI, _as_json(described, sort_keys=False))
    _write(folder / TYPESCRIPT, export_typescript.text(all_bodies()))


def _as_json(value: dict[str, Any], *, sort_keys: bool) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=sort_keys) + "\n"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


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
