"""What every reader gives: rows by position, their places, and what is said of the file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rolloutds.cache import Cache
from rolloutds.row_findings import Finding, Inspect, Notice

BadRows = Literal["error", "skip"]

__all__ = [
    "BadRows",
    "FileFindings",
    "FileSummary",
    "Finding",
    "Inspect",
    "Notice",
    "Place",
    "Reader",
    "Row",
    "RowKeys",
    "ScanCounters",
]


class Place(NamedTuple):
    """Where a row lies.

    Attributes:
        file: path of the file, as it was opened.
        row_id: physical line or row in the file, from 0; blank and skipped lines count.
        line: line number from 1, or None where the format has no lines (Parquet).
    """

    file: str
    row_id: int
    line: int | None

    def __str__(self) -> str:
        if self.line is None:
            return f"{self.file} row {self.row_id}"
        return f"{self.file}:{self.line}"


class Row(NamedTuple):
    """One row: its value, plain Python types all the way down, and its place."""

    value: dict[str, Any]
    place: Place


@dataclass(frozen=True)
class RowKeys:
    """The keys a run reads, each a literal name or a dotted path.

    Attributes:
        input_key: the prompt; it must be there and not null.
        label_key: the label; when set it must be there (null is a label).
        metadata_key: metadata, or None.
        tool_key: tools, or None.
        media_keys: columns that hold images, videos or audio.
    """

    input_key: str
    label_key: str | None = None
    metadata_key: str | None = None
    tool_key: str | None = None
    media_keys: tuple[str, ...] = ()

    def named(self) -> list[str]:
        """Every key that is set, each once, the prompt's first."""
        keys = [self.input_key, self.label_key, self.metadata_key, self.tool_key, *self.media_keys]
        return list(dict.fromkeys(key for key in keys if key is not None))


class FileSummary(NamedTuple):
    """One file of a dataset.

    Attributes:
        path: as it was opened.
        num_rows: rows that load (before a slice).
        num_lines: physical lines, or rows for Parquet.
        num_blank: lines of white space only.
        num_skipped: lines that are no rows because they cannot be read as JSON.
        num_bytes: size of the file.
        digest: hex digest of its bytes.
    """

    path: str
    num_rows: int
    num_lines: int
    num_blank: int
    num_skipped: int
    num_bytes: int
    digest: str


@dataclass
class ScanCounters:
    """Work done so far: rows parsed from text or decoded, and bytes read from data files."""

    rows_parsed: int = 0
    bytes_read: int = 0


class FileFindings(NamedTuple):
    """One code that inspect() gave for rows of a file, none of which stops the load.

    Attributes:
        code: the finding's code.
        what: its sentence for the first row; None where it is for another row than the first
            of the file, and `Reader.reason` has to look.
        num_rows: how many of the rows asked about it was given for.
        first_row_id: physical line or row of the first of them.
    """

    code: str
    what: str | None
    num_rows: int
    first_row_id: int


def findings_between(
    row_ids: Sequence[int],
    numbers: Sequence[int],
    codes: Sequence[tuple[str, str]],
    first: int,
    last: int,
) -> list[FileFindings]:
    """Counts findings of the physical rows from `first` to `last`.

    Args:
        row_ids: the row of each finding, in order.
        numbers: for each, an index into `codes`.
        codes: code, and its sentence for the first row that has it.
        first: physical row, from 0.
        last: physical row, itself included.
    """
    begin, end = bisect_left(row_ids, first), bisect_right(row_ids, last)
    all_numbers = bytes(numbers)
    found = []
    for number, (code, what) in enumerate(codes):
        count = all_numbers.count(number, begin, end)
        if count:
            at = all_numbers.find(number, begin, end)
            is_first = at == all_numbers.find(number)
            found.append(FileFindings(code, what if is_first else None, count, row_ids[at]))
    return found


class Reader(ABC):
    """One file, opened; positions count its rows from 0, leaving out what is no row.

    A reader knows what is wrong without saying so at once: `rows.Rows` decides, with the
    slice, which of it stops the load.
    """

    path: str
    counters: ScanCounters
    _is_new: bool

    @abstractmethod
    def __init__(self, path: str, keys: RowKeys, inspect: Inspect | None, cache: Cache) -> None:
        """Opens `path` and finds out all that is wrong with it."""

    @classmethod
    @abstractmethod
    def first_row(cls, path: str) -> dict[str, Any] | None:
        """The first row that can be read, whole, without an index; None when there is none.

        Raises:
            DataError: the file cannot be read.
        """

    @abstractmethod
    def __len__(self) -> int:
        """How many rows it has."""

    @abstractmethod
    def row_id(self, position: int) -> int:
        """Physical line or row of a position, from 0."""

    @abstractmethod
    def place(self, position: int) -> Place:
        """Where a position's row lies."""

    @abstractmethod
    def read(self, positions: Sequence[int]) -> list[Row]:
        """The rows at `positions`, in that order.

        Raises:
            DataError: the file changed or cannot be read any more.
        """

    @abstractmethod
    def byte_bounds(self) -> Sequence[int] | None:
        """For each row an upper bound of the UTF-8 bytes of its prompt.

        None when that is not known, or a prompt is no text, or has no UTF-8 form.
        """

    @abstractmethod
    def column_names(self) -> list[str]:
        """Keys of the first row."""

    @property
    @abstractmethod
    def summary(self) -> FileSummary:
        """What the file is and holds."""

    @property
    @abstractmethod
    def notices(self) -> list[Notice]:
        """What is worth knowing about the file as a whole."""

    @abstractmethod
    def findings(self, positions: range) -> list[FileFindings]:
        """What inspect() said of the rows at `positions` (consecutive, not empty)."""

    @abstractmethod
    def malformed(self) -> Sequence[tuple[int, int, bool]]:
        """Lines that cannot be read: physical line, rows before it, whether it is not JSON."""

    @abstractmethod
    def faulty(self, positions: range) -> Sequence[int]:
        """Physical rows among `positions` that can be read but not used."""

    @abstractmethod
    def place_of(self, row_id: int) -> Place:
        """Where a physical line or row lies."""

    @abstractmethod
    def explain(self, row_id: int) -> str:
        """``file:line[:column]: what, expected what`` for a malformed line or faulty row."""

    @abstractmethod
    def reason(self, finding_code: str, row_id: int) -> str:
        """The sentence inspect() gives for one row and code."""

    @property
    def is_cached(self) -> bool:
        """Whether its index is in the cache: it came from there, or `keep_index` put it there."""
        return not self._is_new

    @abstractmethod
    def keep_index(self) -> None:
        """Writes what was learned to the cache, unless it came from there."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file."""
