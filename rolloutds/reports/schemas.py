"""JSON Schemas of what commands print with ``--format json``: one entry a kind.

Keys may be added within a schema version, so further keys are allowed everywhere.
"""

from __future__ import annotations

from typing import Any, Final

from rolloutds.reports.model import SCHEMA_VERSION

Schema = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
ANY: Final[Schema] = {}


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """A list of it."""
    return {"type": "array", "items": schema}


def record(**fields: Schema) -> Schema:
    """An object that has these keys."""
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def _document(kind: str, **fields: Schema) -> Schema:
    known: dict[str, Schema] = {"kind": {"const": kind}}
    known["schema_version"] = {"const": SCHEMA_VERSION}
    return {"$schema": _DIALECT, "title": f"rolloutds {kind}", **record(**known, **fields)}


_SEVERITY: Final[Schema] = {"enum": ["error", "warning", "note"]}
_CODE: Final[Schema] = {"type": "string", "pattern": "^[A-Z]+[0-9]{3}$"}

FINDING: Final = record(
    code=_CODE,
    name=TEXT,
    severity=_SEVERITY,
    message=TEXT,
    file=TEXT,
    line=maybe({"type": "integer", "minimum": 1}),
    column=maybe({"type": "integer", "minimum": 1}),
    row_id=maybe(COUNT),
    group=maybe({"type": "integer"}),
    sample=maybe(COUNT),
    fingerprint=TEXT,
)
"""One finding; also a line of ``validate --format jsonl``."""

_FILE: Final = record(
    path=TEXT, num_rows=COUNT, num_lines=COUNT, num_blank=COUNT, num_skipped=COUNT, num_bytes=COUNT
)
_DATA: Final[dict[str, Schema]] = {
    "prompt_data": TEXT,
    "files": listed(_FILE),
    "slice": maybe(TEXT),
    "num_rows": COUNT,
    "num_too_long": COUNT,
    "rollout_max_prompt_len": maybe(COUNT),
    "rollout_shuffle": FLAG,
    "rollout_seed": {"type": "integer"},
    "rollout_batch_size": maybe(COUNT),
    "n_samples_per_prompt": COUNT,
    "input_key": TEXT,
    "label_key": maybe(TEXT),
    "tokenizer": maybe(TEXT),
    "apply_chat_template": FLAG,
}
_GROUP: Final = record(
    position=COUNT,
    epoch_id=COUNT,
    sample_offset=COUNT,
    row_id=COUNT,
    line=maybe(COUNT),
    file=TEXT,
    sample_group_index=maybe(COUNT),
    sample_index=maybe(COUNT),
    n_samples_per_prompt=COUNT,
    prompt=ANY,
    prompt_tokens=maybe(COUNT),
    label=ANY,
    metadata={"type": "object"},
)

SCHEMAS: dict[str, Schema] = {
    "validate": _document(
        "validate",
        num_errors=COUNT,
        num_warnings=COUNT,
        num_notes=COUNT,
        num_listed=COUNT,
        num_not_listed=COUNT,
        num_known=COUNT,
        fail_on=_SEVERITY,
        shows_statistics=FLAG,
        checked=listed(
            record(
                kind={"enum": ["dataset", "groups", "checkpoint"]},
                name=TEXT,
                count=COUNT,
                unit=TEXT,
                num_bytes=COUNT,
            )
        ),
        codes_run=listed(_CODE),
        skipped=listed(record(code=_CODE, reason=TEXT)),
        statistics=listed(record(code=_CODE, name=TEXT, severity=_SEVERITY, count=COUNT)),
        notices=listed(TEXT),
        findings=listed(FINDING),
    ),
    "explain": _document(
        "explain",
        codes=listed(
            record(
                code=_CODE,
                name=TEXT,
                severity=_SEVERITY,
                needs=listed(TEXT),
                what=TEXT,
                why=TEXT,
                example=TEXT,
                fix=TEXT,
            )
        ),
    ),
    "peek": _document("peek", **_DATA, start=ANY, groups=listed(_GROUP)),
    "plan": _document(
        "plan",
        **_DATA,
        samples_per_rollout=COUNT,
        rollouts_per_epoch=COUNT,
        num_leftover_rows=COUNT,
        num_rollout=maybe(COUNT),
        num_groups=maybe(COUNT),
        end=ANY,
        leftover_rows=listed(record(file=TEXT, row_id=COUNT, line=maybe(COUNT))),
        wraps=listed(
            record(
                epoch_id=COUNT,
                rollout_id=COUNT,
                num_groups_before=COUNT,
                num_groups_after=COUNT,
                is_inside_rollout=FLAG,
                spans={"type": "array"},
            )
        ),
    ),
    "config": _document(
        "config",
        config_file=maybe(TEXT),
        settings=listed(record(name=TEXT, value=ANY, origin=TEXT, default=ANY, help=TEXT)),
    ),
    "env": _document(
        "env",
        rolloutds=maybe(TEXT),
        python=TEXT,
        platform=TEXT,
        cache_folder=TEXT,
        config_file=maybe(TEXT),
        variables={"type": "object"},
        packages={"type": "object"},
    ),
    "cache": _document(
        "cache",
        folder=TEXT,
        num_files=COUNT,
        num_bytes=COUNT,
        files=listed(record(path=TEXT, kind=TEXT, num_bytes=COUNT)),
    ),
}
"""The schema of each kind."""
