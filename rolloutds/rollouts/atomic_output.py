"""A file that appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rolloutds.errors import DataError


def refuse_existing(path: str, *, force: bool) -> None:
    """Makes sure that a file may be written.

    Raises:
        DataError: it exists and may not be replaced, or is no file.
    """
    if Path(path).is_dir():
        raise DataError("is a folder", where=path, expected="a file to write")
    if Path(path).exists() and not Path(path).is_file():
        # A device or pipe would be replaced by a file of that name.
        raise DataError("is a device or pipe", where=path, expected="a file to write")
    if os.path.lexists(path) and not force:
        raise DataError("exists already", where=path, hint="--force replaces it")


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its place at the end; on an error it is removed.

    Raises:
        DataError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:150]}.{os.urandom(8).hex()}.tmp")
    try:
        try:
            with temporary.open("xb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"cannot be written ({error.strerror or error})",
            where=path,
            hint="check the folder, its permissions and the free space",
        ) from error
