"""What ``index`` says: the files, what they hold, and whether their indexes were there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolloutds.indexing import FileIndex, Indexes
from rolloutds.reports.ckpt_report import count_text, size_text
from rolloutds.reports.model import Cells, Column, Facts, Report, Section, Table
from rolloutds.storage import masked

_COUNTS = ("num_rows", "num_lines", "num_blank", "num_skipped", "num_bytes")


def index_report(
    indexes: Indexes,
    *,
    cache_folder: str,
    limit: int | None = None,
    num_measured: int | None = None,
) -> Report:
    """One row a file, and what they hold together.

    Args:
        indexes: the files.
        cache_folder: where the indexes are.
        limit: the longest prompt kept, in tokens.
        num_measured: of how many rows the cache says whether they are within it; None: not asked.
    """
    data = _data(indexes, cache_folder)
    if num_measured is not None:
        data |= {"rollout_max_prompt_len": limit, "num_measured": num_measured}
    return Report(
        kind="index",
        data=data,
        records_name="files",
        records=map(_record, indexes.files),
        sections=_sections(indexes, data),
    )


def _data(indexes: Indexes, cache_folder: str) -> dict[str, Any]:
    files = indexes.files
    return {
        "prompt_data": indexes.prompt_data,
        "cache_folder": cache_folder,
        "num_files": len(files),
        **{name: sum(getattr(file.summary, name) for file in files) for name in _COUNTS},
        "num_bad": indexes.num_bad,
        "num_cached": indexes.count("cached"),
        "num_built": indexes.count("built"),
        "num_not_kept": indexes.count("not kept"),
    }


def _record(file: FileIndex) -> dict[str, Any]:
    return {
        **file.summary._asdict(),
        "path": masked(file.summary.path),
        "num_bad": file.num_bad,
        "state": file.state,
        "problems": file.problems,
    }


def _sections(indexes: Indexes, data: dict[str, Any]) -> Iterator[Section]:
    yield Facts(_facts(data))
    yield Table(_COLUMNS, (Cells(_row(file)) for file in indexes.files))


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    left_out = [
        f"{data[name]:,} {word}"
        for name, word in (("num_blank", "blank"), ("num_skipped", "skipped"), ("num_bad", "bad"))
        if data[name]
    ]
    rows = f"{data['num_rows']:,} of {count_text(data['num_lines'], 'line')}"
    states = [
        f"{data[name]:,} {word}"
        for name, word in (
            ("num_cached", "cached"),
            ("num_built", "built"),
            ("num_not_kept", "built and not kept"),
        )
        if data[name]
    ]
    facts = [
        ("data", data["prompt_data"]),
        ("files", f"{data['num_files']:,}, {size_text(data['num_bytes'])}"),
        ("rows", f"{rows}; {', '.join(left_out)}" if left_out else rows),
        ("indexes", f"{', '.join(states)}, in {data['cache_folder']}"),
    ]
    if "num_measured" in data:
        measured = f"{data['num_measured']:,} of {count_text(data['num_rows'], 'row')}"
        limit = data["rollout_max_prompt_len"]
        facts.append(("lengths", f"{measured} known to be within {limit:,} tokens or over"))
    return facts


_COLUMNS = (
    Column("file", limit=200, is_flexible=True, keeps_end=True),
    *(Column(name, justify="right") for name in ("rows", "lines", "blank", "skipped", "bad")),
    Column("size", justify="right"),
    Column("digest"),
    Column("index"),
)


def _row(file: FileIndex) -> list[str]:
    summary = file.summary
    counts = (summary.num_rows, summary.num_lines, summary.num_blank, summary.num_skipped)
    return [
        masked(summary.path),
        *(f"{count:,}" for count in (*counts, file.num_bad)),
        size_text(summary.num_bytes),
        summary.digest,
        file.state,
    ]
