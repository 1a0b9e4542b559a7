"""Files of the local file system, read from a descriptor that stays open."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Any

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.storage.base import StoredFile
from rolloutds.storage.identity import FileIdentity


class LocalFile(StoredFile):
    """A regular file, open until `close`.

    Args:
        path: the file.

    Raises:
        DataNotFoundError: there is no such file, or a link to it is broken.
        DataError: it is not a regular file, or may not be read.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self.path = path
        self._descriptor = open_regular(path)
        self.cache_name = os.path.abspath(path)  # noqa: PTH100 - a user's path, as it is
        self.identity = FileIdentity.of(self._descriptor)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalFile, (self.path,))

    @property
    def descriptor(self) -> int:
        """The open descriptor.

        Raises:
            DataError: the file was closed.
        """
        if self._descriptor < 0:
            raise DataError("the file was closed", where=self.path)
        return self._descriptor

    def pread(self, length: int, offset: int) -> bytes:
        """The bytes ``[offset, offset + length)``; fewer only where the file ends."""
        return read_at(self.descriptor, length, offset)

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As `pread` for each (length, offset)."""
        descriptor = self.descriptor
        return [read_at(descriptor, length, offset) for length, offset in ranges]

    def current_identity(self) -> FileIdentity:
        """The identity of the open file now."""
        return FileIdentity.of(self.descriptor)

    def close(self) -> None:
        """Closes the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """The bytes ``[offset, offset + length)``; fewer only where the file ends."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def open_regular(path: str) -> int:
    """Opens a file for reading.

    Returns:
        Its descriptor.

    Raises:
        DataNotFoundError: there is no such file, or a link to it is broken.
        DataError: it is not a regular file, or may not be read.
    """
    try:
        # Without O_NONBLOCK a FIFO would wait here for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise not_found(path) from None
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        hint = "Check its permissions."
        if error.errno in (errno.EMFILE, errno.ENFILE):
            hint = "Raise the limit (ulimit -n), or name a manifest: rolloutds manifest build."
        raise DataError(what, where=path, hint=hint) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        hint = "Write its content to a file first: it is read more than once."
        raise DataError("not a regular file", where=path, hint=hint)
    return descriptor


def not_found(path: str) -> DataNotFoundError:
    """The error for a path that leads to no file."""
    if os.path.islink(path):  # noqa: PTH114 - a user's path, as it is
        target = os.readlink(path)  # noqa: PTH115
        hint = "Link it to the data again, or name the data itself."
        return DataNotFoundError(f"a broken link to {target}", where=path, hint=hint)
    hint = "Check the path; a file, a folder, a glob or path@[start:end] is expected."
    return DataNotFoundError("no such file or folder", where=path, hint=hint)
