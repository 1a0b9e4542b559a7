"""Writing a `.pt` file: plain values only, and whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pickle
import re
import time
from pathlib import Path
from typing import IO, Any

from rolloutds.errors import CheckpointError
from rolloutds.torch_file.plain_form import PlainForm
from rolloutds.torch_file.tensors import load_torch

_LEFTOVER = re.compile(r"\..+\.rolloutds-[0-9a-f]{16}\.tmp")
_LEFTOVER_SECONDS = 60.0
_FOREIGN_LEFTOVER_SECONDS = 86_400.0


def write(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a value so that ``torch.load(path, weights_only=True)`` and `read` give it back.

    Dicts (keys: str or int), lists, tuples, str, int, float, bool, None, bytes and tensors are
    written as they are; NumPy numbers and text as the Python values they equal; OrderedDict as a
    dict. Tensors are written from the CPU. What is shared stays shared.

    At every moment there is a good file of that name, the old one or the new one.

    Raises:
        UnsavableValueError: a value is anything else; the message names its key.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    save_as(PlainForm, path, value)


def save_as(form: type[PlainForm], path: str | os.PathLike[str], value: Any) -> None:
    """Writes what a form of plain values makes of a value, whole or not at all.

    Raises:
        UnsavableValueError: it makes nothing of it.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    target = Path(os.path.realpath(path))
    torch = load_torch(needed_for=f"writing {path}")
    packed = _packed(torch, form(torch, str(path)), value)
    try:
        _replace(target, packed.getbuffer())
    except OSError as error:
        raise CheckpointError(
            f"cannot be written ({error.strerror or error})",
            where=str(path),
            hint="check the folder, its permissions and the free space; an old file is untouched",
        ) from error
    _remove_leftovers(target.parent)


def _packed(torch: Any, form: PlainForm, value: Any) -> io.BytesIO:
    packed = io.BytesIO()
    plain = form.turn(value)
    if form.has_tensors:
        torch.save(plain, packed)
    else:
        torch.save(plain, packed, pickle_module=_WithoutTensors)
    return packed


class _WithoutTensors:
    """A pickle module for ``torch.save``, for values that hold no tensor.

    With the usual one torch is asked of every number whether it is a tensor's storage, which takes
    most of the time of a save. The bytes are the same.
    """

    class Pickler:
        def __init__(self, file: IO[bytes], protocol: int) -> None:
            self._file = file
            self._protocol = protocol

        def dump(self, value: Any) -> None:
            pickle.Pickler(self._file, self._protocol).dump(value)


def _replace(target: Path, data: memoryview) -> None:
    temporary = target.with_name(f".{target.name[:150]}.rolloutds-{os.urandom(8).hex()}.tmp")
    # Mode 0o666 less the umask: the permissions of any new file.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _lock(descriptor)
            _write_all(descriptor, data)
            os.fsync(descriptor)
            os.replace(temporary, target)  # noqa: PTH105 - both are full paths
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _lock(descriptor: int) -> bool:
    """Marks a temporary file as in use; False where another process has it or locks are unknown."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data[: 1 << 26]) :]


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; some file systems cannot, and the file is good all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Removes temporary files of writers that were killed: ours by name, and locked by nobody."""
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(folder)]
        for path in [folder / name for name in names if _LEFTOVER.fullmatch(name)]:
            with contextlib.suppress(OSError):
                if _is_abandoned(path):
                    path.unlink()


def _is_abandoned(path: Path) -> bool:
    age = time.time() - path.stat().st_mtime
    if age < _LEFTOVER_SECONDS:
        return False  # it may be new, and not locked yet
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return _lock(descriptor) or age > _FOREIGN_LEFTOVER_SECONDS
    finally:
        os.close(descriptor)
