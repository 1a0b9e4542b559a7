"""Writing a rollout dump: as `write`, with NumPy arrays and scalars, dates and times in it."""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any, ClassVar

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.live import live_key
from rolloutds.torch_file.plain_form import PlainForm, Way
from rolloutds.torch_file.scalars import ScalarValue
from rolloutds.torch_file.writer import save_as

_LONG = "gG"  # more than 64 bits a number, of another form on each machine
_MOMENTS = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


def write_dump(path: str | os.PathLike[str], value: Any) -> None:
    """Writes what `write` does, and NumPy arrays and scalars, dates, times and empty bytes.

    `read_dump` gives all of it back; ``torch.load`` needs ``weights_only=False`` for what is of
    NumPy and for dates, which is how dumps are loaded by the systems that write them.

    Raises:
        UnsavableValueError: a value is anything else; the message names its key.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    save_as(_DumpForm, path, value)


class _DumpForm(PlainForm):
    max_int_bits: ClassVar[int | None] = None

    def other(self, value: Any, way: Way) -> Any:
        if isinstance(value, ArrayValue | ScalarValue):
            return self._of_numpy(value, way)
        if type(value) is bytes or _is_moment(value) or _is_plain_numpy(value):
            return value
        return super().other(value, way)

    def _of_numpy(self, value: ArrayValue | ScalarValue, way: Way) -> Any:
        try:
            if isinstance(value, ArrayValue) and isinstance(value.data, list):
                data = self.turn(value.data, way)
                return self.shared(value, lambda array: array.with_objects(data).to_numpy())
            return self.shared(value, lambda it: it.to_numpy())
        except (TypeError, ValueError) as error:
            what = f"{value!r}, which NumPy does not take ({error!s:.80})"
            raise self._unsavable(way, what, None) from error

    def _check_keys(self, value: dict[Any, Any], way: Way) -> None:
        super()._check_keys({key: None for key in value if not _is_scalar_key(key)}, way)

    def _dict(self, value: dict[Any, Any], way: Way) -> dict[Any, Any]:
        made = super()._dict(value, way)
        if not any(isinstance(key, ScalarValue) for key in made):
            return made
        return {live_key(key): item for key, item in made.items()}


def _is_moment(value: Any) -> bool:
    """Whether it is a date or time with a zone that `read` knows."""
    zone = getattr(value, "tzinfo", None)
    return type(value) in _MOMENTS and (zone is None or type(zone) is datetime.timezone)


def _is_plain_numpy(value: Any) -> bool:
    """Whether it is a live array or scalar of numbers, text, times or records of those."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value).__module__ != "numpy":
        return False
    is_array = isinstance(value, numpy.ndarray) and type(value).__name__ == "ndarray"
    is_scalar = isinstance(value, numpy.generic) and value.dtype.char not in _LONG
    return (is_array or is_scalar) and not value.dtype.hasobject


def _is_scalar_key(key: Any) -> bool:
    """Whether it is a whole number or text of NumPy."""
    return isinstance(key, ScalarValue) and key.dtype.code[0] in "iuU"
