"""The index of one file, made wherever there is time, and kept wherever it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rolloutds.cache import Cache, CacheEntry, packed
from rolloutds.readers.base import FileFindings, FileSummary, Inspect, Notice, Reader, RowKeys
from rolloutds.readers.formats import READERS
from rolloutds.readers.named_files import suffix_of


class IndexedFile(NamedTuple):
    """What the index of a file says, and the index itself; plain values, so it can be sent.

    Attributes:
        summary: rows, lines, blank and skipped lines, bytes, digest.
        num_faulty: rows that can be read and not used: they stop a load.
        malformed: lines that cannot be read: physical line, rows before it, and whether it is
            not JSON, which ``bad_rows="skip"`` leaves out.
        problems: ``file:line: what`` of the first bad lines and rows, in file order.
        findings: what inspect() said of its rows, none of which stops a load.
        notices: what is worth knowing about the file as a whole.
        columns: keys of the first row.
        was_cached: whether the index was in the cache already.
        content: what the cache's file holds; empty where the index cannot be kept.
    """

    summary: FileSummary
    num_faulty: int
    malformed: list[tuple[int, int, bool]]
    problems: list[str]
    findings: list[FileFindings]
    notices: list[Notice]
    columns: list[str]
    was_cached: bool
    content: bytes


_MAX_PROBLEMS = 5


def index_file(
    path: str, keys: RowKeys, inspect: Inspect | None, cache_folder: Path | None
) -> IndexedFile:
    """Finds the index of a file in the cache, or builds it and keeps it there.

    Args:
        path: a file that a reader takes; no folder, no glob, no slice.
        keys: the keys a run reads.
        inspect: sees the rows that are not plain.
        cache_folder: where indexes are kept on this machine; None keeps none.

    Raises:
        DataError: the file cannot be read or is of another kind, as a load says it. Bad rows are
            counted, not raised.
    """
    cache = _RecordingCache(cache_folder)
    reader = READERS[suffix_of(path)](path, keys, inspect, cache)
    try:
        return _described(reader, cache)
    finally:
        reader.close()


def keep(indexed: IndexedFile, cache: Cache) -> bool:
    """Writes the index to a cache; returns whether it is there now."""
    return bool(indexed.content) and cache.keep(indexed.content)


def _described(reader: Reader, cache: _RecordingCache) -> IndexedFile:
    whole = range(len(reader))
    faulty = list(reader.faulty(whole)) if whole else []
    malformed = list(reader.malformed())
    bad = sorted([*faulty, *(line for line, _, _ in malformed)])
    was_cached = reader.is_cached
    reader.keep_index()
    return IndexedFile(
        summary=reader.summary,
        num_faulty=len(faulty),
        malformed=malformed,
        problems=[reader.explain(row_id) for row_id in bad[:_MAX_PROBLEMS]],
        findings=reader.findings(whole) if whole else [],
        notices=reader.notices,
        columns=reader.column_names(),
        was_cached=was_cached,
        content=cache.found if was_cached else cache.written,
    )


class _RecordingCache(Cache):
    """A cache that remembers the content of the index it last gave or took."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder)
        self.found = b""
        self.written = b""

    def read(self, kind: str, key: str) -> CacheEntry | None:
        entry = super().read(kind, key)
        if entry is not None and kind == "index":
            self.found = packed(kind, key, entry.header, entry.arrays)
        return entry

    def write(
        self, kind: str, key: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> bool:
        if kind == "index":
            self.written = packed(kind, key, header, arrays)
        return super().write(kind, key, header, arrays)
