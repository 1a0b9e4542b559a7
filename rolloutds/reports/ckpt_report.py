"""What ``ckpt show`` and ``ckpt verify`` say: words first, then fields, then what is odd."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolloutds.checkpoints.base import CursorFile, Finding
from rolloutds.checkpoints.slime_form import (
    REFERENCE_KEYS,
    SlimeDialect,
    buffered_groups,
    discarded_by_reason,
    fingerprint_in,
    in_flight_part,
    samples_of,
)
from rolloutds.checkpoints.tree import Tree
from rolloutds.checkpoints.verify import CODES, Against, examine, has_errors, severity
from rolloutds.group_forms import leaves
from rolloutds.reports.model import Block, Cells, Column, Facts, Heading, Report, Section, Table

if TYPE_CHECKING:
    from rolloutds.checkpoints.upcoming import UpcomingGroup

_PROMPT_LIMIT = 100
_IDS_SHOWN = 32


# --- show ---------------------------------------------------------------------------------


def show_report(
    file: CursorFile,
    against: Against | None,
    *,
    upcoming: Sequence[UpcomingGroup] | None = None,
    raw: bool = False,
    skipped: Sequence[tuple[int | None, str]] = (),
) -> Report:
    """One cursor file.

    Args:
        file: the file.
        against: the data it is held against, if any.
        upcoming: the groups it serves next, when they were asked for.
        raw: whether everything in it is shown as well.
        skipped: newer files that cannot be used: id and what is wrong.
    """
    findings = examine(file, against)
    num_rows = against.num_rows if against else file.position.num_rows
    data: dict[str, Any] = {
        **identity(file),
        "words": words(file, num_rows),
        **_position_data(file, num_rows),
        "state": _reference_state(file),
        "findings": [finding_record(finding) for finding in findings],
        "damaged_newer": [{"rollout_id": i, "what": what} for i, what in skipped],
    }
    if upcoming is not None:
        data["next"] = [group.row_id for group in upcoming]
        data["next_groups"] = [_upcoming_record(group) for group in upcoming]
    if raw:
        data["raw"] = Tree().plain(file.value)
    sections: list[Section] = [
        Heading(words(file, num_rows)),
        Facts([*_file_facts(file), *_stand_facts(file, num_rows)]),
        Heading("fields"),
        _fields_table(file),
    ]
    if findings:
        sections += [Heading("odd"), _findings_table(findings)]
    if upcoming is not None:
        sections += [Heading(f"next {len(upcoming):,}"), _upcoming_table(upcoming)]
    if raw:
        sections.append(Block("\n".join(Tree().lines(file.value)), title="everything in the file"))
    return Report(kind="ckpt_show", data=data, sections=sections)


def raw_report(path: Path, value: Any) -> Report:
    """What is in a file of no known dialect."""
    return Report(
        kind="ckpt_show",
        data={"path": str(path), "dialect": None, "raw": Tree().plain(value)},
        sections=[
            Heading("of no known dialect"),
            Facts([("file", str(path))]),
            Block("\n".join(Tree().lines(value)), title="everything in the file"),
        ],
    )


def identity(file: CursorFile) -> dict[str, Any]:
    """Which file it is and whose, for programs."""
    return {
        "path": str(file.path),
        "dialect": file.dialect.name if len(file.candidates) == 1 else None,
        "dialects": [dialect.name for dialect in file.candidates],
        "systems": file.systems,
        "form": file.dialect.form,
        "rollout_id": file.rollout_id,
        "saved_at": time_of(file.modified).isoformat(),
        "num_bytes": file.num_bytes,
    }


def _position_data(file: CursorFile, num_rows: int | None) -> dict[str, Any]:
    position = file.position
    data: dict[str, Any] = {
        "epoch_id": position.epoch_id,
        "offset": position.offset,
        "num_rows": num_rows,
        "percent": _percent(position.offset, num_rows),
        "num_groups": position.num_groups,
        "n_samples_per_prompt": position.n_samples_per_prompt,
        "next_rollout_id": _next_rollout(file),
        "num_buffered": position.num_buffered,
        "num_in_flight": position.num_in_flight,
        "position": dict(position.data),
    }
    if isinstance(file.dialect, SlimeDialect):
        part = in_flight_part(file.value)
        data["num_completed"] = Tree().plain(part.get("num_completed"))
        data["num_discarded"] = discarded_by_reason(file.value)
        data["fingerprint"] = Tree().plain(fingerprint_in(file.value))
    return data


def _reference_state(file: CursorFile) -> dict[str, Any] | None:
    """The reference's five keys, as the file has them."""
    if not isinstance(file.dialect, SlimeDialect):
        return None
    return {key: Tree().plain(file.value[key], key) for key in REFERENCE_KEYS if key in file.value}


