"""JSON Schemas of what commands print with ``--format json``: one entry a kind."""

from __future__ import annotations

from typing import Final

from rolloutds.reports.buffer_schemas import BUFFER_SCHEMAS
from rolloutds.reports.ckpt_schemas import CKPT_SCHEMAS, CURSOR_FILE
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

FINDING: Final = record(
    code=CODE,
    name=TEXT,
    severity=SEVERITY,
    message=TEXT,
    file=TEXT,
    line=maybe({"type": "integer", "minimum": 1}),
    column=maybe({"type": "integer", "minimum": 1}),
    row_id=maybe(COUNT),
    group=maybe(WHOLE),
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
    "num_lines": COUNT,
    "num_blank": COUNT,
    "num_skipped": COUNT,
    "num_outside_slice": COUNT,
    "num_too_long": COUNT,
    "rollout_max_prompt_len": maybe(COUNT),
    "rollout_shuffle": FLAG,
    "rollout_seed": maybe(WHOLE),
    "rollout_batch_size": maybe(COUNT),
    "n_samples_per_prompt": COUNT,
    "input_key": TEXT,
    "label_key": maybe(TEXT),
    "tokenizer": maybe(TEXT),
    "apply_chat_template": FLAG,
}
# Groups of a state may be of no row of the data, and in no epoch.
_GROUP: Final = record(
    position=COUNT,
    epoch_id=maybe(COUNT),
    sample_offset=maybe(COUNT),
    row_id=maybe(COUNT),
    line=maybe(COUNT),
    file=maybe(TEXT),
    sample_group_index=maybe(WHOLE),
    sample_index=maybe(WHOLE),
    n_samples_per_prompt=COUNT,
    prompt=ANY,
    prompt_tokens=maybe(COUNT),
    label=ANY,
    metadata=OBJECT,
    optional={"rollout_id": maybe(COUNT), "origin": TEXT},
)
_CURSOR: Final[dict[str, Schema]] = {
    "epoch_id": COUNT,
    "sample_offset": COUNT,
    "sample_group_index": COUNT,
    "sample_index": COUNT,
}
_SHARD: Final = record(
    path=TEXT,
    num_bytes=COUNT,
    token=TEXT,
    digest=TEXT,
    num_rows=COUNT,
    num_lines=COUNT,
    optional={
        "num_blank": COUNT,
        "num_skipped": COUNT,
        "skipped": listed(listed(COUNT)),
        "findings": listed(listed(ANY)),
        "notices": listed(listed(TEXT)),
    },
)
_SPAN: Final = record(epoch_id=COUNT, start=COUNT, stop=COUNT)

_WORKER: Final = record(
    name=TEXT,
    host=TEXT,
    pid=COUNT,
    node=TEXT,
    is_alive=FLAG,
    why_left=maybe(TEXT),
    is_slow=FLAG,
    num_in_flight=COUNT,
    num_draws=COUNT,
    num_drawn=COUNT,
    num_completed=COUNT,
    num_discarded=COUNT,
    num_returned=COUNT,
    num_requeued=COUNT,
    num_waiting_draws=COUNT,
    oldest_seconds=maybe(NUMBER),
    median_seconds=maybe(NUMBER),
    last_call_seconds=NUMBER,
)

