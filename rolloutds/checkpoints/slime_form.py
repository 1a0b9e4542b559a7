"""The form of slime, miles and vime: four numbers and metadata. Ours is the same with more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolloutds.checkpoints.base import (
    CERTAIN,
    UNLIKE,
    Dialect,
    Finding,
    Position,
    count_in,
    is_count,
)
from rolloutds.checkpoints.native import FORMAT_VERSION, OUR_KEY
from rolloutds.errors import CheckpointError

REFERENCE_KEYS = (
    "sample_offset",
    "epoch_id",
    "sample_group_index",
    "sample_index",
    "metadata",
)
"""The reference's five keys, in its order."""

_NESTED = 2
"""Lists around a sample: a group, or a group of compact rollouts."""

_NUMBERS = REFERENCE_KEYS[:4]


class SlimeDialect(Dialect):
    """States of slime, miles and vime."""

    name = "slime"
    systems = "slime, miles or vime"
    form = "cursor of four numbers"
    looked_for = "an object with sample_offset and epoch_id"
    layouts = (
        "rollout/global_dataset_state_dict_{id}.pt",
        "global_dataset_state_dict_{id}.pt",
    )
    counts_rollouts = True

    def likeness(self, value: Any, path: Path) -> int:
        """By its keys alone: no other system has them."""
        if not _has_cursor(value) or OUR_KEY in value:
            return UNLIKE
        return CERTAIN

    def position(self, value: Any) -> Position:
        """The cursor, and what its numbers imply."""
        cursor = _cursor_of(value, self.form)
        return Position(
            epoch_id=cursor["epoch_id"],
            offset=cursor["sample_offset"],
            num_rows=implied_rows(cursor),
            num_groups=cursor["sample_group_index"],
            n_samples_per_prompt=_implied_size(cursor),
            findings=_key_findings(value),
        )


class RolloutdsDialect(SlimeDialect):
    """Our own states: slime's keys on top, the rest under one key."""

    name = "rolloutds"
    systems = "rolloutds"
    form = "cursor of four numbers with fingerprint, buffer and groups in flight"
    looked_for = 'an object with sample_offset, epoch_id and "rolloutds"'

    def likeness(self, value: Any, path: Path) -> int:
        """By our own key."""
        return CERTAIN if _has_cursor(value) and OUR_KEY in value else UNLIKE

    def position(self, value: Any) -> Position:
        """The cursor, the buffer and what is in flight."""
        cursor = _cursor_of(value, self.form)
        ours = our_part_of(value)
        buffer, in_flight = buffered_groups(value), in_flight_groups(value)
        return Position(
            epoch_id=cursor["epoch_id"],
            offset=cursor["sample_offset"],
            num_rows=count_in(ours.get("fingerprint"), "num_rows") or implied_rows(cursor),
            num_groups=cursor["sample_group_index"],
            n_samples_per_prompt=count_in(ours, "n_samples_per_prompt") or _implied_size(cursor),
            num_buffered=len(buffer),
            num_in_flight=len(in_flight),
            num_discarded=sum(discarded_by_reason(value).values()),
            findings=[*_key_findings(value), *_our_findings(value)],
        )


def _has_cursor(value: Any) -> bool:
    return isinstance(value, dict) and "sample_offset" in value and "epoch_id" in value


def _cursor_of(value: Any, form: str) -> dict[str, int | None]:
    if not isinstance(value, dict):
        raise CheckpointError(f"holds a {type(value).__name__}", expected=f"a {form}")
    return {key: count_in(value, key) for key in _NUMBERS}


def implied_rows(cursor: dict[str, int | None]) -> int | None:
    """Rows of an epoch that the numbers imply, once an epoch is over; None when they imply none."""
    epoch_id, offset = cursor["epoch_id"], cursor["sample_offset"]
    groups = cursor["sample_group_index"]
    if not epoch_id or offset is None or groups is None or groups < offset:
        return None
    rows, rest = divmod(groups - offset, epoch_id)
    return rows if rows and not rest and offset <= rows else None


def _implied_size(cursor: dict[str, int | None]) -> int | None:
    groups, samples = cursor["sample_group_index"], cursor["sample_index"]
    if not groups or samples is None or samples % groups:
        return None
    return samples // groups or None


