"""Rows of a Parquet file: the one door to pyarrow.

Values are what pyarrow's ``to_pylist`` gives: plain Python types, structs as dicts, lists as
lists, maps as lists of pairs. Only the row groups that hold the rows asked for are decoded. A
reader that keeps decoding the same groups writes the rows once to the cache folder, as an
uncompressed Arrow file it can map.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

import xxhash

from rolloutds.cache import Cache, CacheEntry
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
from rolloutds.readers.file_identity import FileIdentity, changed, open_regular
from rolloutds.readers.line_checks import LineKind, RowCheck, nearest_name
from rolloutds.readers.line_scan import BLOCK_BYTES
from rolloutds.readers.row_index import index_key

_KIND: Final = "index"
_ROWS_KIND: Final = "arrow"
_BATCH_ROWS: Final = 1024
_KEPT_BYTES: Final = 64 << 20
_WHOLE_GROUP_BYTES: Final = 32 << 20
_DECODES_A_GROUP: Final = 2


@dataclass(frozen=True)
class _ParquetIndex:
    """What one look at the file found, kept in the cache."""

    identity: FileIdentity
    digest: str
    num_rows: int
    columns: list[str]
    dotted: list[str]
    faulty: Sequence[int]
    finding_rows: Sequence[int]
    finding_codes: Sequence[int]
    codes: list[tuple[str, str]]
    settled: bool


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
        self.path = path
        self.counters = ScanCounters()
        self._check = RowCheck(keys, inspect)
        self._cache = cache
        self._descriptor = open_regular(path)
        self._rows: _GroupRows | _MappedRows | None = None
        self._lock = threading.Lock()
        key = index_key(os.path.abspath(path), keys, inspect)
        self._key = None if key is None else f"parquet {key}"
        try:
            identity = FileIdentity.of(self._descriptor)
            cached = self._cached(identity)
            self._is_new = cached is None
            self._index = cached or self._build(identity)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._index.num_rows

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; reading rows is over."""
        descriptor, self._descriptor = getattr(self, "_descriptor", -1), -1
        self._rows = None
        if descriptor >= 0:
            os.close(descriptor)

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
            DataError: the file changed since it was opened, or is damaged.
        """
        places = [self.place(position) for position in positions]
        if self._descriptor < 0:
            raise DataError("the file was closed", where=self.path)
        with self._lock, _named(self.path):
            values = self._decoded(positions)
        if not FileIdentity.of(self._descriptor).same_content(self._index.identity):
            raise changed(self.path, "it was open")
        self.counters.rows_parsed += len(positions)
        return [Row(value, place) for value, place in zip(values, places, strict=True)]

    def _decoded(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        if self._rows is None:
            self._rows = self._mapped() or _GroupRows(self._parquet_file())
        if isinstance(self._rows, _GroupRows) and self._rows.is_wasteful:
            self._rows = self._written() or self._rows
        return self._rows.values(positions)

    def _parquet_file(self) -> Any:
        from pyarrow import parquet

        file = parquet.ParquetFile(self.path)
        stat = os.stat(self.path)
        if (stat.st_ino, stat.st_dev) != self._inode():
            raise changed(self.path, "it was opened")
        return file

    def _inode(self) -> tuple[int, int]:
        identity = FileIdentity.of(self._descriptor)
        return identity.inode, identity.device

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
        return f"{self.place(row_id)}: {self._check.explain(self.read([row_id])[0].value)}"

    def reason(self, finding_code: str, row_id: int) -> str:
        """The sentence inspect() gives for one row and code."""
        inspect = self._check.inspect
        found = inspect(self.read([row_id])[0].value) if inspect else []
        return next((finding.what for finding in found if finding.code == finding_code), "")

    # The index.

    def _cached(self, identity: FileIdentity) -> _ParquetIndex | None:
        entry = self._cache.read(_KIND, self._key) if self._key is not None else None
        if entry is None or FileIdentity.from_header(entry.header) != identity:
            return None
        kept = entry.header
        return _ParquetIndex(
            identity=identity,
            digest=kept["digest"],
            num_rows=kept["num_rows"],
            columns=kept["columns"],
            dotted=kept["dotted"],
            codes=[(code, what) for code, what in kept["codes"]],
            settled=True,
            **entry.arrays,
        )

    def keep_index(self) -> None:
        """Writes the index to the cache, unless it came from there."""
        index = self._index
        if not self._is_new or not index.settled or self._key is None:
            return
        names = ("digest", "num_rows", "columns", "dotted", "codes")
        header = {name: getattr(index, name) for name in names}
        header |= {"source": os.path.abspath(self.path), "identity": list(index.identity)}
        arrays = {
            "faulty": index.faulty,
            "finding_rows": index.finding_rows,
            "finding_codes": index.finding_codes,
        }
        self._cache.write(_KIND, self._key, header, arrays)
        self._is_new = False

    def _build(self, identity: FileIdentity) -> _ParquetIndex:
        settled = identity.is_settled()
        if identity.size == 0:
            hint = "Write the file again."
            raise EmptyDatasetError("no rows, the file has 0 bytes", where=self.path, hint=hint)
        digest = self._digest(identity.size)
        with _named(self.path):
            file = self._parquet_file()
            faulty, rows, codes, names = _looked_at(file, self._check, self.path)
        self.counters.rows_parsed += self._check.rows_parsed
        if not FileIdentity.of(self._descriptor).same_content(identity):
            raise changed(self.path, "it was read")
        columns = list(file.schema_arrow.names)
        dotted = [key for key in self._check.keys.named() if "." in key and key not in columns]
        return _ParquetIndex(
            identity=identity,
            digest=digest,
            num_rows=file.metadata.num_rows,
            columns=columns,
            dotted=[key for key in dotted if _field_at(file.schema_arrow, key) is not None],
            faulty=faulty,
            finding_rows=rows,
            finding_codes=codes,
            codes=names,
            settled=settled,
        )

    def _digest(self, size: int) -> str:
        digests = b""
        for offset in range(0, size, BLOCK_BYTES):
            block = xxhash.xxh3_128()
            for start in range(offset, min(offset + BLOCK_BYTES, size), 1 << 20):
                block.update(os.pread(self._descriptor, min(1 << 20, size - start), start))
            digests += block.digest()
        self.counters.bytes_read += size
        return xxhash.xxh3_128_hexdigest(digests)

    # The rows, decoded once and kept.

    def _rows_key(self) -> str:
        return f"{os.path.abspath(self.path)}\nrows"

    def _mapped(self) -> _MappedRows | None:
        entry = self._cache.read(_ROWS_KIND, self._rows_key())
        body = self._cache.body_path(_ROWS_KIND, self._rows_key())
        if entry is None or body is None:
            return None
        if FileIdentity.from_header(entry.header) != self._index.identity:
            return None
        try:
            stat = body.stat()
            if [stat.st_size, stat.st_mtime_ns] != entry.header["body"]:
                return None
            return _MappedRows(str(body), entry)
        except (OSError, ValueError):
            return None

    def _written(self) -> _MappedRows | None:
        """Writes all rows once; None where that is not possible, which is not asked again."""
        import pyarrow as pa

        assert isinstance(self._rows, _GroupRows)
        self._rows.is_final = True
        key = self._rows_key()
        if self._cache.folder is None or not self._index.settled:
            return None
        try:
            with self._cache.writing_body(_ROWS_KIND, key) as sink:
                ends = _write_batches(self._rows.file, sink)
        except (OSError, pa.ArrowException):
            return None
        body = self._cache.body_path(_ROWS_KIND, key)
        assert body is not None
        stat = body.stat()
        header = {
            "source": os.path.abspath(self.path),
            "identity": list(self._index.identity),
            "body": [stat.st_size, stat.st_mtime_ns],
        }
        self._cache.write(_ROWS_KIND, key, header, {"ends": ends})
        return self._mapped()


def _write_batches(file: Any, sink: Any) -> array[int]:
    """Writes every row in batches; returns how many rows each batch ends at."""
    import pyarrow as pa

    ends = array("Q")
    with pa.ipc.new_file(sink, file.schema_arrow) as writer:
        for batch in file.iter_batches(_BATCH_ROWS):
            writer.write_batch(batch)
            ends.append((ends[-1] if ends else 0) + batch.num_rows)
    return ends


class _GroupRows:
    """Rows decoded from row groups, the last used ones kept while they are small."""

    def __init__(self, file: Any) -> None:
        self.file = file
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
        """The rows at `positions`, in that order."""
        values: dict[int, dict[str, Any]] = {}
        for group, numbers in _by_part(positions, self._starts).items():
            start = self._starts[group]
            wanted = [positions[number] - start for number in numbers]
            values.update(zip(numbers, self._from_group(group, wanted), strict=True))
        return [values[number] for number in range(len(positions))]

    def _from_group(self, group: int, wanted: list[int]) -> list[dict[str, Any]]:
        table = self._kept.get(group)
        if table is not None:
            self._kept.move_to_end(group)
            return _taken(table, wanted)
        self._num_decodes += 1
        if self._sizes[group] > _WHOLE_GROUP_BYTES:
            return self._streamed(group, wanted)
        table = self.file.read_row_group(group)
        self._keep(group, table)
        return _taken(table, wanted)

    def _keep(self, group: int, table: Any) -> None:
        self._kept[group] = table
        while len(self._kept) > 1 and sum(t.nbytes for t in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def _streamed(self, group: int, wanted: list[int]) -> list[dict[str, Any]]:
        """Rows of a large group, of which only one batch at a time is in memory."""
        pending = sorted((row, number) for number, row in enumerate(wanted))
        values: dict[int, dict[str, Any]] = {}
        start = 0
        for batch in self.file.iter_batches(_BATCH_ROWS, row_groups=[group]):
            inside = [pair for pair in pending if start <= pair[0] < start + batch.num_rows]
            found = _taken(batch, [row - start for row, _ in inside])
            values.update((number, value) for (_, number), value in zip(inside, found, strict=True))
            start += batch.num_rows
            if len(values) == len(wanted):
                break
        return [values[number] for number in range(len(wanted))]


class _MappedRows:
    """Rows in an uncompressed Arrow file, mapped: only the pages of rows asked for are read."""

    def __init__(self, body: str, entry: CacheEntry) -> None:
        import pyarrow as pa

        self._file = pa.ipc.open_file(pa.memory_map(body))
        self._starts = [0, *entry.arrays["ends"]]

    def values(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order."""
        values: dict[int, dict[str, Any]] = {}
        for number_of_batch, numbers in _by_part(positions, self._starts).items():
            batch = self._file.get_batch(number_of_batch)
            start = self._starts[number_of_batch]
            wanted = [positions[number] - start for number in numbers]
            values.update(zip(numbers, _taken(batch, wanted), strict=True))
        return [values[number] for number in range(len(positions))]


