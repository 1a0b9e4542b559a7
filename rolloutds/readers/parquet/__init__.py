"""Rows of a Parquet file: with what is below it, the one door to pyarrow.

Values are what pyarrow's ``to_pylist`` gives: plain Python types, structs as dicts, lists as
lists, maps as lists of pairs. A row holds the columns that a run reads, so a column nobody asked
for costs nothing and cannot stop the load.
"""

from __future__ import annotations

from rolloutds.readers.parquet.reader import ParquetReader

__all__ = ["ParquetReader"]
