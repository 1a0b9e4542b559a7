"""Rows of Parquet files, whatever their columns: read a batch at a time, written a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, Self

from rolloutds.errors import DataError

_BATCH_ROWS: Final = 256


def columns(path: str, source: IO[bytes] | None = None) -> list[tuple[str, str]]:
    """Name and Arrow type of every column, in order.

    Args:
        path: the file.
        source: its bytes, where they do not lie at the path.

    Raises:
        DataError: the file is damaged.
    """
    from pyarrow import parquet

    with _named(path), parquet.ParquetFile(path if source is None else source) as file:
        return [(column.name, str(column.type)) for column in file.schema_arrow]


def rows(path: str, source: IO[bytes] | None = None) -> Iterator[dict[str, Any]]:
    """The rows in order, as plain Python values.

    Args:
        path: the file.
        source: its bytes, where they do not lie at the path.

    Raises:
        DataError: the file is damaged.
    """
    from pyarrow import parquet

    with _named(path), parquet.ParquetFile(path if source is None else source) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield from batch.to_pylist()


@contextmanager
def _named(path: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise DataError(
            f"damaged, or not a Parquet file: {first_line}",
            where=path,
            hint="write the file again; a copy that stopped early is the usual cause",
        ) from error


class RowsWriter:
    """Writes rows of fixed columns.

    Args:
        handle: where to.
        types: Arrow's name of each column's type: ``int64``, ``string``, ``list<int64>``, …
    """

    def __init__(self, handle: IO[bytes], types: Mapping[str, str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._schema = pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])
        self._writer = parquet.ParquetWriter(handle, self._schema, compression="zstd")

    def write(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Writes some rows as one row group."""
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(list(batch), schema=self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # Also after an error: pyarrow would close it later, when the file under it is gone.
        self._writer.close()


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    if kind.startswith("list<"):
        return pa.list_(_arrow_type(kind[5:-1]))
    return pa.type_for_alias(kind)