# --- our part -----------------------------------------------------------------------------


def our_part_of(value: Any) -> dict[str, Any]:
    """What we save beside the reference's keys; empty when there is none, or no object."""
    ours = value.get(OUR_KEY) if isinstance(value, dict) else None
    return ours if isinstance(ours, dict) else {}


def buffered_groups(value: Any) -> Sequence[Any]:
    """The groups in the buffer: samples' dicts, a row's name, or whatever the file holds."""
    buffer = our_part_of(value).get("buffer")
    return buffer if isinstance(buffer, list) else []


def in_flight_part(value: Any) -> dict[str, Any]:
    """The ledger of groups in flight; empty when there is none."""
    part = our_part_of(value).get("in_flight")
    return part if isinstance(part, dict) else {}


def in_flight_groups(value: Any) -> Sequence[Any]:
    """The groups in flight, each a dict (or whatever the file holds)."""
    groups = in_flight_part(value).get("groups")
    return groups if isinstance(groups, list) else []


def discarded_by_reason(value: Any) -> dict[str, int]:
    """Groups rejected so far, by reason."""
    found = in_flight_part(value).get("num_discarded")
    reasons = found if isinstance(found, dict) else {}
    return {
        key: count for key, count in reasons.items() if isinstance(key, str) and is_count(count)
    }


def fingerprint_in(value: Any) -> dict[str, Any] | None:
    """The fingerprint that the state carries."""
    fingerprint = our_part_of(value).get("fingerprint")
    return fingerprint if isinstance(fingerprint, dict) else None


def samples_of(group: Any) -> Any:
    """The samples of a waiting group; None of one that is named by its row."""
    if not isinstance(group, dict):
        return group
    return group.get("samples", None if "row_position" in group else [])


def group_index_in(group: Any) -> int | None:
    """The index of a waiting group: a list of samples, or a dict of its numbers."""
    for _ in range(_NESTED):
        if isinstance(group, list):
            group = group[0] if group else None
    return count_in(group, "group_index")


# --- what is wrong whatever the data ------------------------------------------------------


def _key_findings(value: dict[str, Any]) -> list[Finding]:
    findings = []
    for key in REFERENCE_KEYS:
        if key not in value:
            code = "CKPT003" if key == "sample_group_index" else "CKPT002"
            findings.append(Finding(code, key, "is missing"))
        elif key in _NUMBERS and not is_count(value[key]):
            what = f"is {_described(value[key])}, expected a count"
            findings.append(Finding("CKPT004", key, what))
    if "metadata" in value and not isinstance(value["metadata"], dict):
        what = f"is {_described(value['metadata'])}, expected an object"
        findings.append(Finding("CKPT004", "metadata", what))
    return findings


def _described(value: Any) -> str:
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return str(value) if value.bit_length() < 128 else f"of {value.bit_length()} bits"
    return f"a {type(value).__name__}"


def _our_findings(value: dict[str, Any]) -> list[Finding]:
    if OUR_KEY not in value:
        return [Finding("CKPT002", OUR_KEY, "is missing")]
    ours = value[OUR_KEY]
    if not isinstance(ours, dict):
        return [Finding("CKPT004", OUR_KEY, f"is {_described(ours)}, expected an object")]
    findings = []
    if ours.get("format_version") != FORMAT_VERSION:
        what = f"is {_described(ours.get('format_version'))}, expected {FORMAT_VERSION}"
        findings.append(Finding("CKPT005", f"{OUR_KEY}.format_version", what))
    for name, holder, kind in (
        ("buffer", ours, list),
        ("in_flight", ours, dict),
        ("in_flight.groups", in_flight_part(value), list),
    ):
        found = holder.get(name.rpartition(".")[2])
        if not isinstance(found, kind):
            what = f"is {_described(found)}, expected {'a list' if kind is list else 'an object'}"
            findings.append(Finding("CKPT004", f"{OUR_KEY}.{name}", what))
    if isinstance(ours.get("moved"), dict):
        findings.append(Finding("CKPT030", f"{OUR_KEY}.moved", "was written by `ckpt move`"))
    return findings
