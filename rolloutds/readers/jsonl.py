"""Rows of a JSON Lines file, read by position from the open file."""

from __future__ import annotations

import io
import os
import shlex
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import sub
from typing import Any, Final

from rolloutds.cache import Cache
from rolloutds.errors import DataError
from rolloutds.readers.base import (
    FileFindings,
    FileSummary,
    Inspect,
    Notice,
    Place,
    Reader,
    Row,
    RowKeys,
    ScanCounters,
    findings_between,
)
from rolloutds.readers.line_checks import LineKind, RowCheck
from rolloutds.readers.lines import BOM, describe_fault, parse_line, without_end
from rolloutds.readers.row_index import (
    RowIndex,
    build_index,
    cached_index,
    index_key,
    keep_index,
)
from rolloutds.row_keys import is_dotted
from rolloutds.storage import changed, open_stored

_JOINED_BYTES: Final = 1 << 20
_ARRAY_LOOK_BYTES: Final = 4096
_FIRST_BYTES: Final = 8192
_FIRST_LINES: Final = 100
"""Lines looked at for a first row: a file that begins with so many bad ones has none."""


class JsonLinesReader(Reader):
    """A JSON Lines file.

    Args:
        path: the file.
        keys: the keys a run reads.
        inspect: sees rows that are not plain.
        cache: keeps the index.

    Raises:
        DataError: it cannot be opened or read, or is one JSON array.
    """

    def __init__(self, path: str, keys: RowKeys, inspect: Inspect | None, cache: Cache) -> None:
        self.counters = ScanCounters()
        self._check = RowCheck(keys, inspect)
        self._cache = cache
        self._file = open_stored(path)
        self.path = self._file.path
        self._key = index_key(self._file.cache_name, keys, inspect)
        try:
            cached = cached_index(cache, self._key, self._file.identity)
            self._is_new = cached is None
            self._index = cached or build_index(
                self._file, keys, inspect, self.counters, self._first_row_facts
            )
            if self._is_new:  # such a file is refused, so it has no index in the cache
                self._refuse_array()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._index.num_rows

    def close(self) -> None:
        """Closes the file; reading rows is over."""
        self._file.close()

    @classmethod
    def first_row(cls, path: str) -> dict[str, Any] | None:
        """The first line that is an object; None when there is none among the first lines.

        Raises:
            DataError: the file cannot be read.
        """
        # Text mode ends lines where the scan does, and reads no more of the file than it takes.
        with open_stored(path) as stored:
            data = io.BufferedReader(stored.stream(), _FIRST_BYTES)
            file = io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape")
            values = map(_value_or_none, islice(file, _FIRST_LINES))
            return next((value for value in values if isinstance(value, dict)), None)

    def row_id(self, position: int) -> int:
        """Physical line of a row, from 0."""
        return self._index.line(position)

    def place(self, position: int) -> Place:
        """File and line of a row."""
        return self.place_of(self._index.line(position))

    def place_of(self, row_id: int) -> Place:
        """File and line of a physical line."""
        return Place(self.path, row_id, row_id + 1)

    def read(self, positions: Sequence[int]) -> list[Row]:
        """The rows at `positions`, in that order; read from the file in its own order.

        Raises:
            DataError: the file changed since it was opened.
        """
        lines = self._index.lines(positions)
        texts = self._texts(sorted(set(lines)))
        self._refuse_change()
        self.counters.rows_parsed += len(lines)
        path = self.path
        return [Row(self._value(line, texts[line]), Place(path, line, line + 1)) for line in lines]

    def _value(self, line: int, text: bytes) -> dict[str, Any]:
        try:
            value = parse_line(text)
        except RecursionError as error:
            where = str(self.place_of(line))
            hint = "Store the value as JSON text, which is read as text."
            raise DataError(
                "nested too deeply for Python's json", where=where, hint=hint
            ) from error
        except ValueError as error:
            raise changed(self.path, "it was open") from error
        if not isinstance(value, dict):
            raise changed(self.path, "it was open")
        return value

    def _texts(self, lines: Sequence[int]) -> dict[int, bytes]:
        """The text of physical lines; neighbours are read in one go."""
        starts = self._index.starts
        texts: dict[int, bytes] = {}
        runs = self._runs(lines)
        ranges = [(starts[last + 1] - starts[first], starts[first]) for first, last in runs]
        for (first, last), data in zip(runs, self._read_ranges(ranges), strict=True):
            if first == last:
                texts[first] = data
                continue
            offset = starts[first]
            for line in range(first, last + 1):
                texts[line] = data[starts[line] - offset : starts[line + 1] - offset]
        if 0 in texts and texts[0].startswith(BOM):
            texts[0] = texts[0][len(BOM) :]
        return texts

    def _runs(self, lines: Sequence[int]) -> list[tuple[int, int]]:
        """First and last of neighbouring lines that are read in one go."""
        starts = self._index.starts
        runs: list[tuple[int, int]] = []
        first = last = -1
        for line in lines:
            if line == last + 1 and runs and starts[line + 1] - starts[first] <= _JOINED_BYTES:
                runs[-1] = (first, line)
            else:
                first = line
                runs.append((line, line))
            last = line
        return runs

    def _read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = self._file.pread_many(ranges)
        for (length, _), data in zip(ranges, found, strict=True):
            if len(data) < length:
                raise changed(self.path, "it was open")
            self.counters.bytes_read += length
        return found

    def _bytes(self, start: int, stop: int) -> bytes:
        return self._read_ranges([(stop - start, start)])[0]

    def _refuse_change(self) -> None:
        if not self._file.current_identity().same_content(self._index.identity):
            raise changed(self.path, "it was open")

    def byte_bounds(self) -> Sequence[int] | None:
        """For each row the bytes of its line: no escape is shorter than what it stands for."""
        if not self._index.facts.get("has_only_text"):
            return None
        starts, rows = self._index.starts, self._index.rows
        lengths = array("Q", map(sub, starts[1:], starts))
        return lengths if rows is None else array("Q", map(lengths.__getitem__, rows))

    def column_names(self) -> list[str]:
        """Keys of the first row that is an object."""
        return list(self._index.facts["columns"])

    @property
    def summary(self) -> FileSummary:
        """What the file is and holds."""
        index = self._index
        return FileSummary(
            path=self.path,
            num_rows=index.num_rows,
            num_lines=index.num_lines,
            num_blank=index.num_blank,
            num_skipped=len(index.malformed),
            num_bytes=index.identity.size,
            digest=index.digest,
        )

    @property
    def notices(self) -> list[Notice]:
        """A BOM, blank lines, dotted keys in use."""
        index = self._index
        notices = []
        if index.facts["bom"]:
            text = f"{self.path}:1: starts with a BOM; slime drops this line, here it is a row"
            notices.append(Notice("port_bom", text))
        for key in index.facts["dotted"]:
            text = f"{self.path}: {key!r} is read as a path; slime looks for a key of that name"
            notices.append(Notice("port_dotted_key", text))
        if index.num_blank:
            count = "1 blank line, which is no row"
            if index.num_blank > 1:
                count = f"{index.num_blank} blank lines, which are no rows"
            text = f"{self.path}: {count}"
            notices.append(Notice("blank_lines", text))
        return notices

    def findings(self, positions: range) -> list[FileFindings]:
        """What inspect() said of the rows at `positions`, by code."""
        index = self._index
        first, last = index.line(positions[0]), index.line(positions[-1])
        return findings_between(index.finding_lines, index.finding_codes, index.codes, first, last)

    def reason(self, finding_code: str, row_id: int) -> str:
        """The sentence inspect() gives for one row and code."""
        value = parse_line(self._texts([row_id])[row_id])
        self.counters.rows_parsed += 1
        inspect = self._check.inspect
        found = inspect(value) if inspect else []
        return next((finding.what for finding in found if finding.code == finding_code), "")

    def malformed(self) -> list[tuple[int, int, bool]]:
        """Lines that cannot be read: line, rows before it, whether it is not JSON."""
        index = self._index
        return [
            (line, index.rows_before(line), kind == LineKind.NOT_JSON)
            for line, kind in zip(index.malformed, index.malformed_kinds, strict=True)
        ]

    def faulty(self, positions: range) -> Sequence[int]:
        """Lines among the rows at `positions` that can be read but not used."""
        index = self._index
        begin = bisect_left(index.faulty, index.line(positions[0]))
        return index.faulty[begin : bisect_right(index.faulty, index.line(positions[-1]))]

    def explain(self, row_id: int) -> str:
        """``file:line[:column]: what, expected what``."""
        text = self._texts([row_id])[row_id]
        fault = describe_fault(text)
        if fault is None:
            return f"{self.path}:{row_id + 1}: {self._check.explain(parse_line(text))}"
        place = f"{self.path}:{row_id + 1}"
        if fault.column is not None:
            place += f":{fault.column}"
        return f"{place}: {fault.what}{self._cut_short(row_id, text)}"

    def _cut_short(self, line: int, text: bytes) -> str:
        is_cut = line == self._index.num_lines - 1 and without_end(text) == text
        return (
            "; it is the last line and has no line end, the file may be cut short" if is_cut else ""
        )

    def keep_index(self) -> None:
        """Writes the index to the cache, unless it came from there."""
        if self._is_new:
            keep_index(self._cache, self._key, self._file.cache_name, self._index)
            self._is_new = False

    def _first_row_facts(self, index: RowIndex) -> dict[str, Any]:
        self._index = index
        facts: dict[str, Any] = {"bom": False, "columns": [], "dotted": []}
        if index.num_lines:
            facts["bom"] = self._bytes(0, min(len(BOM), index.identity.size)) == BOM
        if index.num_rows:
            line = index.line(0)
            value = parse_line(self._texts([line])[line])
            if isinstance(value, dict):
                facts["columns"] = list(value)
                facts["dotted"] = [key for key in self._check.keys.named() if is_dotted(value, key)]
        return facts

    def _refuse_array(self) -> None:
        """Refuses a file that is one JSON array, on one line or over several."""
        index = self._index
        if not index.malformed and not index.faulty:
            return
        if self._begins_with_bracket() and self._ends_with_bracket():
            raise json_array(self.path)

    def _begins_with_bracket(self) -> bool:
        """Whether the first text is an array, whole or open; one of several lines is just bad."""
        index = self._index
        line = self._first_text_line()
        is_open = len(index.malformed) > 0 and line == index.malformed[0]
        if not is_open and index.num_lines - index.num_blank > 1:
            return False
        start = index.starts[line]
        stop = min(index.starts[line + 1], start + _ARRAY_LOOK_BYTES)
        return self._bytes(start, stop).removeprefix(BOM).lstrip().startswith(b"[")

    def _ends_with_bracket(self) -> bool:
        size = self._index.identity.size
        return self._bytes(max(size - _ARRAY_LOOK_BYTES, 0), size).rstrip().endswith(b"]")

    def _first_text_line(self) -> int:
        index = self._index
        candidates = [lines[0] for lines in (index.malformed, index.faulty) if len(lines)]
        if index.num_rows:
            candidates.append(index.line(0))
        return min(candidates)


def _value_or_none(line: str) -> Any:
    try:
        return parse_line(line.encode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return None


def json_array(path: str) -> DataError:
    """The error for a file that is one JSON array, with the commands that turn it into lines."""
    source = shlex.quote(path)
    target = shlex.quote(f"{os.path.splitext(path)[0]}_rows.jsonl")
    program = "import json,sys; [print(json.dumps(row, ensure_ascii=False)) for row in json.load(sys.stdin)]"
    hint = (
        f"Turn it into JSON Lines: jq -c '.[]' {source} > {target}, "
        f"or: python3 -c '{program}' < {source} > {target}"
    )
    expected = "JSON Lines (one object a line)"
    return DataError("the file is a JSON array", where=path, expected=expected, hint=hint)
