"""What ``ckpt list`` says: one row a file, then where to resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rolloutds.checkpoints.listing import OK, Entry, Listing, number_text
from rolloutds.reports.ckpt_report import size_text, time_of
from rolloutds.reports.model import Cells, Column, Facts, Heading, Report, Section, Table


def list_report(listing: Listing) -> Report:
    """The files of a folder, one a row."""
    good = listing.newest_good
    rate = listing.groups_per_rollout
    data = {
        "folder": str(listing.folder),
        "num_files": len(listing.entries),
        "num_bad": sum(entry.state != OK for entry in listing.entries),
        "groups_per_rollout": None if rate is None else float(rate),
        "newest_good_id": good.found.rollout_id if good else None,
        "start_rollout_id": _start_id(good),
        "notes": list(listing.notes),
    }
    return Report(
        kind="ckpt_list",
        data=data,
        records_name="files",
        records=(_entry_record(entry) for entry in listing.entries),
        sections=_list_sections(listing),
    )


def _start_id(good: Entry | None) -> int | None:
    if good is None or good.found.rollout_id is None:
        return None
    return good.found.rollout_id + 1


def _entry_record(entry: Entry) -> dict[str, Any]:
    position = entry.file.position if entry.file else None
    return {
        "rollout_id": entry.found.rollout_id,
        "path": str(entry.found.path),
        "state": entry.state,
        "dialects": [d.name for d in entry.file.candidates] if entry.file else [],
        "epoch_id": position.epoch_id if position else None,
        "offset": position.offset if position else None,
        "num_groups": position.num_groups if position else None,
        "num_groups_since": entry.num_groups,
        "num_buffered": position.num_buffered if position else None,
        "num_in_flight": position.num_in_flight if position else None,
        "num_bytes": entry.num_bytes,
        "saved_at": None if entry.modified is None else time_of(entry.modified).isoformat(),
        "marks": list(entry.marks),
        "error": entry.error.headline if entry.error else None,
    }


def _list_sections(listing: Listing) -> Iterator[Section]:
    systems = dict.fromkeys(e.file.systems for e in listing.entries if e.file)
    facts = [("folder", str(listing.folder)), ("files", _files_text(listing))]
    if systems:
        facts.append(("dialect", ", ".join(systems)))
    if listing.groups_per_rollout is not None:
        facts.append(("a rollout", f"{number_text(listing.groups_per_rollout)} groups"))
    facts += [("note", note) for note in listing.notes]
    yield Facts(facts)
    has_several = len({entry.found.layout for entry in listing.entries}) > 1
    yield Table(
        [
            Column("id", justify="right"),
            Column("file", is_optional=True, is_flexible=True, keeps_end=True),
            Column("epoch", justify="right", is_optional=True),
            Column("offset", justify="right", is_optional=True),
            Column("groups", justify="right", is_optional=True),
            Column("since", justify="right", is_optional=True),
            Column("buffer", justify="right", is_optional=True),
            Column("in flight", justify="right", is_optional=True),
            Column("size", justify="right"),
            Column("saved (UTC)"),
            Column("state"),
        ],
        (Cells(_entry_cells(entry, names_file=has_several)) for entry in listing.entries),
    )
    if any(map(_remarks, listing.entries)):
        yield Heading("* remarks")
        yield _remarks_table(listing)
    yield Heading(_resume_text(listing))


def _files_text(listing: Listing) -> str:
    states = Counter(entry.state for entry in listing.entries)
    counted = ", ".join(f"{count:,} {state}" for state, count in states.items())
    return f"{len(listing.entries):,}: {counted}"


def _entry_cells(entry: Entry, *, names_file: bool) -> list[str]:
    position = entry.file.position if entry.file else None
    numbers = [
        position.epoch_id if position else None,
        position.offset if position else None,
        # Where there is an offset it says the same, and lines are short.
        position.num_groups if position and position.offset is None else None,
        entry.num_groups,
        position.num_buffered if position else None,
        position.num_in_flight if position else None,
    ]
    return [
        _id_text(entry),
        entry.found.path.name if names_file else "",
        *("" if number is None else f"{number:,}" for number in numbers),
        "-" if entry.num_bytes is None else size_text(entry.num_bytes),
        "-" if entry.modified is None else time_of(entry.modified).strftime("%Y-%m-%d %H:%M"),
        f"{entry.state} *" if _remarks(entry) else entry.state,
    ]


def _id_text(entry: Entry) -> str:
    return "-" if entry.found.rollout_id is None else str(entry.found.rollout_id)


def _remarks(entry: Entry) -> list[str]:
    return [*entry.marks, *([entry.error.what] if entry.error else [])]


def _remarks_table(listing: Listing) -> Table:
    """Remarks below the rows: beside nine columns of numbers there is no room for a sentence."""
    has_several = len({entry.found.layout for entry in listing.entries}) > 1
    return Table(
        [
            Column("id", justify="right"),
            Column("file", is_optional=True, is_flexible=True, keeps_end=True),
            Column("remark", is_flexible=True),
        ],
        (
            Cells([_id_text(entry), entry.found.path.name if has_several else "", remark])
            for entry in listing.entries
            for remark in _remarks(entry)
        ),
    )


def _resume_text(listing: Listing) -> str:
    good = listing.newest_good
    if good is None or good.file is None:
        return "no file can be resumed from"
    start = _start_id(good)
    if start is None:
        return f"the newest good one: {good.found.path}"
    if good.file.dialect.counts_rollouts:
        return f"resume with start rollout id {start}"
    return f"the newest good one is of step {start - 1}: resume with step {start}"
