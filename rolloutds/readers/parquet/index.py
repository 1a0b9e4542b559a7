"""What one look at a Parquet file finds, kept in the cache."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rolloutds.cache import Cache
from rolloutds.readers.base import RowKeys
from rolloutds.readers.line_checks import LineKind, RowCheck
from rolloutds.readers.parquet.columns import field_at, needed_columns, refuse_unusable
from rolloutds.readers.parquet.proof import is_proven
from rolloutds.readers.parquet.values import all_values
from rolloutds.storage import FileIdentity

_KIND: Final = "index"
_BATCH_ROWS: Final = 1024
_PLAIN_FIELDS: Final = ("digest", "num_rows", "columns", "needed", "dotted", "codes")
_ARRAYS: Final = ("faulty", "finding_rows", "finding_codes")


@dataclass(frozen=True)
class ParquetIndex:
    """What is known of a file.

    Attributes:
        identity: the file it is of.
        digest: hex digest of the file's bytes.
        num_rows: rows of all row groups.
        columns: names of all columns.
        needed: the columns that a run reads.
        dotted: keys that are read as a path.
        faulty: rows that can be read and not used.
        finding_rows: rows inspect() said something of, with `finding_codes` beside.
        finding_codes: for each an index into `codes`.
        codes: (code, sentence for its first row).
        settled: whether a later change of the file is sure to be noticed.
    """

    identity: FileIdentity
    digest: str
    num_rows: int
    columns: list[str]
    needed: list[str]
    dotted: list[str]
    faulty: Sequence[int]
    finding_rows: Sequence[int]
    finding_codes: Sequence[int]
    codes: list[tuple[str, str]]
    settled: bool


def cached_parquet_index(
    cache: Cache, key: str | None, identity: FileIdentity
) -> ParquetIndex | None:
    """The index kept for a file that has not changed since, or None."""
    entry = cache.read(_KIND, key) if key is not None else None
    if entry is None or FileIdentity.from_header(entry.header) != identity:
        return None
    kept: dict[str, Any] = {name: entry.header[name] for name in _PLAIN_FIELDS}
    kept["codes"] = [(code, what) for code, what in kept["codes"]]
    kept |= {name: entry.arrays[name] for name in _ARRAYS}
    return ParquetIndex(identity=identity, settled=True, **kept)


def keep_parquet_index(cache: Cache, key: str | None, path: str, index: ParquetIndex) -> None:
    """Writes an index to the cache, unless the file is too young to tell a later change."""
    if key is None or not index.settled:
        return
    header = {name: getattr(index, name) for name in _PLAIN_FIELDS}
    header |= {"source": path, "identity": list(index.identity)}
    cache.write(_KIND, key, header, {name: getattr(index, name) for name in _ARRAYS})


def build_parquet_index(
    path: str, file: Any, identity: FileIdentity, digest: str, check: RowCheck, *, settled: bool
) -> ParquetIndex:
    """Looks at an open file.

    Raises:
        DataError: it lacks a column that must be there, or has two of one name.
    """
    schema = file.schema_arrow
    look = _looked_at(file, check, path)
    dotted = [key for key in check.keys.named() if "." in key and key not in schema.names]
    return ParquetIndex(
        identity=identity,
        digest=digest,
        num_rows=file.metadata.num_rows,
        columns=list(schema.names),
        needed=needed_columns(schema, check.keys),
        dotted=[key for key in dotted if field_at(schema, key) is not None],
        faulty=look.faulty,
        finding_rows=look.rows,
        finding_codes=look.codes,
        codes=look.names,
        settled=settled,
    )


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
        refuse_unusable(file.schema_arrow, check.keys, path)
        if not is_proven(file, check):
            for row, value in enumerate(_needed_values(file, check.keys)):
                check.rows_parsed += 1
                result = check.row(value)
                if result.kind is LineKind.FAULTY:
                    faulty.append(row)
                for finding in result.findings:
                    names.setdefault(finding.code, finding.what)
                    rows.append(row)
                    codes.append(list(names).index(finding.code))
    return _Look(faulty, rows, codes, list(names.items()))


def _needed_values(file: Any, keys: RowKeys) -> Iterator[dict[str, Any] | None]:
    """Every row, with the needed columns only; None where a value has no plain form."""
    columns = needed_columns(file.schema_arrow, keys)
    for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
        yield from all_values(batch.select(columns))
