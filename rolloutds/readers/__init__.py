"""Input formats: rows of prompt data by position, whatever file they lie in."""

from __future__ import annotations

from typing import Any

from rolloutds.cache import Cache
from rolloutds.readers.base import (
    BadRows,
    FileSummary,
    Finding,
    Inspect,
    Notice,
    Place,
    Reader,
    Row,
    RowKeys,
    ScanCounters,
)
from rolloutds.readers.jsonl import JsonLinesReader
from rolloutds.readers.parquet import ParquetReader
from rolloutds.readers.paths import find_files, suffix_of
from rolloutds.readers.rows import Rows
from rolloutds.readers.slicing import split_slice

__all__ = [
    "READERS",
    "BadRows",
    "FileSummary",
    "Finding",
    "Inspect",
    "Notice",
    "Place",
    "Reader",
    "Row",
    "RowKeys",
    "Rows",
    "ScanCounters",
    "first_row",
    "open_rows",
]

READERS: dict[str, type[Reader]] = {
    ".jsonl": JsonLinesReader,
    ".parquet": ParquetReader,
}
"""The reader of each suffix: a new format is one line here and one file."""


def open_rows(
    prompt_data: str,
    keys: RowKeys,
    *,
    inspect: Inspect | None = None,
    bad_rows: BadRows = "error",
    cache: Cache,
) -> Rows:
    """Opens prompt data: everything that stops a load is found here.

    Args:
        prompt_data: a file, a folder or a glob, each with ``@[start:end]`` or without.
        keys: the keys a run reads.
        inspect: sees the rows whose prompt, metadata, tools or media are not plain.
        bad_rows: ``error``, or ``skip`` to leave out lines that are not JSON.
        cache: keeps what was found, for the next time.

    Raises:
        DataNotFoundError: there is no such data.
        SliceError: the slice is malformed or selects nothing.
        BadRowsError: rows that cannot be used; the first few places and the count.
        EmptyDatasetError: there are no rows.
        DataError: a file cannot be read, or is of another kind.
    """
    path, row_slice = split_slice(prompt_data)
    found = find_files(path, READERS)
    readers: list[Reader] = []
    try:
        for file in found.paths:
            reader = READERS[suffix_of(file)](file, keys, inspect, cache)
            readers.append(reader)
        return Rows(readers, row_slice, bad_rows, found.notices)
    except BaseException:
        for reader in readers:
            reader.close()
        raise


def first_row(prompt_data: str) -> dict[str, Any] | None:
    """The first row of the data, without an index; None when there is none.

    Args:
        prompt_data: as for `open_rows`; a slice is passed over.

    Raises:
        DataNotFoundError: there is no such data.
        SliceError: the slice is malformed.
        DataError: a file cannot be read, or is of another kind.
    """
    path, _ = split_slice(prompt_data)
    rows = (READERS[suffix_of(file)].first_row(file) for file in find_files(path, READERS).paths)
    return next((row for row in rows if row is not None), None)
