"""The parts JSON Schemas are made of.

Keys may be added within a schema version, so further keys are allowed everywhere.
"""

from __future__ import annotations

from typing import Any, Final

from rolloutds.reports.model import SCHEMA_VERSION

Schema = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
ANY: Final[Schema] = {}
SEVERITY: Final[Schema] = {"enum": ["error", "warning", "note"]}
CODE: Final[Schema] = {"type": "string", "pattern": "^[A-Z]+[0-9]{3}$"}


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """A list of it."""
    return {"type": "array", "items": schema}


def named(schema: Schema) -> Schema:
    """An object with one of it under each key, whatever the keys are."""
    return {"type": "object", "additionalProperties": schema}


def record(*, optional: dict[str, Schema] | None = None, **fields: Schema) -> Schema:
    """An object that has these keys, and may have the optional ones."""
    properties = {**fields, **(optional or {})}
    return {"type": "object", "properties": properties, "required": sorted(fields)}


def document(kind: str, *, optional: dict[str, Schema] | None = None, **fields: Schema) -> Schema:
    """What a command prints: its kind, the version of the form, and these keys."""
    known: dict[str, Schema] = {"kind": {"const": kind}}
    known["schema_version"] = {"const": SCHEMA_VERSION}
    whole = record(optional=optional, **known, **fields)
    return {"$schema": _DIALECT, "title": f"rolloutds {kind}", **whole}
