"""The shards of a manifest as readers: what the manifest says needs no file; rows open theirs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from rolloutds.errors import DataError
from rolloutds.manifest import Shard
from rolloutds.readers.base import (
    FileFindings,
    FileSummary,
    Notice,
    Place,
    Reader,
    Row,
    ScanCounters,
)

MAX_OPEN: Final = 256
"""Files open at a time; of those used longest ago the descriptor and the index are let go of."""


class OpenShards:
    """The shards whose rows are being read.

    Args:
        open_reader: opens a file, with the index that is cached or a new one.
        max_open: how many are held.
    """

    def __init__(self, open_reader: Callable[[str], Reader], *, max_open: int = MAX_OPEN) -> None:
        self._open_reader = open_reader
        self._max_open = max_open
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._lock = threading.Lock()
        self._counted = ScanCounters()

    def __len__(self) -> int:
        return len(self._readers)

    def reader(self, path: str, shard: Shard) -> Reader:
        """The reader of a shard.

        Raises:
            DataError: it cannot be read, or its bytes are not those the manifest was built from.
        """
        with self._lock:
            reader = self._readers.get(path)
            if reader is not None:
                self._readers.move_to_end(path)
                return reader
        reader = self._open_reader(path)
        if reader.summary.digest != shard.digest:
            raise _replaced(path)
        if len(reader) != shard.num_rows:
            raise _counted_otherwise(path, shard.num_rows, len(reader))
        reader.keep_index()
        with self._lock:
            self._readers[path] = reader
            while len(self._readers) > self._max_open:
                # Not closed: another thread may be reading from it. It closes with the last use.
                _, dropped = self._readers.popitem(last=False)
                self._count(dropped)
        return reader

    def _count(self, reader: Reader) -> None:
        self._counted.rows_parsed += reader.counters.rows_parsed
        self._counted.bytes_read += reader.counters.bytes_read

    @property
    def counters(self) -> ScanCounters:
        """Rows parsed and bytes read so far, over all shards."""
        with self._lock:
            open_now = [reader.counters for reader in self._readers.values()]
            return ScanCounters(
                self._counted.rows_parsed + sum(c.rows_parsed for c in open_now),
                self._counted.bytes_read + sum(c.bytes_read for c in open_now),
            )

    def close(self) -> None:
        """Closes those that are open."""
        with self._lock:
            while self._readers:
                _, reader = self._readers.popitem()
                self._count(reader)
                reader.close()


class ShardReader(Reader):
    """One shard of a manifest, opened when one of its rows is asked for.

    Args:
        path: of the file.
        shard: what the manifest says of it.
        shards: holds the open ones.
        columns: keys of the rows, for the first shard of a manifest; empty for others.
        is_inspected: whether the findings in the manifest were asked for.
    """

    def __init__(
        self,
        path: str,
        shard: Shard,
        shards: OpenShards,
        *,
        columns: Sequence[str] = (),
        is_inspected: bool = True,
    ) -> None:
        self.path = path
        self._shard = shard
        self._shards = shards
        self._columns = columns
        self._is_inspected = is_inspected

    @property
    def _reader(self) -> Reader:
        return self._shards.reader(self.path, self._shard)

    @classmethod
    def first_row(cls, path: str) -> dict[str, Any] | None:
        """Not asked of a shard: the file's own reader gives it."""
        raise NotImplementedError(path)

    def __len__(self) -> int:
        return self._shard.num_rows

    @property
    def counters(self) -> ScanCounters:  # type: ignore[override]
        """Nothing: the open shards are counted together."""
        return ScanCounters()

    def row_id(self, position: int) -> int:
        """Physical line or row; without a line left out it is the position itself."""
        shard = self._shard
        if shard.num_rows != shard.num_lines:
            return self._reader.row_id(position)
        if not 0 <= position < shard.num_rows:
            raise IndexError(f"row {position} of {shard.num_rows}")
        return position

    def place(self, position: int) -> Place:
        """File and line of a row."""
        return self.place_of(self.row_id(position))

    def place_of(self, row_id: int) -> Place:
        """File and line of a physical line."""
        return Place(self.path, row_id, None if self.path.endswith(".parquet") else row_id + 1)

    def read(self, positions: Sequence[int]) -> list[Row]:
        """The rows at `positions`, in that order.

        Raises:
            DataError: the file is not the manifest's any more, or cannot be read.
        """
        return self._reader.read(positions)

    def byte_bounds(self) -> Sequence[int] | None:
        """For each row an upper bound of the bytes of its text, or None."""
        return self._reader.byte_bounds()

    def column_names(self) -> list[str]:
        """Keys of the rows, from the first shard."""
        return list(self._columns)

    @property
    def summary(self) -> FileSummary:
        """What the file is and holds."""
        shard = self._shard
        return FileSummary(
            self.path,
            shard.num_rows,
            shard.num_lines,
            shard.num_blank,
            shard.num_skipped,
            shard.num_bytes,
            shard.digest,
        )

    @property
    def notices(self) -> list[Notice]:
        """What is worth knowing about the file as a whole."""
        return [Notice(code, f"{self.path}{text}") for code, text in self._shard.notices]

    def findings(self, positions: range) -> list[FileFindings]:
        """What inspect() said of the rows at `positions`; of part of a shard its index says it."""
        shard = self._shard
        if not shard.findings or not self._is_inspected:
            return []
        if len(positions) < shard.num_rows:
            return self._reader.findings(positions)
        return [FileFindings(code, what, count, at) for code, what, count, at in shard.findings]

    def malformed(self) -> list[tuple[int, int, bool]]:
        """The lines that were left out: physical line, rows before it, not JSON."""
        return [(line, before, True) for line, before in self._shard.skipped]

    def faulty(self, positions: range) -> Sequence[int]:
        """None: such a shard has no manifest."""
        del positions
        return ()

    def explain(self, row_id: int) -> str:
        """``file:line[:column]: what, expected what``."""
        return self._reader.explain(row_id)

    def reason(self, finding_code: str, row_id: int) -> str:
        """The sentence inspect() gives for one row and code."""
        return self._reader.reason(finding_code, row_id)

    @property
    def is_cached(self) -> bool:
        """True: the manifest is what is known of it."""
        return True

    def keep_index(self) -> None:
        """Nothing: a shard's index is kept when it is opened."""

    def close(self) -> None:
        """Closes the open shards of its manifest."""
        self._shards.close()


def _replaced(path: str) -> DataError:
    hint = "Build the manifest again: rolloutds manifest build DATA -o FILE"
    return DataError("the file changed since its manifest was built", where=path, hint=hint)


def _counted_otherwise(path: str, listed: int, found: int) -> DataError:
    hint = "Build the manifest again: rolloutds manifest build DATA -o FILE"
    what = f"{found} rows, and its manifest says {listed}"
    return DataError(what, where=path, hint=hint)
