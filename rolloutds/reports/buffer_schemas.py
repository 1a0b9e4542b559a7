"""JSON Schemas of what ``rolloutds buffer`` prints."""

from __future__ import annotations

from typing import Final

from rolloutds.reports.schema_parts import (
    ANY,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Schema,
    document,
    listed,
    maybe,
    named,
    record,
)

_NUMBERS: Final = listed(maybe(NUMBER))
_FACTS: Final[dict[str, Schema]] = {
    "position": COUNT,
    "group": WHOLE,
    "rollout_id": maybe(WHOLE),
    "size": COUNT,
    "num_samples": COUNT,
    "num_pending": COUNT,
    "num_completed": COUNT,
    "num_truncated": COUNT,
    "num_aborted": COUNT,
    "num_failed": COUNT,
    "num_other": COUNT,
    "num_rewards": COUNT,
    "reward_mean": maybe(NUMBER),
    "reward_std": maybe(NUMBER),
    "reward_min": maybe(NUMBER),
    "reward_max": maybe(NUMBER),
    "response_length_min": maybe(NUMBER),
    "response_length_mean": maybe(NUMBER),
    "response_length_max": maybe(NUMBER),
    "version_min": maybe(WHOLE),
    "version_max": maybe(WHOLE),
    "age": maybe(WHOLE),
    "num_removed": COUNT,
    "is_eval": FLAG,
    "origin": TEXT,
    "file": TEXT,
    "prompt": TEXT,
    "statuses": named(COUNT),
    "rewards": {"anyOf": [_NUMBERS, named(_NUMBERS)]},
    "response_lengths": listed(maybe(WHOLE)),
    "versions": listed(WHOLE),
}
_DISTRIBUTION: Final = record(
    count=COUNT,
    num_missing=COUNT,
    mean=maybe(NUMBER),
    std=maybe(NUMBER),
    histogram=listed(record(low=NUMBER, high=NUMBER, num=COUNT)),
    optional={"p5": NUMBER, "p50": NUMBER, "p95": NUMBER},
)
_TALLY: Final[dict[str, Schema]] = {
    "num_groups": COUNT,
    "num_samples": COUNT,
    "group_sizes": named(COUNT),
    "statuses": named(COUNT),
    "rewards": _DISTRIBUTION,
    "rewards_by_key": named(_DISTRIBUTION),
    "num_odd_rewards": COUNT,
    "num_rewarded_groups": COUNT,
    "num_zero_spread": COUNT,
    "num_all_lowest": COUNT,
    "num_all_highest": COUNT,
    "num_aborted_groups": COUNT,
    "num_removed": COUNT,
    "response_lengths": _DISTRIBUTION,
    "response_characters": _DISTRIBUTION,
    "versions": named(COUNT),
    "version_spreads": named(COUNT),
}
_GROUP_NUMBER: Final[Schema] = {"type": ["integer", "string"]}
_GROUP_NUMBERS: Final = listed(_GROUP_NUMBER)
_REPLAY_FINDING: Final = record(
    code=TEXT,
    name=TEXT,
    severity={"enum": ["error", "warning"]},
    message=TEXT,
    round_number=maybe(COUNT),
    field=maybe(TEXT),
    groups=_GROUP_NUMBERS,
    num_groups=COUNT,
    frames=listed(TEXT),
)
_REPLAYED: Final = record(
    filter=TEXT,
    num_rounds=COUNT,
    ended=TEXT,
    num_refilled=COUNT,
    num_served=COUNT,
    num_removed=COUNT,
    num_left=COUNT,
    never_served=_GROUP_NUMBERS,
    seconds=NUMBER,
    only_this_takes=_GROUP_NUMBERS,
    only_this_takes_in_round_1=_GROUP_NUMBERS,
    findings=listed(_REPLAY_FINDING),
)
_ROUND: Final = record(
    filter=TEXT,
    round=COUNT,
    rollout_id=maybe(WHOLE),
    num_asked=COUNT,
    num_refilled=COUNT,
    num_before=COUNT,
    num_returned=COUNT,
    num_new=COUNT,
    num_taken=COUNT,
    num_left=COUNT,
    num_removed=COUNT,
    num_still_in=COUNT,
    returned=listed(record(group=_GROUP_NUMBER, rewards=listed(ANY))),
    removed=_GROUP_NUMBERS,
    seconds=NUMBER,
)
_FILE_READ: Final = record(
    path=TEXT,
    format_name=TEXT,
    rollout_id=maybe(WHOLE),
    is_eval=FLAG,
    num_groups=COUNT,
    num_samples=COUNT,
)

BUFFER_SCHEMAS: Final[dict[str, Schema]] = {
    "buffer_show": document(
        "buffer_show",
        num_groups=COUNT,
        num_shown=COUNT,
        newest_version=maybe(WHOLE),
        groups=listed(record(**_FACTS)),
    ),
    "buffer_group": document(
        "buffer_group", **_FACTS, place=TEXT, samples=listed({"type": "object"})
    ),
    "buffer_stats": document(
        "buffer_stats",
        **_TALLY,
        num_files=COUNT,
        files=listed(record(file=TEXT, rollout_id=maybe(WHOLE), is_eval=FLAG, **_TALLY)),
        optional={"by": TEXT, "parts": named(record(**_TALLY))},
    ),
    "buffer_replay": document(
        "buffer_replay",
        files=listed(TEXT),
        num_samples=COUNT,
        num_groups=COUNT,
        n_samples_per_prompt=maybe(COUNT),
        filters=listed(_REPLAYED),
        rounds=listed(_ROUND),
    ),
    "buffer_convert": document(
        "buffer_convert",
        path=TEXT,
        format=TEXT,
        num_groups=COUNT,
        num_samples=COUNT,
        num_bytes=COUNT,
        dropped=named(COUNT),
        remarks=listed(TEXT),
        files=listed(_FILE_READ),
    ),
    "buffer_filters": document(
        "buffer_filters",
        num_filters=COUNT,
        filters=listed(record(name=TEXT, path=TEXT, summary=TEXT, reads=listed(TEXT))),
    ),
}
"""The schema of each kind."""
