"""Which bytes a path stood for, to notice that a file changed."""

from __future__ import annotations

import os
import time
from typing import Any, Final, NamedTuple

# A change so soon after the last one might leave the same time stamp.
_SETTLING_NS: Final = 100_000_000
_SECOND_NS: Final = 1_000_000_000
_OLD_FIELDS: Final = 5  # of caches written before there were tokens


class FileIdentity(NamedTuple):
    """What the file system, or the service a file lies on, says of its content.

    Attributes:
        size: in bytes.
        mtime_ns: when the content was written, in nanoseconds; 0 where a token tells more.
        ctime_ns: when the entry changed; 0 for a remote file, as are the two below.
        inode: its number.
        device: of the file system.
        token: what a service says of the content (``ETag=…``); empty for a local file.
    """

    size: int
    mtime_ns: int
    ctime_ns: int = 0
    inode: int = 0
    device: int = 0
    token: str = ""

    @classmethod
    def of(cls, descriptor: int) -> FileIdentity:
        """The identity of an open local file."""
        found = os.fstat(descriptor)
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)

    @classmethod
    def from_header(cls, header: Any) -> FileIdentity | None:
        """The identity kept in a cache header, or None."""
        values = header.get("identity")
        is_whole = isinstance(values, list) and len(values) in (_OLD_FIELDS, len(cls._fields))
        return cls(*values) if is_whole else None

    def same_content(self, other: FileIdentity) -> bool:
        """Whether size, modification time and token are the same (links may come and go)."""
        return (self.size, self.mtime_ns, self.token) == (other.size, other.mtime_ns, other.token)

    def is_settled(self) -> bool:
        """Whether a change from now on is sure to give another identity."""
        if not self.mtime_ns:
            return bool(self.token)
        in_seconds = bool(self.token) and self.mtime_ns % _SECOND_NS == 0
        settling = 2 * _SECOND_NS if in_seconds else _SETTLING_NS
        return time.time_ns() - self.mtime_ns >= settling
