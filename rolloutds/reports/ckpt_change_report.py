"""What ``ckpt diff`` and ``ckpt move`` say: old and new side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rolloutds.checkpoints.base import CursorFile
from rolloutds.checkpoints.diff import Change, Consumed
from rolloutds.checkpoints.slime_form import REFERENCE_KEYS
from rolloutds.checkpoints.tree import Tree
from rolloutds.reports.ckpt_report import count_text, identity, words
from rolloutds.reports.model import Cells, Column, Facts, Heading, Report, Section, Table

_IDS_SHOWN = 32

# --- diff ---------------------------------------------------------------------------------


def diff_report(
    old: CursorFile, new: CursorFile, found: Sequence[Change], consumed: Consumed | None
) -> Report:
    """What differs between two files, and which rows lie between them."""
    data: dict[str, Any] = {
        "old": identity(old),
        "new": identity(new),
        "num_changes": len(found),
        "consumed": None if consumed is None else _consumed_record(consumed),
    }
    return Report(
        kind="ckpt_diff",
        data=data,
        records_name="changes",
        records=[
            {"field": c.name, "old": c.old, "new": c.new, "difference": c.difference} for c in found
        ],
        sections=_diff_sections(old, new, found, consumed),
    )


def _diff_sections(
    old: CursorFile, new: CursorFile, found: Sequence[Change], consumed: Consumed | None
) -> Iterator[Section]:
    facts = [
        ("old", f"{old.path} ({words(old, old.position.num_rows)})"),
        ("new", f"{new.path} ({words(new, new.position.num_rows)})"),
    ]
    if consumed is not None:
        facts += _consumed_facts(consumed)
    yield Facts(facts)
    if not found:
        yield Heading("no field differs")
        return
    columns = [
        Column("field"),
        Column("old", is_list=True),
        Column("new", is_list=True),
        Column("difference", is_flexible=True),
    ]
    yield Table(columns, [Cells(_change_cells(change)) for change in found])


def _change_cells(change: Change) -> list[str]:
    difference = change.difference
    if isinstance(difference, int | float):
        shown = f"{difference:+,}"
    else:
        shown = difference or ""
    return [change.name, Tree().brief(change.old), Tree().brief(change.new), shown]


def _consumed_record(consumed: Consumed) -> dict[str, Any]:
    return {
        "is_backwards": consumed.is_backwards,
        "num_rows": consumed.num_rows,
        "spans": [span._asdict() for span in consumed.spans],
        "row_ids": list(consumed.row_ids),
        "files": None if consumed.files is None else list(consumed.files),
    }


def _consumed_facts(consumed: Consumed) -> list[tuple[str, str]]:
    verb = "to be served again" if consumed.is_backwards else "consumed between them"
    facts = [("rows", f"{count_text(consumed.num_rows, 'row')} {verb}")]
    if consumed.spans:
        spans = [f"epoch {s.epoch_id}: {s.start:,} to {s.stop - 1:,}" for s in consumed.spans[:6]]
        more = len(consumed.spans) - len(spans)
        facts.append(("positions", "; ".join(spans) + (f"; {more:,} more epochs" if more else "")))
    if consumed.row_ids:
        ids = ", ".join(map(str, consumed.row_ids[:_IDS_SHOWN]))
        more = len(consumed.row_ids) - _IDS_SHOWN
        rest = f" and {more:,} more (all in --format json)" if more > 0 else ""
        facts.append(("row ids", ids + rest))
    return facts


# --- move ---------------------------------------------------------------------------------


def move_report(file: CursorFile, new: Path, state: Mapping[str, Any]) -> Report:
    """What a moved state is, and what was changed."""
    note = state["rolloutds"]["moved"]
    rows = [
        Cells([key, Tree().leaf(file.value.get(key)), Tree().leaf(state[key])])
        for key in REFERENCE_KEYS[:4]
    ]
    facts = [
        ("from", str(file.path)),
        ("new file", str(new)),
        (
            "left out",
            f"{count_text(note['num_dropped_buffer'], 'group')} of the buffer, "
            f"{note['num_dropped_in_flight']:,} in flight",
        ),
    ]
    return Report(
        kind="ckpt_move",
        data={
            "path": str(file.path),
            "new_path": str(new),
            "state": {key: state[key] for key in REFERENCE_KEYS[:4]},
            "moved": Tree().plain(note),
        },
        sections=[
            Facts(facts),
            Table([Column("field"), Column("old", "right"), Column("new", "right")], rows),
        ],
    )