def _by_part(positions: Sequence[int], starts: list[int]) -> dict[int, list[int]]:
    """Indices of `positions` by the part (row group or batch) each lies in."""
    parts: dict[int, list[int]] = {}
    for number, position in enumerate(positions):
        parts.setdefault(bisect_right(starts, position) - 1, []).append(number)
    return parts


def _taken(table: Any, wanted: list[int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in wanted:
        rows += table.slice(row, 1).to_pylist()
    return rows


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Turns what pyarrow raises for a damaged file into an error of ours."""
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        what = f"damaged, or not a Parquet file: {first_line}"
        hint = "Write the file again; a copy that stopped early is the usual cause."
        raise DataError(what, where=path, hint=hint) from error


def _field_at(schema: Any, key: str) -> Any:
    """The field a literal or dotted key leads to, or None."""
    import pyarrow as pa

    if key in schema.names:
        return schema.field(key)
    head, *rest = key.split(".")
    if not rest or head not in schema.names:
        return None
    field = schema.field(head)
    for name in rest:
        if not pa.types.is_struct(field.type) or field.type.get_field_index(name) < 0:
            return None
        field = field.type.field(name)
    return field


class _Look(NamedTuple):
    """Faulty rows, and rows and codes of findings with the sentence of each code."""

    faulty: array[int]
    rows: array[int]
    codes: array[int]
    names: list[tuple[str, str]]


def _looked_at(file: Any, check: RowCheck, path: str) -> _Look:
    """Looks for rows that are not plain."""
    faulty, rows, codes = array("Q"), array("Q"), array("B")
    names: dict[str, str] = {}
    if file.metadata.num_rows:
        _refuse_missing(file.schema_arrow, check.keys, path)
        if not _is_proven(file, check):
            for row, value in _needed_values(file, check.keys):
                check.rows_parsed += 1
                result = check.row(value)
                if result.kind is LineKind.FAULTY:
                    faulty.append(row)
                for finding in result.findings:
                    names.setdefault(finding.code, finding.what)
                    rows.append(row)
                    codes.append(list(names).index(finding.code))
    return _Look(faulty, rows, codes, list(names.items()))


def _refuse_missing(schema: Any, keys: RowKeys, path: str) -> None:
    for key in (keys.input_key, keys.label_key):
        if key is None or _field_at(schema, key) is not None:
            continue
        near = nearest_name(key, schema.names)
        columns = ", ".join(repr(name) for name in schema.names)
        hint = f"Did you mean {near!r}?" if near else "Name one of these columns."
        raise DataError(f"no column {key!r}, the file has {columns}", where=path, hint=hint)


def _needed_values(file: Any, keys: RowKeys) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every row, with only the columns that are named."""
    names = file.schema_arrow.names
    heads = [key if key in names else key.partition(".")[0] for key in keys.named()]
    columns = [name for name in dict.fromkeys(heads) if name in names]
    row = 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
        for value in batch.to_pylist():
            yield row, value
            row += 1


def _is_proven(file: Any, check: RowCheck) -> bool:
    """Whether schema and statistics show that every row is plain."""
    keys = check.keys
    if any("." in key and key not in file.schema_arrow.names for key in keys.named()):
        return False
    if not _has_no_nulls(file, keys.input_key):
        return False
    if check.inspect is None:
        return True
    columns: list[tuple[str | None, Callable[[Any], bool]]] = [
        (keys.input_key, _is_prompt),
        (keys.metadata_key, _is_metadata),
        *((key, _is_null) for key in keys.media_keys),
    ]
    for key, is_plain in columns:
        field = None if key is None else _field_at(file.schema_arrow, key)
        if field is not None and not is_plain(field.type):
            return False
    tools = None if keys.tool_key is None else _field_at(file.schema_arrow, keys.tool_key)
    return tools is None or (_is_list(tools.type) and _has_no_nulls(file, str(keys.tool_key)))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_prompt(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if _is_list(kind):
        return bool(types.is_struct(kind.value_type))
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_metadata(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_struct(kind) or types.is_null(kind))


def _is_null(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_null(kind))


def _has_no_nulls(file: Any, column: str) -> bool:
    """Whether a column has no null: by the statistics of a leaf, else by reading it alone."""
    if not file.schema_arrow.field(column).nullable:
        return True
    if _statistics_show_no_nulls(file.metadata, column):
        return True
    batches = file.iter_batches(_BATCH_ROWS, columns=[column])
    return all(batch.column(0).null_count == 0 for batch in batches)


def _statistics_show_no_nulls(metadata: Any, column: str) -> bool:
    """A leaf without nulls has none above it either."""
    leaves = [
        number
        for number in range(metadata.num_columns)
        if metadata.schema.column(number).path.split(".")[0] == column
        or metadata.schema.column(number).path == column
    ]
    return any(_leaf_has_no_nulls(metadata, leaf) for leaf in leaves)


def _leaf_has_no_nulls(metadata: Any, leaf: int) -> bool:
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return False
    return True
