"""Rows of a Parquet file written down one by one, so that a shuffled epoch need not search columns.

A row in columns is spread over as many places as it has leaves, and putting a single one together
takes several times as long as reading it whole. Rows are written as MessagePack, in which the
plain types below come back as exactly the values that pyarrow gives; a column of any other type
has no such form.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rolloutds.cache import CacheEntry
from rolloutds.readers.parquet.decoding import BATCH_ROWS, GroupRows

_PLAIN: Final = (
    "null",
    "boolean",
    "integer",
    "float32",
    "float64",
    "string",
    "large_string",
    "binary",
    "large_binary",
)
_LISTS: Final = ("list", "large_list", "fixed_size_list")


class PackedRows:
    """Rows in one mapped file, each whole: only the pages of rows asked for are read.

    Args:
        body: the rows, one after another.
        entry: what the cache keeps beside it.
    """

    def __init__(self, body: str, entry: CacheEntry) -> None:
        with open(body, "rb") as file:
            self._body = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = entry.arrays["starts"]
        self._decode = msgspec.msgpack.Decoder().decode

    def values(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order.

        Raises:
            ValueError: the file is damaged.
        """
        body, starts, decode = self._body, self._starts, self._decode
        return [decode(body[starts[row] : starts[row + 1]]) for row in positions]


def pack_rows(rows: GroupRows, sink: Any) -> dict[str, array[int]]:
    """Writes every row; returns where each begins, and the last one ends.

    Raises:
        ValueError: a value has no plain form.
    """
    encode = msgspec.msgpack.Encoder().encode
    starts = array("Q", [0])
    for batch in rows.file.iter_batches(BATCH_ROWS, columns=rows.columns):
        for value in batch.select(rows.columns).to_pylist():
            starts.append(starts[-1] + sink.write(encode(value)))
    return {"starts": starts}


def is_packable(rows: GroupRows) -> bool:
    """Whether all values of the columns in use have a packed form."""
    schema = rows.file.schema_arrow
    return all(_has_packed_form(schema.field(name).type) for name in rows.columns)


def _has_packed_form(kind: Any) -> bool:
    from pyarrow import types

    if any(getattr(types, f"is_{name}")(kind) for name in _PLAIN):
        return True
    if types.is_dictionary(kind):
        return _has_packed_form(kind.value_type)
    if not (types.is_struct(kind) or any(getattr(types, f"is_{name}")(kind) for name in _LISTS)):
        return False
    return all(_has_packed_form(kind.field(number).type) for number in range(kind.num_fields))
