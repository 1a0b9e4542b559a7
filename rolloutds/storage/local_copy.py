"""A remote file as a local one, for what has to read a file by its path."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rolloutds.errors import DataError
from rolloutds.storage.base import changed
from rolloutds.storage.read_ahead import ReadAhead
from rolloutds.storage.remote import RemoteFile
from rolloutds.storage.urls import is_remote, masked, without_query

_PIECE_BYTES = 4 << 20


@contextmanager
def local_copy(path: str) -> Iterator[str]:
    """A local path of a file: its own, or that of a copy which is removed with the block.

    A copy keeps the names of the folders it lay in, since formats are told by them.

    Raises:
        DataError: the file cannot be read, or there is no room for it.
    """
    if not is_remote(path):
        yield path
        return
    folder = tempfile.mkdtemp(prefix="rolloutds-")
    try:
        target = os.path.join(folder, *_names(path))  # noqa: PTH118 - a user's path, as it is
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            _fetch(path, target)
        except OSError as error:
            if isinstance(error, DataError):
                raise
            what = f"cannot be copied here while it is read ({error.strerror or error})"
            hint = f"Make room in {tempfile.gettempdir()}, or set TMPDIR to another folder."
            raise DataError(what, where=masked(path), hint=hint) from error
        yield target
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _names(url: str) -> list[str]:
    rest = without_query(url).rpartition("://")[2]
    return [name for name in rest.split("/") if name not in ("", ".", "..")] or ["file"]


def _fetch(url: str, target: str) -> None:
    with RemoteFile(url) as file, ReadAhead(file) as ahead, open(target, "wb") as copy:  # noqa: PTH123
        for start in range(0, file.size, _PIECE_BYTES):
            length = min(_PIECE_BYTES, file.size - start)
            data = ahead.pread(length, start)
            if len(data) < length:
                raise changed(file.path, "it was read")
            copy.write(data)
        if not file.current_identity().same_content(file.identity):
            raise changed(file.path, "it was read")
