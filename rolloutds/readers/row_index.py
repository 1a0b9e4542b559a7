"""The index of a JSON Lines file: where its rows start, what is wrong with it, its digest."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge as merge_sorted
from typing import Any, Final

import xxhash

from rolloutds.cache import Cache, CacheEntry
from rolloutds.errors import DataError
from rolloutds.readers.base import Inspect, RowKeys, ScanCounters
from rolloutds.readers.line_checks import RowCheck
from rolloutds.readers.line_scan import BLOCK_BYTES, PartialScan, merge, scan_range
from rolloutds.readers.scan_worker import ScanTask, scan_with_help
from rolloutds.storage import FileIdentity, StoredFile, changed

_KIND: Final = "index"
_TWO_PROCESSES_BYTES: Final = 64 << 20
_RANGE_BLOCKS: Final = 1
_ARRAYS: Final = ("malformed", "malformed_kinds", "faulty", "finding_lines", "finding_codes")


@dataclass(frozen=True)
class RowIndex:
    """What one pass over a file found; arrays are read through ``memoryview`` or ``array``.

    Attributes:
        identity: the file it is of.
        digest: hex digest of the file's bytes.
        starts: byte offset of every line, and the file's size.
        rows: lines that count as rows, or None when all do.
        num_blank: lines of white space only.
        malformed: lines that cannot be read, with `malformed_kinds` beside.
        faulty: lines that can be read and not used.
        finding_lines: lines inspect() said something of, with `finding_codes` beside.
        codes: (code, sentence for its first line).
    """

    identity: FileIdentity
    digest: str
    starts: Sequence[int]
    rows: Sequence[int] | None
    num_blank: int
    malformed: Sequence[int]
    malformed_kinds: Sequence[int]
    faulty: Sequence[int]
    finding_lines: Sequence[int]
    finding_codes: Sequence[int]
    codes: Sequence[tuple[str, str]]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_lines(self) -> int:
        """Physical lines, blank ones too."""
        return len(self.starts) - 1

    @property
    def num_rows(self) -> int:
        """Lines that count as rows."""
        return self.num_lines if self.rows is None else len(self.rows)

    def line(self, position: int) -> int:
        """The physical line, from 0, of a row."""
        if not 0 <= position < self.num_rows:
            raise IndexError(f"row {position} of {self.num_rows}")
        return position if self.rows is None else self.rows[position]

    def lines(self, positions: Sequence[int]) -> list[int]:
        """The physical lines of many rows, in the order asked."""
        for outermost in (min(positions, default=None), max(positions, default=None)):
            if outermost is not None:
                self.line(outermost)  # refuses what is out of range
        rows = self.rows
        return list(positions) if rows is None else [rows[position] for position in positions]

    def rows_before(self, line: int) -> int:
        """How many rows come before a physical line."""
        return line if self.rows is None else bisect_left(self.rows, line)


def index_key(path: str, keys: RowKeys, inspect: Inspect | None) -> str | None:
    """Names an index in the cache; None when what inspect() looks at cannot be named."""
    inspected = inspected_by(inspect)
    return None if inspected is None else f"{path}\n{keys!r}\n{inspected}"


def inspected_by(inspect: Inspect | None) -> str | None:
    """Names what looks at rows, empty when nothing does; None when it cannot be named."""
    if inspect is None:
        return ""
    identity = getattr(inspect, "identity", inspect)
    name = f"{type(inspect).__module__}.{type(inspect).__qualname__} {identity!r}"
    return None if " at 0x" in name else name


def cached_index(cache: Cache, key: str | None, identity: FileIdentity) -> RowIndex | None:
    """The index kept for a file that has not changed since, or None."""
    entry = cache.read(_KIND, key) if key is not None else None
    if entry is None or FileIdentity.from_header(entry.header) != identity:
        return None
    return _from_entry(entry, identity)


def _from_entry(entry: CacheEntry, identity: FileIdentity) -> RowIndex:
    header, arrays = entry.header, entry.arrays
    return RowIndex(
        identity=identity,
        digest=header["digest"],
        starts=arrays["starts"],
        rows=arrays.get("rows"),
        num_blank=header["num_blank"],
        codes=[(code, what) for code, what in header["codes"]],
        facts=header["facts"],
        **{name: arrays[name] for name in _ARRAYS},
    )


def keep_index(cache: Cache, key: str | None, path: str, index: RowIndex) -> bool:
    """Writes an index to the cache, unless the file is too young to tell a later change."""
    if key is None or not index.facts.get("settled"):
        return False
    header = {
        "source": path,
        "identity": list(index.identity),
        "digest": index.digest,
        "num_blank": index.num_blank,
        "codes": list(index.codes),
        "facts": dict(index.facts),
    }
    arrays = {name: getattr(index, name) for name in _ARRAYS} | {"starts": index.starts}
    if index.rows is not None:
        arrays["rows"] = index.rows
    return cache.write(_KIND, key, header, arrays)


def build_index(
    file: StoredFile,
    keys: RowKeys,
    inspect: Inspect | None,
    counters: ScanCounters,
    first_row_facts: Callable[[RowIndex], dict[str, Any]],
) -> RowIndex:
    """Scans a file.

    Raises:
        DataError: the file changed meanwhile.
    """
    identity = file.current_identity()
    settled = identity.is_settled()
    try:
        scan = _scan(file, identity.size, keys, inspect)
    except DataError as error:
        error.where = error.where or file.path
        raise
    counters.rows_parsed += scan.rows_parsed
    counters.bytes_read += scan.bytes_read
    if not file.current_identity().same_content(identity):
        raise changed(file.path, "it was read")
    index = _from_scan(scan, identity)
    facts = {
        "settled": settled,
        "has_only_text": scan.has_only_text,
        **first_row_facts(index),
    }
    return RowIndex(**{**index.__dict__, "facts": facts})


def _scan(file: StoredFile, size: int, keys: RowKeys, inspect: Inspect | None) -> PartialScan:
    if file.descriptor is None:
        from rolloutds.storage.read_ahead import ReadAhead

        with ReadAhead(file) as ahead:
            return scan_range(ahead, 0, size, size, RowCheck(keys, inspect))
    if size < _TWO_PROCESSES_BYTES or not _has_idle_core():
        return merge([scan_range(file.descriptor, 0, size, size, RowCheck(keys, inspect))])
    step = _RANGE_BLOCKS * BLOCK_BYTES
    ranges = [(start, min(start + step, size)) for start in range(0, size, step)]
    return scan_with_help(ScanTask(file.descriptor, size, ranges, keys, inspect))


def _has_idle_core() -> bool:
    """Whether a second process would help: on a busy machine it only adds its own start."""
    try:
        return os.getloadavg()[0] < (os.cpu_count() or 1)
    except OSError:
        return False


def _from_scan(scan: PartialScan, identity: FileIdentity) -> RowIndex:
    num_lines = len(scan.starts)
    scan.starts.append(identity.size)
    return RowIndex(
        identity=identity,
        digest=xxhash.xxh3_128_hexdigest(scan.digests),
        starts=scan.starts,
        rows=_rows(num_lines, list(merge_sorted(scan.blank, scan.malformed))),
        num_blank=len(scan.blank),
        codes=scan.codes,
        **{name: getattr(scan, name) for name in _ARRAYS},
    )


def _rows(num_lines: int, others: list[int]) -> array[int] | None:
    if not others:
        return None
    rows = array("Q")
    begin = 0
    for line in [*others, num_lines]:
        rows.extend(range(begin, line))
        begin = line + 1
    return rows
