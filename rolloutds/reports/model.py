"""What a command has to say, before any format: data for programs, sections for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
"""Version of the JSON forms; keys may be added within a version, not renamed."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Off a terminal every column is shown, and nothing is cut but by a `limit`.

    Attributes:
        name: its heading.
        justify: the side its cells keep to; those on the right are never cut or wrapped.
        limit: most of a cell that is shown, in columns of a terminal, on one line; None shows
            the whole cell, wrapped where a screen is too narrow.
        is_flexible: it takes what a screen has room for, and gives way before the others.
        is_optional: left out when no cell of the first page has text.
        keeps_end: it holds paths, cut only by a screen, and then their ends are shown.
        is_list: it holds lists of short values, cut only by a screen, on one line.
        short: its heading where a screen is narrow.
        is_extra: left out where a screen has no room for all, the last one first; the screen says
            so by the short heading, unless that is empty.
        num_below: where a screen has no room for the whole cell it goes below its row, on at
            most so many lines; 0 keeps it in the row.
    """

    name: str
    justify: Literal["left", "right"] = "left"
    limit: int | None = None
    is_flexible: bool = False
    is_optional: bool = False
    keeps_end: bool = False
    is_list: bool = False
    short: str | None = None
    is_extra: bool = False
    num_below: int = 0

    @property
    def is_one_line(self) -> bool:
        """Whether a cell is cut, and not wrapped, where there is no room for it."""
        return self.keeps_end or self.is_list or self.limit is not None


@dataclass(frozen=True)
class Cells:
    """A row of a table, one text a column."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Border:
    """A line drawn across a table, with what begins there."""

    title: str


@dataclass(frozen=True)
class Table:
    """Rows, read once and as late as possible, so that there may be any number of them."""

    columns: Sequence[Column]
    rows: Iterable[Cells | Border]


@dataclass(frozen=True)
class Facts:
    """Names and values, one a line."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Heading:
    """A line that says what follows."""

    text: str


@dataclass(frozen=True)
class Block:
    """Text shown whole, with its own lines."""

    text: str
    title: str | None = None


Section = Table | Facts | Heading | Block


@dataclass(frozen=True)
class Report:
    """What a command found.

    Attributes:
        kind: what it is, for programs ("peek", "plan", …).
        data: the facts, for programs; plain values.
        records_name: key of `records` in the JSON object; None when there are none.
        records: plain objects, one a line of JSON Lines; read once, as late as possible.
        sections: the same for people; read once, as late as possible.
    """

    kind: str
    data: Mapping[str, Any]
    records_name: str | None = None
    records: Iterable[Mapping[str, Any]] = ()
    sections: Iterable[Section] = field(default=())
