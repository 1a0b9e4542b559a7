"""Rows of a Parquet file by position: decoded from row groups, or mapped once written down."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from rolloutds.cache import CacheEntry
from rolloutds.readers.parquet.values import row_value, unreadable_value

BATCH_ROWS: Final = 1024
_KEPT_BYTES: Final = 64 << 20
_WHOLE_GROUP_BYTES: Final = 32 << 20
_DECODES_A_GROUP: Final = 2

PlaceText = Callable[[int], str]
"""Says where the row at a position lies."""


class GroupRows:
    """Rows decoded from row groups, the last used ones kept while they are small.

    Args:
        file: the open file.
        columns: the columns that are decoded.
        place: says where a row lies.
    """

    def __init__(self, file: Any, columns: list[str], place: PlaceText) -> None:
        self.file = file
        self.columns = columns
        self._place = place
        metadata = file.metadata
        self._sizes = [
            metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups)
        ]
        counts = (metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))
        self._starts = list(accumulate(counts, initial=0))
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._num_decodes = 0
        self.is_final = False

    @property
    def is_wasteful(self) -> bool:
        """Whether groups were decoded often enough to write the rows down."""
        return not self.is_final and self._num_decodes > _DECODES_A_GROUP * len(self._sizes)

    def values(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order.

        Raises:
            DataError: a value has no plain form.
        """
        values: dict[int, dict[str, Any]] = {}
        for group, numbers in _by_part(positions, self._starts).items():
            start = self._starts[group]
            wanted = [positions[number] - start for number in numbers]
            values.update(zip(numbers, self._from_group(group, wanted), strict=True))
        return [values[number] for number in range(len(positions))]

    def _from_group(self, group: int, wanted: list[int]) -> list[dict[str, Any]]:
        first = self._starts[group]
        table = self._kept.get(group)
        if table is not None:
            self._kept.move_to_end(group)
            return _taken(table, wanted, first, self._place)
        self._num_decodes += 1
        if self._sizes[group] > _WHOLE_GROUP_BYTES:
            return self._streamed(group, wanted)
        # A column `a.b` has the path of a field of `a`, so more may come than was asked for.
        table = self.file.read_row_group(group, columns=self.columns).select(self.columns)
        self._keep(group, table)
        return _taken(table, wanted, first, self._place)

    def _keep(self, group: int, table: Any) -> None:
        self._kept[group] = table
        while len(self._kept) > 1 and sum(t.nbytes for t in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def _streamed(self, group: int, wanted: list[int]) -> list[dict[str, Any]]:
        """Rows of a large group, of which only one batch at a time is in memory."""
        pending = sorted((row, number) for number, row in enumerate(wanted))
        values: dict[int, dict[str, Any]] = {}
        start = 0
        batches = self.file.iter_batches(BATCH_ROWS, row_groups=[group], columns=self.columns)
        for batch in batches:
            inside = [pair for pair in pending if start <= pair[0] < start + batch.num_rows]
            rows, first = [row - start for row, _ in inside], self._starts[group] + start
            found = _taken(batch.select(self.columns), rows, first, self._place)
            values.update((number, value) for (_, number), value in zip(inside, found, strict=True))
            start += batch.num_rows
            if len(values) == len(wanted):
                break
        return [values[number] for number in range(len(wanted))]


class MappedRows:
    """Rows in an uncompressed Arrow file, mapped: only the pages of rows asked for are read.

    Args:
        body: the Arrow file.
        entry: what the cache keeps beside it.
        place: says where a row lies.
    """

    def __init__(self, body: str, entry: CacheEntry, place: PlaceText) -> None:
        import pyarrow as pa

        self._file = pa.ipc.open_file(pa.memory_map(body))
        self._starts = [0, *entry.arrays["ends"]]
        self._place = place

    def values(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order.

        Raises:
            DataError: a value has no plain form.
        """
        rows: dict[int, Any] = {}
        for number_of_batch, numbers in _by_part(positions, self._starts).items():
            batch = self._file.get_batch(number_of_batch)
            start = self._starts[number_of_batch]
            rows.update((number, batch.slice(positions[number] - start, 1)) for number in numbers)
        return self._plain([rows[number] for number in range(len(positions))], positions)

    def _plain(self, rows: list[Any], positions: Sequence[int]) -> list[dict[str, Any]]:
        """The values of batches of one row; turned into Python's all at once, where that works."""
        import pyarrow as pa

        if len(rows) > 1:
            try:
                joined: list[dict[str, Any]] = (
                    pa.Table.from_batches(rows).combine_chunks().to_pylist()
                )
            except (ValueError, OverflowError):
                pass  # too large for one table, or without a plain form: singly, it has a place
            else:
                return joined
        values = []
        for row, position in zip(rows, positions, strict=True):
            values += _taken(row, [0], position, self._place)
        return values


def write_columns(rows: GroupRows, sink: Any) -> dict[str, array[int]]:
    """Writes every row in batches, to be mapped; returns how many rows each batch ends at."""
    import pyarrow as pa

    ends = array("Q")
    columns = rows.columns
    whole = rows.file.schema_arrow
    schema = pa.schema([whole.field(name) for name in columns], metadata=whole.metadata)
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in rows.file.iter_batches(BATCH_ROWS, columns=columns):
            writer.write_batch(batch.select(columns))
            ends.append((ends[-1] if ends else 0) + batch.num_rows)
    return {"ends": ends}


def _by_part(positions: Sequence[int], starts: list[int]) -> dict[int, list[int]]:
    """Indices of `positions` by the part (row group or batch) each lies in."""
    parts: dict[int, list[int]] = {}
    for number, position in enumerate(positions):
        parts.setdefault(bisect_right(starts, position) - 1, []).append(number)
    return parts


def _taken(table: Any, wanted: list[int], first: int, place: PlaceText) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in wanted:
        try:
            rows.append(row_value(table.slice(row, 1)))
        except ValueError as error:
            raise unreadable_value(error, place(first + row)) from error
    return rows