def _next_rollout(file: CursorFile) -> int | None:
    if file.rollout_id is None or not file.dialect.counts_rollouts:
        return None
    return file.rollout_id + 1


def _percent(offset: int | None, num_rows: int | None) -> int | None:
    if offset is None or not num_rows:
        return None
    return min(100 * offset // num_rows, 100)


def words(file: CursorFile, num_rows: int | None) -> str:
    """Where the state stands, in one sentence."""
    position = file.position
    parts = [_stands(file, num_rows)]
    next_rollout = _next_rollout(file)
    if next_rollout is not None:
        parts.append(f"next rollout {next_rollout:,}")
    elif file.rollout_id is not None:
        parts.append(f"after step {file.rollout_id:,}")
    if position.num_groups is not None:
        parts.append(f"{count_text(position.num_groups, 'group')} served")
    if position.num_buffered is not None:
        parts.append(f"buffer {count_text(position.num_buffered, 'group')}")
    if position.num_in_flight is not None:
        parts.append(f"{position.num_in_flight:,} in flight")
    return ", ".join(part for part in parts if part)


def _stands(file: CursorFile, num_rows: int | None) -> str:
    position = file.position
    percent = _percent(position.offset, num_rows)
    if position.offset is None:
        return "" if position.epoch_id is None else f"epoch {position.epoch_id:,}"
    where = "its epoch" if position.epoch_id is None else f"epoch {position.epoch_id:,}"
    if percent is None:
        return f"{count_text(position.offset, 'row')} into {where}"
    if position.offset == num_rows:
        return f"{where}, at its end"
    return f"{where}, {percent}% through"


def count_text(number: int, noun: str) -> str:
    """So many things, in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _file_facts(file: CursorFile) -> list[tuple[str, str]]:
    dialect = file.systems
    if len(file.candidates) > 1:
        dialect += " (nothing beside the file tells which; --dialect names it)"
    return [
        ("file", str(file.path)),
        ("dialect", f"{dialect}: {file.dialect.form}"),
        ("saved", f"{time_text(file.modified)}, {size_text(file.num_bytes)}"),
    ]


def _stand_facts(file: CursorFile, num_rows: int | None) -> list[tuple[str, str]]:
    if not isinstance(file.dialect, SlimeDialect):
        return list(file.position.facts)
    return [
        ("stands", _position_text(file, num_rows)),
        *_rollout_facts(file),
        ("served", _served_text(file)),
        *_waiting_facts(file),
    ]


def _position_text(file: CursorFile, num_rows: int | None) -> str:
    position = file.position
    if position.epoch_id is None or position.offset is None:
        return "unknown: its numbers are missing or impossible"
    text = f"epoch {position.epoch_id:,}, offset {position.offset:,}"
    if num_rows is None:
        return f"{text}; the rows of an epoch are not in the file"
    text += f" of {num_rows:,}"
    if fingerprint_in(file.value) is None and num_rows == position.num_rows:
        text += " (rows as its numbers imply)"
    if position.offset == num_rows:
        text += f"; the next draw begins epoch {position.epoch_id + 1:,}"
    return text


def _rollout_facts(file: CursorFile) -> list[tuple[str, str]]:
    next_rollout = _next_rollout(file)
    if next_rollout is None:
        return []
    return [("next rollout", f"{next_rollout:,} (saved after rollout {file.rollout_id:,})")]


def _served_text(file: CursorFile) -> str:
    groups, size = file.position.num_groups, file.position.n_samples_per_prompt
    if groups is None:
        return "unknown"
    text = count_text(groups, "group")
    return f"{text}, {groups * size:,} samples ({size:,} a group)" if size else text


def _waiting_facts(file: CursorFile) -> list[tuple[str, str]]:
    if file.position.num_buffered is None:
        return [("waiting", "no buffer and no groups in flight in this form")]
    part = in_flight_part(file.value)
    facts = [
        ("buffer", _buffer_text(file.value)),
        ("in flight", count_text(file.position.num_in_flight or 0, "group")),
    ]
    completed = part.get("num_completed")
    discarded = discarded_by_reason(file.value)
    if isinstance(completed, int) and (completed or discarded):
        text = f"{Tree().leaf(completed)} completed"
        if discarded:
            reasons = ", ".join(f"{reason[:60]}: {n:,}" for reason, n in discarded.items())
            text += f", {sum(discarded.values()):,} discarded ({reasons})"
        facts.append(("settled", text))
    return facts


def _buffer_text(value: Any) -> str:
    groups = buffered_groups(value)
    text = count_text(len(groups), "group")
    copies = [form for form in map(samples_of, groups) if isinstance(form, list)]
    statuses = Counter(
        str(sample.get("status", "pending"))[:20] if isinstance(sample, dict) else "unknown"
        for form in copies
        for sample in leaves(form)
    )
    parts = [f"{count:,} samples {status}" for status, count in statuses.most_common(6)]
    if len(copies) < len(groups):
        parts.append(f"{count_text(len(groups) - len(copies), 'group')} untouched")
    return f"{text}: {', '.join(parts)}" if parts else text


def _fields_table(file: CursorFile) -> Table:
    tree = Tree()
    shown = tree.brief if isinstance(file.dialect, SlimeDialect) else tree.leaf
    rows = [Cells([name, shown(value)]) for name, value in _fields(file)]
    return Table([Column("field"), Column("value", is_list=True, is_flexible=True)], rows)


def _fields(file: CursorFile) -> Iterator[tuple[str, Any]]:
    value = file.value
    if not isinstance(file.dialect, SlimeDialect):
        yield from Tree().flat(value)
        return
    for key, item in value.items():
        if key != "rolloutds":
            yield str(key)[:60], item
    fingerprint = fingerprint_in(value)
    if fingerprint is not None:
        yield from ((str(key)[:60], item) for key, item in fingerprint.items())


def finding_record(finding: Finding) -> dict[str, Any]:
    """A finding for programs."""
    return {
        "code": finding.code,
        "severity": severity(finding),
        "title": CODES[finding.code].title,
        "field": finding.field,
        "what": finding.what,
    }


def _findings_table(findings: Sequence[Finding]) -> Table:
    columns = [
        Column("code"),
        Column("severity"),
        Column("field"),
        Column("what", num_below=8),
    ]
    rows = [Cells([f.code, severity(f), f.field, f.what]) for f in findings]
    return Table(columns, rows)


def _upcoming_record(group: UpcomingGroup) -> dict[str, Any]:
    return {
        "origin": group.origin,
        "row_id": group.row_id,
        "line": group.place.line if group.place else None,
        "file": group.place.file if group.place else None,
        "epoch_id": group.epoch_id,
        "sample_offset": group.sample_offset,
        "sample_group_index": group.group_index,
        "sample_index": group.first_index,
        "num_samples": group.num_samples,
        "prompt": group.sample.prompt,
        "label": group.sample.label,
    }


def _upcoming_table(groups: Sequence[UpcomingGroup]) -> Table:
    columns = [
        Column("#", justify="right"),
        Column("from"),
        Column("epoch", justify="right", is_optional=True),
        Column("offset", justify="right", is_optional=True),
        Column("row", justify="right"),
        Column("group", justify="right", is_optional=True),
        Column("prompt", limit=_PROMPT_LIMIT, is_flexible=True, is_optional=True),
    ]
    return Table(columns, [Cells(_upcoming_cells(i, group)) for i, group in enumerate(groups)])


def _upcoming_cells(number: int, group: UpcomingGroup) -> list[str]:
    from rolloutds.peek import prompt_head  # loads the readers, which `show` alone does without

    numbers = (group.epoch_id, group.sample_offset, group.row_id, group.group_index)
    epoch, offset, row, index = ("" if n is None else str(n) for n in numbers)
    return [str(number), group.origin, epoch, offset, row, index, prompt_head(group.sample)]


# --- verify -------------------------------------------------------------------------------


def verify_report(file: CursorFile, against: Against, findings: Sequence[Finding]) -> Report:
    """Whether a state belongs to a dataset and is legal."""
    is_good = not has_errors(findings)
    verdict = "fits this data" if is_good else "does not fit this data"
    counts = Counter(severity(finding) for finding in findings)
    counted = ", ".join(count_text(counts[level], level) for level in ("error", "warning", "note"))
    sections: list[Section] = [
        Heading(f"the state {verdict}: {counted}"),
        Facts([*_file_facts(file), *_stand_facts(file, against.num_rows)]),
    ]
    if findings:
        sections.append(_findings_table(findings))
    return Report(
        kind="ckpt_verify",
        data={
            **identity(file),
            **_position_data(file, against.num_rows),
            "is_good": is_good,
            "num_errors": counts["error"],
            "num_warnings": counts["warning"],
        },
        records_name="findings",
        records=[finding_record(finding) for finding in findings],
        sections=sections,
    )


# --- words --------------------------------------------------------------------------------


def time_of(seconds: float) -> datetime.datetime:
    """A time of the file system, in UTC."""
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)


def time_text(seconds: float) -> str:
    """The same, for people."""
    return time_of(seconds).strftime("%Y-%m-%d %H:%M:%S UTC")


def size_text(num_bytes: int) -> str:
    """A size for people, in decimal units."""
    size = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
