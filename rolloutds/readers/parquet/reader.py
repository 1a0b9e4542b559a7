"""One Parquet file, opened: its index, its rows by position, and what is said of them.

Only the row groups that hold the rows asked for are decoded. A reader that keeps decoding the
same groups writes the rows once to the cache folder, uncompressed, as a file it can map.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rolloutds.cache import Cache
from rolloutds.errors import DataError, EmptyDatasetError
from rolloutds.readers.base import (
    FileFindings,
    FileSummary,
    Inspect,
    Notice,
    Place,
    Reader,
    Row,
    RowKeys,
    ScanCounters,
    findings_between,
)
from rolloutds.readers.digest import digest_of
from rolloutds.readers.line_checks import RowCheck
from rolloutds.readers.parquet.decoding import GroupRows, MappedRows, write_columns
from rolloutds.readers.parquet.index import (
    ParquetIndex,
    build_parquet_index,
    cached_parquet_index,
    keep_parquet_index,
)
from rolloutds.readers.parquet.opened import parquet_file
from rolloutds.readers.parquet.packed_rows import PackedRows, is_packable, pack_rows
from rolloutds.readers.parquet.values import damage_named, readable_values
from rolloutds.readers.row_index import index_key
from rolloutds.storage import FileIdentity, changed, open_stored

_ROWS_KIND: Final = "arrow"
_WRITERS: Final = {"packed": pack_rows, "arrow": write_columns}
"""Ways to keep decoded rows, by the name that the cache has of each."""


class ParquetReader(Reader):
    """A Parquet file.

    Args:
        path: the file.
        keys: the keys a run reads.
        inspect: sees rows that the schema does not prove plain.
        cache: keeps the index, and the rows once they have been decoded too often.

    Raises:
        DataError: it cannot be opened, is damaged, or lacks a column.
    """

    def __init__(self, path: str, keys: RowKeys, inspect: Inspect | None, cache: Cache) -> None:
        self.counters = ScanCounters()
        self._check = RowCheck(keys, inspect)
        self._cache = cache
        self._file = open_stored(path)
        self.path = self._file.path
        self._is_closed = False
        self._rows: GroupRows | MappedRows | PackedRows | None = None
        self._lock = threading.Lock()
        key = index_key(self._file.cache_name, keys, inspect)
        self._key = None if key is None else f"parquet-2 {key}"
        try:
            self._identity = self._file.identity
            cached = cached_parquet_index(cache, self._key, self._identity)
            self._is_new = cached is None
            self._index = cached or self._build()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._index.num_rows

    def close(self) -> None:
        """Closes the file; reading rows is over."""
        self._is_closed = True
        self._rows = None
        self._file.close()

    @classmethod
    def first_row(cls, path: str) -> dict[str, Any] | None:
        """The first row with every column that Python can hold; None when there is none.

        Raises:
            DataError: the file cannot be read.
        """
        with open_stored(path) as stored, damage_named(stored.path), parquet_file(stored) as file:
            batches = file.iter_batches(1)
            return next((readable_values(batch) for batch in batches if batch.num_rows), None)

    def row_id(self, position: int) -> int:
        """The physical row, which is the position itself."""
        if not 0 <= position < self._index.num_rows:
            raise IndexError(f"row {position} of {self._index.num_rows}")
        return position

    def place(self, position: int) -> Place:
        """File and row."""
        return self.place_of(self.row_id(position))

    def place_of(self, row_id: int) -> Place:
        """File and physical row."""
        return Place(self.path, row_id, None)

    def read(self, positions: Sequence[int]) -> list[Row]:
        """The rows at `positions`, in that order; each row group is decoded at most once.

        Raises:
            DataError: the file changed since it was opened, is damaged, or a value in one of
                these rows has no plain form.
        """
        for position in (min(positions, default=0), max(positions, default=0)):
            self.row_id(position)
        if self._is_closed:
            raise DataError("the file was closed", where=self.path)
        with self._lock, self._as_opened("it was open"):
            values = self._decoded(positions)
        self.counters.rows_parsed += len(positions)
        path, rows = self.path, zip(values, positions, strict=True)
        return [Row(value, Place(path, position, None)) for value, position in rows]

    def _decoded(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = self._mapped() or self._group_rows()
        if isinstance(self._rows, GroupRows) and self._rows.is_wasteful:
            self._rows = self._written(self._rows) or self._rows
        if isinstance(self._rows, PackedRows):
            try:
                return self._rows.values(positions)
            except ValueError:  # the file in the cache is damaged, this one is not
                self._rows = self._group_rows()
        return self._rows.values(positions)

    def _group_rows(self) -> GroupRows:
        return GroupRows(self._parquet_file(), self._index.needed, self._place_text)

    def _place_text(self, position: int) -> str:
        return str(self.place_of(position))

    def _parquet_file(self) -> Any:
        file = parquet_file(self._file)
        if not self._is_at_its_path():
            raise changed(self.path, "it was opened")
        return file

    @contextmanager
    def _as_opened(self, while_: str) -> Iterator[None]:
        """Says of what goes wrong in a file that is no longer the one opened, that it changed."""
        try:
            with damage_named(self.path):
                yield
        except DataError as error:
            if self._is_unchanged() and self._is_at_its_path():
                raise
            raise changed(self.path, while_) from error
        if not self._is_unchanged():
            raise changed(self.path, while_)

    def _is_unchanged(self) -> bool:
        return self._file.current_identity().same_content(self._identity)

    def _is_at_its_path(self) -> bool:
        """Whether the path, which pyarrow opens, still stands for the file that is open here."""
        if self._file.descriptor is None:
            return True
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_ino, found.st_dev) == (self._identity.inode, self._identity.device)

    def byte_bounds(self) -> None:
        """None: the bytes of a row are not known before it is decoded."""
        return

    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self._index.columns)

    @property
    def summary(self) -> FileSummary:
        """What the file is and holds."""
        index = self._index
        return FileSummary(
            path=self.path,
            num_rows=index.num_rows,
            num_lines=index.num_rows,
            num_blank=0,
            num_skipped=0,
            num_bytes=index.identity.size,
            digest=index.digest,
        )

    @property
    def notices(self) -> list[Notice]:
        """Dotted keys in use."""
        return [
            Notice(
                "port_dotted_key",
                f"{self.path}: {key!r} is read as a path; slime looks for a column of that name",
            )
            for key in self._index.dotted
        ]

    def findings(self, positions: range) -> list[FileFindings]:
        """What inspect() said of the rows at `positions`, by code."""
        index = self._index
        first, last = positions[0], positions[-1]
        return findings_between(index.finding_rows, index.finding_codes, index.codes, first, last)

    def malformed(self) -> list[tuple[int, int, bool]]:
        """Nothing: a damaged file does not open."""
        return []

    def faulty(self, positions: range) -> Sequence[int]:
        """Rows at `positions` whose prompt is null, or that inspect() refuses."""
        faulty = self._index.faulty
        return faulty[bisect_left(faulty, positions[0]) : bisect_right(faulty, positions[-1])]

    def explain(self, row_id: int) -> str:
        """``file row N: what, expected what``."""
        try:
            value = self.read([row_id])[0].value
        except DataError as error:  # a value that has no plain form
            return error.headline
        return f"{self.place(row_id)}: {self._check.explain(value)}"

    def reason(self, finding_code: str, row_id: int) -> str:
        """The sentence inspect() gives for one row and code."""
        inspect = self._check.inspect
        found = inspect(self.read([row_id])[0].value) if inspect else []
        return next((finding.what for finding in found if finding.code == finding_code), "")

    # --- the index ----------------------------------------------------------------------------

    def keep_index(self) -> None:
        """Writes the index to the cache, unless it came from there."""
        if self._is_new:
            keep_parquet_index(self._cache, self._key, self._file.cache_name, self._index)
            self._is_new = False

    def _build(self) -> ParquetIndex:
        identity = self._identity
        settled = identity.is_settled()
        if identity.size == 0:
            hint = "Write the file again."
            raise EmptyDatasetError("no rows, the file has 0 bytes", where=self.path, hint=hint)
        digest = digest_of(self._file)
        self.counters.bytes_read += identity.size
        with self._as_opened("it was read"):
            index = build_parquet_index(
                self.path, self._parquet_file(), identity, digest, self._check, settled=settled
            )
        self.counters.rows_parsed += self._check.rows_parsed
        return index

    # --- the rows, decoded once and kept ------------------------------------------------------

    def _rows_key(self) -> str:
        return f"{self._file.cache_name}\nrows {json.dumps(self._index.needed)}"

    def _mapped(self) -> MappedRows | PackedRows | None:
        entry = self._cache.read(_ROWS_KIND, self._rows_key())
        body = self._cache.body_path(_ROWS_KIND, self._rows_key())
        if entry is None or body is None:
            return None
        if entry.header.get("form") not in _WRITERS:
            return None
        if FileIdentity.from_header(entry.header) != self._index.identity:
            return None
        try:
            stat = body.stat()
            if [stat.st_size, stat.st_mtime_ns] != entry.header["body"]:
                return None
            if entry.header["form"] == "packed":
                return PackedRows(str(body), entry)
            return MappedRows(str(body), entry, self._place_text)
        except (OSError, ValueError):
            return None

    def _written(self, rows: GroupRows) -> MappedRows | PackedRows | None:
        """Writes all rows once; None where that is not possible, which is not asked again."""
        rows.is_final = True
        if self._cache.folder is None or not self._index.settled:
            return None
        forms = ["packed", "arrow"] if is_packable(rows) else ["arrow"]
        return next((kept for form in forms if (kept := self._written_as(form, rows))), None)

    def _written_as(self, form: str, rows: GroupRows) -> MappedRows | PackedRows | None:
        import pyarrow as pa

        key = self._rows_key()
        try:
            with self._cache.writing_body(_ROWS_KIND, key) as sink:
                arrays = _WRITERS[form](rows, sink)
        except (OSError, ValueError, pa.ArrowException):
            return None
        body = self._cache.body_path(_ROWS_KIND, key)
        assert body is not None
        stat = body.stat()
        header = {
            "source": self._file.cache_name,
            "identity": list(self._index.identity),
            "form": form,
            "body": [stat.st_size, stat.st_mtime_ns],
        }
        self._cache.write(_ROWS_KIND, key, header, arrays)
        return self._mapped()
