"""What every stored file gives: bytes by range, and what tells that it changed."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rolloutds.errors import DataError
from rolloutds.storage.identity import FileIdentity


class StoredFile(ABC):
    """A file that is open for reading by ranges.

    It can be sent to another process, which opens it again by its path.

    Attributes:
        path: as it was named; in a URL without what may be secret.
        cache_name: names it in a cache, whatever folder the process runs in.
        identity: of the file when it was opened.
    """

    path: str
    cache_name: str
    identity: FileIdentity

    @property
    def size(self) -> int:
        """Bytes in it when it was opened."""
        return self.identity.size

    @property
    def descriptor(self) -> int | None:
        """The open descriptor of a local file, which a child process may inherit; else None."""
        return None

    @abstractmethod
    def pread(self, length: int, offset: int) -> bytes:
        """The bytes ``[offset, offset + length)``; fewer only where the file ends.

        Raises:
            DataError: they cannot be read.
        """

    @abstractmethod
    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As `pread` for each (length, offset), in that order; at once where that is quicker.

        Raises:
            DataError: one cannot be read.
        """

    @abstractmethod
    def current_identity(self) -> FileIdentity:
        """The identity of the file now.

        Raises:
            DataError: it cannot be told.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes the file; reading is over."""

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stream(self) -> io.RawIOBase:
        """The file as a binary stream, unbuffered; closing it leaves this file open."""
        return _Stream(self)


class _Stream(io.RawIOBase):
    """Reads a stored file from a position on."""

    def __init__(self, file: StoredFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(self._file.size - self._at, 0))
        data = self._file.pread(length, self._at) if length else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def changed(path: str, while_: str) -> DataError:
    """The error for a file that is no longer what it was."""
    hint = "Try again once nothing writes to it; write new data to a new file."
    return DataError(f"the file changed while {while_}", where=path, hint=hint)
