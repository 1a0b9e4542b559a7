"""What a check is: a code, what it needs, why it matters, and a partial result that merges.

A check never opens a file. It is fed batches of rows, or groups, and keeps what it found; the
results of neighbouring parts of the data merge to the result of the whole, so the work can be
done by any number of processes.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Self

from rolloutds.checks.batch import RowBatch
from rolloutds.checks.settings import CheckSettings, Needs
from rolloutds.rollouts.base import ReadGroup

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the worst to the mildest."""

PART_BITS = 40
"""Bits of a row's number that are its line in its part of the data; the part is above them."""


@dataclass(frozen=True)
class Explanation:
    """What `rolloutds explain` says of a code.

    Attributes:
        what: what was found.
        why: why it hurts a run.
        example: data that has it.
        fix: what to do.
    """

    what: str
    why: str
    example: str
    fix: str


class Found(NamedTuple):
    """One thing a check found.

    Attributes:
        what: the sentence.
        row: number of the row (part and line), None for a dataset as a whole.
        column: from 1, where it is known.
        identity: text that stays the same when lines move: of the row's content, of a key.
        spot: place of a group, where it is about one.
    """

    what: str
    row: int | None = None
    column: int | None = None
    identity: str = ""
    spot: GroupSpot | None = None


class GroupSpot(NamedTuple):
    """A group, or a sample of one.

    Attributes:
        file: as it was named.
        line: from 1, where the format has lines.
        group: as the file numbers it, else its position.
        sample: position in the group, from 0.
    """

    file: str
    line: int | None
    group: int | None = None
    sample: int | None = None


@dataclass(frozen=True)
class PartOfData:
    """One part of the data: a range of a file that one process reads in one go.

    Attributes:
        number: of the part, in the order of the data.
        path: the file, as it is opened.
        name: the file, as it is shown.
        start: first byte (JSON Lines) or row (Parquet).
        stop: where it ends.
        is_parquet: whether it counts rows, not bytes.
        first_row: rows of lower position in the part are outside the slice.
        last_line: the last physical line to look at; None: all.
    """

    number: int
    path: str
    name: str
    start: int
    stop: int
    size: int
    is_parquet: bool = False
    first_line: int = 0
    last_line: int | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes it stands for."""
        return self.size if self.is_parquet else self.stop - self.start


@dataclass
class Totals:
    """What was read, for findings about a dataset as a whole.

    Attributes:
        num_rows: rows that load.
        num_lines: physical lines of each part.
        num_bad: lines that are no rows.
        num_blank: lines of white space only.
        names: the file each part belongs to.
        lineless: files whose rows are no lines (Parquet).
    """

    num_rows: int = 0
    num_bad: int = 0
    num_blank: int = 0
    num_bytes: int = 0
    num_lines: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    lineless: set[str] = field(default_factory=set)

    def merge(self, later: Totals) -> None:
        """Adds what a later part holds."""
        self.num_rows += later.num_rows
        self.num_bad += later.num_bad
        self.num_blank += later.num_blank
        self.num_bytes += later.num_bytes
        self.num_lines.update(later.num_lines)
        self.names.update(later.names)
        self.lineless |= later.lineless

    def place(self, row: int) -> tuple[str, int]:
        """File and physical line, from 0, of a row's number."""
        part, line = row >> PART_BITS, row & ((1 << PART_BITS) - 1)
        name = self.names[part]
        while part - 1 in self.names and self.names[part - 1] == name:
            part -= 1
            line += self.num_lines[part]
        return name, line

    def spot(self, row: int) -> str:
        """``file:line`` of a row's number, or ``file row N``."""
        name, line = self.place(row)
        return f"{name} row {line}" if name in self.lineless else f"{name}:{line + 1}"


class Check(ABC):
    """One check: what it is, and what it found so far.

    Args:
        settings: what a run reads of a row.

    Attributes:
        code: short and stable.
        name: in words.
        severity: an error stops a run or spoils it; a note is worth knowing.
        needs: what must be there for it to run.
        explanation: what, why, example, how to fix.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    needs: ClassVar[tuple[Needs, ...]] = ()
    explanation: ClassVar[Explanation]

    def __init__(self, settings: CheckSettings) -> None:
        self.settings = settings
        self.found: list[Found] = []
        self.num_found = 0

    def add(self, found: Found) -> None:
        """Keeps one finding, or counts it once enough are kept."""
        self.num_found += 1
        if len(self.found) < self.settings.max_kept:
            self.found.append(found)

    def merge(self, later: Self) -> None:
        """Takes over what was found in a later part of the data."""
        self.num_found += later.num_found
        room = self.settings.max_kept - len(self.found)
        self.found.extend(later.found[:room] if room > 0 else [])


class RowCheck(Check):
    """A check on rows of prompt data."""

    def feed(self, batch: RowBatch) -> None:
        """Looks at some neighbouring rows; each row comes once, in the order of the data."""

    def finish(self, totals: Totals) -> None:
        """Adds what only the whole shows."""

    def add_rows(self, batch: RowBatch, positions: Sequence[int], what: str) -> None:
        """Keeps one finding with the same sentence for each of some rows of a batch."""
        for i in positions:
            self.add_row(batch, i, what)

    def add_row(self, batch: RowBatch, i: int, what: str) -> None:
        """Keeps a finding on one row of a batch."""
        if len(self.found) < self.settings.max_kept:
            self.add(Found(what, batch.numbers[i], None, batch.digest(i)))
        else:
            self.num_found += 1


class GroupCheck(Check):
    """A check on groups of samples; it sees every group of every file in turn."""

    def feed(self, group: ReadGroup) -> None:
        """Looks at one group."""

    def end_file(self, file: str) -> None:
        """A file is over: adds what only the whole file shows."""

    def add_group(
        self, group: ReadGroup, what: str, *, sample: int | None = None, identity: str = ""
    ) -> None:
        """Keeps a finding on a group, or on one of its samples."""
        place = group.place
        spot = GroupSpot(place.file, place.line, group.number, sample)
        name = f"{group.number} {sample} {identity}"
        self.add(Found(what, None, None, name, spot))

    def add_file(self, file: str, what: str, identity: str) -> None:
        """Keeps a finding on a file as a whole."""
        self.add(Found(what, None, None, identity, GroupSpot(file, None)))
