"""The reader of each file format."""

from __future__ import annotations

from rolloutds.readers.base import Reader
from rolloutds.readers.jsonl import JsonLinesReader
from rolloutds.readers.parquet import ParquetReader

READERS: dict[str, type[Reader]] = {
    ".jsonl": JsonLinesReader,
    ".parquet": ParquetReader,
}
"""The reader of each suffix: a new format is one line here and one file."""
