"""Decoded columns to plain Python values, and what to say where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rolloutds.errors import DataError

_NO_VALUE: Final = (ValueError, OverflowError)
"""What pyarrow raises for text that is not UTF-8, and for times that Python's types cannot hold."""


def row_value(row: Any) -> dict[str, Any]:
    """The one row of a table or batch: rows are taken singly, one may be megabytes long.

    Raises:
        ValueError: a value has no plain form; the text names its column.
    """
    try:
        found: dict[str, Any] = row.to_pylist()[0]
    except _NO_VALUE as error:
        raise ValueError(_what_is_wrong(row, error)) from error
    return found


def readable_values(row: Any) -> dict[str, Any]:
    """The one row of a table or batch, without the columns that have no plain form."""
    values = {}
    for number, name in enumerate(row.schema.names):
        try:
            values[name] = row.column(number).to_pylist()[0]
        except _NO_VALUE:
            continue
    return values


def all_values(batch: Any) -> Iterator[dict[str, Any] | None]:
    """Every row of a batch; None for one with a value that has no plain form."""
    try:
        yield from batch.to_pylist()
    except _NO_VALUE:
        yield from (_value_or_none(batch.slice(number, 1)) for number in range(batch.num_rows))


def _value_or_none(row: Any) -> dict[str, Any] | None:
    try:
        return row_value(row)
    except ValueError:
        return None


def _what_is_wrong(row: Any, error: Exception) -> str:
    readable = readable_values(row)
    bad = [name for name in row.schema.names if name not in readable]
    if isinstance(error, UnicodeDecodeError):
        reason = f"text that is not UTF-8 (byte 0x{error.object[error.start]:02x})"
    else:
        kinds = {str(row.schema.field(name).type) for name in bad}
        reason = f"a {' or '.join(sorted(kinds))} that Python has no exact value for"
    return f"column {' and '.join(map(repr, bad))} has {reason}"


def unreadable_value(error: ValueError, where: str) -> DataError:
    """The error for a row whose value has no plain form."""
    hint = "Cast the column (times to microseconds), or store it as text."
    if "UTF-8" in str(error):
        hint = "Write the text again in UTF-8, or the column as binary."
    return DataError(str(error), where=where, hint=hint)


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Turns what pyarrow raises for a damaged file into an error of ours."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        if not isinstance(error, (OSError, ValueError)) and not _is_of_arrow(error):
            raise
        raise _damaged(str(error).partition("\n")[0], path) from error


def _is_of_arrow(error: Exception) -> bool:
    # Told by its name: rows that were written down are read without pyarrow, which takes a third
    # of a second and 100 MB.
    return any(kind.__module__.startswith("pyarrow") for kind in type(error).__mro__)


def _damaged(reason: str, path: str) -> DataError:
    if "encrypt" in reason:
        hint = "Write the file again without encryption."
        return DataError(f"encrypted: {reason}", where=path, hint=hint)
    hint = "Write the file again; a copy that stopped early is the usual cause."
    return DataError(f"damaged, or not a Parquet file: {reason}", where=path, hint=hint)
