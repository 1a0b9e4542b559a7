"""What ``ckpt audit`` says: what became of the groups a run drew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from rolloutds.audit import Audit, DrawnRow, OtherText
from rolloutds.reports.ckpt_report import count_text
from rolloutds.reports.model import Cells, Column, Facts, Heading, Report, Section, Table

_SHOWN = 20


def audit_report(found: Audit, *, files: Sequence[str], state: str | None) -> Report:
    """Counts, epochs, and the groups that were repeated, missing or had another text."""
    return Report(
        kind="ckpt_audit",
        data=_data(found, files, state),
        records_name="groups",
        records=_records(found),
        sections=_sections(found, files, state),
    )


def _data(found: Audit, files: Sequence[str], state: str | None) -> dict[str, Any]:
    return {
        "state": state,
        "dumps": list(files),
        "num_rows": found.num_rows,
        "num_drawn": found.num_drawn,
        "num_dumped": found.num_dumped,
        "num_once": found.num_once,
        "num_repeated": len(found.repeats),
        "num_missing": len(found.missing),
        "num_waiting": found.num_waiting,
        "num_discarded": found.num_discarded,
        "num_other_text": len(found.other_texts),
        "num_without_index": found.num_without_index,
        "num_beyond": found.num_beyond,
        "epochs": [{"epoch_id": i, **vars(epoch)} for i, epoch in found.epochs.items()],
    }


def _records(found: Audit) -> Iterator[dict[str, Any]]:
    for repeat in found.repeats:
        yield {"what": "repeated", **_drawn(repeat.drawn), "rollouts": repeat.rollouts}
    for missing in found.missing:
        yield {"what": "missing", **_drawn(missing)}
    for other in found.other_texts:
        at = other.found_at
        yield {
            "what": "other_text",
            **_drawn(other.drawn),
            "rollouts": [other.rollout],
            "prompt": other.found,
            "found_at": None if at is None else {"file": at.file, "row_id": at.row_id},
        }


def _drawn(drawn: DrawnRow) -> dict[str, Any]:
    return {
        "sample_group_index": drawn.group_index,
        "epoch_id": drawn.epoch_id,
        "sample_offset": drawn.sample_offset,
        "row_id": drawn.place.row_id,
        "line": drawn.place.line,
        "file": drawn.place.file,
    }


def _sections(found: Audit, files: Sequence[str], state: str | None) -> Iterator[Section]:
    yield Heading(_verdict(found))
    yield Facts(_facts(found, files, state))
    if found.epochs:
        yield _epoch_table(found)
    yield from _listed("trained more than once", found.repeats, _repeat_row, _REPEAT_COLUMNS)
    yield from _listed("drawn, and in no dump", found.missing, _missing_row, _ROW_COLUMNS)
    yield from _listed("trained with another text", found.other_texts, _other_row, _OTHER_COLUMNS)


def _verdict(found: Audit) -> str:
    parts = [
        (len(found.repeats), "repeated"),
        (len(found.missing), "in no dump"),
        (len(found.other_texts), "with another text"),
    ]
    odd = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    once = f"{count_text(found.num_once, 'group')} trained exactly once"
    return f"{once}; {odd}" if odd else f"{once}, nothing else"


def _facts(found: Audit, files: Sequence[str], state: str | None) -> list[tuple[str, str]]:
    facts = [
        ("dumps", f"{count_text(len(files), 'file')}, {count_text(found.num_dumped, 'group')}"),
        ("state", state or "none: the last group in a dump counts as the last drawn"),
        ("drawn", f"{count_text(found.num_drawn, 'group')} of {found.num_rows:,} rows an epoch"),
        ("waiting", f"{found.num_waiting:,} in the buffer or in flight"),
    ]
    if found.num_discarded:
        text = f"{found.num_discarded:,} by the run's own count, among those in no dump"
        facts.append(("discarded", text))
    if found.num_without_index:
        facts.append(("no index", f"{found.num_without_index:,} groups cannot be placed"))
    if found.num_beyond:
        facts.append(("beyond", f"{found.num_beyond:,} groups of dumps were drawn after the state"))
    return facts


def _epoch_table(found: Audit) -> Table:
    names = ("epoch", "drawn", "once", "repeated", "waiting", "in no dump")
    return Table(
        [Column(name, justify="right") for name in names],
        [
            Cells([f"{i:,}", *(f"{count:,}" for count in vars(epoch).values())])
            for i, epoch in found.epochs.items()
        ],
    )


_ROW_COLUMNS = [
    Column("group", justify="right"),
    Column("epoch", justify="right"),
    Column("offset", justify="right"),
    Column("row", keeps_end=True, limit=60),
]
_REPEAT_COLUMNS = [*_ROW_COLUMNS, Column("rollouts", is_list=True, num_below=2)]
_OTHER_COLUMNS = [
    *_ROW_COLUMNS,
    Column("rollout", limit=30, keeps_end=True),
    Column("its text is at", limit=60, keeps_end=True),
    Column("prompt in the dump", limit=100, is_flexible=True),
]


def _listed(title: str, items: Sequence[Any], row: Any, columns: list[Column]) -> Iterator[Section]:
    if not items:
        return
    more = f", the first {_SHOWN} (all in --format json)" if len(items) > _SHOWN else ""
    yield Heading(f"{title}: {len(items):,}{more}")
    yield Table(columns, [Cells(row(item)) for item in islice(items, _SHOWN)])


def _missing_row(drawn: DrawnRow) -> list[str]:
    return [f"{drawn.group_index}", f"{drawn.epoch_id}", f"{drawn.sample_offset}", f"{drawn.place}"]


def _repeat_row(repeat: Any) -> list[str]:
    return [*_missing_row(repeat.drawn), ", ".join(repeat.rollouts)]


def _other_row(other: OtherText) -> list[str]:
    at = "no row" if other.found_at is None else str(other.found_at)
    return [*_missing_row(other.drawn), other.rollout, at, str(other.found)]
