"""One pass over a byte range of a JSON Lines file: line starts, what is no row, the digest.

A range owns the lines that start in it. The scan of a range depends on the file alone, so
ranges may be scanned anywhere, by any number of processes, and their results merge to the
same whole. Digests are of fixed blocks, so a range starts and ends on a multiple of a block.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Final

import xxhash

from rolloutds.errors import DataError
from rolloutds.readers.line_checks import LineKind, LineResult, RowCheck
from rolloutds.readers.lines import BOM, has_long_digits
from rolloutds.storage import StoredFile

BLOCK_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20
# Below this, looking at each line costs less than importing numpy.
_NUMPY_BYTES: Final = 8 << 20


def _longs() -> array[int]:
    return array("Q")


def _bytes() -> array[int]:
    return array("B")


@dataclass
class PartialScan:
    """What one range of a file holds; line numbers count from 0 at the range's first line.

    Attributes:
        starts: byte offset of every line that starts in the range.
        blank: lines of white space only.
        malformed: lines that cannot be read, with `malformed_kinds` (a `LineKind`) beside.
        faulty: lines that can be read and not used.
        finding_lines: lines inspect() said something of, with `finding_codes` (an index into
            `codes`) beside; a line may be there more than once.
        codes: (code, sentence for its first line).
        digests: the digests of the range's blocks, one after another.
        has_only_text: whether every prompt is text that has a UTF-8 form.
        rows_parsed: rows that went through a parser.
        bytes_read: bytes read from the file.
    """

    starts: array[int] = field(default_factory=_longs)
    blank: array[int] = field(default_factory=_longs)
    malformed: array[int] = field(default_factory=_longs)
    malformed_kinds: array[int] = field(default_factory=_bytes)
    faulty: array[int] = field(default_factory=_longs)
    finding_lines: array[int] = field(default_factory=_longs)
    finding_codes: array[int] = field(default_factory=_bytes)
    codes: list[tuple[str, str]] = field(default_factory=list)
    digests: bytes = b""
    has_only_text: bool = True
    rows_parsed: int = 0
    bytes_read: int = 0

    def add(self, line: int, result: LineResult) -> None:
        """Takes down what one line is."""
        kind = result.kind
        if kind is LineKind.BLANK:
            self.blank.append(line)
        elif kind is LineKind.FAULTY:
            self.faulty.append(line)
        elif kind is not LineKind.ROW:
            self.malformed.append(line)
            self.malformed_kinds.append(kind)
        for finding in result.findings:
            self.finding_lines.append(line)
            self.finding_codes.append(self._code(finding.code, finding.what))

    def _code(self, code: str, what: str) -> int:
        for number, (known, _) in enumerate(self.codes):
            if known == code:
                return number
        self.codes.append((code, what))
        return len(self.codes) - 1


def merge(parts: Sequence[PartialScan]) -> PartialScan:
    """Joins the scans of neighbouring ranges, in file order."""
    whole = PartialScan()
    for part in parts:
        shift = len(whole.starts)
        whole.starts.extend(part.starts)
        for name in ("blank", "malformed", "faulty", "finding_lines"):
            lines = getattr(part, name)
            getattr(whole, name).extend(lines if not shift else (line + shift for line in lines))
        whole.malformed_kinds.extend(part.malformed_kinds)
        renumbered = [whole._code(code, what) for code, what in part.codes]
        whole.finding_codes.extend(renumbered[number] for number in part.finding_codes)
        whole.digests += part.digests
        whole.has_only_text &= part.has_only_text
        whole.rows_parsed += part.rows_parsed
        whole.bytes_read += part.bytes_read
    return whole


def scan_range(
    source: int | StoredFile,
    start: int,
    stop: int,
    size: int,
    check: RowCheck,
    *,
    block_bytes: int = BLOCK_BYTES,
    piece_bytes: int = _PIECE_BYTES,
) -> PartialScan:
    """Scans the lines that start in ``[start, stop)``.

    Args:
        source: the open file, or its descriptor.
        start: a multiple of `block_bytes`.
        stop: another, or `size`.
        size: bytes in the whole file.
        check: looks at the rows.
        block_bytes: bytes a digest is of.
        piece_bytes: bytes read at a time.

    Raises:
        DataError: the file is shorter than `size`.
    """
    scan = _RangeScan(source, start, size, check)
    scan.vectorised = size >= _NUMPY_BYTES and piece_bytes >= _PIECE_BYTES
    parsed_before = check.rows_parsed
    offset = start
    while offset < stop:
        block_stop = min(offset + block_bytes, stop)
        digest = xxhash.xxh3_128()
        while offset < block_stop:
            data = scan.read(offset, min(piece_bytes, block_stop - offset))
            digest.update(data)
            scan.feed(data, offset)
            offset += len(data)
        scan.partial.digests += digest.digest()
    scan.finish(offset, piece_bytes)
    scan.partial.has_only_text = check.has_only_text
    scan.partial.rows_parsed = check.rows_parsed - parsed_before
    return scan.partial


class _RangeScan:
    """Cuts what is read into whole lines, across the pieces it comes in."""

    def __init__(self, source: int | StoredFile, start: int, size: int, check: RowCheck) -> None:
        self._pread = partial(os.pread, source) if isinstance(source, int) else source.pread
        self.size = size
        self.check = check
        self.partial = PartialScan()
        self.vectorised = False
        # An unfinished line; at first the last byte before the range, whose line is not ours.
        self._carry = bytearray(self.read(start - 1, 1) if start else b"")
        self._is_ours = False
        if self._carry == b"\n":
            self._carry.clear()
        if not self._carry:
            self._is_ours = True
        self._carry_start = start

    def read(self, offset: int, count: int) -> bytes:
        data = self._pread(count, offset)
        while len(data) < count:
            more = self._pread(count - len(data), offset + len(data))
            if not more:
                what = f"the file ends at byte {offset + len(data)}, it was {self.size} bytes long"
                raise DataError(what, hint="It was changed while being read; try again.")
            data += more
        self.partial.bytes_read += count
        return data

    def feed(self, data: bytes, offset: int) -> None:
        """Takes the next piece of the file."""
        begin = 0
        if self._carry:
            begin = self._first_end(data)
            if begin < 0:
                self._keep(data)
                return
            self._keep(data[:begin])
            self._end_carried()
        end = _last_end(data)
        if end > begin:
            self._lines(data, begin, end, offset)
        else:
            end = begin
        self._carry += data[end:]
        self._carry_start = offset + end

    def finish(self, offset: int, piece_bytes: int) -> None:
        """Reads on to the end of the last line that starts in the range."""
        while self._carry and self._is_ours and offset < self.size:
            data = self.read(offset, min(piece_bytes, self.size - offset))
            offset += len(data)
            end = self._first_end(data)
            self._keep(data if end < 0 else data[:end])
            if end >= 0:
                break
        if self._carry:
            self._end_carried()

    def _first_end(self, data: bytes) -> int:
        """Bytes of `data` that end the carried line; -1 when it goes on."""
        if self._carry.endswith(b"\r"):
            return 1 if data.startswith(b"\n") else 0
        feed, cr = data.find(b"\n"), data.find(b"\r")
        if cr < 0 or 0 <= feed < cr:
            return feed + 1 if feed >= 0 else -1
        if cr == len(data) - 1:
            return -1
        return cr + 2 if data[cr + 1] == 0x0A else cr + 1

    def _keep(self, data: bytes) -> None:
        self._carry += data
        if not self._is_ours:
            del self._carry[:-1]

    def _end_carried(self) -> None:
        if self._is_ours:
            line = bytes(self._carry)
            self._carry = bytearray()
            self._line(line, self._carry_start)
        self._carry.clear()
        self._is_ours = True

    def _line(self, line: bytes, start: int) -> None:
        number = len(self.partial.starts)
        self.partial.starts.append(start)
        if start == 0 and line.startswith(BOM):
            line = line[len(BOM) :]
        result = self.check.line(line)
        if result.kind is not LineKind.ROW or result.findings:
            self.partial.add(number, result)

    def _lines(self, data: bytes, begin: int, end: int, offset: int) -> None:
        """Takes the whole lines ``data[begin:end]``."""
        if self.vectorised and self._plain_lines(data, begin, end, offset):
            return
        start = offset + begin
        for line in data[begin:end].splitlines(keepends=True):
            self._line(line, start)
            start += len(line)

    def _plain_lines(self, data: bytes, begin: int, end: int, offset: int) -> bool:
        """Takes them in one call of the parser; False when they need a look each."""
        import numpy as np

        bytes_ = np.frombuffer(data, np.uint8)
        if b"\r" in data:
            ends = _all_ends(data, begin, end)
        else:
            ends = _newline_ends(bytes_[begin:end]) + begin
        starts = np.empty_like(ends)
        starts[0] = begin
        starts[1:] = ends[:-1]
        last = ends - 2
        last -= bytes_[last] == 0x0D
        if not ((bytes_[starts] == 0x7B).all() and (bytes_[last] == 0x7D).all()):
            return False
        lines = memoryview(data)[begin:end]
        if not data.isascii() and not _is_utf8(lines):
            return False
        if has_long_digits(lines) or not self.check.all_plain(lines, len(starts)):
            return False
        self.partial.starts.frombytes((starts + offset).astype(np.uint64).tobytes())
        return True


def _last_end(data: bytes) -> int:
    """Bytes up to the last line end that is whole: a carriage return at the end may not be."""
    cr = data.rfind(b"\r", 0, len(data) - 1)
    return max(data.rfind(b"\n"), cr) + 1


def _is_utf8(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _newline_ends(data: Any) -> Any:
    """Positions after each newline."""
    import numpy as np

    return np.flatnonzero(data == 0x0A) + 1


def _all_ends(data: bytes, begin: int, end: int) -> Any:
    import numpy as np

    lengths = map(len, data[begin:end].splitlines(keepends=True))
    return np.fromiter(accumulate(lengths), np.int64) + begin
