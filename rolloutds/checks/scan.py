"""One part of the data to batches of rows: byte ranges of JSON Lines, rows of Parquet.

A range owns the lines that start in it, so neighbouring ranges share no line and miss none,
whatever reads them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import IO, Any, Final, cast

import msgspec

from rolloutds.checks.base import PART_BITS, PartOfData, Totals
from rolloutds.checks.batch import BadLine, Renderer, RowBatch
from rolloutds.checks.settings import CheckSettings
from rolloutds.errors import DataError
from rolloutds.readers.lines import (
    BOM,
    BlankLineError,
    describe_fault,
    describe_type,
    has_long_digits,
    parse_line,
    without_end,
)
from rolloutds.rollouts import parquet_rows
from rolloutds.storage import StoredFile, is_remote, open_stored
from rolloutds.storage.read_ahead import ReadAhead

# Small enough for all that is made of a piece to stay in the processor's cache, and for the
# memory of one to be used again by the next.
PIECE_BYTES: Final = 1 << 17
_PARQUET_ROWS: Final = 1024
_REMOTE_WINDOW_BYTES: Final = 4 << 20
_decode: Final = msgspec.json.Decoder().decode
_decode_lines: Final = msgspec.json.Decoder().decode_lines


class Lines:
    """The lines that start in a byte range, a list at a time.

    Args:
        source: the open file: its descriptor, or what reads it.
        start: first byte of the range.
        stop: end of the range.
        size: bytes in the file.
        piece_bytes: bytes read at a time.
    """

    def __init__(
        self,
        source: int | StoredFile,
        start: int,
        stop: int,
        size: int,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._pread = partial(os.pread, source) if isinstance(source, int) else source.pread
        self._start = start
        self._stop = stop
        self._size = size
        self._piece_bytes = piece_bytes

    def __iter__(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """Whole lines, with their line ends: together, and one by one."""
        for whole in self.pieces():
            yield whole, whole.splitlines(keepends=True)

    def pieces(self) -> Iterator[bytes]:
        """Whole lines, some at a time."""
        offset = self._first_line()
        pieces: list[bytes] = []
        at = offset  # where the first of `pieces` lies
        while at < self._stop and offset < self._size:
            data = self._read(offset)
            offset += len(data)
            if pieces and pieces[-1].endswith(b"\r"):  # what follows says whether it is an end
                data = pieces.pop() + data
            end = len(data) if offset >= self._size else last_end(data)
            if not end:
                pieces.append(data)
                continue
            whole = b"".join([*pieces, data[:end]]) if pieces else data[:end]
            pieces = [data[end:]] if end < len(data) else []
            if at + len(whole) > self._stop:
                whole = b"".join(_before(whole.splitlines(keepends=True), self._stop - at))
                at = self._stop
            yield whole
            at += len(whole)

    def _read(self, offset: int) -> bytes:
        data = self._pread(min(self._piece_bytes, self._size - offset), offset)
        if not data:
            what = f"the file ends at byte {offset}, it was {self._size} bytes long"
            raise DataError(what, hint="It was changed while being read; try again.")
        return data

    def _first_line(self) -> int:
        """Where the first line starts that starts in the range."""
        if self._start == 0:
            return 0
        offset = self._start - 1
        carried = b""
        while offset < self._size:
            data = self._read(offset)
            end = _first_end(carried + data)
            if end is not None:
                return offset - len(carried) + end
            if offset + len(data) >= self._size:
                return self._size
            offset += len(data)
            carried = b"\r" if data.endswith(b"\r") else b""
        return self._size


def last_end(data: bytes) -> int:
    """Bytes up to the last line end that is whole: a carriage return at the end may not be."""
    cr = data.rfind(b"\r", 0, len(data) - 1)
    return max(data.rfind(b"\n"), cr) + 1


def _first_end(data: bytes) -> int | None:
    """Bytes up to the first line end; None when there is none, or it may go on."""
    feed, cr = data.find(b"\n"), data.find(b"\r")
    if cr < 0 or 0 <= feed < cr:
        return feed + 1 if feed >= 0 else None
    if cr == len(data) - 1:
        return None
    return cr + 2 if data[cr + 1] == 0x0A else cr + 1


def _before(lines: list[bytes], limit: int) -> list[bytes]:
    at = 0
    for number, line in enumerate(lines):
        if at >= limit:
            return lines[:number]
        at += len(line)
    return lines


@contextmanager
def open_source(path: str) -> Iterator[int | StoredFile]:
    """A file of JSON Lines as `Lines` takes it.

    Raises:
        DataError: it cannot be read.
    """
    with open_stored(path) as file:
        if file.descriptor is not None:
            yield file.descriptor
            return
        # Small windows: a range ends in the middle of one, and what was fetched beyond is lost.
        ahead = ReadAhead(file, _REMOTE_WINDOW_BYTES)
        try:
            yield ahead
        finally:
            ahead.close()


def open_parquet(path: str) -> IO[bytes] | None:
    """A remote Parquet file as a stream; None for a local one, which is read by its path.

    Raises:
        DataError: it cannot be read.
    """
    return cast(IO[bytes], open_stored(path).stream()) if is_remote(path) else None


@dataclass
class _Parsed:
    rows: list[dict[str, Any]]
    numbers: Any
    lines: list[bytes] | None
    bad: list[BadLine]
    odd: list[int]
    num_blank: int


def batches(
    part: PartOfData, settings: CheckSettings, totals: Totals, renderer: Renderer | None
) -> Iterator[RowBatch]:
    """The rows of one part of the data, and the lines that are none.

    Args:
        part: what to read.
        settings: what a run reads of a row.
        totals: counts what is read.
        renderer: renders prompts, where there is a tokenizer.

    Raises:
        DataError: the file cannot be read.
    """
    totals.names[part.number] = part.name
    totals.num_lines[part.number] = 0
    if part.is_parquet:
        totals.lineless.add(part.name)
    read = _parquet_batches if part.is_parquet else _json_batches
    yield from read(part, settings, totals, renderer)


def _json_batches(
    part: PartOfData, settings: CheckSettings, totals: Totals, renderer: Renderer | None
) -> Iterator[RowBatch]:
    base = part.number << PART_BITS
    line_number = 0
    with open_source(part.path) as source:
        for data in Lines(source, part.start, part.stop, part.size).pieces():
            first = base + line_number
            values = _plain_rows(data) if part.last_line is None else None
            if values is not None:
                count = len(values)
                parsed = _Parsed(values, range(first, first + count), None, [], [], 0)
            else:
                lines = data.splitlines(keepends=True)
                count = len(lines)
                wanted = _within(lines, line_number, part)
                if line_number == 0 and part.start == 0 and wanted and wanted[0].startswith(BOM):
                    wanted[0] = wanted[0][len(BOM) :]
                parsed = _parse(data, wanted, first, is_last=part.stop >= part.size)
            line_number += count
            totals.num_lines[part.number] += count
            totals.num_bytes += len(data)
            _drop_rows_before(parsed, base + part.first_line)
            totals.num_rows += len(parsed.rows)
            totals.num_bad += len(parsed.bad)
            totals.num_blank += parsed.num_blank
            yield RowBatch(
                parsed.rows,
                parsed.numbers,
                settings,
                data=data,
                lines=parsed.lines,
                bad=parsed.bad,
                odd=parsed.odd,
                renderer=renderer,
            )


def _within(lines: list[bytes], first: int, part: PartOfData) -> list[bytes]:
    if part.last_line is None or first + len(lines) <= part.last_line + 1:
        return lines
    return lines[: max(part.last_line + 1 - first, 0)]


def _plain_rows(data: bytes) -> list[Any] | None:
    """The rows of lines that hold an object each and nothing else; None where some may not.

    The decoder takes objects wherever they end. So each line has to begin and end with a brace,
    which puts every line end between two objects, and there have to be as many as lines.
    """
    import numpy as np

    if not data.startswith(b"{") or b"\r" in data:
        return None
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters[:-1] == 0x0A)
    is_plain = (characters[ends - 1] == 0x7D).all() and (characters[ends + 1] == 0x7B).all()
    if not (is_plain and data.endswith((b"}\n", b"}"))) or has_long_digits(data):
        return None
    try:
        values = _decode_lines(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return values if len(values) == len(ends) + 1 else None


def _drop_rows_before(parsed: _Parsed, first: int) -> None:
    """Leaves out rows before the slice; lines that are no rows stay, since they shift it."""
    count = sum(1 for number in parsed.numbers if number < first) if first else 0
    if not count or (parsed.numbers and parsed.numbers[0] >= first):
        return
    parsed.rows, parsed.numbers = parsed.rows[count:], parsed.numbers[count:]
    parsed.lines = parsed.lines[count:] if parsed.lines is not None else None
    parsed.odd = [i - count for i in parsed.odd if i >= count]


def _parse(data: bytes, lines: list[bytes], first: int, *, is_last: bool) -> _Parsed:
    """Values of lines: all in one go where nothing is odd, else one by one."""
    try:
        values = list(map(_decode, lines))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _parse_each(lines, first, is_last=is_last)
    if set(map(type, values)) <= {dict} and not has_long_digits(data):
        return _Parsed(values, range(first, first + len(lines)), lines, [], [], 0)
    return _parse_each(lines, first, is_last=is_last)


def _parse_each(lines: list[bytes], first: int, *, is_last: bool) -> _Parsed:
    parsed = _Parsed([], [], None, [], [], 0)
    kept: list[bytes] = []
    for number, line in enumerate(lines, first):
        try:
            value, is_odd = _value(line)
        except BlankLineError:
            parsed.num_blank += 1
            continue
        except (ValueError, RecursionError) as error:
            is_cut = is_last and number == first + len(lines) - 1
            parsed.bad.append(_bad_line(number, line, error, is_cut=is_cut))
            continue
        if not isinstance(value, dict):
            what = f"{describe_type(value)}, expected an object"
            parsed.bad.append(BadLine(number, "object", None, what, line))
            continue
        if is_odd:
            parsed.odd.append(len(parsed.rows))
        parsed.rows.append(value)
        parsed.numbers.append(number)
        kept.append(line)
    parsed.lines = kept
    return parsed


def _value(line: bytes) -> tuple[Any, bool]:
    """The value, and whether only Python's json gives it."""
    try:
        if not has_long_digits(line):
            return _decode(line), False
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    return parse_line(line), True


