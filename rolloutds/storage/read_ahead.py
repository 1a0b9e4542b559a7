"""A remote file read from front to back: the next bytes are fetched while these are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rolloutds.storage.base import StoredFile
from rolloutds.storage.identity import FileIdentity

if TYPE_CHECKING:
    from concurrent.futures import Future

_WINDOW_BYTES: Final = 16 << 20
_REQUEST_BYTES: Final = 4 << 20
"""Ranges of a window are asked for at once: one connection alone seldom fills the line."""


class ReadAhead(StoredFile):
    """Another file's bytes, read in windows of which two are in memory.

    Args:
        file: the file; it stays open when this is closed.
        window_bytes: bytes of a window.
    """

    def __init__(self, file: StoredFile, window_bytes: int = _WINDOW_BYTES) -> None:
        self.path, self.cache_name, self.identity = file.path, file.cache_name, file.identity
        from concurrent.futures import ThreadPoolExecutor

        self._file = file
        self._window_bytes = window_bytes
        self._thread = ThreadPoolExecutor(1)
        self._windows: dict[int, Future[bytes]] = {}

    def pread(self, length: int, offset: int) -> bytes:
        """The bytes ``[offset, offset + length)``; fewer only where the file ends."""
        parts = []
        while length > 0 and offset < self.size:
            number, at = divmod(offset, self._window_bytes)
            part = self._window(number)[at : at + length]
            if not part:
                break
            parts.append(part)
            length, offset = length - len(part), offset + len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As `pread` for each (length, offset)."""
        return [self.pread(length, offset) for length, offset in ranges]

    def _window(self, number: int) -> bytes:
        self._windows = {n: w for n, w in self._windows.items() if n in (number, number + 1)}
        for wanted in (number, number + 1):
            if wanted not in self._windows and wanted * self._window_bytes < self.size:
                self._windows[wanted] = self._thread.submit(self._fetch, wanted)
        return self._windows[number].result()

    def _fetch(self, number: int) -> bytes:
        start = number * self._window_bytes
        stop = min(start + self._window_bytes, self.size)
        ranges = [(min(_REQUEST_BYTES, stop - at), at) for at in range(start, stop, _REQUEST_BYTES)]
        parts = self._file.pread_many(ranges)
        for (length, _), part in zip(ranges, parts, strict=True):
            if len(part) < length:  # what comes after would stand at the wrong place
                return b"".join(parts[: parts.index(part) + 1])
        return b"".join(parts)

    def current_identity(self) -> FileIdentity:
        """The identity of the file now."""
        return self._file.current_identity()

    def close(self) -> None:
        """Ends what is being fetched."""
        self._thread.shutdown(cancel_futures=True)
        self._windows.clear()
