"""Writing a rollout dump: as `write`, with NumPy arrays, dates and times in it."""

from __future__ import annotations

import datetime
import os
from typing import Any, ClassVar

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.plain_form import PlainForm, Way
from rolloutds.torch_file.writer import save_as

_MOMENTS = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


def write_dump(path: str | os.PathLike[str], value: Any) -> None:
    """Writes what `write` does, and NumPy arrays, dates, times and empty bytes.

    `read` gives all of it back; ``torch.load`` needs ``weights_only=False`` for arrays and dates,
    which is how dumps are loaded by the systems that write them.

    Raises:
        UnsavableValueError: a value is anything else; the message names its key.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    save_as(_DumpForm, path, value)


class _DumpForm(PlainForm):
    max_int_bits: ClassVar[int | None] = None

    def other(self, value: Any, way: Way) -> Any:
        if isinstance(value, ArrayValue):
            return self._array(value, way)
        if type(value) is bytes or _is_moment(value) or _is_plain_array(value):
            return value
        return super().other(value, way)

    def _array(self, value: ArrayValue, way: Way) -> Any:
        if isinstance(value.data, list):
            data = self.turn(value.data, way)
            return self.shared(value, lambda array: array.with_objects(data).to_numpy())
        return self.shared(value, ArrayValue.to_numpy)


def _is_moment(value: Any) -> bool:
    """Whether it is a date or time with a zone that `read` knows."""
    zone = getattr(value, "tzinfo", None)
    return type(value) in _MOMENTS and (zone is None or type(zone) is datetime.timezone)


def _is_plain_array(value: Any) -> bool:
    """Whether it is a live array of numbers, text, times or records of those."""
    kind = type(value)
    is_array = kind.__module__ == "numpy" and kind.__name__ == "ndarray"
    return is_array and not value.dtype.hasobject