def _bad_line(number: int, line: bytes, error: Exception, *, is_cut: bool) -> BadLine:
    fault = describe_fault(line)
    what = fault.what if fault else str(error)
    if is_cut and without_end(line) == line:
        what += "; it is the last line and has no line end, the file may be cut short"
    kind = "value"
    if isinstance(error, json.JSONDecodeError):
        kind = "json"
    elif isinstance(error, UnicodeDecodeError):
        kind = "encoding"
    return BadLine(number, kind, fault.column if fault else None, what, line)


def _refuse_repeated_columns(part: PartOfData, settings: CheckSettings) -> None:
    """Refuses what a run would: two columns of one name, where that name is read."""
    keys = settings.prompts
    read = [keys.input_key, keys.label_key, keys.metadata_key, keys.tool_key, *keys.media_keys]
    heads = {head for key in read if key for head in (key, key.partition(".")[0])}
    names = [name for name, _ in parquet_rows.columns(part.path, open_parquet(part.path))]
    for name in names:
        if name in heads and names.count(name) > 1:
            raise DataError(
                f"{names.count(name)} columns are named {name!r}, expected one",
                where=part.name,
                hint="Write the file again with a name of its own for each column.",
            )


def _parquet_batches(
    part: PartOfData, settings: CheckSettings, totals: Totals, renderer: Renderer | None
) -> Iterator[RowBatch]:
    _refuse_repeated_columns(part, settings)
    base = part.number << PART_BITS
    read = parquet_rows.rows(part.path, open_parquet(part.path))
    rows = islice(enumerate(read), part.start, part.stop)
    count = part.start
    while chunk := [value for _, value in islice(rows, _PARQUET_ROWS)]:
        numbers = range(base + count, base + count + len(chunk))
        count += len(chunk)
        totals.num_rows += len(chunk)
        yield RowBatch(chunk, numbers, settings, is_parquet=True, renderer=renderer)
    totals.num_lines[part.number] = count
    totals.num_bytes += part.size
