"""JSON Schemas of what ``rolloutds ckpt`` prints."""

from __future__ import annotations

from typing import Final

from rolloutds.reports.schema_parts import (
    ANY,
    CODE,
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    SEVERITY,
    TEXT,
    WHOLE,
    Schema,
    document,
    listed,
    maybe,
    named,
    record,
)

_SYSTEMS: Final[dict[str, Schema]] = {
    "dialect": maybe(TEXT),
    "dialects": listed(TEXT),
    "systems": TEXT,
    "form": TEXT,
    "rollout_id": maybe(WHOLE),
    "saved_at": TEXT,
    "num_bytes": COUNT,
}
_IDENTITY: Final[dict[str, Schema]] = {"path": TEXT, **_SYSTEMS}
CURSOR_FILE: Final = record(**_IDENTITY)
"""Which cursor file it is, and whose."""

# What a damaged file claims may be any number, so these are not counts.
_POSITION: Final[dict[str, Schema]] = {
    "epoch_id": maybe(WHOLE),
    "offset": maybe(WHOLE),
    "num_rows": maybe(WHOLE),
    "percent": maybe(WHOLE),
    "num_groups": maybe(WHOLE),
    "n_samples_per_prompt": maybe(WHOLE),
    "next_rollout_id": maybe(WHOLE),
    "num_buffered": maybe(COUNT),
    "num_in_flight": maybe(COUNT),
    "position": OBJECT,
}
_OUR_POSITION: Final[dict[str, Schema]] = {
    "num_completed": ANY,
    "num_discarded": named(WHOLE),
    "fingerprint": maybe(OBJECT),
}
_FINDINGS: Final = listed(record(code=CODE, severity=SEVERITY, title=TEXT, field=TEXT, what=TEXT))
_UPCOMING: Final = record(
    origin=TEXT,
    row_id=maybe(COUNT),
    line=maybe(COUNT),
    file=maybe(TEXT),
    epoch_id=maybe(COUNT),
    sample_offset=maybe(COUNT),
    sample_group_index=maybe(WHOLE),
    sample_index=maybe(WHOLE),
    num_samples=COUNT,
    prompt=ANY,
    label=ANY,
)
_SHOWN: Final[dict[str, Schema]] = {
    **_SYSTEMS,
    **_POSITION,
    "words": TEXT,
    "state": maybe(OBJECT),
    "findings": _FINDINGS,
    "damaged_newer": listed(record(rollout_id=maybe(WHOLE), what=TEXT)),
}
_KNOWN: Final = sorted(_SHOWN.keys() - {"dialect"})

_ENTRY: Final = record(
    rollout_id=maybe(WHOLE),
    path=TEXT,
    state=TEXT,
    dialects=listed(TEXT),
    epoch_id=maybe(WHOLE),
    offset=maybe(WHOLE),
    num_groups=maybe(WHOLE),
    num_groups_since=maybe(WHOLE),
    num_buffered=maybe(COUNT),
    num_in_flight=maybe(COUNT),
    num_bytes=maybe(COUNT),
    saved_at=maybe(TEXT),
    marks=listed(TEXT),
    error=maybe(TEXT),
)
_AUDITED: Final = record(
    what={"enum": ["repeated", "missing", "other_text"]},
    sample_group_index=COUNT,
    epoch_id=COUNT,
    sample_offset=COUNT,
    row_id=COUNT,
    line=maybe(COUNT),
    file=TEXT,
    optional={
        "rollouts": listed(TEXT),
        "prompt": ANY,
        "found_at": maybe(record(file=TEXT, row_id=COUNT)),
    },
)

CKPT_SCHEMAS: Final[dict[str, Schema]] = {
    # A file of no known dialect has its path and everything in it, and nothing else.
    "ckpt_show": {
        **document(
            "ckpt_show",
            path=TEXT,
            dialect=maybe(TEXT),
            optional={
                **{key: schema for key, schema in _SHOWN.items() if key != "dialect"},
                **_OUR_POSITION,
                "next": listed(maybe(COUNT)),
                "next_groups": listed(_UPCOMING),
                "raw": ANY,
            },
        ),
        "anyOf": [{"required": _KNOWN}, {"required": ["raw"]}],
    },
    "ckpt_list": document(
        "ckpt_list",
        folder=TEXT,
        num_files=COUNT,
        num_bad=COUNT,
        groups_per_rollout=maybe(NUMBER),
        newest_good_id=maybe(WHOLE),
        start_rollout_id=maybe(WHOLE),
        notes=listed(TEXT),
        files=listed(_ENTRY),
    ),
    "ckpt_diff": document(
        "ckpt_diff",
        old=CURSOR_FILE,
        new=CURSOR_FILE,
        num_changes=COUNT,
        consumed=maybe(
            record(
                is_backwards=FLAG,
                num_rows=COUNT,
                spans=listed(record(epoch_id=COUNT, start=COUNT, stop=COUNT)),
                row_ids=listed(COUNT),
                files=maybe(listed(TEXT)),
            )
        ),
        changes=listed(
            record(field=TEXT, old=ANY, new=ANY, difference=maybe({"type": ["number", "string"]}))
        ),
    ),
    "ckpt_verify": document(
        "ckpt_verify",
        **_IDENTITY,
        **_POSITION,
        is_good=FLAG,
        num_errors=COUNT,
        num_warnings=COUNT,
        findings=_FINDINGS,
        optional=_OUR_POSITION,
    ),
    "ckpt_audit": document(
        "ckpt_audit",
        state=maybe(TEXT),
        dumps=listed(TEXT),
        num_rows=COUNT,
        num_drawn=COUNT,
        num_dumped=COUNT,
        num_once=COUNT,
        num_repeated=COUNT,
        num_missing=COUNT,
        num_waiting=COUNT,
        num_discarded=COUNT,
        num_other_text=COUNT,
        num_without_index=COUNT,
        num_beyond=COUNT,
        epochs=listed(
            record(
                epoch_id=COUNT,
                num_drawn=COUNT,
                num_once=COUNT,
                num_repeated=COUNT,
                num_waiting=COUNT,
                num_missing=COUNT,
            )
        ),
        groups=listed(_AUDITED),
    ),
    "ckpt_move": document("ckpt_move", path=TEXT, new_path=TEXT, state=OBJECT, moved=OBJECT),
}
"""The schema of each kind."""
