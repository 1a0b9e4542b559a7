"""Prompt data cut into parts, and what a first look at its files already shows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rolloutds.checks.base import PartOfData
from rolloutds.checks.scan import Lines, open_parquet, open_source
from rolloutds.errors import DataError, SliceError
from rolloutds.readers import READERS
from rolloutds.readers.jsonl import json_array
from rolloutds.readers.lines import BOM, BlankLineError, parse_line
from rolloutds.readers.paths import find_files, suffix_of
from rolloutds.readers.slicing import RowSlice, split_slice
from rolloutds.rollouts import parquet_rows
from rolloutds.storage import is_remote, masked, open_stored

PART_BYTES: Final = 32 << 20
_HEAD_BYTES: Final = 64 << 10
_REMOTE_LOOKS: Final = 16


class FileProblem(NamedTuple):
    """What is said of a file as a whole, with the code of the check it belongs to."""

    code: str
    file: str
    line: int | None
    what: str


@dataclass
class Layout:
    """The parts of some prompt data.

    Attributes:
        name: what it was called.
        parts: in the order of the data.
        problems: what the first look found.
        notices: sentences worth saying.
        num_files: files looked at, unreadable ones too.
    """

    name: str
    parts: list[PartOfData] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    num_files: int = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all parts that are read."""
        return sum(part.num_bytes for part in self.parts)


def lay_out(
    prompt_data: str,
    *,
    shown_as: str | None = None,
    path: str | None = None,
    part_bytes: int = PART_BYTES,
) -> Layout:
    """Finds the files and cuts them.

    Args:
        prompt_data: a file, folder or glob, sliced or not.
        shown_as: the name to show instead of the file's (for standard input).
        path: a file to read instead, whatever it is called (for standard input).
        part_bytes: bytes of a part.

    Raises:
        DataNotFoundError: there is no such data.
        SliceError: the slice is malformed, or selects nothing.
        DataError: a file is of a kind that cannot be read.
    """
    if path is not None:
        layout = Layout(shown_as or path)
        _add_file(layout, path, shown_as or path, _look(path), part_bytes)
        return layout
    name, row_slice = split_slice(prompt_data)
    layout = Layout(masked(prompt_data))
    try:
        found = find_files(name, READERS, compares_bytes=True)
    except DataError as error:
        if "JSON array" not in error.what:
            raise
        layout.num_files = 1
        layout.problems.append(FileProblem("ROW012", masked(name), None, _with_hint(error)))
        return layout
    _take_notices(layout, masked(name), found.notices)
    if row_slice is not None:
        _add_slice(layout, layout.name, found.paths, row_slice)
        return layout
    for file, look in zip(found.paths, _looks(found.paths), strict=True):
        _add_file(layout, file, masked(file), look, part_bytes)
    return layout


def _with_hint(error: DataError) -> str:
    return f"{error.what}. {error.hint}" if error.hint else error.what


def _take_notices(layout: Layout, name: str, notices: Sequence[tuple[str, str]]) -> None:
    for code, text in notices:
        if code in ("port_folder", "port_glob"):
            what = text.removeprefix(f"{name}: ")
            layout.problems.append(FileProblem("PORT005", name, None, what))
        else:
            layout.notices.append(text)


class _Look(NamedTuple):
    """What the first look at a file shows: its bytes, and how they begin."""

    size: int
    has_bom: bool = False
    is_array: bool = False


def _looks(paths: Sequence[str]) -> Iterable[_Look]:
    """The first look at each file; at several remote ones at a time, since each takes a while."""
    if not any(map(is_remote, paths)):
        yield from map(_look, paths)
        return
    with ThreadPoolExecutor(_REMOTE_LOOKS) as pool:
        yield from pool.map(_look, paths)


def _look(path: str) -> _Look:
    with open_stored(path) as file:
        size = file.size
        if suffix_of(path) == ".parquet":
            return _Look(size)
        head = file.pread(min(_HEAD_BYTES, size), 0)
    text = head.removeprefix(BOM)
    return _Look(size, text != head, _is_array(text, is_whole=size <= len(head)))


def _add_file(layout: Layout, path: str, name: str, look: _Look, part_bytes: int) -> None:
    layout.num_files += 1
    if suffix_of(path) == ".parquet":
        if look.size:
            number, end = len(layout.parts), 1 << 62
            layout.parts.append(PartOfData(number, path, name, 0, end, look.size, is_parquet=True))
        return
    if look.has_bom:
        what = "starts with a BOM; slime drops this line, here it is a row"
        layout.problems.append(FileProblem("PORT003", name, 1, what))
    if look.is_array:
        layout.problems.append(FileProblem("ROW012", name, None, _with_hint(json_array(name))))
        return
    for start in range(0, look.size, part_bytes):
        stop = min(start + part_bytes, look.size)
        layout.parts.append(PartOfData(len(layout.parts), path, name, start, stop, look.size))


def _is_array(head: bytes, *, is_whole: bool) -> bool:
    """Whether the file is one array; lists on several lines are rows of the wrong kind."""
    if not head.lstrip().startswith(b"["):
        return False
    lines = [line for line in head.splitlines() if line.strip()]
    if len(lines) == 1:
        return is_whole or b"\n" not in head
    try:
        parse_line(lines[0])
    except (ValueError, RecursionError):
        return True
    return False


def _add_slice(layout: Layout, prompt_data: str, paths: Sequence[str], row_slice: RowSlice) -> None:
    """Cuts by rows: only they say where a slice begins and ends."""
    lines_of = [_loadable_lines(path) for path in paths]
    num_rows = sum(map(len, lines_of))
    chosen = row_slice.resolve(num_rows)
    if not chosen:
        what = f"the slice {row_slice} selects none of {num_rows} rows"
        raise SliceError(what, where=prompt_data, expected="at least one row")
    if (row_slice.start or 0) < 0 or (row_slice.end or 0) < 0:
        what = f"the slice {row_slice} counts from the end: miles refuses it"
        layout.problems.append(FileProblem("PORT006", prompt_data, None, what))
    before = 0
    for path, lines in zip(paths, lines_of, strict=True):
        size = _size(path)
        layout.num_files += 1
        name = masked(path)
        first, last = max(chosen.start - before, 0), min(chosen.stop - before, len(lines))
        before += len(lines)
        if first >= last:
            continue
        if suffix_of(path) == ".parquet":
            part = PartOfData(len(layout.parts), path, name, first, last, size, is_parquet=True)
        else:
            part = PartOfData(
                len(layout.parts),
                path,
                name,
                0,
                size,
                size,
                first_line=lines[first],
                last_line=lines[last - 1],
            )
        layout.parts.append(part)


def _loadable_lines(path: str) -> Sequence[int]:
    """The physical lines, from 0, that count as rows."""
    if suffix_of(path) == ".parquet":
        return range(sum(1 for _ in parquet_rows.rows(path, open_parquet(path))))
    found = array("Q")
    number = 0
    size = _size(path)
    with open_source(path) as source:
        for _, lines in Lines(source, 0, size, size):
            for line in lines:
                if _counts(line.removeprefix(BOM) if number == 0 else line):
                    found.append(number)
                number += 1
    return found


def _size(path: str) -> int:
    with open_stored(path) as file:
        return file.size


def _counts(line: bytes) -> bool:
    try:
        parse_line(line)
    except (BlankLineError, ValueError, RecursionError):
        return False
    return True
