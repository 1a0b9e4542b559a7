"""The journal of a shared source: what happened since a whole state, one record a line.

``CHECKSUM<tab>JSON`` with the CRC-32 of the JSON's bytes in hexadecimal digits; the first line of
a file is a whole state. A line is written before the call that it records is answered, so a line
that a crash cut short records a call nobody had an answer to: it is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rolloutds.errors import CheckpointError, DataError, UnsavableValueError
from rolloutds.rollouts.tagged_values import Tagger, json_line, untagged

Record = dict[str, Any]
FORMAT_VERSION: Final = 1
_HINT: Final = (
    "restore the file from a copy, or start a new shared source and load the last checkpoint"
)


class Journal:
    """The open journal of one run.

    A file holds one whole state and what followed. A new state begins a new file, under the next
    number; the one before is removed once that is in place.

    Args:
        folder: where it lies; every node that the source may restart on must see it.
        name: whose journal it is.
        durable: flush every record to the disk, so that a machine that fails loses none; without
            it, what a machine had not yet written may be lost, and a killed process loses nothing.

    Attributes:
        folder: where it lies.
        num_bytes: bytes of records since the last whole state.
    """

    def __init__(self, folder: str | Path, name: str, *, durable: bool = False) -> None:
        self.folder = Path(folder)
        self._name = name
        self._durable = durable
        self._number = 0
        self._file: Any = None
        self.num_bytes = 0

    @property
    def path(self) -> Path:
        """The file that is written."""
        return self._path_of(self._number)

    def _path_of(self, number: int) -> Path:
        return self.folder / f"{self._name}.{number:06d}.journal"

    def _numbers(self) -> list[int]:
        pattern = re.compile(re.escape(self._name) + r"\.([0-9]{6,})\.journal")
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self.folder, error) from error
        return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))

    # --- reading --------------------------------------------------------------------------

    def read(self) -> Iterator[Record]:
        """The last whole state and what followed; nothing where there is no journal.

        Raises:
            CheckpointError: a record is damaged, or of a newer format.
        """
        numbers = self._numbers()
        if not numbers:
            return
        self._number = numbers[-1]
        yield from self._read(self.path)

    def _read(self, path: Path) -> Iterator[Record]:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _unreadable(path, error) from error
        *lines, tail = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            record = self._record(line, f"{path}:{number}")
            if number == 1:
                _check_first(record, f"{path}:{number}")
            yield record
        if not lines:
            raise _damaged(f"{path}:1", "the whole state is cut short")
        del tail  # a record that was being written: its call was never answered

    def _record(self, line: bytes, where: str) -> Record:
        checksum, _, text = line.partition(b"\t")
        if checksum != b"%08x" % zlib.crc32(text):
            raise _damaged(where, "the checksum does not fit the record")
        try:
            record = untagged(json.loads(text), where)
        except (ValueError, RecursionError, DataError) as error:
            raise _damaged(where, f"no record ({error!s:.80})") from error
        if not isinstance(record, dict):
            raise _damaged(where, f"a record that is a {type(record).__name__}")
        return record

    # --- writing --------------------------------------------------------------------------

    def restart(self, state: Record) -> None:
        """Begins a new file with a whole state, and removes the old one.

        Raises:
            CheckpointError: it cannot be written; the old file is as it was.
            UnsavableValueError: a value is not plain data.
        """
        line = encoded(state | {"format_version": FORMAT_VERSION})
        number = max([self._number, *self._numbers()]) + 1
        path = self._path_of(number)
        beside = path.with_suffix(".new")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(line)
                file.flush()
                self._sync(file.fileno())
            beside.replace(path)
            opened = path.open("ab", buffering=0)
        except OSError as error:
            _remove(beside)  # the room it takes may be what is missing
            raise _unwritable(path, error) from error
        self.close()
        self._file, self._number, self.num_bytes = opened, number, 0
        self._remove_before(number)

    def _remove_before(self, number: int) -> None:
        for old in self._numbers():
            if old < number:
                _remove(self._path_of(old))

    def append(self, record: Record) -> None:
        """Adds a record; when it returns, a process that dies has not lost it.

        Raises:
            CheckpointError: it cannot be written; the file holds what it held before.
            UnsavableValueError: a value is not plain data.
        """
        self.write(encoded(record))

    def write(self, line: bytes) -> None:
        """Adds an encoded record, as `append` does.

        Raises:
            CheckpointError: it cannot be written; the file holds what it held before.
        """
        size = self._file.tell()
        try:
            _write_all(self._file, line)
            self._sync(self._file.fileno())
        except OSError as error:
            self._file.truncate(size)
            self._file.seek(size)
            raise _unwritable(self.path, error) from error
        self.num_bytes += len(line)

    def _sync(self, descriptor: int) -> None:
        if self._durable:
            os.fsync(descriptor)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Removes the journal: the run is over."""
        self.close()
        for number in self._numbers():
            _remove(self._path_of(number))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # one that stays is in nobody's way
        path.unlink()


def _write_all(file: Any, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[file.write(left) :]


def encoded(record: Record) -> bytes:
    """A record as a line of the journal.

    Raises:
        UnsavableValueError: a value is not plain data.
    """
    text = json_line(_tagged(record)).encode("utf-8")
    return b"%08x\t%s\n" % (zlib.crc32(text), text)


def _tagged(record: Record) -> Record:
    """A record in the form JSON can hold.

    Raises:
        UnsavableValueError: it is not plain data; the message names the key.
    """
    try:
        return Tagger().turn_fields(record, "shared source")
    except DataError as error:
        raise UnsavableValueError(error.what, expected=error.expected) from error
    except RecursionError as error:
        raise UnsavableValueError("a value is nested too deeply") from error


def _check_first(record: Record, where: str) -> None:
    version = record.get("format_version")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"journal format version {version!r:.20}",
            where=where,
            expected=f"version {FORMAT_VERSION}",
            hint="it was written by another rolloutds: install that one",
        )


def _damaged(where: str, what: str) -> CheckpointError:
    return CheckpointError(what, where=where, expected="an undamaged journal", hint=_HINT)


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"cannot be read ({error.strerror})", where=str(path), expected="the journal of a source"
    )


def _unwritable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"cannot be written ({error.strerror})",
        where=str(path),
        expected="room and leave to write",
        hint="nothing has changed; the call may be made again",
    )
