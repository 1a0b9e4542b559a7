"""Writing a rollout dump: as `write`, with NumPy arrays and datetimes in it."""

from __future__ import annotations

import datetime
import io
import os
from pathlib import Path
from typing import Any

from rolloutds.errors import CheckpointError
from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.tensors import load_torch
from rolloutds.torch_file.writer import _Plainer, _replace

_KEPT = (bytes, datetime.date, datetime.time, datetime.timedelta)


def write_dump(path: str | os.PathLike[str], value: Any) -> None:
    """Writes what `write` does, and NumPy arrays, dates and times.

    `read` gives all of it back; ``torch.load`` needs ``weights_only=False`` for arrays and dates,
    which is how dumps are loaded by the systems that write them.

    Raises:
        UnsavableValueError: a value is anything else; the message names its key.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    torch = load_torch(needed_for=f"writing {path}")
    packed = io.BytesIO()
    torch.save(_DumpPlainer(torch, str(path)).turn(value, ()), packed)
    try:
        _replace(Path(os.path.realpath(path)), packed.getbuffer())
    except OSError as error:
        raise CheckpointError(
            f"cannot be written ({error.strerror or error})",
            where=str(path),
            hint="check the folder, its permissions and the free space; an old file is untouched",
        ) from error


class _DumpPlainer(_Plainer):
    def _int(self, value: int, way: tuple[Any, ...]) -> int:
        del way
        return value

    def _other(self, value: Any, way: tuple[Any, ...]) -> Any:
        if isinstance(value, ArrayValue):
            return self._shared(value, value.to_numpy)
        if isinstance(value, _KEPT) or _is_numpy_array(value):
            return value
        return super()._other(value, way)


def _is_numpy_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"
