"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from rolloutds.errors import DataError

_STANDARD: Final = {"stdin": 0, "stdout": 1, "stderr": 2}
_MAX_LINKS: Final = 40


def refuse_existing(path: str, *, force: bool) -> None:
    """Makes sure that a file may be written.

    Raises:
        DataError: it exists and may not be replaced, or is no file.
    """
    if Path(path).is_dir():
        raise DataError("is a folder", where=path, expected="a file to write")
    if _is_stream(path):
        is_open = _descriptor(path) is not None
        raise DataError(
            "is a stream that is open already" if is_open else "is a device or pipe",
            where=path,
            expected="a file to write",
            hint="name a file: it appears whole or not at all, and stdout has the report",
        )
    if os.path.lexists(path) and not force:
        raise DataError("exists already", where=path, hint="--force replaces it")


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its place at the end; on an error it is removed.

    Devices, pipes and the process's own streams (``/dev/stdout``, ``/dev/fd/N``, whatever they
    lead to) have no place to take: they are written straight.

    Raises:
        DataError: it cannot be written.
        BrokenPipeError: nobody reads the pipe any more.
    """
    try:
        with _straight(path) if _is_stream(path) else _replacing(path) as handle:
            yield handle
    except OSError as error:
        if isinstance(error, DataError | BrokenPipeError):
            raise
        raise DataError(
            f"cannot be written ({error.strerror or error})",
            where=path,
            hint="check the folder, its permissions and the free space",
        ) from error


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:150]}.{os.urandom(8).hex()}.tmp")
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


def _straight(path: str) -> AbstractContextManager[IO[bytes]]:
    number = _descriptor(path)
    # A copy of an open descriptor goes on where that is; a file opened again would begin anew.
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if number is None else os.dup(number)
    return os.fdopen(opened, "wb")


def _is_stream(path: str) -> bool:
    """Whether it is, or is a link to, something that cannot be replaced by a file."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: str) -> int | None:
    """The open descriptor that a path names, through any links; None when it names none."""
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - links must stay
        folder = os.path.realpath(folder)
        if folder == "/dev" and name in _STANDARD:
            return _STANDARD[name]
        if re.fullmatch(rf"/dev/fd|/proc/(self|{os.getpid()})/fd", folder) and name.isdecimal():
            return int(name)
        path = str(Path(folder, name))
        if not Path(path).is_symlink():
            return None
        path = str(Path(folder, os.readlink(path)))  # noqa: PTH115 - the text itself
    return None
