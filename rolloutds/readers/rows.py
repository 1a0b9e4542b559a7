"""All files of a dataset as one sequence of rows, sliced, with what stops the load raised."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import xxhash

from rolloutds.errors import BadRowsError, EmptyDatasetError, SliceError
from rolloutds.readers.base import (
    BadRows,
    FileSummary,
    Notice,
    Place,
    Reader,
    Row,
    ScanCounters,
)
from rolloutds.readers.shards import OpenShards
from rolloutds.readers.slicing import RowSlice, shifting
from rolloutds.storage import is_remote

_MAX_SHOWN: Final = 5
_FILES_AT_ONCE: Final = 16


class _Malformed(NamedTuple):
    """A line that cannot be read: its file, its line, rows of all files before it."""

    file: int
    line: int
    rows_before: int
    is_not_json: bool


class Rows:
    """The rows of a dataset, in file order; made by `open_rows`.

    Args:
        readers: one for each file, in order.
        row_slice: what to take of all their rows together, or None.
        bad_rows: ``skip`` leaves out lines that are not JSON.
        notices: what is known already.
        shards: what holds the open files, where the readers are a manifest's.

    Raises:
        BadRowsError: rows that stop the load.
        SliceError: the slice selects nothing.
        EmptyDatasetError: there are no rows.

    Attributes:
        files: what each file is and holds.
        num_loadable: rows before the slice.
        slice_text: ``@[start:end]``, or None.
        digest: identity of the content: files in order, and the slice.
        notices: what is worth knowing and does not stop the load.
    """

    def __init__(
        self,
        readers: Sequence[Reader],
        row_slice: RowSlice | None,
        bad_rows: BadRows,
        notices: Sequence[Notice],
        shards: OpenShards | None = None,
    ) -> None:
        self._readers = list(readers)
        self._shards = shards
        self._offsets = list(accumulate((len(reader) for reader in readers), initial=0))
        self.files: list[FileSummary] = [reader.summary for reader in readers]
        self.num_loadable = self._offsets[-1]
        self.slice_text = str(row_slice) if row_slice else None
        whole = row_slice or RowSlice()
        self._selected = whole.resolve(self.num_loadable)
        malformed = list(self._all_malformed())
        errors, passed = self._sort_malformed(malformed, whole, bad_rows)
        self._refuse_bad(errors)
        self._refuse_empty()
        self.notices = [
            *notices,
            *(notice for reader in readers for notice in reader.notices),
            *self._passed_over(passed, bad_rows),
            *self._finding_notices(),
        ]
        self.digest = self._digest()
        for reader in readers:
            reader.keep_index()

    def __len__(self) -> int:
        return len(self._selected)

    def __repr__(self) -> str:
        return f"Rows({len(self)} rows of {len(self.files)} files)"

    @property
    def scan_counters(self) -> ScanCounters:
        """Rows parsed and bytes read so far, over all files."""
        if self._shards is not None:
            return self._shards.counters
        counters = [reader.counters for reader in self._readers]
        return ScanCounters(
            sum(counter.rows_parsed for counter in counters),
            sum(counter.bytes_read for counter in counters),
        )

    def place(self, position: int) -> Place:
        """Where the row at `position` lies."""
        reader, at = self._locate(position)
        return reader.place(at)

    def row_id(self, position: int) -> int:
        """Physical line or row of `position` in its file, from 0."""
        reader, at = self._locate(position)
        return reader.row_id(at)

    def read(self, positions: Sequence[int]) -> list[Row]:
        """The rows at `positions`, in that order.

        Each call gives fresh values, also for a position asked for twice.

        Raises:
            IndexError: a position is out of range.
            DataError: a file changed since it was opened, or cannot be read any more.
        """
        if len(self._readers) == 1:
            self._check_range(positions)
            start = self._selected.start
            return self._readers[0].read([start + position for position in positions])
        wanted: dict[int, list[tuple[int, int]]] = {}
        for number, position in enumerate(positions):
            file, at = self._file_and_position(position)
            wanted.setdefault(file, []).append((number, at))
        rows: dict[int, Row] = {}
        for pairs, found in self._read_files(sorted(wanted.items())):
            rows.update((number, row) for (number, _), row in zip(pairs, found, strict=True))
        return [rows[number] for number in range(len(positions))]

    def _read_files(
        self, wanted: Sequence[tuple[int, list[tuple[int, int]]]]
    ) -> Iterator[tuple[list[tuple[int, int]], list[Row]]]:
        """The rows of each file; of remote files several are waited for at once."""

        def read(one: tuple[int, list[tuple[int, int]]]) -> list[Row]:
            file, pairs = one
            return self._readers[file].read([at for _, at in pairs])

        all_pairs = [pairs for _, pairs in wanted]
        if len(wanted) < 2 or not is_remote(self._readers[wanted[0][0]].path):
            yield from zip(all_pairs, map(read, wanted), strict=True)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
            yield from zip(all_pairs, threads.map(read, wanted), strict=True)

    def byte_bounds(self) -> Sequence[int] | None:
        """For each row an upper bound of the UTF-8 bytes of its prompt.

        None when that is not known, or a prompt is no text, or has no UTF-8 form. Only files of
        which a row is selected are asked.
        """
        bounds = array("Q")
        for number, reader in enumerate(self._readers):
            selected = self._selected_of(number)
            if not selected:
                continue
            found = reader.byte_bounds()
            if found is None:
                return None
            bounds.extend(found[selected.start : selected.stop])
        return memoryview(bounds).toreadonly()

    def column_names(self) -> list[str]:
        """Keys of the first row of each file, each once."""
        names = (name for reader in self._readers for name in reader.column_names())
        return list(dict.fromkeys(names))

    def close(self) -> None:
        """Closes the files; rows can no longer be read."""
        for reader in self._readers if self._shards is None else self._readers[:1]:
            reader.close()

    def _check_range(self, positions: Sequence[int]) -> None:
        for position in (min(positions, default=0), max(positions, default=0)):
            if not 0 <= position < len(self._selected):
                raise IndexError(f"row {position} of {len(self._selected)}")

    def _file_and_position(self, position: int) -> tuple[int, int]:
        self._check_range([position])
        joined = self._selected.start + position
        file = bisect_right(self._offsets, joined) - 1
        return file, joined - self._offsets[file]

    def _locate(self, position: int) -> tuple[Reader, int]:
        file, at = self._file_and_position(position)
        return self._readers[file], at

    def _all_malformed(self) -> Iterator[_Malformed]:
        for file, (reader, offset) in enumerate(zip(self._readers, self._offsets, strict=False)):
            for line, rows_before, is_not_json in reader.malformed():
                yield _Malformed(file, line, offset + rows_before, is_not_json)

    def _sort_malformed(
        self, malformed: list[_Malformed], row_slice: RowSlice, bad_rows: BadRows
    ) -> tuple[list[_Malformed], list[_Malformed]]:
        """Those that stop the load, and those that are passed over."""
        skippable = [bad for bad in malformed if bad_rows == "skip" and bad.is_not_json]
        others = [bad for bad in malformed if not (bad_rows == "skip" and bad.is_not_json)]
        before = [bad.rows_before for bad in others]
        stopping = set(shifting(before, self.num_loadable, row_slice))
        errors = [bad for number, bad in enumerate(others) if number in stopping]
        passed = [bad for number, bad in enumerate(others) if number not in stopping]
        return errors, skippable + passed

    def _refuse_bad(self, malformed: list[_Malformed]) -> None:
        bad = [(item.file, item.line) for item in malformed]
        for number, reader in enumerate(self._readers):
            selected = self._selected_of(number)
            if selected:
                bad += [(number, line) for line in reader.faulty(selected)]
        if not bad:
            return
        bad.sort()
        problems = [self._readers[file].explain(line) for file, line in bad[:_MAX_SHOWN]]
        can_skip = len(malformed) == len(bad) and all(item.is_not_json for item in malformed)
        hint = "Correct these rows."
        if not malformed:
            hint = "Correct these rows, or name other keys (--input-key, --label-key …)."
        elif can_skip:
            hint = "Correct these lines, or leave them out with --bad-rows skip, as slime does."
        raise BadRowsError(problems, len(bad), hint=hint)

    def _refuse_empty(self) -> None:
        if self._selected:
            return
        where = ", ".join(file.path for file in self.files[:_MAX_SHOWN])
        if not self.num_loadable:
            blank = sum(file.num_blank for file in self.files)
            skipped = sum(file.num_skipped for file in self.files)
            counts = ((blank, "blank"), (skipped, "skipped"))
            found = [_lines(count, kind) for count, kind in counts if count]
            what = f"no rows ({' and '.join(found)})" if found else "no rows, the file is empty"
            hint = "Write rows to it: in JSON Lines, one object a line."
            raise EmptyDatasetError(what, where=where, hint=hint)
        what = f"the slice {self.slice_text} selects none of {self.num_loadable} rows"
        hint = f"Rows count from 0 to {self.num_loadable - 1}; a start must come before its end."
        raise SliceError(what, where=where, expected="at least one row", hint=hint)

    def _passed_over(self, passed: list[_Malformed], bad_rows: BadRows) -> list[Notice]:
        skipped = [bad for bad in passed if bad_rows == "skip" and bad.is_not_json]
        beyond = [bad for bad in passed if not (bad_rows == "skip" and bad.is_not_json)]
        notices = []
        if skipped:
            text = f"{_lines(len(skipped))} left out, not JSON: {self._places(skipped)}"
            notices.append(Notice("skipped", text))
        if beyond:
            verb = "lies" if len(beyond) == 1 else "lie"
            places = self._places(beyond)
            text = f"{_lines(len(beyond))} that cannot be read {verb} outside the slice: {places}"
            notices.append(Notice("beyond_slice", text))
        return notices

    def _places(self, malformed: list[_Malformed]) -> str:
        shown = malformed[:_MAX_SHOWN]
        places = [f"{self._readers[bad.file].path}:{bad.line + 1}" for bad in shown]
        more = f" and {len(malformed) - _MAX_SHOWN} more" if len(malformed) > _MAX_SHOWN else ""
        return ", ".join(places) + more

    def _finding_notices(self) -> list[Notice]:
        counts: dict[str, int] = {}
        first: dict[str, str] = {}
        for number, reader in enumerate(self._readers):
            selected = self._selected_of(number)
            for found in reader.findings(selected) if selected else ():
                counts[found.code] = counts.get(found.code, 0) + found.num_rows
                if found.code not in first:
                    what = found.what or reader.reason(found.code, found.first_row_id)
                    first[found.code] = f"{reader.place_of(found.first_row_id)}: {what}"
        return [Notice(code, f"{text}{_in_all(counts[code])}") for code, text in first.items()]

    def _selected_of(self, file: int) -> range:
        """The positions in one file that the slice selects."""
        offset, end = self._offsets[file], self._offsets[file + 1]
        start = max(self._selected.start, offset) - offset
        return range(start, min(self._selected.stop, end) - offset)

    def _digest(self) -> str:
        files = "".join(f"{file.digest} {file.num_bytes}\n" for file in self.files)
        return xxhash.xxh3_128_hexdigest(f"{files}{self.slice_text or ''}".encode())


def _lines(count: int, kind: str = "") -> str:
    noun = f"{kind} line".lstrip()
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _in_all(count: int) -> str:
    return "" if count == 1 else f" ({count} rows in all)"
