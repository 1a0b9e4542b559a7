"""Which bytes a path stood for: size, times and inode, to notice that a file changed."""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Final, NamedTuple

from rolloutds.errors import DataError, DataNotFoundError

# A change so soon after the last one might leave the same time stamp.
_SETTLING_NS: Final = 100_000_000


class FileIdentity(NamedTuple):
    """What the file system says of a file's content."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, descriptor: int) -> FileIdentity:
        """The identity of an open file."""
        found = os.fstat(descriptor)
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)

    @classmethod
    def from_header(cls, header: Any) -> FileIdentity | None:
        """The identity kept in a cache header, or None."""
        values = header.get("identity")
        return (
            cls(*values) if isinstance(values, list) and len(values) == len(cls._fields) else None
        )

    def same_content(self, other: FileIdentity) -> bool:
        """Whether size and modification time are the same (links may have come and gone)."""
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)

    def is_settled(self) -> bool:
        """Whether a change from now on is sure to give another modification time."""
        return time.time_ns() - self.mtime_ns >= _SETTLING_NS


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
        raise DataError(what, where=path, hint="Check its permissions.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        hint = "Write its content to a file first: rows are read again in every epoch."
        raise DataError("not a regular file", where=path, hint=hint)
    return descriptor


def not_found(path: str) -> DataNotFoundError:
    """The error for a path that leads to no file."""
    if os.path.islink(path):
        target = os.readlink(path)
        hint = "Link it to the data again, or name the data itself."
        return DataNotFoundError(f"a broken link to {target}", where=path, hint=hint)
    hint = "Check the path; a file, a folder, a glob or path@[start:end] is expected."
    return DataNotFoundError("no such file or folder", where=path, hint=hint)


def changed(path: str, while_: str) -> DataError:
    """The error for a file that is no longer what it was."""
    hint = "Try again once nothing writes to it; write new data to a new file."
    return DataError(f"the file changed while {while_}", where=path, hint=hint)