SCHEMAS: dict[str, Schema] = {
    "validate": document(
        "validate",
        num_errors=COUNT,
        num_warnings=COUNT,
        num_notes=COUNT,
        num_listed=COUNT,
        num_not_listed=COUNT,
        num_known=COUNT,
        fail_on=SEVERITY,
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
        codes_run=listed(CODE),
        skipped=listed(record(code=CODE, reason=TEXT)),
        statistics=listed(record(code=CODE, name=TEXT, severity=SEVERITY, count=COUNT)),
        notices=listed(TEXT),
        findings=listed(FINDING),
    ),
    "explain": document(
        "explain",
        codes=listed(
            record(
                code=CODE,
                name=TEXT,
                severity=SEVERITY,
                needs=listed(TEXT),
                what=TEXT,
                why=TEXT,
                example=TEXT,
                fix=TEXT,
            )
        ),
    ),
    # `start` where consecutive groups are shown, `checkpoint` where they are a state's next.
    "peek": document(
        "peek",
        **_DATA,
        groups=listed(_GROUP),
        optional={
            "start": record(**_CURSOR, rollout_id=maybe(COUNT)),
            "checkpoint": CURSOR_FILE,
        },
    ),
    "plan": document(
        "plan",
        **_DATA,
        samples_per_rollout=COUNT,
        rollouts_per_epoch=COUNT,
        num_leftover_rows=COUNT,
        num_rollout=maybe(COUNT),
        num_groups=maybe(COUNT),
        rollouts_until_repeat=maybe(COUNT),
        epochs_until_repeat=maybe(COUNT),
        num_mixed_rollouts=maybe(COUNT),
        end=maybe(record(**_CURSOR)),
        leftover_rows=listed(record(file=TEXT, row_id=COUNT, line=maybe(COUNT))),
        wraps=listed(
            record(
                epoch_id=COUNT,
                rollout_id=COUNT,
                num_groups_before=COUNT,
                num_groups_after=COUNT,
                is_inside_rollout=FLAG,
                spans=listed(_SPAN),
            )
        ),
    ),
    # What `manifest build` prints is the manifest that it writes.
    "manifest": document(
        "manifest",
        root=TEXT,
        data=TEXT,
        form={"enum": ["file", "folder", "glob"]},
        settings=OBJECT,
        keys=OBJECT,
        inspected_by=TEXT,
        columns=listed(TEXT),
        num_shards=COUNT,
        num_rows=COUNT,
        num_bytes=COUNT,
        digest=TEXT,
        shards=listed(_SHARD),
    ),
    "manifest_check": document(
        "manifest_check",
        path=TEXT,
        num_shards=COUNT,
        num_rows=COUNT,
        num_bytes=COUNT,
        num_read=COUNT,
        num_missing=COUNT,
        num_changed=COUNT,
        num_extra=COUNT,
        digest=TEXT,
        differences=listed(record(path=TEXT, state={"enum": ["missing", "changed", "extra"]})),
    ),
    "index": document(
        "index",
        prompt_data=TEXT,
        cache_folder=TEXT,
        num_files=COUNT,
        num_rows=COUNT,
        num_lines=COUNT,
        num_blank=COUNT,
        num_skipped=COUNT,
        num_bad=COUNT,
        num_bytes=COUNT,
        num_cached=COUNT,
        num_built=COUNT,
        num_not_kept=COUNT,
        files=listed(
            record(
                **_FILE["properties"],
                num_bad=COUNT,
                digest=TEXT,
                state={"enum": ["cached", "built", "not kept"]},
                problems=listed(TEXT),
            )
        ),
        optional={"rollout_max_prompt_len": COUNT, "num_measured": COUNT},
    ),
    "ray_status": document(
        "ray_status",
        name=TEXT,
        namespace=TEXT,
        host=TEXT,
        pid=COUNT,
        num_restarts=COUNT,
        cursor=record(**_CURSOR),
        num_rows=COUNT,
        num_in_flight=COUNT,
        num_waiting=COUNT,
        num_buffered=COUNT,
        num_completed=COUNT,
        num_discarded=named(COUNT),
        num_removed_not_returned=COUNT,
        num_by_policy=named(COUNT),
        max_in_flight=maybe(COUNT),
        max_in_flight_per_worker=maybe(COUNT),
        slow_after=NUMBER,
        journal=maybe(TEXT),
        journal_bytes=COUNT,
        workers=listed(_WORKER),
    ),
    "config": document(
        "config",
        config_file=maybe(TEXT),
        settings=listed(
            record(
                name=TEXT, value=ANY, origin=TEXT, default=ANY, flag=TEXT, variable=TEXT, help=TEXT
            )
        ),
    ),
    "env": document(
        "env",
        rolloutds=maybe(TEXT),
        python=TEXT,
        python_implementation=TEXT,
        platform=TEXT,
        cache_folder=TEXT,
        config_file=maybe(TEXT),
        variables=named(TEXT),
        packages=named(maybe(TEXT)),
    ),
    "cache": document(
        "cache",
        folder=TEXT,
        num_files=COUNT,
        num_bytes=COUNT,
        files=listed(
            record(path=TEXT, kind=TEXT, source=maybe(TEXT), num_bytes=COUNT, modified=TEXT)
        ),
    ),
    "cache_clear": document("cache_clear", folder=TEXT, num_files=COUNT, num_bytes=COUNT),
    **CKPT_SCHEMAS,
    **BUFFER_SCHEMAS,
}
"""The schema of each kind."""
