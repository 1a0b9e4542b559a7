"""Input formats: rows of prompt data by position, whatever file they lie in."""

from __future__ import annotations

from rolloutds.readers.base import (
    BadRows,
    FileSummary,
    Finding,
    Inspect,
    Notice,
    Place,
    Reader,
    Row,
    RowKeys,
    ScanCounters,
)
from rolloutds.readers.formats import READERS
from rolloutds.readers.opening import first_row, open_rows
from rolloutds.readers.rows import Rows

__all__ = [
    "READERS",
    "BadRows",
    "FileSummary",
    "Finding",
    "Inspect",
    "Notice",
    "Place",
    "Reader",
    "Row",
    "RowKeys",
    "Rows",
    "ScanCounters",
    "first_row",
    "open_rows",
]
