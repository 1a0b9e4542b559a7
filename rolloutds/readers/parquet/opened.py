"""A stored file as pyarrow reads it: a local one by its path, a remote one by ranges."""

from __future__ import annotations

from typing import Any

from rolloutds.storage import StoredFile


def parquet_file(file: StoredFile) -> Any:
    """The Parquet file in a stored file; of a remote one only what is asked for is read.

    Raises:
        Exception: whatever pyarrow raises for a damaged file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if file.descriptor is not None:
        return parquet.ParquetFile(file.path)
    # Not buffered ahead: that would hold the columns of all row groups that are gone through.
    return parquet.ParquetFile(pa.PythonFile(file.stream(), mode="r"), pre_buffer=False)
