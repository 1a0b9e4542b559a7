"""An opened file, by the kind of its bytes: lines of JSON, a `.pt` archive, or Parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from rolloutds.errors import DataError
from rolloutds.readers.lines import BOM, BlankLineError, describe_fault, parse_line
from rolloutds.rollouts import parquet_rows
from rolloutds.rollouts.tagged_values import TAG_BYTES
from rolloutds.row_findings import Notice
from rolloutds.storage import open_regular
from rolloutds.torch_file.dump_reader import read_dump

_HEAD_BYTES: Final = 512
_PHYSICAL_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_TORCH_SUFFIXES: Final = (".pt", ".pth", ".pkl", ".ckpt")


class Line(NamedTuple):
    """One line.

    Attributes:
        number: from 1.
        value: the JSON value on it.
        has_tags: whether values in it may be tagged (see `tagged_values`).
    """

    number: int
    value: Any
    has_tags: bool = False


class _Extent(NamedTuple):
    """Where a line lies in the file, in bytes, and its number from 1."""

    start: int
    num_bytes: int
    number: int


class DumpFile:
    """A file of one kind, which readers of that kind can read.

    Attributes:
        path: as it was named.
        notices: what a reader has to say of the file, beside its groups.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.notices: list[Notice] = []


class LinesFile(DumpFile):
    """JSON Lines, read a line at a time; blank lines are left out."""

    @cached_property
    def first_value(self) -> Any:
        """The value on the first line that is not blank.

        Raises:
            DataError: there is none, or it is no JSON.
        """
        for line in self.lines():
            return line.value
        raise DataError(
            "is empty", where=self.path, hint="the writer may have been stopped before it began"
        )

    def has_keys(self, *names: str) -> bool:
        """Whether the first value is an object with all these keys."""
        return isinstance(self.first_value, dict) and self.first_value.keys() >= {*names}

    def lines(self) -> Iterator[Line]:
        """The lines with their values.

        Raises:
            DataError: a line is no JSON; the message names it.
        """
        with self._open() as handle:
            for extent, data in _physical_lines(handle):
                value = self._value(data, extent.number)
                if value is not _BLANK:
                    yield Line(extent.number, value, TAG_BYTES in data)

    def grouped(self, key: Callable[[Line], Hashable]) -> Iterator[list[Line]]:
        """The lines of equal key together, in the order in which keys first occur.

        The file is read twice: once for the keys, once for the groups as they are asked for.

        Raises:
            DataError: a line is no JSON.
        """
        extents: dict[Hashable, list[_Extent]] = {}
        with self._open() as handle:
            for extent, data in _physical_lines(handle):
                value = self._value(data, extent.number)
                if value is not _BLANK:
                    extents.setdefault(key(Line(extent.number, value)), []).append(extent)
            for group in extents.values():
                yield [self._read_again(handle, extent) for extent in group]

    def _read_again(self, handle: IO[bytes], extent: _Extent) -> Line:
        handle.seek(extent.start)
        data = handle.read(extent.num_bytes)
        return Line(extent.number, self._value(data, extent.number), TAG_BYTES in data)

    def _open(self) -> IO[bytes]:
        return os.fdopen(open_regular(self.path), "rb", buffering=1 << 20)

    def _value(self, data: bytes, number: int) -> Any:
        if number == 1:
            data = data.removeprefix(BOM)
        try:
            return parse_line(data)
        except BlankLineError:
            return _BLANK
        except (ValueError, RecursionError) as error:
            raise self._malformed(data, number) from error

    def _malformed(self, data: bytes, number: int) -> DataError:
        fault = describe_fault(data)
        what = fault.what if fault else "no JSON"
        column = f":{fault.column}" if fault and fault.column else ""
        hint = None
        if data.strip() in (b"{", b"["):
            hint = "the value goes over several lines; `jq -c . FILE` puts it on one"
        elif not data.endswith((b"\n", b"\r")):
            hint = "it is the last line: the file may be cut short"
        return DataError(
            what, where=f"{self.path}:{number}{column}", expected="one JSON value a line", hint=hint
        )


_BLANK: Final = object()


def _physical_lines(handle: IO[bytes]) -> Iterator[tuple[_Extent, bytes]]:
    """Lines as text mode ends them: at LF, CR LF or a lone CR."""
    start, number = 0, 1
    for chunk in handle:
        pieces = _PHYSICAL_LINE.findall(chunk) if b"\r" in chunk else [chunk]
        for piece in pieces:
            yield _Extent(start, len(piece), number), piece
            start += len(piece)
            number += 1


class TorchFile(DumpFile):
    """A file that `torch.save` wrote. It is read once, and kept nowhere after `take`."""

    @cached_property
    def value(self) -> Any:
        """What is in it: plain values and stand-ins, long lists of numbers packed.

        NumPy scalars are numbers and text that know their type (`ScalarValue`).
        `unpacked` gives the lists; do so for one group at a time, so that a dump takes about
        its own size in memory and not several times that.

        Raises:
            TorchFileError: it is damaged, or of another form.
        """
        return read_dump(self.path)

    def take(self) -> Any:
        """The value, to be used up: this object forgets it.

        Raises:
            TorchFileError: it is damaged, or of another form.
        """
        value = self.value
        del self.value
        return value


class ParquetFile(DumpFile):
    """A Parquet file, read a batch of rows at a time."""

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Name and type of every column, in order.

        Raises:
            DataError: it is damaged.
        """
        return parquet_rows.columns(self.path)

    def has_columns(self, *names: str) -> bool:
        """Whether it has all these columns."""
        return {name for name, _ in self.columns} >= {*names}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, as plain Python values.

        Raises:
            DataError: it is damaged.
        """
        return parquet_rows.rows(self.path)


def open_dump(path: str) -> DumpFile:
    """The file, by what its bytes are; the suffix only decides where they say nothing.

    Raises:
        DataError: it cannot be read, is empty, or is neither of the kinds.
    """
    with os.fdopen(open_regular(path), "rb") as handle:
        head = handle.read(_HEAD_BYTES)
    suffix = Path(path).suffix.lower()
    if head.startswith(b"PK\x03\x04") or suffix in _TORCH_SUFFIXES:
        return TorchFile(path)
    if head.startswith(b"PAR1") or suffix == ".parquet":
        return ParquetFile(path)
    if head.removeprefix(BOM).lstrip()[:1] in (b"{", b"[", b"") or suffix in (".jsonl", ".json"):
        return LinesFile(path)
    hint = "unpack it first" if suffix in (".gz", ".zst", ".bz2", ".xz") else None
    raise DataError(
        "is neither JSON Lines, nor a .pt file, nor Parquet",
        where=path,
        expected="a buffer file or a rollout dump",
        hint=hint,
    )
